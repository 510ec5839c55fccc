// SPDX-License-Identifier: Apache-2.0
// Every key that a job can be described with: one table of canonical keys (Megatron's names, ours where
// Megatron has none), and per framework a table of that framework's other names. Reading, flags, sweeps,
// suggestions and the reference documentation all use these tables.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "document/node.h"
#include "job/job.h"

namespace plimsoll::job {

// What of an answer a key can change.
enum class Moves : std::uint8_t {
  kBoth,     // bytes and seconds
  kBytes,    // bytes alone: the work is the same
  kSeconds,  // seconds alone: nothing lives longer
  kNeither,  // it says what others say, or is kept for rules and launches; the meaning has the reason
};
[[nodiscard]] std::string_view name_of(Moves moves);

struct KeyInfo {
  std::string name;
  std::string section;  // of the job file: "parallel"
  std::string type;     // "integer", "boolean", "bf16, fp16, fp32", ...
  std::string doc;
  Moves moves = Moves::kBoth;
};

// In the order of the sections of a job file.
[[nodiscard]] const std::vector<KeyInfo>& key_table();

// What a framework's name means.
enum class AliasKind {
  kKey,          // another name of a canonical key
  kInverse,      // its negation: --no-rope-fusion
  kNoEffect,     // known, and memory does not depend on it
  kNotModelled,  // known; its effect is not in the numbers: a named warning unless it is off
  kRefused,      // known; a job with it cannot be described: an error unless it is off
};

struct Alias {
  std::string_view name;  // "log_*" stands for every name that starts so and has no row of its own
  AliasKind kind = AliasKind::kNoEffect;
  std::string_view target = {};    // canonical key, or the reason
  std::string_view harmless = {};  // a value besides false and none that changes nothing
};

// Whether an alias that is not modelled or refused is switched off by its value.
[[nodiscard]] bool is_harmless(const Alias& alias, const document::Node& value);

[[nodiscard]] std::span<const Alias> alias_table(Framework framework);

// The alias that this framework gives the name, or nullptr.
[[nodiscard]] const Alias* find_alias(Framework framework, std::string_view name);
[[nodiscard]] const Alias* find_alias(std::span<const Alias> table, std::string_view name);

// The canonical key behind a flag, key or alias of any framework: "--num-experts" is "num_moe_experts".
// Names that set no key are returned in key spelling.
[[nodiscard]] std::string canonical_name(std::string_view name);

[[nodiscard]] bool is_key(std::string_view canonical);

// Whether a value switches its key off: false, 0, null, "none", an empty list.
[[nodiscard]] bool is_off(const document::Node& value);

// "unknown key 'x'" with the nearest key or alias as the hint.
[[nodiscard]] Error unknown_key(std::string_view key, Framework framework);

// The current value of a canonical key that holds a plain field, for messages and round trips.
[[nodiscard]] std::optional<document::Node> value_of(const Job& job, std::string_view canonical);

// Adds a warning once: complete() and readers may find the same thing again.
void warn(Job& job, std::string text);

}  // namespace plimsoll::job
