// SPDX-License-Identifier: Apache-2.0
// The stretch of the input that a reader has in memory: bytes that already lie there, shown in steps, or a buffer
// that slides over a Source. Invariant: [begin, end) stays readable until extend() is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "snapshot/source.h"

namespace plimsoll::snapshot {

class Window {
 public:
  static constexpr std::size_t kStep = 1U << 18;  // bytes; the buffer then stays in a core's cache

  explicit Window(std::string_view whole);
  explicit Window(Source& source);

  [[nodiscard]] const char* begin() const { return begin_; }
  [[nodiscard]] const char* end() const { return end_; }
  // Whether extend() can give no more.
  [[nodiscard]] bool is_at_end() const { return is_at_end_; }
  // The offset of begin() in the input.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  // Bytes of the whole input when that is known, else those seen so far: what bounds on counts are relative to.
  [[nodiscard]] std::uint64_t known_size() const;
  // Bytes from `at` to the end of the input; only when all of them are in memory or the input's size is sure.
  [[nodiscard]] bool is_whole() const { return source_ == nullptr; }
  [[nodiscard]] std::uint64_t whole_left(const char* at) const { return static_cast<std::uint64_t>(whole_end_ - at); }

  // Forgets what lies before `keep`, which becomes begin(), and shows about kStep bytes more, or marks the end.
  [[nodiscard]] Status extend(const char* keep);

 private:
  Source* source_ = nullptr;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  const char* begin_ = nullptr;
  const char* end_ = nullptr;
  const char* whole_end_ = nullptr;
  std::uint64_t offset_ = 0;
  bool is_at_end_ = false;
};

}  // namespace plimsoll::snapshot
