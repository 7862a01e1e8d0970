// The running version's opcodes (v3XX/opcodes.def) as data, for decoding and encoding.
#pragma once

#include <array>

#include "bytecode/instruction.h"

namespace evalframe::cpython {

using bytecode::Op;

// How the argument of a CPython instruction becomes that of the canonical one.
enum class Form : uint8_t {
  unknown,        // not an instruction that the compiler emits
  plain,          // as it is
  split1,         // the lowest bit goes to arg2,
  split2,         // the lowest two,
  split4,         // four,
  split5,         // five bits
  attribute,      // the lowest bit says LOAD_METHOD
  forward,        // a jump, in code units from behind the caches
  backward,
  pair,           // two instructions, with four bits of argument each
  keyword_names,  // becomes arg2 of the CALL behind it
  precall,        // dropped: it always stands before its CALL
  extended_arg,
  cache,
};

struct Opcode {
  const char* name = nullptr;
  uint8_t number = 0;
  uint8_t caches = 0;
  Form form = Form::unknown;
  Op op = Op::NOP;
  Op second = Op::NOP;  // of a pair
};

inline constexpr Opcode kOpcodes[] = {
#define EVALFRAME_OPCODE(name, number, caches, form, canonical) {#name, number, caches, Form::form, Op::canonical},
#define EVALFRAME_PAIR(name, number, first, second) {#name, number, 0, Form::pair, Op::first, Op::second},
#include "opcodes.def"
#undef EVALFRAME_OPCODE
#undef EVALFRAME_PAIR
};

constexpr std::array<Opcode, 256> by_number() {
  std::array<Opcode, 256> table{};
  for (const Opcode& opcode : kOpcodes) table[opcode.number] = opcode;
  return table;
}
inline constexpr std::array<Opcode, 256> kByNumber = by_number();

// The one opcode of this form; Form::unknown where the version has none.
constexpr Opcode of_form(Form form) {
  for (const Opcode& opcode : kOpcodes) {
    if (opcode.form == form) return opcode;
  }
  return {};
}
constexpr bool exists(const Opcode& opcode) { return opcode.form != Form::unknown; }
inline constexpr Opcode kKeywordNames = of_form(Form::keyword_names);
inline constexpr Opcode kPrecall = of_form(Form::precall);
inline constexpr Opcode kExtendedArg = of_form(Form::extended_arg);
inline constexpr Opcode kAttribute = of_form(Form::attribute);

inline bool is_own_instruction(Form form) {
  return form != Form::unknown && form != Form::keyword_names && form != Form::precall && form != Form::extended_arg &&
         form != Form::cache && form != Form::pair;
}

// The opcode that stands for `op`; null where the version has none. Jumps have up to two, one for each direction.
inline const Opcode* opcode_of(Op op, bool backward) {
  if (op == Op::LOAD_METHOD && exists(kAttribute)) return &kAttribute;
  for (const Opcode& opcode : kOpcodes) {
    if (opcode.op != op || !is_own_instruction(opcode.form)) continue;
    const bool is_jump = opcode.form == Form::forward || opcode.form == Form::backward;
    if (!is_jump || (opcode.form == Form::backward) == backward) return &opcode;
  }
  return nullptr;
}

inline const Opcode* pair_of(Op first, Op second) {
  for (const Opcode& opcode : kOpcodes) {
    if (opcode.form == Form::pair && opcode.op == first && opcode.second == second) return &opcode;
  }
  return nullptr;
}

constexpr int split_bits(Form form) {
  switch (form) {
    case Form::split1: return 1;
    case Form::split2: return 2;
    case Form::split4: return 4;
    case Form::split5: return 5;
    default: return 0;
  }
}

}  // namespace evalframe::cpython
