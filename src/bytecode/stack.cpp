#include "bytecode/stack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "core/check.h"
#include "cpython/layout.h"

namespace evalframe::bytecode {
namespace {

namespace layout = cpython::layout;

// Finds depths by walking from the entry and from each handler that becomes reachable.
class DepthWalk {
 public:
  DepthWalk(const Code& code, StackDepths& depths) : code_(code), depths_(depths) {
    depths_.before.assign(code.instructions.size(), -1);
    depths_.maximum = layout::kSmallestStack;
  }

  std::optional<Problem> run() {
    reach(0, 0, 0);
    while (!open_.empty() && !problem_) {
      const int32_t index = open_.back();
      open_.pop_back();
      step(index);
    }
    return std::move(problem_);
  }

 private:
  void step(int32_t index) {
    const Instruction& instruction = code_.instructions[index];
    const int32_t depth = depths_.before[index];
    enter_handler(index, depth);
    const StackEffect effect = stack_effect(instruction);
    if (depth < effect.takes) {
      return fail(index, "it takes " + std::to_string(effect.takes) + " stack entries where there are " +
                             std::to_string(depth) + "; push what it needs before it");
    }
    const int32_t rest = depth - effect.takes;
    const Flow after = flow(instruction.op);
    if (after == Flow::jump || after == Flow::branch) reach(instruction.target, rest + effect.gives_on_jump, index);
    if (after == Flow::next || after == Flow::branch) reach(index + 1, rest + effect.gives, index);
  }

  void enter_handler(int32_t index, int32_t depth) {
    const ExceptionRegion* region = code_.handler(index);
    if (region == nullptr) return;
    if (depth < region->depth) {
      return fail(index, "its exception handler keeps " + std::to_string(region->depth) + " stack entries where there are " +
                             std::to_string(depth) + "; move it out of the region or correct the region's depth");
    }
    // The handler finds the kept entries, the index of the instruction where asked for, and the exception.
    reach(region->target, region->depth + region->push_lasti + 1, index);
  }

  void reach(int32_t index, int32_t depth, int32_t from) {
    if (index >= static_cast<int32_t>(code_.instructions.size())) {
      return fail(from, "control runs off the end of the code behind it; end the code with a return, raise or jump");
    }
    if (depth > kMostEntries) return fail(from, "it leaves more stack entries than the " + std::to_string(kMostEntries) + " that there may be");
    depths_.maximum = std::max(depths_.maximum, depth);
    int32_t& known = depths_.before[index];
    if (known == depth) return;
    if (known >= 0) {
      return fail(index, "it is reached with " + std::to_string(known) + " and with " + std::to_string(depth) +
                             " stack entries (from instruction " + std::to_string(from) +
                             "); make all ways to it push and pop the same");
    }
    known = depth;
    open_.push_back(index);
  }

  void fail(int32_t index, std::string text) {
    if (!problem_) problem_ = Problem{index, std::move(text)};
  }

  const Code& code_;
  StackDepths& depths_;
  std::vector<int32_t> open_;
  std::optional<Problem> problem_;
};

}  // namespace

namespace {

// Of an instruction whose arguments have no part in it.
struct Fixed {
  bool is_fixed = false;
  StackEffect effect{};
};
constexpr bool mentions_argument(std::string_view expression) { return expression.find("arg") != std::string_view::npos; }

constexpr auto kFixed = [] {
  std::array<Fixed, static_cast<size_t>(Op::kCount)> all{};
  [[maybe_unused]] constexpr int32_t arg = 0, arg2 = 0;
#define EVALFRAME_STACK(name, takes, gives) \
  if (!mentions_argument(#takes #gives)) all[static_cast<size_t>(Op::name)] = {true, {takes, gives, gives}};
#define EVALFRAME_STACK_JUMP(name, takes, gives, gives_on_jump) \
  if (!mentions_argument(#takes #gives #gives_on_jump)) all[static_cast<size_t>(Op::name)] = {true, {takes, gives, gives_on_jump}};
#include "bytecode/stack_effects.def"
#undef EVALFRAME_STACK
#undef EVALFRAME_STACK_JUMP
  return all;
}();

}  // namespace

StackEffect stack_effect(const Instruction& instruction) {
  if (const Fixed& fixed = kFixed[static_cast<size_t>(instruction.op)]; fixed.is_fixed) return fixed.effect;
  const int32_t arg = instruction.arg;
  const int32_t arg2 = instruction.arg2;
  switch (instruction.op) {
#define EVALFRAME_STACK(name, takes, gives) \
  case Op::name: return {takes, gives, gives};
#define EVALFRAME_STACK_JUMP(name, takes, gives, gives_on_jump) \
  case Op::name: return {takes, gives, gives_on_jump};
#include "bytecode/stack_effects.def"
#undef EVALFRAME_STACK
#undef EVALFRAME_STACK_JUMP
    case Op::kCount: break;
  }
  CHECK(false && "an instruction of the table");
  return {};
}

bool is_test(Op op) {
  return op == Op::TO_BOOL || op == Op::POP_JUMP_IF_FALSE || op == Op::POP_JUMP_IF_TRUE || op == Op::POP_JUMP_IF_NONE ||
         op == Op::POP_JUMP_IF_NOT_NONE;
}

std::optional<Problem> find_depths(const Code& code, StackDepths& depths) { return DepthWalk(code, depths).run(); }

}  // namespace evalframe::bytecode
