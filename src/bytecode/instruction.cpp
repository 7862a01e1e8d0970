// What the canonical instruction table says about each instruction, and the handler search of decoded code.
#include "bytecode/instruction.h"

#include <algorithm>
#include <iterator>

#include "core/check.h"

namespace evalframe::bytecode {
namespace {

struct Row {
  const char* name;
  Argument argument;
  Flow flow;
};

constexpr Row kRows[] = {
#define EVALFRAME_INSTRUCTION(name, argument, flow) {#name, Argument::argument, Flow::flow},
#include "bytecode/instructions.def"
#undef EVALFRAME_INSTRUCTION
};

const Row& row(Op op) {
  CHECK(op < Op::kCount);
  return kRows[static_cast<size_t>(op)];
}

}  // namespace

const char* name(Op op) { return row(op).name; }
Argument argument_kind(Op op) { return row(op).argument; }
Flow flow(Op op) { return row(op).flow; }

std::optional<Op> op_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (name == kRows[i].name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

const ExceptionRegion* Code::handler(int32_t index) const {
  // The last region that starts at or before the instruction: regions are sorted and don't overlap.
  auto behind = std::upper_bound(regions.begin(), regions.end(), index,
                                 [](int32_t at, const ExceptionRegion& region) { return at < region.start; });
  if (behind == regions.begin()) return nullptr;
  const ExceptionRegion& region = *std::prev(behind);
  return index < region.end ? &region : nullptr;
}

}  // namespace evalframe::bytecode
