# SPDX-License-Identifier: Apache-2.0
# Writes OUT, a C++ source that holds the bytes of IN as plimsoll::catalog::SYMBOL.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUT} "#include <string_view>
namespace plimsoll::catalog {
namespace {
constexpr unsigned char kBytes[] = {${bytes}0};
}
extern const std::string_view ${SYMBOL};
const std::string_view ${SYMBOL}{reinterpret_cast<const char*>(kBytes), sizeof(kBytes) - 1};
}  // namespace plimsoll::catalog
")
