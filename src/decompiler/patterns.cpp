// match statements: patterns are read along the way on which they match; where they don't, tests jump to the next case.
#include <algorithm>
#include <map>
#include <string_view>

#include "bytecode/operators.h"
#include "decompiler/reader.h"

namespace evalframe::decompiler {

using bytecode::Instruction, bytecode::Op;

namespace {

bool is_load(Op op) {
  return op == Op::LOAD_CONST || op == Op::LOAD_NAME || op == Op::LOAD_GLOBAL || op == Op::LOAD_FAST || op == Op::LOAD_FAST_CHECK || op == Op::LOAD_DEREF ||
         op == Op::LOAD_CLASSDEREF || op == Op::LOAD_ATTR || op == Op::BUILD_TUPLE;
}

bool stores_name(Op op) { return op == Op::STORE_FAST || op == Op::STORE_NAME || op == Op::STORE_GLOBAL || op == Op::STORE_DEREF; }

bool tests_none(Op op) { return op == Op::POP_JUMP_IF_NONE || op == Op::POP_JUMP_IF_NOT_NONE; }

bool is_pattern(const Node* node) { return node->kind == Kind::Pattern; }

// Alternatives bind the same names, which are stored once for all.
void give_name(Node* pattern, const std::string& name) {
  pattern->text = name;
  for (Node* const other : pattern->handlers) give_name(other, name);
}

}  // namespace

// What a pattern has to match stands on the stack as a Pattern, which learns from each instruction what it is.
class Reader::Patterns {
 public:
  Patterns(Reader& reader, const Scope& scope) : reader_(reader), graph_(reader.graph_), tree_(reader.tree_), scope_(scope) {}

