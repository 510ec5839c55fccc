// SPDX-License-Identifier: Apache-2.0
// Where a snapshot's bytes come from, piece by piece: memory, a file or standard input, and gzip or zstd over one
// of these. Nothing holds the whole; what is unpacked is bounded in size and in ratio to what was packed, so that a
// small file cannot keep the reader busy for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace plimsoll::snapshot {

// Recordings compress 8 to 18 to one; the ratio counts only beyond `free_bytes`.
struct InflateLimits {
  std::size_t largest = std::size_t{8} << 30;
  std::size_t largest_ratio = 100;
  std::size_t free_bytes = 16U << 20;
};

class Source {
 public:
  virtual ~Source() = default;
  // Up to `room` bytes, at least one unless the source is at its end.
  [[nodiscard]] virtual Result<std::size_t> read(char* into, std::size_t room) = 0;
  // All bytes it will give, as far as that is known; 0 when it is not. A hint: files grow and shrink.
  [[nodiscard]] virtual std::size_t expected_size() const { return 0; }
};

[[nodiscard]] bool is_gzip(std::string_view bytes);
[[nodiscard]] bool is_zstd(std::string_view bytes);

// The bytes must outlive the source.
[[nodiscard]] std::unique_ptr<Source> memory_source(std::string_view bytes);
// "-" is standard input.
[[nodiscard]] Result<std::unique_ptr<Source>> file_source(const std::string& path);
// All members of a gzip file, or all frames of a zstd file, one after the other.
[[nodiscard]] std::unique_ptr<Source> gzip_source(std::unique_ptr<Source> packed, const InflateLimits& limits);
[[nodiscard]] std::unique_ptr<Source> zstd_source(std::unique_ptr<Source> packed, const InflateLimits& limits);
// The source itself, or what it holds when it begins as gzip or zstd data do.
[[nodiscard]] Result<std::unique_ptr<Source>> unpacked_source(std::unique_ptr<Source> source,
                                                              const InflateLimits& limits);

// Counts bytes in and out of a decompressor against the limits.
class UnpackMeter {
 public:
  UnpackMeter(std::string_view format, const InflateLimits& limits) : format_(format), limits_(limits) {}

  void took(std::size_t bytes) { in_ += bytes; }
  [[nodiscard]] std::size_t in() const { return in_; }
  [[nodiscard]] Status gave(std::size_t bytes);

 private:
  std::string_view format_;
  InflateLimits limits_;
  std::size_t in_ = 0;
  std::size_t out_ = 0;
};

}  // namespace plimsoll::snapshot
