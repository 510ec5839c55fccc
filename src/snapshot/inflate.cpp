// SPDX-License-Identifier: Apache-2.0
#include "snapshot/inflate.h"

#include <algorithm>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <zlib.h>

namespace plimsoll::snapshot {

namespace {

constexpr int kGzipWindow = 15 + 16;
constexpr std::size_t kFirstBuffer = 1U << 16;
constexpr std::size_t kUsualRatio = 20;
constexpr std::size_t kTrailer = 4;  // the size of the last member modulo 2^32

// The trailer's size is a hint only: right for one member under 4 GiB, anything for a crafted file.
std::size_t first_buffer(std::string_view bytes, std::size_t most) {
  if (bytes.size() < kTrailer) return std::min(kFirstBuffer, most);
  std::size_t hint = 0;
  for (std::size_t i = 0; i < kTrailer; ++i)
    hint |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[bytes.size() - kTrailer + i])) << (8 * i);
  return std::min(most, std::clamp(hint, kFirstBuffer, std::max(kFirstBuffer, bytes.size() * kUsualRatio)));
}

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

Result<std::string> inflate_gzip(std::string_view bytes, const InflateLimits& limits) {
  const std::size_t by_ratio = std::max(limits.free_bytes, bytes.size() * limits.largest_ratio);
  const std::size_t most = std::min(limits.largest, by_ratio);
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK)
    return bad_input("gzip: cannot start to inflate; wanted memory for it");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> owner(&stream, inflateEnd);

  std::string out(first_buffer(bytes, most), '\0');
  std::size_t filled = 0;
  std::size_t taken = 0;
  while (true) {
    if (filled == out.size()) {
      // One byte over the bound tells a file that ends there from one that goes on.
      if (filled > most) {
        return bad_input(fmt::format("gzip: {} bytes inflate to more than {}; wanted at most {} to one and {} bytes",
                                     bytes.size(), most, limits.largest_ratio, limits.largest));
      }
      out.resize(std::min(std::max(out.size() * 2, kFirstBuffer), most + 1));
    }
    const std::size_t give = std::min<std::size_t>(bytes.size() - taken, std::numeric_limits<uInt>::max());
    const std::size_t room = std::min<std::size_t>(out.size() - filled, std::numeric_limits<uInt>::max());
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));
    stream.avail_in = static_cast<uInt>(give);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = static_cast<uInt>(room);
    const int state = inflate(&stream, Z_NO_FLUSH);
    taken += give - stream.avail_in;
    filled += room - stream.avail_out;
    if (state == Z_STREAM_END) {
      if (taken == bytes.size()) break;
      if (!is_gzip(bytes.substr(taken)))
        return bad_input(fmt::format("gzip: byte {}: something follows the end; wanted nothing", taken));
      inflateReset(&stream);
      continue;
    }
    const bool is_cut = taken == bytes.size() && stream.avail_out != 0;
    if (state == Z_BUF_ERROR ? is_cut : (state == Z_OK && is_cut))
      return bad_input(fmt::format("gzip: the file ends at byte {} inside its data; wanted the whole file", taken));
    if (state != Z_OK && state != Z_BUF_ERROR)
      return bad_input(fmt::format("gzip: byte {}: {}; wanted gzip data", taken,
                                   stream.msg != nullptr ? stream.msg : "the data is broken"));
  }
  if (filled > most)
    return bad_input(fmt::format("gzip: {} bytes inflate to more than {}; wanted at most {} to one and {} bytes",
                                 bytes.size(), most, limits.largest_ratio, limits.largest));
  out.resize(filled);
  return out;
}

}  // namespace plimsoll::snapshot
