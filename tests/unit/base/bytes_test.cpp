// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using testing::HasSubstr;

TEST(Bytes, are_printed_in_binary_units_with_their_names) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(kKiB), "1.0 KiB");
  EXPECT_EQ(format_bytes(512 * kMiB), "512.00 MiB");
  EXPECT_EQ(format_bytes(150'109'880'320), "139.80 GiB");
  EXPECT_EQ(format_bytes(-3 * kGiB), "-3.00 GiB");
  EXPECT_EQ(format_gib(kGiB / 2), "0.50");
  EXPECT_EQ(format_gib(kGiB / 4, 3), "0.250");
}

TEST(Bytes, are_read_in_decimal_and_binary_units) {
  EXPECT_EQ(*parse_bytes("80GiB"), 80 * kGiB);
  EXPECT_EQ(*parse_bytes(" 80 GB "), 80'000'000'000);
  EXPECT_EQ(*parse_bytes("1.5TiB"), 1536 * kGiB);
  EXPECT_EQ(*parse_bytes("4096"), 4096);
  EXPECT_EQ(*parse_bytes("2 kib"), 2048);
  EXPECT_EQ(*parse_bytes("3mb"), 3'000'000);
  EXPECT_EQ(*parse_bytes("12 B"), 12);
  EXPECT_EQ(*parse_bytes("0"), 0);
}

TEST(Bytes, that_are_no_size_are_refused_with_what_was_wanted) {
  for (const char* text : {"", "GiB", "-1GiB", "nan", "inf", "-inf GiB", "abc"})
    EXPECT_THAT(parse_bytes(text).error().message, HasSubstr("is not a size")) << text;
  for (const char* text : {"80 Gib/s", "80 gigs", "1 2"})
    EXPECT_THAT(parse_bytes(text).error().message, HasSubstr("unknown unit")) << text;
  for (const char* text : {"1e300", "1e10TB", "9300000000000000000"})
    EXPECT_THAT(parse_bytes(text).error().message, HasSubstr("larger than any memory")) << text;
}

TEST(Bytes, thousands_are_separated) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(-1234567), "-1,234,567");
}

}  // namespace
}  // namespace plimsoll
