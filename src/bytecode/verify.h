// Checks of edited or generated code before it may run: what CPython itself would crash on is refused with its reason.
#pragma once

#include <optional>
#include <string>

#include "bytecode/stack.h"

namespace evalframe::bytecode {

// What instruction arguments refer to. Variables (localsplus) are those of `code.code`.
struct Operands {
  Borrowed constants;  // tuple
  Borrowed names;      // tuple
};

// The constants and names of the code object itself.
Operands operands_of(const Code& code);

// The first problem: arguments out of range, jumps and exception regions that fit no instruction, stack depth, variables read
// unchecked where they may be unbound. Fills `depths` as far as it comes.
std::optional<Problem> verify(const Code& code, const Operands& operands, StackDepths& depths);

// Why a frame made for `original` can't run `replacement` (both code objects): it must take the same arguments, be of the same
// kind, and have all variables of the original, in the same order in each of locals, cells and free variables; new ones come
// after them.
std::optional<std::string> verify_replacement(Borrowed original, Borrowed replacement);

// "f, instruction 3 (LOAD_FAST, line 2): text"
std::string describe(const Code& code, const Problem& problem);

}  // namespace evalframe::bytecode
