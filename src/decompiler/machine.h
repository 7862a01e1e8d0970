// A function's code as a state machine: blocks of straight-line code in a loop, for what has no structure that source can have.
#pragma once

#include <string>
#include <vector>

#include "bytecode/instruction.h"
#include "decompiler/reader.h"
#include "decompiler/tree.h"

namespace evalframe::decompiler {

struct MachineOptions {
  const ConstantNames& names;
  bool generated;      // made by evalframe: its source is there to be read
  std::string reason;  // why there is no other source, told in a comment
};

// The statements of the body. `code` must be verified. Throws Refused where the machine can't hold it.
Nodes machine_body(Tree& tree, const bytecode::Code& code, const std::vector<int>& depths, const ReadNested& nested, const MachineOptions& options);

}  // namespace evalframe::decompiler
