// SPDX-License-Identifier: Apache-2.0
// A command line after the verb, parsed against a table of flags. Where a verb takes job keys, any
// flag that is not in the table may be one of those: --micro-batch-size 2, --sequence-parallel.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/usage.h"

namespace plimsoll::cli {

struct Flag {
  std::string_view name;      // without dashes: "sweep"
  std::string_view argument;  // what it wants, for the help text: "KEY=A,B"; "" for a switch
  std::string_view help;
  char letter = '\0';  // short form, '\0': none
  bool repeats = false;
  std::string_view choices = {};  // all that it may be given, where that is a short list: "auto, always, never"
};

// What a flag outside the table is, by its name with underscores.
enum class KeyKind {
  kUnknown,
  kValue,   // wants a value
  kSwitch,  // alone it means true; a value that reads as a truth or a number may follow
};

struct KeySet {
  std::function<KeyKind(std::string_view)> kind_of;
  std::function<std::string(std::string_view)> full_name;  // "tp" -> "tensor_model_parallel_size"
  std::vector<std::string> names;                          // for suggestions, with underscores
};

struct Arguments {
  std::vector<std::string> operands;
  std::vector<std::pair<std::string, std::string>> flags;  // in order; a switch has ""
  std::vector<std::pair<std::string, std::string>> keys;   // job keys with underscores, in order

  // The first operand; "" where there is none.
  [[nodiscard]] std::string operand() const { return operands.empty() ? std::string{} : operands.front(); }
  [[nodiscard]] bool has(std::string_view flag) const { return value(flag).has_value(); }
  [[nodiscard]] std::optional<std::string> value(std::string_view flag) const;  // the last one given
  [[nodiscard]] std::vector<std::string> values(std::string_view flag) const;
};

// `keys` is null where the verb takes none. The error says which flag of which verb, and the nearest known one.
[[nodiscard]] Result<Arguments> parse_arguments(std::string_view verb, std::span<const std::string> words,
                                                std::span<const Flag> flags, const KeySet* keys);

}  // namespace plimsoll::cli
