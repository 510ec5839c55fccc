// SPDX-License-Identifier: Apache-2.0
// Packed files and files that come in pieces: read alike, bounded, and cut at every byte.
#include "snapshot/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support.h"

namespace plimsoll::snapshot {
namespace {

using testing::HasSubstr;

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

// Gives one byte at a time, as a slow pipe may.
class Dripping final : public Source {
 public:
  explicit Dripping(std::string_view bytes) : left_(bytes) {}
  Result<std::size_t> read(char* into, std::size_t /*room*/) override {
    if (left_.empty()) return 0;
    *into = left_.front();
    left_.remove_prefix(1);
    return 1;
  }

 private:
  std::string_view left_;
};

Result<std::string> drain(std::unique_ptr<Source> source) {
  std::string all;
  std::string piece(1000, '\0');
  while (true) {
    PLIMSOLL_TRY(got, source->read(piece.data(), piece.size()));
    if (got == 0) return all;
    all.append(piece, 0, got);
  }
}

std::string drain_error(std::unique_ptr<Source> source) {
  const auto all = drain(std::move(source));
  return all ? "" : all.error().message;
}

TEST(Source, packed_and_dripping_files_read_as_the_plain_one) {
  const std::string packed = recording("unit-default.pickle.gz");
  const std::string plain = drain(gzip_source(memory_source(packed), {})).value();
  ASSERT_EQ(plain.size(), 716021U);
  const auto whole = read_snapshot("plain", plain);
  ASSERT_TRUE(whole) << error_of(whole);
  const auto expect_same = [&](const Result<Snapshot>& other) {
    ASSERT_TRUE(other) << error_of(other);
    EXPECT_EQ(other->events.action, whole->events.action);
    EXPECT_EQ(other->events.address, whole->events.address);
    EXPECT_EQ(other->events.size, whole->events.size);
    EXPECT_EQ(other->events.time_us, whole->events.time_us);
    EXPECT_EQ(other->events.stack, whole->events.stack);
    EXPECT_EQ(other->stack_frames, whole->stack_frames);
    EXPECT_EQ(other->strings, whole->strings);
  };
  expect_same(read_snapshot("gzip", packed));
  expect_same(read_snapshot("zstd", zstd(plain)));
  expect_same(read_snapshot("two frames", zstd(plain.substr(0, 99999)) + zstd(plain.substr(99999))));
  expect_same(read_snapshot("drip", std::make_unique<Dripping>(plain)));
  expect_same(read_snapshot("drip", std::make_unique<Dripping>(packed)));
}

TEST(Source, files_are_read_and_missing_ones_named) {
  const std::string path = testing::TempDir() + "source_test.pickle";
  std::ofstream(path, std::ios::binary) << Writer{}.small_snapshot();
  const auto snapshot = read_snapshot_file(path);
  ASSERT_TRUE(snapshot) << error_of(snapshot);
  EXPECT_EQ(snapshot->events.count(), 2U);
  std::filesystem::remove(path);
  EXPECT_THAT(error_of(read_snapshot_file(path)), HasSubstr("cannot open " + path));
  EXPECT_THAT(error_of(read_snapshot_file(testing::TempDir())), HasSubstr("is a folder"));
}

TEST(Source, a_file_cut_at_any_byte_is_an_error) {
  const std::string plain = Writer{}.small_snapshot();
  for (const std::string& file : {plain, Writer{2}.small_snapshot(), gzip(plain), zstd(plain)}) {
    ASSERT_TRUE(read_snapshot("whole", file));
    for (std::size_t length = 0; length < file.size(); ++length) {
      EXPECT_FALSE(read_snapshot("cut", file.substr(0, length))) << length;
      EXPECT_FALSE(read_snapshot("cut", std::make_unique<Dripping>(std::string_view(file).substr(0, length))));
    }
    EXPECT_FALSE(read_snapshot("longer", file + "x"));
  }
}

TEST(Source, gzip_is_bounded_and_whole) {
  const std::string plain = Writer{}.small_snapshot();
  const std::string packed = gzip(plain);
  EXPECT_TRUE(read_snapshot("two members", gzip(plain.substr(0, 50)) + gzip(plain.substr(50))));
  EXPECT_THAT(error_of(read_snapshot("s", packed + "x")), HasSubstr("something follows the end"));
  std::string broken = packed;
  broken[broken.size() - 6] = static_cast<char>(broken[broken.size() - 6] ^ 1);
  EXPECT_THAT(error_of(read_snapshot("s", broken)), HasSubstr("gzip: byte"));
  const std::string bomb = gzip(std::string(64U << 20, '\0'));
  EXPECT_THAT(drain_error(gzip_source(memory_source(bomb), {})), HasSubstr("; wanted at most 100 to one"));
  InflateLimits exact;
  exact.largest = plain.size();
  EXPECT_EQ(drain_error(gzip_source(memory_source(packed), exact)), "");
  exact.largest = plain.size() - 1;
  EXPECT_NE(drain_error(gzip_source(memory_source(packed), exact)), "");
}

TEST(Source, zstd_is_bounded_and_whole) {
  const std::string plain = Writer{}.small_snapshot();
  EXPECT_THAT(error_of(read_snapshot("s", zstd(plain) + "x")), HasSubstr("zstd: "));
  EXPECT_THAT(error_of(read_snapshot("s", "\x28\xb5\x2f\xfd....")), HasSubstr("zstd: "));
  const std::string bomb = zstd(std::string(64U << 20, '\0'));
  EXPECT_THAT(drain_error(zstd_source(memory_source(bomb), {})), HasSubstr("; wanted at most 100 to one"));
}

}  // namespace
}  // namespace plimsoll::snapshot
