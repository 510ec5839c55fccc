// SPDX-License-Identifier: Apache-2.0
// Typed, bounded access to the keys of a config.json. The first problem sticks and names its key; the
// getters then return harmless values, so that a family reads top to bottom without a check per line.
// Invariant: whatever is returned lies inside the limits that were asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "document/node.h"

namespace plimsoll::model {

class Fields {
 public:
  // `outer` is the file around a text_config: some keys are only there (facts models.md, trap 8).
  // `defaults` is what the family's class assumes where neither has a key.
  explicit Fields(const document::Node& table, const document::Node* outer = nullptr,
                  const document::Node* defaults = nullptr)
      : table_(&table), outer_(outer), defaults_(defaults) {}

  // Keys: "hidden_size", a path "attn_config.kv_n_heads", or spellings "n_layer|num_hidden_layers", of
  // which two with different values are a contradiction. A null counts as absent, except for is_null().
  [[nodiscard]] bool has(std::string_view key) { return find(key).value != nullptr; }
  [[nodiscard]] bool is_null(std::string_view key) const;
  [[nodiscard]] bool is_list(std::string_view key) const;
  [[nodiscard]] bool is_text(std::string_view key) const;

  // An integer from `least` to `limit`; the key must be there.
  [[nodiscard]] std::int64_t size(std::string_view key, std::int64_t limit, std::int64_t least = 1);
  // The same, or `fallback` where the key is absent.
  [[nodiscard]] std::int64_t size_or(std::string_view key, std::int64_t limit, std::int64_t fallback,
                                     std::int64_t least = 1);
  [[nodiscard]] bool flag(std::string_view key, bool fallback);
  [[nodiscard]] bool flag_here_or_outside(std::string_view key, bool fallback);
  // A probability: 0 <= p < 1.
  [[nodiscard]] double probability(std::string_view key, double fallback);
  // A number above 0 and up to `limit`. Spellings that are different texts of one number do not contradict.
  [[nodiscard]] double positive_or(std::string_view key, double limit, double fallback);
  [[nodiscard]] std::string text(std::string_view key, std::string_view fallback);
  // nullopt where the key is absent. Elements are 0..limit.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view key, std::int64_t limit);
  // Elements are at least 0 and below 1.
  [[nodiscard]] std::optional<std::vector<double>> shares(std::string_view key);
  [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view key);

  // Keys that must be there and came from the defaults, with their values.
  [[nodiscard]] const std::vector<std::string>& assumed() const { return assumed_; }

  void fail(std::string message, std::string hint = {});
  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  [[nodiscard]] Status status() const;

 private:
  struct Found {
    const document::Node* value = nullptr;  // nullptr: absent
    std::string_view name;                  // the spelling that the file uses
    bool is_default = false;                // not in the file
  };

  [[nodiscard]] Found find(std::string_view key);
  [[nodiscard]] Found find_in_file(std::string_view key);
  [[nodiscard]] std::optional<std::int64_t> bounded(std::string_view name, const document::Node& value,
                                                    std::int64_t least, std::int64_t limit);
  [[nodiscard]] bool flag_of(const Found& found, bool fallback);
  void fail_kind(const Found& found, std::string_view wanted);

  const document::Node* table_;
  const document::Node* outer_;
  const document::Node* defaults_;
  std::vector<std::string> assumed_;
  std::optional<Error> error_;
};

}  // namespace plimsoll::model
