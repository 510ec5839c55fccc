// SPDX-License-Identifier: Apache-2.0
// The quick reader of the catalogues reads what the whole one reads, or nothing.
#include "document/plain_toml.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace plimsoll::document {
namespace {

void expect_same(const Node& plain, const Node& whole, const std::string& where) {
  ASSERT_EQ(plain.kind, whole.kind) << where;
  EXPECT_EQ(to_json(plain), to_json(whole)) << where;
}

TEST(PlainToml, ReadsEveryCatalogueOfRules) {
  for (const char* part : {"facts", "parallel", "activations", "experts", "precision", "state", "others", "advice"}) {
    const auto text = read_file(std::string(PLIMSOLL_SOURCE_DIR) + "/catalog/rules-" + part + ".toml");
    ASSERT_TRUE(text) << part;
    const auto plain = parse_plain_toml(*text);
    ASSERT_TRUE(plain) << part << " is not plain: it is read slowly at every start";
    expect_same(*plain, parse_toml(*text).value(), part);
  }
}

TEST(PlainToml, IsTheWholeReaderOrNothing) {
  const char* const kTexts[] = {"",
                                "\n",
                                "# only\n",
                                "[a]\nx = 1\n",
                                "[a]\nx = -7 # c\ny = true\nz = 'l\"t'\n",
                                "[[a]]\nx = []\n[[a]]\nx = [1, 2,]\n",
                                "[a]\nb = {z = 1, a = \"t\", m = [1, {k = 2}]}\n",
                                "[a]\nb = [\n 1, # one\n 2\n]\n",
                                "[a]\nx = {}\n[b]\ny = [[1], []]",
                                "[a]\nx = 1\nx = 2\n",
                                "[a]\n[a]\n",
                                "[a]\n[[a]]\n",
                                "a = []\n[[a]]\n",
                                "a = 1\n",
                                "[a]\nx = 1 2\n",
                                "[a]\nx = 01\n",
                                "[a]\nx = 1_000\n",
                                "[a]\nx = 0x10\n",
                                "[a]\nx = 1.5\n",
                                "[a]\nx = -0.5\n",
                                "[a]\nx = 12.\n",
                                "[a]\nx = 1.e3\n",
                                "[a]\nx = 1.5e3\n",
                                "[a]\nx = a.5\n",
                                "[a]\n\"b.c\" = 1\n\"b.c\" = 2\n",
                                "[a]\n\"\" = 1\n",
                                "[a]\nx = 0.1\ny = 123456789.123456789\n",
                                "[a]\nx = 1e3\n",
                                "[a]\nx = +1\n",
                                "[a]\nx = -0\n",
                                "[a]\nx = inf\n",
                                "[a]\nx = 1979-05-27\n",
                                "[a]\nx = \"a\\nb\"\n",
                                "[a]\nx = \"\"\"a\nb\"\"\"\n",
                                "[a]\nx = \"\"\n",
                                "[a]\nx = ''\n",
                                "[a]\nx = \"a\n",
                                "[a]\nx = \n",
                                "[a]\nx\n",
                                "[a]\n= 1\n",
                                "[a.b]\nx = 1\n",
                                "[a]\nb.c = 1\n",
                                "[a]\n\"b\" = 1\n",
                                "[ a ]\nx = 1\n",
                                "[a\n",
                                "[]\n",
                                "[[a]\n",
                                "[a]\nb = {x = 1, x = 2}\n",
                                "[a]\nb = {x = 1,}\n",
                                "[a]\nb = {x = 1\n}\n",
                                "[a]\nb = [1 2]\n",
                                "[a]\nb = [,]\n",
                                "[a]\nx = 99999999999999999999\n",
                                "[a]\nx = 9223372036854775807\n",
                                "[a]\nx = \"\x01\"\n",
                                "[a]\nx = \"\xff\"\n",
                                "[a]\r\nx = 1\r\n",
                                "[a]\nx = \"\xc3\xa9\"\n",
                                "[a] x = 1\n",
                                "[a]\nx = true1\n"};
  for (const char* text : kTexts) {
    const auto plain = parse_plain_toml(text);
    if (!plain) continue;
    const auto whole = parse_toml(text);
    ASSERT_TRUE(whole) << text;
    expect_same(*plain, *whole, text);
  }
  EXPECT_TRUE(parse_plain_toml("[a]\nb = {z = 1, a = \"t\", m = [1, {k = 2}]}\n"));
  std::string deep = "[a]\nx = ";
  for (int i = 0; i < 100'000; ++i) deep += i % 2 == 0 ? "[" : "{k = ";
  EXPECT_FALSE(parse_plain_toml(deep));
}

}  // namespace
}  // namespace plimsoll::document
