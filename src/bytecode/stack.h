// The depth of the operand stack: effect of each instruction, and the depth before each by control flow.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bytecode/instruction.h"

namespace evalframe::bytecode {

// `takes` entries must be on the stack; `gives` stand in their place when the next instruction runs, or the target.
struct StackEffect {
  int32_t takes, gives, gives_on_jump;
};
StackEffect stack_effect(const Instruction& instruction);

// Whether the instruction only tests the top of the stack and branches, or prepares that: where a break's result is tested,
// the test belongs to the break, and each way on from it is a place of its own.
bool is_test(Op op);

// What is wrong with an instruction; `index` is -1 for the code as a whole.
struct Problem {
  int32_t index;
  std::string text;
};

// Deeper stacks are refused, and counts of entries that are more: sums of some of them are far from what 32 bits hold, and so is the size of a frame.
inline constexpr int32_t kMostEntries = 1 << 24;

struct StackDepths {
  std::vector<int32_t> before;  // of each instruction; -1 where it can't be reached
  int32_t maximum = 0;
};

// Follows control flow, exception regions included. A problem where the stack runs empty, two ways meet with different
// depths, or control runs off the end. Jump targets, regions and counts must be in range.
std::optional<Problem> find_depths(const Code& code, StackDepths& depths);

}  // namespace evalframe::bytecode
