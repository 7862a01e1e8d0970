// A code object as text: one line an instruction, stable from run to run (no addresses).
#pragma once

#include <string>

#include "bytecode/instruction.h"

namespace evalframe::bytecode {

// Line, byte offset, jump label, canonical name, argument and what it refers to, CPython's own name where it differs;
// then the exception table.
std::string print(const Code& code);

// What the argument refers to: a name, a constant's repr, an operator; empty where nothing.
std::string argument_text(const Code& code, const Instruction& instruction);

// The symbol of BINARY_OP's or COMPARE_OP's argument; "?" out of range.
std::string operator_text(Op op, int32_t arg);

}  // namespace evalframe::bytecode
