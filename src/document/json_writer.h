// SPDX-License-Identifier: Apache-2.0
// Writes one JSON value, members in the order of the calls. A container is laid out over lines, or on
// one line where it is kInline; everything inside an inline container is inline too.
// Invariant: take() is called when every container is closed; misuse is a bug of ours (PLIMSOLL_CHECK).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::document {

enum class Layout { kLines, kInline };

class JsonWriter {
 public:
  JsonWriter& begin_object(Layout layout = Layout::kLines) { return begin('{', layout); }
  JsonWriter& end_object() { return end('}'); }
  JsonWriter& begin_array(Layout layout = Layout::kLines) { return begin('[', layout); }
  JsonWriter& end_array() { return end(']'); }

  JsonWriter& key(std::string_view name);

  // Text that is not UTF-8 has its bad bytes replaced, so that the output always parses.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const std::string& text) { return value(std::string_view{text}); }
  JsonWriter& value(const char* text) { return value(std::string_view{text}); }
  JsonWriter& value(bool flag) { return scalar(flag ? "true" : "false"); }
  JsonWriter& value(std::nullptr_t) { return scalar("null"); }
  // The shortest text that reads back as the same double; infinities and NaN are null.
  JsonWriter& value(double number);
  template <std::integral Integer>
  JsonWriter& value(Integer number) {
    return scalar(std::to_string(number));
  }
  template <class T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : value(nullptr);
  }

  template <class T>
  JsonWriter& member(std::string_view name, const T& of) {
    return key(name).value(of);
  }
  // Left out altogether when empty.
  template <class T>
  JsonWriter& member_if(std::string_view name, const std::optional<T>& maybe) {
    return maybe ? key(name).value(*maybe) : *this;
  }

  // The text with a newline at its end.
  [[nodiscard]] std::string take();

 private:
  struct Level {
    char closer;
    bool is_inline;
    bool has_content = false;
  };

  JsonWriter& begin(char opener, Layout layout);
  JsonWriter& end(char closer);
  JsonWriter& scalar(std::string_view text);
  void separate();
  void break_line();

  std::string text_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

[[nodiscard]] std::string json_quoted(std::string_view text);

}  // namespace plimsoll::document
