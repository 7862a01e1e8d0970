// Which kind of object an entry of the operand stack has to be for the rest of the code, and the check of that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bytecode/instruction.h"

namespace evalframe::codegen {

enum class EntryKind : uint8_t {
#define EVALFRAME_ENTRY_KIND(name, text, holds) name,
#include "codegen/entry_kinds.def"
#undef EVALFRAME_ENTRY_KIND
};

// Where code is taken up with `depth` entries on the stack, of which the deepest `given` are those that were there before.
struct TakenUp {
  int32_t next, depth, given;
};

// What the code from these places on takes for granted of the entry `position` from the bottom. kMade: of a kind that
// can't be checked.
EntryKind kind_of_entry(const bytecode::Code& code, const std::vector<TakenUp>& places, int32_t position);

struct CheckedParameter {
  std::string name;
  EntryKind kind;
};

// A built-in function that takes the objects of these parameters: TypeError where one isn't of its kind. Null with an
// exception.
Ref make_check(const std::string& function, const std::vector<CheckedParameter>& parameters);

}  // namespace evalframe::codegen
