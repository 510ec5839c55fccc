// SPDX-License-Identifier: Apache-2.0
#include "why/block_reader.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "base/file_hint.h"
namespace plimsoll::why {

namespace {

enum class Encoding { kUnknown, kBytes, kUtf16Little, kUtf16Big };

// By the byte order mark, or by the zero bytes of Latin text in UTF-16.
Encoding encoding_of(std::string_view bytes) {
  if (bytes.starts_with("\xFF\xFE")) return Encoding::kUtf16Little;
  if (bytes.starts_with("\xFE\xFF")) return Encoding::kUtf16Big;
  const std::size_t looked = std::min<std::size_t>(bytes.size(), 4096) & ~std::size_t{1};
  if (looked < 64) return Encoding::kBytes;
  std::size_t even = 0;
  std::size_t odd = 0;
  for (std::size_t i = 0; i < looked; i += 2) {
    even += bytes[i] == '\0' ? 1 : 0;
    odd += bytes[i + 1] == '\0' ? 1 : 0;
  }
  const std::size_t half = looked / 2;
  if (odd * 10 > half * 7 && even * 20 < half) return Encoding::kUtf16Little;
  if (even * 10 > half * 7 && odd * 20 < half) return Encoding::kUtf16Big;
  return Encoding::kBytes;
}

void append_utf8(std::uint32_t code, std::string& to) {
  if (code < 0x80) {
    to.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    to.push_back(static_cast<char>(0xC0U | (code >> 6U)));
    to.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
  } else if (code < 0x10000) {
    to.push_back(static_cast<char>(0xE0U | (code >> 12U)));
    to.push_back(static_cast<char>(0x80U | ((code >> 6U) & 0x3FU)));
    to.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
  } else {
    to.push_back(static_cast<char>(0xF0U | (code >> 18U)));
    to.push_back(static_cast<char>(0x80U | ((code >> 12U) & 0x3FU)));
    to.push_back(static_cast<char>(0x80U | ((code >> 6U) & 0x3FU)));
    to.push_back(static_cast<char>(0x80U | (code & 0x3FU)));
  }
}

}  // namespace

void append_utf16(std::string_view bytes, bool big_endian, std::string& carry, std::string& to) {
  carry.append(bytes);
  std::size_t at = 0;
  const auto unit = [&](std::size_t i) {
    const auto first = static_cast<unsigned char>(carry[i]);
    const auto second = static_cast<unsigned char>(carry[i + 1]);
    return static_cast<std::uint32_t>(big_endian ? (first << 8) | second : (second << 8) | first);
  };
  while (at + 2 <= carry.size()) {
    const std::uint32_t high = unit(at);
    if (high >= 0xD800 && high < 0xDC00) {
      if (at + 4 > carry.size()) break;
      const std::uint32_t low = unit(at + 2);
      if (low >= 0xDC00 && low < 0xE000) {
        append_utf8(0x10000 + ((high - 0xD800) << 10U) + (low - 0xDC00), to);
        at += 4;
        continue;
      }
      append_utf8(0xFFFD, to);
    } else if (high >= 0xDC00 && high < 0xE000) {
      append_utf8(0xFFFD, to);
    } else if (high != 0xFEFF) {
      append_utf8(high, to);
    }
    at += 2;
  }
  carry.erase(0, at);
}

struct BlockReader::State {
  std::string path;
  int file = -1;
  bool owns = false;
  bool is_gzip = false;
  bool at_end = false;
  bool inflate_done = false;  // between two members, or before the end
  bool any_member = false;    // one is complete: zeros after it are padding
  std::string damage;
  z_stream inflater{};
  Encoding encoding = Encoding::kUnknown;
  std::string carry;  // of UTF-16
  std::string ahead;  // bytes looked at before the kind was known
  std::vector<char> compressed;
  std::vector<char> plain;
  std::int64_t bytes = 0;

  ~State() {
    if (is_gzip) inflateEnd(&inflater);
    if (owns && file >= 0) ::close(file);
  }

