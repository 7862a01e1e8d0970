#include "bytecode/assignment.h"

#include <vector>

#include "cpython/layout.h"
#include "cpython/variables.h"

namespace evalframe::bytecode {
namespace {

using Bound = std::vector<bool>;  // by slot

bool reads_unchecked(Op op) {
  const bool takes_cell = needs_cell(op) && op != Op::MAKE_CELL && op != Op::LOAD_CLOSURE;
  return takes_cell || (op == Op::LOAD_FAST && !cpython::layout::kLoadFastChecks);
}

// Walks from the entry until the slots bound before each instruction no longer shrink.
class AssignmentWalk {
 public:
  explicit AssignmentWalk(const Code& code) : code_(code), before_(code.instructions.size()) {}

  std::optional<Problem> run() {
    Bound at_entry(cpython::variable_count(code_.code));
    for (int slot = 0; slot < cpython::argument_count(code_.code); ++slot) at_entry[slot] = true;
    reach(0, at_entry);
    while (!open_.empty()) {
      const int32_t index = open_.back();
      open_.pop_back();
      step(index);
    }
    return first_problem();
  }

 private:
  void step(int32_t index) {
    const Instruction& instruction = code_.instructions[index];
    Bound bound = *before_[index];
    if (const ExceptionRegion* region = code_.handler(index)) reach(region->target, bound);
    apply(instruction, bound);
    const Flow after = flow(instruction.op);
    if (after == Flow::jump || after == Flow::branch) reach(instruction.target, bound);
    if (after == Flow::next || after == Flow::branch) reach(index + 1, bound);
  }

  void apply(const Instruction& instruction, Bound& bound) const {
    switch (instruction.op) {
      case Op::STORE_FAST:
      case Op::MAKE_CELL:
      case Op::LOAD_FAST_CHECK: bound[instruction.arg] = true; return;
      case Op::DELETE_FAST:
      case Op::LOAD_FAST_AND_CLEAR: bound[instruction.arg] = false; return;
      case Op::COPY_FREE_VARS:
        for (size_t slot = 0; slot < bound.size(); ++slot) {
          if (cpython::variable_kind(code_.code, static_cast<int>(slot)) & cpython::kFreeVariable) bound[slot] = true;
        }
        return;
      default: return;
    }
  }

  // What is bound on all ways to `index` so far is what was bound on those and is on this one.
  void reach(int32_t index, const Bound& bound) {
    std::optional<Bound>& known = before_[index];
    bool changed = !known;
    if (!known) known = bound;
    for (size_t slot = 0; slot < bound.size(); ++slot) {
      if (!(*known)[slot] || bound[slot]) continue;
      (*known)[slot] = false;
      changed = true;
    }
    if (changed) open_.push_back(index);
  }

  std::optional<Problem> first_problem() const {
    for (int32_t i = 0; i < static_cast<int32_t>(code_.instructions.size()); ++i) {
      const Instruction& instruction = code_.instructions[i];
      if (!before_[i] || !reads_unchecked(instruction.op) || (*before_[i])[instruction.arg]) continue;
      return Problem{i, needs_cell(instruction.op)
                            ? "its variable may have no cell here; put MAKE_CELL or COPY_FREE_VARS at the start of the code"
                            : "its variable may be unbound here, which it doesn't check; use LOAD_FAST_CHECK"};
    }
    return std::nullopt;
  }

  const Code& code_;
  std::vector<std::optional<Bound>> before_;  // none where it isn't reached
  std::vector<int32_t> open_;
};

}  // namespace

std::optional<Problem> find_unbound_read(const Code& code) { return AssignmentWalk(code).run(); }

bool needs_cell(Op op) {
  return op == Op::LOAD_DEREF || op == Op::STORE_DEREF || op == Op::DELETE_DEREF || op == Op::LOAD_CLASSDEREF ||
         op == Op::LOAD_FROM_DICT_OR_DEREF || op == Op::MAKE_CELL || op == Op::LOAD_CLOSURE;
}

}  // namespace evalframe::bytecode
