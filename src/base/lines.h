// SPDX-License-Identifier: Apache-2.0
// The lines of a text one after the other, without a list of them: a file of empty lines would have a list eight times
// its size.
#pragma once

#include <string_view>

namespace plimsoll {

// for (const std::string_view line : lines(text)); pieces between line ends, the last may be empty, as split() has
// them.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  class Iterator {
   public:
    Iterator() = default;  // the end
    explicit Iterator(std::string_view rest) : rest_(rest), is_end_(false) { cut(); }
    std::string_view operator*() const { return rest_.substr(0, size_); }
    Iterator& operator++() {
      if (size_ == rest_.size()) {
        is_end_ = true;
        return *this;
      }
      rest_.remove_prefix(size_ + 1);
      cut();
      return *this;
    }
    bool operator==(const Iterator& other) const { return is_end_ == other.is_end_; }  // with the end only

   private:
    void cut() {
      const std::size_t end = rest_.find('\n');
      size_ = end == std::string_view::npos ? rest_.size() : end;
    }

    std::string_view rest_;  // from the line on
    std::size_t size_ = 0;   // of the line
    bool is_end_ = true;
  };

  [[nodiscard]] Iterator begin() const { return Iterator(text_); }
  [[nodiscard]] static Iterator end() { return {}; }

 private:
  std::string_view text_;
};

[[nodiscard]] inline Lines lines(std::string_view text) { return Lines(text); }

}  // namespace plimsoll