  // The cases from `node` on, where `stack` ends in the subject (and in the class and names that MATCH_CLASS takes).
  bool read_cases(int node, Stack stack, std::vector<Case>& cases) {
    Nodes above;
    if (op(node) == Op::MATCH_CLASS) above = reader_.pop(stack, 2);
    stack.pop_back();
    for (;;) {
      Case found;
      if (!read_case(node, stack, above, cases.empty(), found)) return false;
      above.clear();
      const int next = found.fails;
      const bool last = found.last || next < 0;
      cases.push_back(std::move(found));
      if (last) return true;
      if (cases.size() > 10'000) return false;
      node = next;
    }
  }

 private:
  struct Reading {
    int node;
    Stack stack;
    size_t through;           // size of the stack once the pattern has matched
    int fails = -1;           // where it goes on if it doesn't match
    std::vector<int> path;
  };

  Op op(int node) const { return graph_.at(node).op; }

  bool read_case(int node, const Stack& rest, const Nodes& above, bool first, Case& found) {
    found.pattern = tree_.make(Kind::Pattern);
    Reading only{node, rest, rest.size()};
    only.stack.push_back(found.pattern);
    only.stack.insert(only.stack.end(), above.begin(), above.end());
    // A name that is given on the way is one of a guard, or a walrus.
    const bool names = first && op(node) == Op::COPY && stores_name(op(graph_.next[node]));
    if (names && !is_guarded(graph_.next[graph_.next[node]])) return false;
    if (!names && read(only, -1)) return ends_last(only, found);
    found.pattern = tree_.make(Kind::Pattern);
    Reading one{node, rest, rest.size() + 1};
    one.stack.push_back(tree_.make(Kind::Subject));
    if (op(node) == Op::COPY && graph_.at(node).arg == 1) {
      one.node = graph_.next[node];
      one.stack.push_back(found.pattern);
      if (!read(one, -1)) return false;
    } else if (first) {
      return false;
    }
    return ends(one, found, first);
  }

  // Whether a test follows, with nothing before it but what it looks at.
  bool is_guarded(int node) const {
    for (int steps = 0; node >= 0 && steps < 40; steps++, node = graph_.next[node]) {
      const Op here = op(node);
      if (is_branch(here)) return graph_.depth[node] > 1;
      const bool looks = (is_load(here) && here != Op::BUILD_TUPLE) || here == Op::COMPARE_OP || here == Op::IS_OP || here == Op::CONTAINS_OP || here == Op::TO_BOOL || here == Op::CALL ||
                         here == Op::PUSH_NULL || here == Op::LOAD_METHOD || here == Op::BINARY_OP || here == Op::BINARY_SUBSCR || here == Op::UNARY_NOT;
      if (!looks) return false;
    }
    return false;
  }

  // The last case takes the subject itself. A guard is told from an `if` by the default case, where both lead if they fail.
  bool ends_last(const Reading& one, Case& found) {
    found.last = true;
    found.fails = one.fails;
    found.body = one.node;
    Condition guard;
    if (one.fails < 0 || !condition(one.node, one.stack, guard)) return true;
    if (guard.no != one.fails && guard.yes != one.fails) return true;
    return take_guard(guard, one.fails, found);
  }

  // Other cases take a copy, and drop the subject once the guard holds.
  bool ends(const Reading& one, Case& found, bool first) {
    found.fails = one.fails;
    int node = one.node;
    if (node == one.fails) {  // `if False`, of which nothing is left: the next case is tried where this one matches, too
      found.guard = tree_.constant(Py_False);
      return true;
    }
    if (op(node) != Op::POP_TOP) {
      Condition guard;
      if (!condition(node, one.stack, guard)) return false;
      const int fails = op(guard.yes) == Op::POP_TOP && graph_.depth[guard.yes] == static_cast<int>(one.stack.size()) && guard.yes != one.fails ? guard.no : guard.yes;
      if (one.fails >= 0 && one.fails != fails) return false;
      found.fails = fails;
      node = fails == guard.no ? guard.yes : guard.no;
      if (!take_guard(guard, fails, found) || op(node) != Op::POP_TOP || graph_.depth[fails] != static_cast<int>(one.stack.size())) return false;
    } else if (first && one.fails < 0) {
      return false;
    }
    if (graph_.depth[node] != static_cast<int>(one.stack.size())) return false;
    found.body = graph_.next[node];
    return true;
  }

  bool take_guard(const Condition& guard, int fails, Case& found) {
    found.guard = guard.no == fails ? guard.test : reader_.negated(guard.test);
    found.body = guard.no == fails ? guard.yes : guard.no;
    return true;
  }

  bool condition(int node, Stack stack, Condition& found) {
    const Trying trying(reader_);
    Scope inner = within(scope_, -1);
    inner.expression = true;
    Nodes out;
    try {
      const End end = reader_.run(node, stack, inner, out);
      if (end.how != How::tests || !out.empty()) return false;
      found = end.condition;
      return !found.yes_keeps && !found.no_keeps;
    } catch (const Refused&) {
      return false;
    }
  }

  // Reads on until the pattern is through, or up to `stop`.
  bool read(Reading& one, int stop) {
    for (bool begun = false; one.node >= 0; begun = true) {
      reader_.work();
      if (one.node == stop) return true;
      if (begun && one.stack.size() == one.through) return stop < 0;
      one.path.push_back(one.node);
      if (!step(one)) return false;
    }
    return false;
  }

  bool step(Reading& one) {
    const Instruction& instruction = graph_.at(one.node);
    const size_t size = one.stack.size();
    if (size <= one.through && size < 1) return false;
    if (is_branch(instruction.op)) return test(one);
    if (instruction.op == Op::COPY && instruction.arg == 1 && size > one.through && is_pattern(one.stack.back()) && alternatives(one)) return true;
    const bool done = is_load(instruction.op) || instruction.op == Op::COPY || instruction.op == Op::SWAP ? load(one) : match(one, instruction);
    one.node = graph_.next[one.node];
    return done && one.stack.size() >= one.through;
  }

  bool load(Reading& one) { return reader_.step_load(one.node, one.stack) || (op(one.node) == Op::BUILD_TUPLE && build_keys(one)); }

  bool build_keys(Reading& one) {
    Nodes keys = reader_.pop(one.stack, static_cast<size_t>(graph_.at(one.node).arg));
    one.stack.push_back(tree_.make(Kind::Tuple, std::move(keys)));
    return true;
  }

  // The node that a test leads to if it fails, behind what it drops.
  int behind_drops(int node, size_t through) const {
    while (op(node) == Op::POP_TOP && graph_.depth[node] > static_cast<int>(through)) node = graph_.next[node];
    return node;
  }

  bool test(Reading& one) {
    const Op jump = op(one.node);
    Node* const tested = reader_.pop(one.stack);
    bool wanted = true;  // the test has to be true; of None: it has to be None
    if (tests_none(jump)) {
      wanted = is_pattern(tested);
      if (!wanted && tested->kind != Kind::Parts) return false;
      if (wanted && !becomes(tested, tree_.constant(Py_None))) return false;
    } else if (tested->kind != Kind::Tested) {
      return false;
    }
    const bool jumps = jumps_if_true(jump) == wanted;
    const int fails = behind_drops(jumps ? graph_.next[one.node] : graph_.jump[one.node], one.through);
    if (one.fails >= 0 && one.fails != fails) return false;
    one.fails = fails;
    one.node = jumps ? graph_.jump[one.node] : graph_.next[one.node];
    return true;
  }

  static bool becomes(Node* pattern, Node* what) {
    if (!is_pattern(pattern) || !pattern->items.empty()) return false;
    pattern->items = {what};
    return true;
  }

  // What the pattern is known to be, if it is of that kind.
  static Node* known(Node* pattern, Kind kind) {
    return is_pattern(pattern) && !pattern->items.empty() && pattern->items[0]->kind == kind ? pattern->items[0] : nullptr;
  }

  bool match(Reading& one, const Instruction& instruction) {
    Stack& stack = one.stack;
    switch (instruction.op) {
      case Op::MATCH_SEQUENCE: return begins(stack, tree_.make(Kind::SequencePattern, {}, {}, -1));
      case Op::MATCH_MAPPING: return begins(stack, tree_.make(Kind::MappingPattern));
      case Op::MATCH_CLASS: return match_class(stack, static_cast<size_t>(instruction.arg));
      case Op::MATCH_KEYS: return match_keys(stack);
      case Op::GET_LEN: stack.push_back(tree_.make(Kind::Measured, {stack.back()})); return true;
      case Op::COMPARE_OP:
      case Op::IS_OP: return compare(stack, instruction);
      case Op::TO_BOOL: return stack.back()->kind == Kind::Tested;
      case Op::BINARY_OP: return index_from_end(stack);
      case Op::BINARY_SUBSCR: return element(stack);
      case Op::UNPACK_SEQUENCE:
      case Op::UNPACK_EX: return unpack(stack, instruction);
      case Op::BUILD_MAP:
        stack.push_back(tree_.make(Kind::Pattern));
        return instruction.arg == 0;
      case Op::DICT_UPDATE: return take_rest(stack);
      case Op::DELETE_SUBSCR: reader_.pop(stack, 2); return true;
      case Op::POP_TOP: return dropped(reader_.pop(stack));
      default: break;
    }
    if (!stores_name(instruction.op)) return false;
    Node* const bound = reader_.pop(stack);
    if (!is_pattern(bound) || !bound->text.empty()) return false;
    const bool is_local = instruction.op == Op::STORE_FAST || instruction.op == Op::STORE_DEREF;
    give_name(bound, is_local ? reader_.local(instruction.arg) : reader_.global(instruction.arg));
    return true;
  }

  bool begins(Stack& stack, Node* what) {
    Node* const pattern = stack.back();
    stack.push_back(tree_.make(Kind::Tested));
    return becomes(pattern, what);
  }

  bool match_class(Stack& stack, size_t positional) {
    const Nodes parts = reader_.pop(stack, 3);
    if (parts[2]->kind != Kind::Constant || !PyTuple_Check(parts[2]->constant)) return false;
    Node* const made = tree_.make(Kind::ClassPattern, {parts[1]}, {}, static_cast<int>(positional));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts[2]->constant); i++) {
      const char* const text = PyUnicode_Check(PyTuple_GET_ITEM(parts[2]->constant, i)) ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(parts[2]->constant, i)) : nullptr;
      if (text == nullptr) {
        PyErr_Clear();
        return false;
      }
      made->names.push_back(text);
    }
    stack.push_back(tree_.make(Kind::Parts, {made}));
    return becomes(parts[0], made);
  }

  bool match_keys(Stack& stack) {
    Node* const keys = reader_.pop(stack);
    Node* const mapping = known(stack.back(), Kind::MappingPattern);
    Nodes all = keys->items;
    if (keys->kind == Kind::Constant && PyTuple_Check(keys->constant)) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys->constant); i++) all.push_back(tree_.constant(PyTuple_GET_ITEM(keys->constant, i)));
    } else if (keys->kind != Kind::Tuple) {
      return false;
    }
    if (mapping == nullptr || !mapping->items.empty()) return false;
    for (Node* const key : all) mapping->items.insert(mapping->items.end(), {key, nullptr});
    stack.push_back(tree_.make(Kind::Special));
    stack.push_back(tree_.make(Kind::Parts, {mapping}));
    return true;
  }

  bool compare(Stack& stack, const Instruction& instruction) {
    const Nodes two = reader_.pop(stack, 2);
    stack.push_back(tree_.make(Kind::Tested));
    const std::string_view symbol = instruction.op == Op::IS_OP ? "is" : static_cast<size_t>(instruction.arg) < std::size(bytecode::kCompareSymbols) ? bytecode::kCompareSymbols[instruction.arg] : "";
    if (two[0]->kind == Kind::Measured) {
      if (two[1]->kind != Kind::Constant || !PyLong_Check(two[1]->constant)) return false;
      Node* const sequence = known(two[0]->items[0], Kind::SequencePattern);
      const long count = PyLong_AsLong(two[1]->constant);
      if (count < 0 || count > 10'000) {
        PyErr_Clear();
        return false;
      }
      if (sequence == nullptr) return symbol == ">=";
      sequence->number = static_cast<int>(count);
      if (symbol == ">=") sequence->text = "*";
      return true;
    }
    if (instruction.op == Op::IS_OP) {
      if (instruction.arg != 0 || two[1]->kind != Kind::Constant) return false;
    } else if (symbol != "==") {
      return false;
    }
    return (two[1]->kind == Kind::Constant || two[1]->kind == Kind::Attribute) && becomes(two[0], two[1]);
  }

  // len(sequence) - i
  bool index_from_end(Stack& stack) {
    const Nodes two = reader_.pop(stack, 2);
    if (two[0]->kind != Kind::Measured || two[1]->kind != Kind::Constant || !PyLong_Check(two[1]->constant)) return false;
    const long back = PyLong_AsLong(two[1]->constant);
    if (back < 1 || back > 10'000) {
      PyErr_Clear();
      return false;
    }
    stack.push_back(tree_.make(Kind::Measured, two[0]->items, {}, static_cast<int>(back)));
    return true;
  }

  // [first, *_, last]: elements are looked up where there is a `*_`.
  bool element(Stack& stack) {
    const Nodes two = reader_.pop(stack, 2);
    if (!is_pattern(two[0])) return false;
    long index = 0;
    if (two[1]->kind == Kind::Measured) index = -two[1]->number;
    else if (two[1]->kind == Kind::Constant && PyLong_Check(two[1]->constant)) index = PyLong_AsLong(two[1]->constant);
    else return false;
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    Node* const part = tree_.make(Kind::Pattern);
    if (Node* const sequence = known(two[0], Kind::SequencePattern)) {
      const long place = index < 0 ? index + sequence->number + 1 : index;
      if (place < 0 || place > sequence->number) return false;
      if (sequence->items.empty()) sequence->items.assign(static_cast<size_t>(sequence->number) + 1, nullptr);
      sequence->items[static_cast<size_t>(place)] = part;
      if (index < 0 && (sequence->names.empty() || place < std::stol(sequence->names[0]))) sequence->names = {std::to_string(place)};
    }
    stack.push_back(part);
    return true;
  }

  bool unpack(Stack& stack, const Instruction& instruction) {
    const bool starred = instruction.op == Op::UNPACK_EX;
    const int before = instruction.arg & 0xFF, count = starred ? before + 1 + (instruction.arg >> 8) : instruction.arg;
    if (count > 10'000) return false;
    Node* const whole = reader_.pop(stack);
    Nodes parts;
    for (int i = 0; i < count; i++) parts.push_back(tree_.make(whole->kind == Kind::Special ? Kind::Special : Kind::Pattern));
    if (starred) parts[static_cast<size_t>(before)]->number = 1;
    stack.insert(stack.end(), parts.rbegin(), parts.rend());
    if (whole->kind == Kind::Parts) return take_parts(whole->items[0], parts);
    if (whole->kind == Kind::Special) return true;
    Node* const sequence = known(whole, Kind::SequencePattern);
    if (sequence == nullptr || !sequence->items.empty()) return false;
    sequence->items = parts;
    sequence->number = 0;
    return true;
  }

  static bool take_parts(Node* whole, const Nodes& parts) {
    if (whole->kind == Kind::ClassPattern) {
      whole->items.insert(whole->items.end(), parts.begin(), parts.end());
      return parts.size() == static_cast<size_t>(whole->number) + whole->names.size();
    }
    if (whole->items.size() != 2 * parts.size()) return false;
    for (size_t i = 0; i < parts.size(); i++) whole->items[2 * i + 1] = parts[i];
    return true;
  }

  // {**rest}
  bool take_rest(Stack& stack) {
    Node* const from = reader_.pop(stack);
    Node* const mapping = known(from, Kind::MappingPattern);
    if (stack.size() < 2) return false;
    Node* const rest = stack[stack.size() - 2];
    if (!is_pattern(rest)) return false;
    if (mapping) {
      mapping->last = {rest};
      mapping->text = "done";
    }
    return true;
  }

  // A value that was compared or taken apart is gone; the one that alternatives had copies of isn't, nor one of which nothing is looked at.
  bool dropped(Node* value) {
    if (!is_pattern(value)) return value->kind == Kind::Special || value->kind == Kind::Parts;
    if (value->items.empty()) return value->text.empty();
    Node* const what = value->items[0];
    if (what->text == "done" || !value->text.empty()) return false;
    if (what->kind == Kind::OrPattern || what->kind == Kind::MappingPattern) {
      what->text = "done";
      return true;
    }
    if (what->kind != Kind::SequencePattern) return false;
    if (what->number == 0 && !what->items.empty()) return false;
    fill(what);
    return true;
  }

  // What isn't looked at: [_, _] and [first, *_].
  void fill(Node* sequence) {
    const bool starred = sequence->text == "*" || sequence->number < 0;
    const size_t count = sequence->number < 0 ? 0 : static_cast<size_t>(sequence->number);
    size_t star = count;
    if (!sequence->names.empty()) star = static_cast<size_t>(std::stol(sequence->names[0])) - 1;
    while (starred && star > 0 && star < sequence->items.size() && sequence->items[star] != nullptr) star--;
    sequence->items.resize(count + (starred ? 1 : 0), nullptr);
    for (size_t i = 0; i < sequence->items.size(); i++) {
      Node*& part = sequence->items[i];
      if (part == nullptr) part = tree_.make(Kind::Pattern);
      if (starred && i == star) part->number = 1;
    }
    sequence->text = "done";
  }

  // The stack as an attempt may change it.
  Stack fresh(const Stack& stack) {
    std::map<const Node*, Node*> copies;
    Stack all;
    for (Node* const value : stack) {
      if (!is_pattern(value)) {
        all.push_back(value);
        continue;
      }
      Node*& copy = copies[value];
      if (copy == nullptr) copy = tree_.make(Kind::Pattern);
      all.push_back(copy);
    }
    return all;
  }

  // a | b: each matches a copy of the value, and where one doesn't match, the next gets another. Behind them all go on in one place.
  bool alternatives(Reading& one) {
    std::vector<int> starts, shared;  // of the first one's nodes those that all others come to
    for (int start = one.node; start >= 0;) {
      Reading trial{graph_.next[start], fresh(one.stack), one.through};
      trial.stack.push_back(tree_.make(Kind::Pattern));
      read(trial, -1);
      if (starts.empty()) shared = trial.path;
      else std::erase_if(shared, [&](int at) { return std::find(trial.path.begin(), trial.path.end(), at) == trial.path.end(); });
      // Cases that follow look like alternatives: each of them would be walked through again for each before it.
      if (shared.empty()) return false;
      starts.push_back(start);
      const int next = trial.fails;
      const bool goes_on = next >= 0 && op(next) == Op::COPY && graph_.at(next).arg == 1 && graph_.depth[next] == static_cast<int>(one.stack.size());
      start = goes_on && std::find(starts.begin(), starts.end(), next) == starts.end() ? next : -1;
    }
    return starts.size() > 1 && take_alternatives(one, starts, shared.front());
  }

  bool take_alternatives(Reading& one, const std::vector<int>& starts, int end) {
    std::vector<Stack> bound;
    Node* const any = tree_.make(Kind::OrPattern);
    int fails = one.fails;
    for (size_t i = 0; i < starts.size(); i++) {
      Node* const pattern = tree_.make(Kind::Pattern);
      Reading exact{graph_.next[starts[i]], one.stack, one.through};
      exact.stack.push_back(pattern);
      if (!read(exact, end) || exact.stack.size() < one.stack.size()) return false;
      if (i + 1 < starts.size() && exact.fails != starts[i + 1]) return false;
      if (i + 1 == starts.size() && exact.fails >= 0) {
        if (fails >= 0 && fails != exact.fails) return false;
        fails = exact.fails;
      }
      any->items.push_back(pattern);
      bound.emplace_back(exact.stack.begin() + static_cast<std::ptrdiff_t>(one.stack.size()), exact.stack.end());
      if (bound.back().size() != bound[0].size() || !std::all_of(bound.back().begin(), bound.back().end(), is_pattern)) return false;
    }
    if (!becomes(one.stack.back(), any)) return false;
    for (size_t k = 0; k < bound[0].size(); k++) {
      Node* const shared = tree_.make(Kind::Pattern);
      for (const Stack& each : bound) shared->handlers.push_back(each[k]);
      one.stack.push_back(shared);
    }
    one.fails = fails;
    one.node = end;
    return true;
  }

  Reader& reader_;
  const Graph& graph_;
  Tree& tree_;
  const Scope& scope_;
};

