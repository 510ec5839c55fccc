// SPDX-License-Identifier: Apache-2.0
// Bytes of a log as UTF-8, block by block: undoes gzip and UTF-16. Nothing is kept but one block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace plimsoll::why {

class BlockReader {
 public:
  // "-" is standard input.
  [[nodiscard]] static Result<BlockReader> open(const std::string& path);
  BlockReader(BlockReader&&) noexcept;
  BlockReader& operator=(BlockReader&&) noexcept;
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;
  ~BlockReader();

  // Appends up to about `most` bytes; 0 appended: the end.
  [[nodiscard]] Result<std::size_t> append(std::string& to, std::size_t most);
  // Why the end that was reached is not the log's own: "its gzip data is cut off"; "" where it is.
  [[nodiscard]] const std::string& damage() const;
  // Of the file itself, before any decoding.
  [[nodiscard]] std::int64_t bytes_read() const;

 private:
  struct State;
  explicit BlockReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// UTF-16 to UTF-8; what is no character becomes U+FFFD. An odd byte or half a pair at the end is left in `carry`.
void append_utf16(std::string_view bytes, bool big_endian, std::string& carry, std::string& to);

}  // namespace plimsoll::why