  Result<std::size_t> raw(char* to, std::size_t most) {
    if (!ahead.empty()) {
      const std::size_t count = std::min(most, ahead.size());
      std::memcpy(to, ahead.data(), count);
      ahead.erase(0, count);
      return count;
    }
    while (true) {
      const ssize_t got = ::read(file, to, most);
      if (got >= 0) {
        bytes += got;
        return static_cast<std::size_t>(got);
      }
      if (errno != EINTR) return bad_input(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    }
  }

  // Decompressed bytes; a damaged tail ends the log there, since what came before is still evidence.
  Result<std::size_t> decoded(char* to, std::size_t most) {
    if (!is_gzip) return raw(to, most);
    inflater.next_out = reinterpret_cast<Bytef*>(to);
    inflater.avail_out = static_cast<uInt>(most);
    while (inflater.avail_out == most && !at_end) {
      if (inflater.avail_in == 0) {
        PLIMSOLL_TRY(got, raw(compressed.data(), compressed.size()));
        if (got == 0) {
          at_end = true;
          if (!inflate_done) damage = "its gzip data is cut off";
          break;
        }
        inflater.next_in = reinterpret_cast<Bytef*>(compressed.data());
        inflater.avail_in = static_cast<uInt>(got);
      }
      if (inflate_done) {  // the next member
        if (inflateReset(&inflater) != Z_OK) at_end = true;
        inflate_done = false;
      }
      const bool begins = inflater.total_in == 0;
      const int code = inflate(&inflater, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        inflate_done = true;
        any_member = true;
      } else if (code != Z_OK) {
        at_end = true;
        // What follows a complete member and is no member is padding.
        if (!(begins && any_member)) damage = "its gzip data is damaged";
      }
    }
    return most - inflater.avail_out;
  }
};

BlockReader::BlockReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
BlockReader::BlockReader(BlockReader&&) noexcept = default;
BlockReader& BlockReader::operator=(BlockReader&&) noexcept = default;
BlockReader::~BlockReader() = default;

Result<BlockReader> BlockReader::open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path == "-" ? "standard input" : path;
  std::error_code ignored;
  if (path == "-") {
    state->file = STDIN_FILENO;
  } else {
    if (std::filesystem::is_directory(path, ignored))
      return bad_input(fmt::format("{} is a folder; wanted a log", path));
    state->file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    state->owns = true;
    if (state->file < 0) return cannot_open(path, errno);
  }
  if (is_endless(state->file)) return bad_input(fmt::format("{} is a device; wanted a log", path));
  char first[2];
  std::size_t have = 0;
  while (have < 2) {
    PLIMSOLL_TRY(got, state->raw(first + have, 2 - have));
    if (got == 0) break;
    have += got;
  }
  state->ahead.assign(first, have);
  if (have == 2 && first[0] == '\x1f' && first[1] == '\x8b') {
    if (inflateInit2(&state->inflater, 15 + 16) != Z_OK) return bad_input(fmt::format("cannot unpack {}", path));
    state->is_gzip = true;
    state->compressed.resize(256U << 10);
  }
  return BlockReader(std::move(state));
}

Result<std::size_t> BlockReader::append(std::string& to, std::size_t most) {
  State& state = *state_;
  const std::size_t before = to.size();
  if (state.encoding == Encoding::kBytes) {
    to.resize(before + most);
    auto got = state.decoded(to.data() + before, most);
    to.resize(before + (got ? *got : 0));
    return got;
  }
  state.plain.resize(most);
  std::size_t have = 0;
  // Enough to tell the encoding by.
  while (have < std::min<std::size_t>(most, 4096)) {
    PLIMSOLL_TRY(got, state.decoded(state.plain.data() + have, most - have));
    if (got == 0) break;
    have += got;
  }
  const std::string_view bytes{state.plain.data(), have};
  if (state.encoding == Encoding::kUnknown) state.encoding = encoding_of(bytes);
  if (state.encoding == Encoding::kBytes) {
    to.append(bytes.starts_with("\xEF\xBB\xBF") ? bytes.substr(3) : bytes);
  } else {
    append_utf16(bytes, state.encoding == Encoding::kUtf16Big, state.carry, to);
  }
  // A block of nothing but half a character is not the end.
  if (to.size() == before && have > 0) to.push_back(' ');
  return to.size() - before;
}

const std::string& BlockReader::damage() const { return state_->damage; }
std::int64_t BlockReader::bytes_read() const { return state_->bytes; }

}  // namespace plimsoll::why
