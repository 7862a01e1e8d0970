// The instructions of a code object as a graph: jumps resolved, what the compiler wrote twice merged, handlers told apart.
#pragma once

#include <vector>

#include "bytecode/instruction.h"

namespace evalframe::decompiler {

struct GraphOptions {
  bool merge = true;          // copies that the compiler made of one statement become one again
  bool positions = true;      // only what comes from the same place of the source is taken for a copy
  bool merge_returns = false; // each `return None` is taken for a copy of the others
  bool last_copies = false;   // the last copy in the code stands for all: 3.12 writes what follows a loop behind each of its breaks, too
};

// A node is an instruction, by its index. Those that only lead on (NOP, jumps) aren't nodes, unless they lead to themselves.
struct Graph {
  const bytecode::Code* code = nullptr;
  int entry = 0;
  std::vector<int> next, jump;             // or -1; of a test: what follows if it falls through, and if it jumps
  std::vector<int> own_next, own_jump;     // the same before copies became one
  std::vector<int> via_next, via_jump;     // the last jump that was passed on that way, or -1
  std::vector<int> raw_handler, handler;   // where an exception goes; `handler`: the nearest that the source has (or -1)
  std::vector<int> depth;                  // of the stack before each
  std::vector<int> order;                  // place in reverse postorder; -1: can't be reached
  std::vector<std::vector<int>> before;    // predecessors, over normal edges
  std::vector<std::vector<int>> handled;   // of a handler: the nodes that it protects
  std::vector<bool> header, cold;          // target of a jump back; reached by exceptions only

  const bytecode::Instruction& at(int node) const { return code->instructions[node]; }
  int size() const { return static_cast<int>(next.size()); }
  // Whether an exception at `node` gets to `handler` if nothing inside catches it.
  bool covered(int node, int by) const;
  template <class F> void each_successor(int node, const F& f, bool handlers = true) const {
    if (next[node] >= 0) f(next[node]);
    if (jump[node] >= 0) f(jump[node]);
    if (handlers && raw_handler[node] >= 0) f(raw_handler[node]);
  }
};

// `code` must be verified.
Graph make_graph(const bytecode::Code& code, const std::vector<int>& depths, const GraphOptions& options);

// What an argument stands for, whatever its index: constants by value and type, names and variables by name.
bool same_operand(const bytecode::Code& a, int i, const bytecode::Code& b, int j);

// A test of the top of the stack: the ways on if it's true (for tests of None: if it is None), and if not.
bool is_branch(bytecode::Op op);
bool jumps_if_true(bytecode::Op op);
// Gives the next item of an iterator: the header of a `for` loop.
bool iterates(bytecode::Op op);
// Does nothing but to lead to another instruction.
bool leads_on(bytecode::Op op);
// The same, with what the compiler puts at the beginning of functions.
bool only_leads_on(bytecode::Op op);
// Whatever handler such an instruction has, it never gets there.
bool never_raises(bytecode::Op op);

}  // namespace evalframe::decompiler
