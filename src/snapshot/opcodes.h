// SPDX-License-Identifier: Apache-2.0
// The opcodes of pickle protocols 0 to 5 by value and by name, and which of them can run code.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::snapshot {

enum class Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kNone = 'N',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinBytes8 = 0x8e,
  kByteArray8 = 0x96,
  kEmptyDict = '}',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kAppend = 'a',
  kAppends = 'e',
  kSetItem = 's',
  kSetItems = 'u',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kProto = 0x80,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kFrame = 0x95,
};

// "BINGET"; "" for a byte that is no opcode.
[[nodiscard]] std::string_view opcode_name(std::uint8_t opcode);

// Whether Python's loader would import, call or look up something outside the file.
[[nodiscard]] bool carries_code(std::uint8_t opcode);

}  // namespace plimsoll::snapshot
