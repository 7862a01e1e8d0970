// A function's code as a state machine: blocks of straight-line code in a loop, for what has no structure that source can have.
#pragma once

#include <string>
#include <vector>

#include "bytecode/instruction.h"
#include "decompiler/reader.h"
#include "decompiler/tree.h"

namespace evalframe::decompiler {

// The statements of the body; `reason` is told in a comment. `code` must be verified. Throws Refused where the machine can't hold it.
Nodes machine_body(Tree& tree, const bytecode::Code& code, const std::vector<int>& depths, const ReadNested& nested, const std::string& reason);

}  // namespace evalframe::decompiler
