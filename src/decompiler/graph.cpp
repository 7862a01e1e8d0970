#include "decompiler/graph.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cpython/layout.h"
#include "decompiler/tree.h"

namespace evalframe::decompiler {
namespace {

using bytecode::Code, bytecode::Instruction, bytecode::Op;
namespace layout = cpython::layout;

class Maker {
 public:
  Maker(const Code& code, const std::vector<int>& depths, const GraphOptions& options) : code_(code), options_(options) {
    graph_.code = &code;
    graph_.depth = depths;
  }

  Graph run() {
    const size_t size = code_.instructions.size();
    for (auto* list : {&graph_.next, &graph_.jump, &graph_.via_next, &graph_.via_jump, &graph_.raw_handler, &graph_.handler}) list->assign(size, -1);
    for (size_t i = 0; i < size; i++) connect(static_cast<int>(i));
    graph_.entry = resolve(0).first;
    graph_.own_next = graph_.next;
    graph_.own_jump = graph_.jump;
    if (options_.merge) merge();
    for (size_t i = 0; i < size; i++) graph_.handler[i] = nearest(graph_.raw_handler[i]);
    number();
    return std::move(graph_);
  }

 private:
  // The first node at or behind `index`, and the last jump on the way.
  std::pair<int, int> resolve(int index) const {
    int via = -1;
    int start = index;
    for (int steps = 0; only_leads_on(code_.instructions[index].op); steps++) {
      const Instruction& instruction = code_.instructions[index];
      const bool jumps = instruction.target >= 0;
      if (jumps) via = index;
      if (steps > graph_.size()) return {start, -1};
      const int following = jumps ? instruction.target : index + 1;
      if (jumps && following <= index) start = index;
      index = following;
    }
    return {index, via};
  }

  void connect(int i) {
    const Instruction& instruction = code_.instructions[i];
    const auto* region = code_.handler(i);
    // 3.13's compiler leaves out tests that it has turned round, before jumps back: a test of a bool raises nothing.
    if (region == nullptr && i > 0 && layout::kJumpNeedsBool && is_branch(instruction.op) && bytecode::flow(code_.instructions[i - 1].op) == bytecode::Flow::next) region = code_.handler(i - 1);
    graph_.raw_handler[i] = region ? region->target : -1;
    if (graph_.depth[i] < 0) return;
    if (only_leads_on(instruction.op)) {
      std::tie(graph_.next[i], graph_.via_next[i]) = resolve(instruction.target >= 0 ? instruction.target : i + 1);
      return;
    }
    int next = i + 1;
    int jump = instruction.target;
    if (instruction.op == Op::SEND) next = -1;
    if (instruction.op == Op::FOR_ITER) jump += layout::kForIterSkip;
    if (jump >= graph_.size()) throw Refused("a loop that ends behind the code");
    if (instruction.op == Op::GET_ANEXT && !asynchronous_turn(i, next, jump)) throw Refused("an unusual loop over an asynchronous iterator");
    if (bytecode::flow(instruction.op) == bytecode::Flow::stop) next = jump = -1;
    if (next >= 0) std::tie(graph_.next[i], graph_.via_next[i]) = resolve(next);
    if (jump >= 0) std::tie(graph_.jump[i], graph_.via_jump[i]) = resolve(jump);
  }

  // GET_ANEXT stands for all of a turn's start: what waits for the next item, and the handler that ends the loop.
  bool asynchronous_turn(int i, int& next, int& jump) const {
    const int handler = graph_.raw_handler[i];
    if (i + 2 >= graph_.size() || code_.instructions[i + 2].op != Op::SEND) return false;
    if (handler < 0 || code_.instructions[handler].op != Op::END_ASYNC_FOR) return false;
    next = code_.instructions[i + 2].target + (layout::kSendPopsReceiver ? 0 : 1);
    jump = handler + 1;
    return next < graph_.size() && jump < graph_.size();
  }

  // The nearest handler that is the source's own: what the compiler adds to clean up starts otherwise.
  int nearest(int handler) const {
    for (int steps = 0; handler >= 0 && steps < 1000; steps++) {
      if (code_.instructions[handler].op == Op::PUSH_EXC_INFO) return handler;
      handler = graph_.raw_handler[handler];
    }
    return -1;
  }

