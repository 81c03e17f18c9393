// The pickle opcodes the machine knows, and names of some it refuses.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay::pickle_opcode {

enum Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kBinFloat = 'G',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// Opcodes that build objects of any class or run code, for the refusal.
inline std::string_view forbidden_name(int opcode) {
  switch (opcode) {
    case 0x81:
      return " (NEWOBJ)";
    case 0x92:
      return " (NEWOBJ_EX)";
    case 'i':
      return " (INST)";
    case 'o':
      return " (OBJ)";
    case 'P':
      return " (PERSID)";
    case 0x82:
    case 0x83:
    case 0x84:
      return " (EXT)";
    default:
      return "";
  }
}

}  // namespace assay::pickle_opcode
