// SPDX-License-Identifier: Apache-2.0
#include "snapshot/opcodes.h"

namespace plimsoll::snapshot {

namespace {

struct Entry {
  std::uint8_t opcode;
  std::string_view name;
  bool code = false;
};

constexpr Entry kEntries[] = {
    {'(', "MARK"},
    {'.', "STOP"},
    {'0', "POP"},
    {'1', "POP_MARK"},
    {'2', "DUP"},
    {'F', "FLOAT"},
    {'I', "INT"},
    {'J', "BININT"},
    {'K', "BININT1"},
    {'L', "LONG"},
    {'M', "BININT2"},
    {'N', "NONE"},
    {'P', "PERSID", true},
    {'Q', "BINPERSID", true},
    {'R', "REDUCE", true},
    {'S', "STRING"},
    {'T', "BINSTRING"},
    {'U', "SHORT_BINSTRING"},
    {'V', "UNICODE"},
    {'X', "BINUNICODE"},
    {'a', "APPEND"},
    {'b', "BUILD", true},
    {'c', "GLOBAL", true},
    {'d', "DICT"},
    {'}', "EMPTY_DICT"},
    {'e', "APPENDS"},
    {'g', "GET"},
    {'h', "BINGET"},
    {'i', "INST", true},
    {'j', "LONG_BINGET"},
    {'l', "LIST"},
    {']', "EMPTY_LIST"},
    {'o', "OBJ", true},
    {'p', "PUT"},
    {'q', "BINPUT"},
    {'r', "LONG_BINPUT"},
    {'s', "SETITEM"},
    {'t', "TUPLE"},
    {')', "EMPTY_TUPLE"},
    {'u', "SETITEMS"},
    {'G', "BINFLOAT"},
    {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"},
    {0x80, "PROTO"},
    {0x81, "NEWOBJ", true},
    {0x82, "EXT1", true},
    {0x83, "EXT2", true},
    {0x84, "EXT4", true},
    {0x85, "TUPLE1"},
    {0x86, "TUPLE2"},
    {0x87, "TUPLE3"},
    {0x88, "NEWTRUE"},
    {0x89, "NEWFALSE"},
    {0x8a, "LONG1"},
    {0x8b, "LONG4"},
    {0x8c, "SHORT_BINUNICODE"},
    {0x8d, "BINUNICODE8"},
    {0x8e, "BINBYTES8"},
    {0x8f, "EMPTY_SET"},
    {0x90, "ADDITEMS"},
    {0x91, "FROZENSET"},
    {0x92, "NEWOBJ_EX", true},
    {0x93, "STACK_GLOBAL", true},
    {0x94, "MEMOIZE"},
    {0x95, "FRAME"},
    {0x96, "BYTEARRAY8"},
    {0x97, "NEXT_BUFFER", true},
    {0x98, "READONLY_BUFFER", true},
};

}  // namespace

std::string_view opcode_name(std::uint8_t opcode) {
  for (const Entry& entry : kEntries)
    if (entry.opcode == opcode) return entry.name;
  return {};
}

bool carries_code(std::uint8_t opcode) {
  for (const Entry& entry : kEntries)
    if (entry.opcode == opcode) return entry.code;
  return false;
}

}  // namespace plimsoll::snapshot