// Whether a match statement's first case may start here; `read_cases` tells whether it does.
bool Reader::may_start_match(int node, const Stack& stack) const {
  const Instruction& instruction = graph_.at(node);
  if (stack.empty()) return false;
  if (instruction.op == Op::MATCH_CLASS) return stack.size() >= 3;
  if (instruction.op == Op::MATCH_SEQUENCE || instruction.op == Op::MATCH_MAPPING) return true;
  if (instruction.op != Op::COPY || instruction.arg != 1 || graph_.next[node] < 0) return false;
  const Op next = graph_.at(graph_.next[node]).op;
  return (is_load(next) && next != Op::LOAD_ATTR && next != Op::BUILD_TUPLE) || stores_name(next) || next == Op::POP_TOP || tests_none(next) || next == Op::MATCH_SEQUENCE || next == Op::MATCH_MAPPING ||
         (next == Op::COPY && graph_.at(graph_.next[node]).arg == 1);
}

bool Reader::read_cases(int node, const Stack& stack, const Scope& scope, std::vector<Case>& cases) {
  if (!may_start_match(node, stack)) return false;
  try {
    return Patterns(*this, scope).read_cases(node, stack, cases);
  } catch (const Refused&) {
    return false;
  }
}

// Where the code goes on behind all cases, or -1.
int Reader::behind_cases(std::vector<Case> cases, const Scope& scope) {
  const int otherwise = cases.back().fails;
  std::erase_if(cases, [](const Case& one) { return one.body < 0; });
  for (const Case& one : cases) {
    if (const int join = otherwise >= 0 ? meet(one.body, otherwise, scope) : -1; join >= 0) return join;
  }
  for (size_t i = 1; i < cases.size(); i++) {
    if (const int join = meet(cases[0].body, cases[i].body, scope); join >= 0) return join;
    if (const int join = meet(cases[i - 1].body, cases[i].body, scope); join >= 0) return join;
  }
  return -1;
}

int Reader::match_statement(int node, const std::vector<Case>& cases, Stack& stack, const Scope& scope, Nodes& out) {
  if (graph_.at(node).op == Op::MATCH_CLASS) pop(stack, 2);
  Node* const statement = tree_.make(Kind::MatchStatement, {pop(stack)});
  out.push_back(statement);
  const int join = behind_cases(cases, scope), otherwise = cases.back().fails;
  const int stop = join >= 0 ? join : scope.stop;
  bool falls = false;
  const auto add = [&](Node* pattern, Node* guard, int body) {
    Node* const one = tree_.make(Kind::Case, {pattern, guard});
    Stack own = stack;
    if (body >= 0 && body != join) falls = run(body, own, within(scope, stop), one->body).how == How::falls || falls;
    statement->handlers.push_back(one);
  };
  for (const Case& one : cases) add(one.pattern, one.guard, one.body);
  if (join < 0 && (!falls || otherwise < 0)) return otherwise;
  if (otherwise >= 0 && otherwise != stop) add(tree_.make(Kind::Pattern), nullptr, otherwise);
  return stop;
}

}  // namespace evalframe::decompiler
