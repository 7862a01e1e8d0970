#include "decompiler/compare.h"

#include <algorithm>
#include <set>

#include "bytecode/stack.h"
#include "cpython/docstrings.h"
#include "cpython/layout.h"
#include "cpython/variables.h"
#include "decompiler/graph.h"

namespace evalframe::decompiler {
namespace {

using bytecode::Code, bytecode::Instruction, bytecode::Op;

PyCodeObject* object(const Code& code) { return code.code.as<PyCodeObject>(); }

class Comparer {
 public:
  Comparer(const Code& a, const Code& b) : a_(a), b_(b) {}

  bool same_order() {
    const std::vector<int> left = kept(a_), right = kept(b_);
    std::vector<int> place_a = places(a_, left), place_b = places(b_, right);
    if (left.size() != right.size()) return fail(-1, std::to_string(left.size()) + " and " + std::to_string(right.size()) + " instructions");
    for (size_t i = 0; i < left.size(); i++) {
      const Instruction& x = a_.instructions[left[i]];
      const Instruction& y = b_.instructions[right[i]];
      if (x.op != y.op || !same(left[i], right[i])) return fail(left[i], std::string("written again it is ") + bytecode::name(y.op));
      if (x.target >= 0 && place_a[x.target] != place_b[y.target]) return fail(left[i], "written again it jumps elsewhere");
      const auto* const p = a_.handler(left[i]);
      const auto* const q = b_.handler(right[i]);
      if ((p == nullptr) != (q == nullptr)) return fail(left[i], "written again it has another handler");
      if (p && (place_a[p->target] != place_b[q->target] || p->depth != q->depth || p->push_lasti != q->push_lasti)) return fail(left[i], "written again it has another handler");
    }
    return true;
  }

  // Walks both at once, over all ways.
  bool same_ways() {
    reach(0, 0);
    while (!open_.empty()) {
      const auto [i, j] = open_.back();
      open_.pop_back();
      if (!same_step(i, j)) return false;
    }
    return true;
  }

  std::string difference;
  std::vector<std::pair<int, int>> pairs;
  std::vector<std::pair<PyObject*, PyObject*>> nested;

 private:
  static std::vector<int> kept(const Code& code) {
    std::vector<int> kept;
    for (size_t i = 0; i < code.instructions.size(); i++) if (code.instructions[i].op != Op::NOP) kept.push_back(static_cast<int>(i));
    return kept;
  }
  // Of each instruction: how many kept ones stand before it.
  static std::vector<int> places(const Code& code, const std::vector<int>& kept) {
    std::vector<int> places(code.instructions.size() + 1, static_cast<int>(kept.size()));
    for (size_t i = kept.size(); i-- > 0;) places[kept[i]] = static_cast<int>(i);
    for (size_t i = code.instructions.size(); i-- > 0;) if (code.instructions[i].op == Op::NOP) places[i] = places[i + 1];
    return places;
  }

  bool fail(int index, std::string what) {
    if (!difference.empty()) return false;
    difference = std::move(what);
    if (index >= 0) difference = "instruction " + std::to_string(index) + " (" + bytecode::name(a_.instructions[index].op) + "), line " + std::to_string(a_.positions[index].line) + ": " + difference;
    return false;
  }

  bool same(int i, int j) {
    pairs.push_back({i, j});
    if (is_told_of_class(a_, i) && is_told_of_class(b_, j)) return true;
    if (!same_operand(a_, i, b_, j)) return false;
    if (a_.instructions[i].op == Op::LOAD_CONST) {
      PyObject* const x = PyTuple_GET_ITEM(object(a_)->co_consts, a_.instructions[i].arg);
      PyObject* const y = PyTuple_GET_ITEM(object(b_)->co_consts, b_.instructions[j].arg);
      if (PyCode_Check(x) && std::find(nested.begin(), nested.end(), std::pair(x, y)) == nested.end()) nested.push_back({x, y});
    }
    return true;
  }

