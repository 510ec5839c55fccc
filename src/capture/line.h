// SPDX-License-Identifier: Apache-2.0
// A line of a capture is a JSON array of numbers and arrays of numbers; this walks over one without building a tree.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::capture {

class Line {
 public:
  explicit Line(std::string_view text) : at_(text.data()), end_(text.data() + text.size()), begin_(text.data()) {}

  // Each returns false, and moves no further, where the text is something else.
  [[nodiscard]] bool open() { return take('['); }
  [[nodiscard]] bool close() { return take(']'); }
  [[nodiscard]] bool comma() { return take(','); }
  [[nodiscard]] bool integer(std::int64_t& value);
  [[nodiscard]] bool skip_array();  // of numbers, without arrays in it
  [[nodiscard]] bool is_next(char c) const { return at_ != end_ && *at_ == c; }
  [[nodiscard]] bool at_end() const { return at_ == end_; }
  [[nodiscard]] std::int64_t column() const { return at_ - begin_ + 1; }

 private:
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  const char* at_;
  const char* end_;
  const char* begin_;
};

}  // namespace plimsoll::capture
