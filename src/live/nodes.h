// SPDX-License-Identifier: Apache-2.0
// Trees of JSON made and read field by field, for the files of a run folder.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "document/node.h"

namespace plimsoll::live {

[[nodiscard]] document::Node node_of(std::string_view text);
[[nodiscard]] document::Node node_of(bool flag);
[[nodiscard]] document::Node node_of(double number);
[[nodiscard]] document::Node node_of_integer(std::int64_t number);
template <std::integral Integer>
  requires(!std::same_as<Integer, bool>)
[[nodiscard]] document::Node node_of(Integer number) {
  return node_of_integer(static_cast<std::int64_t>(number));
}

// An object that grows by one member per call.
class Object {
 public:
  Object();
  template <class T>
  Object& set(std::string_view key, const T& value) {
    return add(key, node_of(value));
  }
  Object& set(std::string_view key, const char* value) { return add(key, node_of(std::string_view(value))); }
  Object& add(std::string_view key, document::Node value);
  template <class T>
  Object& set_if(std::string_view key, const std::optional<T>& value) {
    return value ? set(key, *value) : *this;
  }
  [[nodiscard]] document::Node take() { return std::move(node_); }

 private:
  document::Node node_;
};

// Members that are missing or of another kind give nothing.
[[nodiscard]] std::optional<std::int64_t> integer_in(const document::Node& node, std::string_view key);
[[nodiscard]] std::optional<double> real_in(const document::Node& node, std::string_view key);
[[nodiscard]] std::string text_in(const document::Node& node, std::string_view key);

}  // namespace plimsoll::live