  // What the compiler has a class's own code store: its qualified name, which tells of the surroundings; in 3.13 its line first of all, and last of
  // all the attributes that its methods store, which are compared themselves.
  static bool is_told_of_class(const Code& code, int index) {
    const auto count = static_cast<int>(code.instructions.size());
    const auto stores = [&](int i, const char* name) {
      const Instruction& one = code.instructions[static_cast<size_t>(i)];
      return one.op == Op::STORE_NAME && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(object(code)->co_names, one.arg), name) == 0;
    };
    const auto none_stores = [&](int first, int end, const char* name) {
      for (int i = first; i < end; i++) {
        if (stores(i, name)) return false;
      }
      return true;
    };
    if (code.instructions[static_cast<size_t>(index)].op != Op::LOAD_CONST || index + 1 >= count) return false;
    constexpr const char *kName = "__qualname__", *kLine = "__firstlineno__", *kAttributes = "__static_attributes__";
    if (stores(index + 1, kName)) {
      PyObject* const stored = PyTuple_GET_ITEM(object(code)->co_consts, code.instructions[static_cast<size_t>(index)].arg);
      return none_stores(0, index, kName) && PyUnicode_Check(stored) && PyUnicode_Compare(stored, object(code)->co_qualname) == 0;
    }
    if (stores(index + 1, kLine)) return none_stores(0, index, kLine);
    // Each way out of the code ends so, with the cell for `super()` behind it.
    int last = index + 2;
    while (last < count && bytecode::flow(code.instructions[static_cast<size_t>(last)].op) == bytecode::Flow::next && last < index + 7) last++;
    return stores(index + 1, kAttributes) && last < count && bytecode::flow(code.instructions[static_cast<size_t>(last)].op) == bytecode::Flow::stop && none_stores(index + 2, last, kAttributes);
  }

  static int resolve(const Code& code, int index) {
    for (size_t steps = 0; leads_on(code.instructions[index].op) && steps <= code.instructions.size(); steps++) {
      const Instruction& instruction = code.instructions[index];
      index = instruction.target >= 0 ? instruction.target : index + 1;
    }
    return index;
  }

  void reach(int i, int j) {
    i = resolve(a_, i);
    j = resolve(b_, j);
    if (seen_.insert({i, j}).second) open_.push_back({i, j});
  }

  bool same_step(int i, int j) {
    const Instruction& x = a_.instructions[i];
    const Instruction& y = b_.instructions[j];
    // An endless loop of nothing: where it stands doesn't matter.
    if (leads_on(x.op) && leads_on(y.op)) return true;
    const bool turned = x.op != y.op && is_branch(x.op) && is_branch(y.op) && opposite(x.op) == y.op;
    if ((x.op != y.op && !turned) || !same(i, j)) return fail(i, std::string("written again it is ") + bytecode::name(y.op));
    if (!never_raises(x.op)) {
      const auto* const p = a_.handler(i);
      const auto* const q = b_.handler(j);
      if ((p == nullptr) != (q == nullptr) || (p && (p->depth != q->depth || p->push_lasti != q->push_lasti))) return fail(i, "written again it has another handler");
      if (p) reach(p->target, q->target);
    }
    const bytecode::Flow flow = bytecode::flow(x.op);
    const int skip = x.op == Op::FOR_ITER ? cpython::layout::kForIterSkip : 0;
    if (turned) {
      reach(i + 1, y.target);
      reach(x.target, j + 1);
    } else {
      if (flow == bytecode::Flow::next || flow == bytecode::Flow::branch) reach(i + 1, j + 1);
      if (flow == bytecode::Flow::branch || flow == bytecode::Flow::jump) reach(x.target + skip, y.target + skip);
    }
    return true;
  }

