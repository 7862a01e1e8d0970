// Memory for the states of reductions to positions.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "backends/native/run/reduction.h"

namespace evalframe::native {

// The states of arg reductions, which are larger than their outputs: made beside, then written over as indices.
class ArgStates {
 public:
  ArgStates(const Kernel& kernel, const Folding& folding, const int64_t* extents, std::vector<KernelOperand>& operands)
      : kernel_(kernel), extents_(extents) {
    for (const Fold& fold : folding.folds) {
      if (!is_arg(kernel.outputs[fold.operand - kernel.inputs.size()].reduce)) continue;
      std::vector<int64_t> strides(static_cast<size_t>(kernel.rank), 0);
      int64_t size = fold.reducer.state_size;
      for (int d = kernel.rank - 1; d >= 0; --d) {
        if (kernel.reduced >> d & 1) continue;
        strides[static_cast<size_t>(d)] = size;
        size *= extents[d];
      }
      States& made = states_.emplace_back(States{operands[static_cast<size_t>(fold.operand)], std::move(strides), std::vector<char>(static_cast<size_t>(size))});
      operands[static_cast<size_t>(fold.operand)].data = made.memory.data();
    }
    size_t next = 0;
    for (const Fold& fold : folding.folds) {
      if (!is_arg(kernel.outputs[fold.operand - kernel.inputs.size()].reduce)) continue;
      operands[static_cast<size_t>(fold.operand)].strides = states_[next++].strides.data();
    }
  }

  void write() const {
    for (const States& states : states_) write_indices(states, 0, states.memory.data(), states.output.data);
  }

 private:
  struct States {
    KernelOperand output;
    std::vector<int64_t> strides;
    std::vector<char> memory;
  };

  void write_indices(const States& states, int d, const char* from, char* to) const {
    if (d == kernel_.rank) {
      std::memcpy(to, from, sizeof(int64_t));  // the index stands first in the state
      return;
    }
    const int64_t extent = kernel_.reduced >> d & 1 ? 1 : extents_[d];
    for (int64_t i = 0; i < extent; ++i) {
      write_indices(states, d + 1, from + i * states.strides[static_cast<size_t>(d)], to + i * states.output.strides[d]);
    }
  }

  const Kernel& kernel_;
  const int64_t* extents_;
  std::vector<States> states_;
};

}  // namespace evalframe::native
