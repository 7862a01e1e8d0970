#include "bytecode/raising.h"

namespace evalframe::bytecode {

bool always_raises(const Code& code, int32_t from) {
  std::vector<char> seen(code.instructions.size());
  std::vector<int32_t> ways{from};
  while (!ways.empty()) {
    const int32_t at = ways.back();
    ways.pop_back();
    if (static_cast<size_t>(at) >= seen.size()) return false;
    if (seen[static_cast<size_t>(at)]++) continue;
    const Instruction& instruction = code.instructions[static_cast<size_t>(at)];
    const Op op = instruction.op;
    const bool goes_back = instruction.target >= 0 && instruction.target <= at;
    if (goes_back || op == Op::RETURN_VALUE || op == Op::RETURN_CONST || op == Op::YIELD_VALUE || op == Op::SEND) return false;
    if (flow(op) == Flow::stop) continue;
    if (flow(op) != Flow::jump) ways.push_back(at + 1);
    if (instruction.target >= 0) ways.push_back(instruction.target);
  }
  return true;
}

}  // namespace evalframe::bytecode