  static Op opposite(Op op) {
    switch (op) {
      case Op::POP_JUMP_IF_TRUE: return Op::POP_JUMP_IF_FALSE;
      case Op::POP_JUMP_IF_FALSE: return Op::POP_JUMP_IF_TRUE;
      case Op::POP_JUMP_IF_NONE: return Op::POP_JUMP_IF_NOT_NONE;
      case Op::POP_JUMP_IF_NOT_NONE: return Op::POP_JUMP_IF_NONE;
      default: return Op::NOP;
    }
  }

  const Code& a_;
  const Code& b_;
  std::set<std::pair<int, int>> seen_;
  std::vector<std::pair<int, int>> open_;
};

std::vector<std::string> names_of(const PyCodeObject* code, int from, int to, bool sorted) {
  std::vector<std::string> names;
  for (int i = from; i < to; i++) {
    const char* const text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_localsplusnames, i));
    if (!text) PyErr_Clear();
    names.push_back(text ? text : "?");
  }
  if (sorted) std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string head_difference(PyCodeObject* x, PyCodeObject* y, bool top) {
  const int ignored = top ? CO_NESTED : 0;
  if ((x->co_flags & ~ignored) != (y->co_flags & ~ignored)) return "flags " + std::to_string(x->co_flags) + " and " + std::to_string(y->co_flags);
  if (x->co_argcount != y->co_argcount || x->co_posonlyargcount != y->co_posonlyargcount || x->co_kwonlyargcount != y->co_kwonlyargcount) return "other parameters";
  const int arguments = cpython::argument_count(x);
  if (names_of(x, 0, arguments, false) != names_of(y, 0, arguments, false)) return "other parameters";
  if (x->co_nfreevars != y->co_nfreevars || names_of(x, x->co_nlocalsplus - x->co_nfreevars, x->co_nlocalsplus, true) != names_of(y, y->co_nlocalsplus - y->co_nfreevars, y->co_nlocalsplus, true)) {
    return "other free variables";
  }
  PyObject* const p = docstring_of(x);
  PyObject* const q = docstring_of(y);
  if ((p == nullptr) != (q == nullptr) || (p && PyUnicode_Compare(p, q) != 0)) return "another docstring";
  return PyUnicode_Compare(x->co_name, y->co_name) == 0 ? "" : "another name";
}

const char* name(Status status) {
  switch (status) {
    case Status::exact: return "exact";
    case Status::machine: return "state machine";
    case Status::equivalent: return "equivalent";
    case Status::refused: return "refused";
  }
  return "";
}

PyObject* docstring_of(const PyCodeObject* code) {
  if (!(code->co_flags & CO_NEWLOCALS) || !(code->co_flags & CO_OPTIMIZED) || PyTuple_GET_SIZE(code->co_consts) == 0) return nullptr;
  const char* const name = PyUnicode_AsUTF8(code->co_name);
  if (name == nullptr) PyErr_Clear();
  if (name == nullptr || name[0] == '<') return nullptr;
  if (cpython::kDocstringFlag != 0 && !(code->co_flags & cpython::kDocstringFlag)) return nullptr;
  PyObject* const first = PyTuple_GET_ITEM(code->co_consts, 0);
  return PyUnicode_Check(first) ? first : nullptr;
}

Comparison compare(const Code& a, const Code& b, bool top) {
  Comparison result;
  result.difference = head_difference(object(a), object(b), top);
  if (!result.difference.empty()) return result;
  Comparer exact(a, b);
  if (exact.same_order()) {
    result.status = Status::exact;
    result.nested = exact.nested;
    result.pairs = exact.pairs;
    return result;
  }
  result.difference = exact.difference;
  Comparer equivalent(a, b);
  if (equivalent.same_ways()) {
    result.status = Status::equivalent;
    result.nested = equivalent.nested;
    result.pairs = equivalent.pairs;
  } else {
    result.difference = equivalent.difference;
  }
  return result;
}

}  // namespace evalframe::decompiler
