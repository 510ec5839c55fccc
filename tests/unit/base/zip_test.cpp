// SPDX-License-Identifier: Apache-2.0
#include "base/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace plimsoll {

namespace {

using testing::HasSubstr;

std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

std::string deflated(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct Entry {
  std::string name;
  std::string text;
  bool packs = false;
};

std::string archive(const std::vector<Entry>& entries) {
  std::string bytes;
  std::string directory;
  for (const Entry& entry : entries) {
    const std::string packed = entry.packs ? deflated(entry.text) : entry.text;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(entry.text.data()), static_cast<uInt>(entry.text.size()));
    const std::string shared = number(entry.packs ? 8 : 0, 2) + number(0, 4) + number(sum, 4) +
                               number(packed.size(), 4) + number(entry.text.size(), 4) + number(entry.name.size(), 2) +
                               number(0, 2);
    directory += "PK\x01\x02" + number(20, 2) + number(20, 2) + number(0, 2) + shared + number(0, 2) + number(0, 2) +
                 number(0, 2) + number(0, 4) + number(bytes.size(), 4) + entry.name;
    bytes += "PK\x03\x04" + number(20, 2) + number(0, 2) + shared + entry.name + packed;
  }
  const std::size_t start = bytes.size();
  return bytes + directory + "PK\x05\x06" + number(0, 4) + number(entries.size(), 2) + number(entries.size(), 2) +
         number(directory.size(), 4) + number(start, 4) + number(0, 2);
}

TEST(Zip, an_entry_is_found_by_the_last_part_of_its_name) {
  const std::string bytes = archive({{"args/version", "3"}, {"args/data.pkl", "hello"}, {"args/xdata.pkl", "no"}});
  EXPECT_TRUE(is_zip(bytes));
  EXPECT_EQ(read_zip_entry(bytes, "data.pkl", 100).value(), "hello");
  EXPECT_THAT(read_zip_entry(bytes, "weights", 100).error().message, HasSubstr("no entry 'weights'"));
}

TEST(Zip, a_deflated_entry_is_unpacked) {
  const std::string text(5000, 'x');
  EXPECT_EQ(read_zip_entry(archive({{"data.pkl", text, true}}), "data.pkl", 5000).value(), text);
  EXPECT_THAT(read_zip_entry(archive({{"data.pkl", text, true}}), "data.pkl", 4999).error().message,
              HasSubstr("5000 bytes; wanted at most 4999"));
}

TEST(Zip, a_bomb_unpacks_no_further_than_it_says) {
  std::string bytes = archive({{"data.pkl", std::string(1 << 20, 'x'), true}});
  const std::string size = number(1 << 20, 4);
  for (std::size_t at = bytes.find(size); at != std::string::npos; at = bytes.find(size))
    bytes.replace(at, 4, number(10, 4));
  EXPECT_THAT(read_zip_entry(bytes, "data.pkl", 100).error().message, HasSubstr("its directory says 10"));
}

TEST(Zip, damage_is_named) {
  std::string bytes = archive({{"data.pkl", "hello"}});
  bytes[bytes.find("hello")] = 'j';
  EXPECT_THAT(read_zip_entry(bytes, "data.pkl", 100).error().message, HasSubstr("checksum"));
}

TEST(Zip, cut_anywhere_it_is_an_error) {
  const std::string bytes = archive({{"a", "1"}, {"data.pkl", std::string(100, 'x'), true}});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(read_zip_entry(bytes.substr(0, size), "data.pkl", 1000)) << size;
}

}  // namespace

}  // namespace plimsoll