  using Key = std::tuple<Op, int, int, int, int, int, int>;

  // Nodes of one class behave alike for ever: classes are split until those of all successors agree.
  void merge() {
    const int size = graph_.size();
    std::vector<int> group(size, -1);
    int count = first_groups(group);
    for (int round = 0;; round++) {
      if (static_cast<int64_t>(round) * size > 30'000'000) return;
      std::map<std::tuple<int, int, int, int>, int> split;
      std::vector<int> finer(size);
      const auto of = [&](int node) { return node < 0 ? -1 : group[node]; };
      for (int i = 0; i < size; i++) {
        int next = of(graph_.next[i]), jump = of(graph_.jump[i]);
        if (is_branch(code_.instructions[i].op) && jumps_if_true(code_.instructions[i].op)) std::swap(next, jump);
        finer[i] = split.try_emplace({group[i], next, jump, of(graph_.raw_handler[i])}, static_cast<int>(split.size())).first->second;
      }
      group = std::move(finer);
      if (static_cast<int>(split.size()) == count) break;
      count = static_cast<int>(split.size());
    }
    unite(group, count);
  }

  // The return at a function's end has no place of its own: the compiler gives each copy that of what stands before it.
  void find_implicit_returns() {
    implicit_.assign(graph_.size(), false);
    for (int i = 0; i < graph_.size(); i++) {
      if (graph_.depth[i] < 0 || only_leads_on(code_.instructions[i].op)) continue;
      for (const int to : {graph_.next[i], graph_.jump[i]}) {
        if (to < 0 || !returns_none(to) || code_.instructions[to].op == Op::RETURN_VALUE) continue;
        if (code_.positions[to].line >= 0 && !(code_.positions[to] == code_.positions[i])) continue;
        implicit_[to] = true;
        if (graph_.next[to] >= 0) implicit_[graph_.next[to]] = true;
      }
    }
  }

  // So has the end of a class's code: __static_attributes__ and __classcell__, and the return behind them.
  void find_ends_of_class() {
    PyObject* const names = code_.code.as<PyCodeObject>()->co_names;
    for (int i = 1; i + 1 < graph_.size(); i++) {
      const Instruction& store = code_.instructions[i];
      if (store.op != Op::STORE_NAME) continue;
      PyObject* const name = PyTuple_GET_ITEM(names, store.arg);
      const bool attributes = PyUnicode_CompareWithASCIIString(name, "__static_attributes__") == 0 && code_.instructions[i - 1].op == Op::LOAD_CONST;
      if (!attributes && PyUnicode_CompareWithASCIIString(name, "__classcell__") != 0) continue;
      for (int k = i - 1; k < graph_.size() && bytecode::flow(code_.instructions[k].op) == bytecode::Flow::next; k++) implicit_[k] = implicit_[k + 1] = true;
    }
  }

  int first_groups(std::vector<int>& group) {
    find_implicit_returns();
    find_ends_of_class();
    std::map<Key, std::vector<int>> rough;
    int count = 0;
    for (int i = 0; i < graph_.size(); i++) {
      if (graph_.depth[i] < 0 || only_leads_on(code_.instructions[i].op)) {
        group[i] = count++;
        continue;
      }
      std::vector<int>& alike = rough[key(i)];
      const auto same = std::find_if(alike.begin(), alike.end(), [&](int other) { return same_operand(code_, i, code_, other); });
      group[i] = same == alike.end() ? count++ : group[*same];
      if (same == alike.end()) alike.push_back(i);
    }
    return count;
  }

  Key key(int i) const {
    const Instruction& instruction = code_.instructions[i];
    Op op = instruction.op;
    if (op == Op::POP_JUMP_IF_TRUE) op = Op::POP_JUMP_IF_FALSE;
    if (op == Op::LOAD_FAST_CHECK) op = Op::LOAD_FAST;  // one copy may be known to be bound, another not
    if (op == Op::POP_JUMP_IF_NOT_NONE) op = Op::POP_JUMP_IF_NONE;
    bytecode::Position at = code_.positions[i];
    if (!options_.positions || implicit_[i] || (options_.merge_returns && returns_none(i))) at = {};
    return {op, instruction.arg2, at.line, at.end_line, at.column, at.end_column, graph_.depth[i]};
  }

