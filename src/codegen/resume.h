// Resume functions: a code object that takes up a frame at one of its instructions.
#pragma once

#include <string>
#include <vector>

#include "bytecode/instruction.h"
#include "codegen/builder.h"

namespace evalframe::codegen {

// Where a frame is taken up, and which of its slots hold something there.
struct ResumePlace {
  const bytecode::Code* code;
  int32_t next;              // the instruction to begin with
  std::vector<bool> bound;   // of localsplus; cells and free variables count as bound
  std::vector<bool> stack;   // of the operand stack, from the bottom
  // The instruction before `next` is a call that is still to be made: it takes a callable, calls it without arguments and
  // pushes the result.
  bool calls_first = false;
  bool operator==(const ResumePlace&) const = default;
};

// The function's parameters are those variables of the original, in its order, that the rest of the code reads, overwrites
// or deletes; then the entries of the stack; then the callable of calls_first. What is left of the original's variables
// follows in order. Cells and free variables of the original are all free variables.
struct Resume {
  Ref code;
  std::vector<int32_t> parameters;  // slots of the original frame: variables, then (from localsplus' size on) the stack
  std::vector<int32_t> cells;       // slots of the original whose cells are the closure
  std::vector<int32_t> slot_of;     // of each slot of the original frame at the place: its slot in `code`; -1: none
  std::vector<int32_t> checked;     // parameters, by slot in `code`, whose objects the code takes for granted
  Ref check;                        // a function that takes them and refuses others; null where there are none
};

// The first instructions of code for a resume function's frames.
void write_start(Builder& builder, const Resume& resume);

// Throws Limit; `code` is null with an exception set where memory ran out.
Resume make_resume(const ResumePlace& place, const std::string& name);

// Whether control can come back to the instruction: what is taken up there would be taken up turn by turn.
bool is_in_loop(const bytecode::Code& code, int32_t index);

// Where the instructions of the start are done that only make cells: the first one that a frame can be taken up at.
int32_t first_place(const bytecode::Code& code);

}  // namespace evalframe::codegen
