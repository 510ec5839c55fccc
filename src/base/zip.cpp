// SPDX-License-Identifier: Apache-2.0
// The archive is read from its end, as every reader does: the end record names the central directory, whose rows name
// the entries (PKWARE's APPNOTE 4.3). Archives with 64-bit records are read where their 32-bit fields suffice.
#include "base/zip.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>
#include <zlib.h>

namespace plimsoll {

namespace {

constexpr std::string_view kLocalHeader = "PK\x03\x04";
constexpr std::string_view kDirectoryRow = "PK\x01\x02";
constexpr std::string_view kEndRecord = "PK\x05\x06";
constexpr std::size_t kLocalHeaderSize = 30;
constexpr std::size_t kDirectoryRowSize = 46;
constexpr std::size_t kEndRecordSize = 22;
constexpr std::size_t kLongestComment = 65535;

struct Row {
  std::uint32_t method = 0;
  std::uint32_t flags = 0;
  std::uint32_t crc = 0;
  std::uint32_t packed = 0;
  std::uint32_t size = 0;
  std::uint32_t header = 0;  // where its local header begins
  std::string_view name;
};

template <std::size_t kBytes>
std::uint32_t little_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < kBytes; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}

// The last end record; its comment may hold anything.
std::size_t find_end(std::string_view archive) {
  const std::size_t from = archive.size() > kEndRecordSize + kLongestComment
                               ? archive.size() - kEndRecordSize - kLongestComment
                               : std::size_t{0};
  const std::size_t at = archive.rfind(kEndRecord);
  return at == std::string_view::npos || at < from || archive.size() - at < kEndRecordSize ? std::string_view::npos
                                                                                           : at;
}

// The row at `at`, which moves behind it.
Result<Row> read_row(std::string_view archive, std::size_t& at) {
  if (at > archive.size() || archive.size() - at < kDirectoryRowSize || archive.substr(at, 4) != kDirectoryRow)
    return bad_input(fmt::format("byte {}: no entry of the zip directory; the archive is cut or damaged", at));
  Row row;
  row.flags = little_endian<2>(archive, at + 8);
  row.method = little_endian<2>(archive, at + 10);
  row.crc = little_endian<4>(archive, at + 16);
  row.packed = little_endian<4>(archive, at + 20);
  row.size = little_endian<4>(archive, at + 24);
  const std::size_t name = little_endian<2>(archive, at + 28);
  const std::size_t rest = std::size_t{little_endian<2>(archive, at + 30)} + little_endian<2>(archive, at + 32);
  row.header = little_endian<4>(archive, at + 42);
  if (archive.size() - at - kDirectoryRowSize < name + rest)
    return bad_input(fmt::format("byte {}: an entry of the zip directory is cut", at));
  row.name = archive.substr(at + kDirectoryRowSize, name);
  at += kDirectoryRowSize + name + rest;
  return row;
}

Result<std::string> inflate_raw(std::string_view packed, std::size_t size) {
  std::string text(size, '\0');
  z_stream stream{};
  constexpr int kRaw = -15;  // without a header
  if (inflateInit2(&stream, kRaw) != Z_OK) return bad_input("zlib could not be started");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  const int ended = inflate(&stream, Z_FINISH);
  const std::size_t made = stream.total_out;
  inflateEnd(&stream);
  if (ended != Z_STREAM_END || made != size)
    return bad_input(fmt::format("the entry unpacks to {} bytes; its directory says {}", made, size));
  return text;
}

Result<std::string> unpack(std::string_view archive, const Row& row, std::size_t largest) {
  constexpr std::uint32_t kStored = 0;
  constexpr std::uint32_t kDeflated = 8;
  if ((row.flags & 1U) != 0) return bad_input(fmt::format("{}: is encrypted", row.name.substr(0, 200)));
  if (row.method != kStored && row.method != kDeflated)
    return bad_input(
        fmt::format("{}: packing method {}; wanted stored or deflated", row.name.substr(0, 200), row.method));
  if (row.size > largest)
    return bad_input(fmt::format("{}: {} bytes; wanted at most {}", row.name.substr(0, 200), row.size, largest));
  const std::size_t header = row.header;
  if (header > archive.size() || archive.size() - header < kLocalHeaderSize ||
      archive.substr(header, 4) != kLocalHeader)
    return bad_input(fmt::format("{}: no entry begins at byte {}", row.name.substr(0, 200), header));
  const std::size_t data = header + kLocalHeaderSize + little_endian<2>(archive, header + 26) +
                           std::size_t{little_endian<2>(archive, header + 28)};
  if (data > archive.size() || archive.size() - data < row.packed)
    return bad_input(
        fmt::format("{}: {} bytes from byte {} on are not in the archive", row.name.substr(0, 200), row.packed, data));
  const std::string_view packed = archive.substr(data, row.packed);
  if (row.method == kStored && row.packed != row.size)
    return bad_input(fmt::format("{}: stored in {} bytes, but {} long", row.name.substr(0, 200), row.packed, row.size));
  auto text = row.method == kStored ? Result<std::string>(std::string(packed)) : inflate_raw(packed, row.size);
  if (!text) return tl::make_unexpected(std::move(text.error()).with_context(std::string(row.name.substr(0, 200))));
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(text->data()), static_cast<uInt>(text->size()));
  if (sum != row.crc)
    return bad_input(
        fmt::format("{}: its checksum is {:08x}; the directory says {:08x}", row.name.substr(0, 200), sum, row.crc));
  return text;
}

}  // namespace

bool is_zip(std::string_view bytes) { return bytes.starts_with(kLocalHeader); }

Result<std::string> read_zip_entry(std::string_view archive, std::string_view name, std::size_t largest) {
  const std::size_t end = find_end(archive);
  if (end == std::string_view::npos) return bad_input("the zip archive has no end; it is cut");
  const std::size_t rows = little_endian<2>(archive, end + 10);
  std::size_t at = little_endian<4>(archive, end + 16);
  for (std::size_t i = 0; i < rows; ++i) {
    PLIMSOLL_TRY(row, read_row(archive, at));
    const bool is_wanted = row.name.ends_with(name) &&
                           (row.name.size() == name.size() || row.name[row.name.size() - name.size() - 1] == '/');
    if (is_wanted) return unpack(archive, row, largest);
  }
  return bad_input(fmt::format("the zip archive has no entry '{}'", name));
}

}  // namespace plimsoll