  bool returns_none(int i) const {
    const auto& all = code_.instructions;
    if (all[i].op == Op::RETURN_CONST) return true;
    if (all[i].op == Op::LOAD_CONST && i + 1 < graph_.size()) return all[i + 1].op == Op::RETURN_VALUE;
    return all[i].op == Op::RETURN_VALUE && i > 0 && all[i - 1].op == Op::LOAD_CONST;
  }

  void unite(const std::vector<int>& group, int count) {
    std::vector<int> chosen(count, -1);
    for (int i = 0; i < graph_.size(); i++) {
      if (chosen[group[i]] < 0 || (options_.last_copies && graph_.depth[i] >= 0)) chosen[group[i]] = i;
    }
    for (auto* list : {&graph_.next, &graph_.jump, &graph_.raw_handler}) {
      for (int& node : *list) {
        if (node >= 0) node = chosen[group[node]];
      }
    }
    graph_.entry = chosen[group[graph_.entry]];
  }

  void number() {
    const int size = graph_.size();
    graph_.order.assign(size, -1);
    graph_.header.assign(size, false);
    graph_.before.assign(size, {});
    graph_.handled.assign(size, {});
    std::vector<int> post = postorder(true);
    for (size_t i = 0; i < post.size(); i++) graph_.order[post[i]] = static_cast<int>(post.size() - 1 - i);
    graph_.cold.assign(size, true);
    for (const int node : postorder(false)) graph_.cold[node] = false;
    for (const int node : post) {
      graph_.each_successor(node, [&](int to) {
        graph_.before[to].push_back(node);
        if (graph_.order[to] <= graph_.order[node]) graph_.header[to] = true;
      }, false);
      if (graph_.raw_handler[node] >= 0) graph_.handled[graph_.raw_handler[node]].push_back(node);
    }
  }

  std::vector<int> postorder(bool handlers) const {
    std::vector<int> done;
    std::vector<char> seen(graph_.size(), 0);
    std::vector<std::pair<int, int>> open{{graph_.entry, 0}};
    seen[graph_.entry] = 1;
    while (!open.empty()) {
      auto& [node, stage] = open.back();
      const int here = node;
      const int to = stage == 0 ? (handlers ? graph_.raw_handler[here] : -1) : stage == 1 ? std::max(graph_.jump[here], graph_.next[here]) : std::min(graph_.jump[here], graph_.next[here]);
      if (stage++ == 3) {
        done.push_back(here);
        open.pop_back();
      } else if (stage <= 3 && to >= 0 && !seen[to]) {
        seen[to] = 1;
        open.push_back({to, 0});
      }
    }
    return done;
  }

  const Code& code_;
  GraphOptions options_;
  Graph graph_;
  std::vector<bool> implicit_;
};

bool same_constant(PyObject* a, PyObject* b, int depth = 0) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b) || depth > 50) return false;
  if (PyTuple_Check(a)) {
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
      if (!same_constant(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i), depth + 1)) return false;
    }
    return true;
  }
  if (PyFrozenSet_Check(a)) {
    if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) return false;
    const Ref left = Ref::steal(PySequence_Tuple(a)), right = Ref::steal(PySequence_Tuple(b));
    for (Py_ssize_t i = 0, size = PySet_GET_SIZE(a); i < size; i++) {
      Py_ssize_t j = 0;
      while (j < size && !same_constant(PyTuple_GET_ITEM(left.get(), i), PyTuple_GET_ITEM(right.get(), j), depth + 1)) j++;
      if (j == size) return false;
    }
    return true;
  }
  if (PyCode_Check(a)) {
    const auto* const x = reinterpret_cast<PyCodeObject*>(a);
    const auto* const y = reinterpret_cast<PyCodeObject*>(b);
    // What stands around a function is in their qualified names.
    return PyUnicode_Compare(x->co_name, y->co_name) == 0;
  }
  if (PyFloat_Check(a) || PyComplex_Check(a)) {
    // Zeros have signs, and NaN is itself.
    const Ref left = Ref::steal(PyObject_Repr(a)), right = Ref::steal(PyObject_Repr(b));
    return left && right && PyUnicode_Compare(left.get(), right.get()) == 0;
  }
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

PyObject* constant(const Code& code, int index) { return PyTuple_GET_ITEM(code.code.as<PyCodeObject>()->co_consts, index); }

}  // namespace

bool is_branch(Op op) {
  return op == Op::POP_JUMP_IF_FALSE || op == Op::POP_JUMP_IF_TRUE || op == Op::POP_JUMP_IF_NONE || op == Op::POP_JUMP_IF_NOT_NONE ||
         op == Op::JUMP_IF_FALSE_OR_POP || op == Op::JUMP_IF_TRUE_OR_POP;
}

// Whatever handler such an instruction has, it never gets there.
bool never_raises(Op op) {
  // In 3.13 a test has a bool before it; what raises is TO_BOOL.
  if (op == Op::POP_JUMP_IF_NONE || op == Op::POP_JUMP_IF_NOT_NONE || (layout::kJumpNeedsBool && (op == Op::POP_JUMP_IF_TRUE || op == Op::POP_JUMP_IF_FALSE))) return true;
  return op == Op::POP_TOP || op == Op::PUSH_NULL || op == Op::COPY || op == Op::SWAP || op == Op::LOAD_CONST || op == Op::STORE_FAST || op == Op::RETURN_VALUE ||
         op == Op::RETURN_CONST || op == Op::PUSH_EXC_INFO || op == Op::POP_EXCEPT || op == Op::LOAD_CLOSURE || op == Op::NOP || op == Op::IS_OP;
}

bool leads_on(Op op) {
  return op == Op::NOP || op == Op::JUMP_FORWARD || op == Op::JUMP_BACKWARD || op == Op::JUMP_BACKWARD_NO_INTERRUPT;
}

bool only_leads_on(Op op) {
  return leads_on(op) || op == Op::RESUME || op == Op::MAKE_CELL || op == Op::COPY_FREE_VARS;
}

bool iterates(Op op) { return op == Op::FOR_ITER || op == Op::GET_ANEXT; }

bool jumps_if_true(Op op) { return op == Op::POP_JUMP_IF_TRUE || op == Op::POP_JUMP_IF_NONE || op == Op::JUMP_IF_TRUE_OR_POP; }

bool Graph::covered(int node, int by) const {
  int steps = 0;
  for (int at = handler[node]; at >= 0 && steps++ < 1000; at = handler[at]) {
    if (at == by) return true;
  }
  return false;
}

bool same_operand(const Code& a, int i, const Code& b, int j) {
  const Instruction& x = a.instructions[i];
  const Instruction& y = b.instructions[j];
  const auto* const p = a.code.as<PyCodeObject>();
  const auto* const q = b.code.as<PyCodeObject>();
  if (x.op == Op::CALL && x.arg2 >= 0 && y.arg2 >= 0 && layout::kKeywordNamesAreConstant) {
    return x.arg == y.arg && same_constant(constant(a, x.arg2), constant(b, y.arg2));
  }
  if (x.arg2 != y.arg2) return false;
  switch (bytecode::argument_kind(x.op)) {
    case bytecode::Argument::constant: return same_constant(constant(a, x.arg), constant(b, y.arg));
    case bytecode::Argument::name: return PyUnicode_Compare(PyTuple_GET_ITEM(p->co_names, x.arg), PyTuple_GET_ITEM(q->co_names, y.arg)) == 0;
    case bytecode::Argument::local:
      return PyUnicode_Compare(PyTuple_GET_ITEM(p->co_localsplusnames, x.arg), PyTuple_GET_ITEM(q->co_localsplusnames, y.arg)) == 0;
    case bytecode::Argument::jump: return true;
    case bytecode::Argument::none: return true;
    case bytecode::Argument::count:
    case bytecode::Argument::flags:
    case bytecode::Argument::oparg: return x.arg == y.arg;
  }
  return false;
}

Graph make_graph(const Code& code, const std::vector<int>& depths, const GraphOptions& options) { return Maker(code, depths, options).run(); }

}  // namespace evalframe::decompiler
