#include "decompiler/reader.h"

#include <algorithm>
#include <queue>

namespace evalframe::decompiler {

using bytecode::Op;

namespace {

constexpr int kDeepestStatement = 300;
constexpr int64_t kWork = 400;  // for each instruction

// Whether the parts of an `and` or `or` may be those of the one around it.
bool joins(const Node* node, Kind kind) { return node->kind == kind && node->number != kOnItsOwnLine; }

bool constant_and_return(const Graph& graph, int node) {
  const Op op = graph.at(node).op;
  return op == Op::RETURN_CONST || (op == Op::LOAD_CONST && graph.next[node] >= 0 && graph.at(graph.next[node]).op == Op::RETURN_VALUE);
}

}  // namespace

Reader::Reader(Tree& tree, const bytecode::Code& code, Graph graph, ReadNested nested, const ConstantNames& names)
    : tree_(tree), code_(code), graph_(std::move(graph)), nested_(std::move(nested)), constant_names_(names) {}

Nodes Reader::read() {
  Nodes out;
  Stack stack;
  run(graph_.entry, stack, {}, out);
  return out;
}

void Reader::work(int amount) {
  work_ += amount;
  if (work_ > kWork * graph_.size() + 500'000) throw Refused("it would take too much work to find its structure");
}

Reader::Scope Reader::within(const Scope& scope, int stop) {
  Scope inner = scope;
  inner.entered = -1;
  inner.alone = false;
  if (stop != scope.stop) {
    if (scope.stop >= 0) inner.blocked.push_back(scope.stop);
    inner.stop = stop;
  }
  return inner;
}

// Whether reading ends at `node`, for what reason ever.
bool Reader::at_end(int node, const Scope& scope, Nodes& out, End& end) {
  if (node == scope.stop) {
    end = {How::falls, node, end.via};
  } else if (node == scope.again || node == scope.leave) {
    out.push_back(tree_.make(node == scope.again ? Kind::Continue : Kind::Break));
    end = {How::ends};
  } else if (std::find(scope.blocked.begin(), scope.blocked.end(), node) != scope.blocked.end()) {
    if (constant_and_return(graph_, node)) return false;
    throw Refused("a jump out of the statement around it");
  } else {
    return false;
  }
  return true;
}

Reader::End Reader::run(int node, Stack& stack, const Scope& scope, Nodes& out) {
  struct Level {
    int& depth;
    explicit Level(int& value) : depth(value) {
      if (++depth > kDeepestStatement) throw Refused("statements nested too deeply");
    }
    ~Level() { depth--; }
  } const level(depth_);
  End end{How::ends};
  bool first = true;
  while (node >= 0) {
    work();
    if (scope.construct && node != scope.stop && !graph_.covered(node, scope.handler)) return leave(node, stack, scope, out);
    const bool begins_turn = first && node == scope.entered;
    first = false;
    if (!begins_turn && at_end(node, scope, out, end)) return end;
    if (scope.expression && !out.empty()) return {How::ends};
    const bool starts_loop = (graph_.header[node] || iterates(graph_.at(node).op)) && !begins_turn;
    const int handler = outermost_new(node, scope);
    if (starts_loop && (handler < 0 || !loop_is_inside(node, handler))) {
      node = loop(node, stack, scope, out);
      end.via = -1;
      continue;
    }
    if (handler >= 0) {
      node = try_statement(node, handler, stack, scope, out);
      end.via = -1;
      continue;
    }
    const Op op = graph_.at(node).op;
    if (is_branch(op)) {
      node = branch(node, stack, scope, out, end);
      continue;
    }
    if (op == Op::BEFORE_WITH || op == Op::BEFORE_ASYNC_WITH) {
      node = with_statement(node, stack, scope, out);
      end.via = -1;
      continue;
    }
    if (std::vector<Case> cases; read_cases(node, stack, scope, cases)) {
      if (scope.expression) return {How::ends};
      node = match_statement(node, cases, stack, scope, out);
      end.via = -1;
      continue;
    }
    step(node, stack, out);
    const bool jumps = graph_.next[node] < 0;
    end.via = jumps ? graph_.via_jump[node] : graph_.via_next[node];
    node = jumps ? graph_.jump[node] : graph_.next[node];
  }
  return end;
}

bool Reader::absorbs(int node, const Scope& scope) const {
  return node == scope.stop || node == scope.again || node == scope.leave ||
         std::find(scope.blocked.begin(), scope.blocked.end(), node) != scope.blocked.end() ||
         (scope.construct && !graph_.covered(node, scope.handler));
}

// The first node that both ways come to, or -1. Ends of the statements around count only where they can be come to by going on.
int Reader::meet(int a, int b, const Scope& scope) {
  if (scope.construct) return find_meeting(a, b, scope);  // what is known of its ends changes
  const auto [known, is_new] = meetings_.try_emplace({a, b, scope.stop, scope.again, scope.leave, scope.handler, ends_of(scope)}, -1);
  if (is_new) known->second = find_meeting(a, b, scope);
  return known->second;
}

std::vector<int> Reader::ends_of(const Scope& scope) {
  std::vector<int> ends = scope.blocked;
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

// Whether all that were come to lead to it itself, and none to a copy of it.
bool Reader::is_one_place(int node, const std::vector<char>& ways) const {
  int own = -1;
  for (const int before : graph_.before[node]) {
    if (!ways[before]) continue;
    const int to = graph_.next[before] == node ? graph_.own_next[before] : graph_.own_jump[before];
    if (own >= 0 && own != to) return false;
    own = to;
  }
  return true;
}

int Reader::find_meeting(int a, int b, const Scope& scope) {
  std::map<int, std::pair<int, int>> open;  // by place in the order: node, which ways (1, 2)
  std::vector<char> ways(graph_.size(), 0);
  int pending[3] = {};           // how many of the open ones each way has come to
  bool comes_again[3] = {};      // something may jump back to where it has been
  const auto reach = [&](int node, int way) {
    if ((ways[node] & way) == way) return;
    const bool is_open = open.contains(graph_.order[node]);
    for (const int each : {1, 2}) {
      if (((ways[node] | way) & each) && !(is_open && (ways[node] & each))) pending[each]++;
      if (way & each) comes_again[each] = comes_again[each] || graph_.header[node];
    }
    ways[node] = static_cast<char>(ways[node] | way);
    open[graph_.order[node]] = {node, ways[node]};
  };
  int exit = -1, exit_ways = 0;
  const auto is_over = [&](int way) { return !pending[way] && !comes_again[way] && !(exit_ways & way); };
  reach(a, 1);
  reach(b, 2);
  while (!open.empty()) {
    if (is_over(1) || is_over(2)) return -1;
    const int node = open.begin()->second.first;
    open.erase(open.begin());
    work();
    const int way = ways[node];
    for (const int each : {1, 2}) pending[each] -= (way & each) != 0;
    if (absorbs(node, scope)) {
      const bool outside = scope.construct && !graph_.covered(node, scope.handler);
      const auto known = outside ? scope.construct->unwound.find(node) : decltype(scope.construct->unwound)::const_iterator{};
      if (outside && known != scope.construct->unwound.end() && known->second == scope.construct->exit && graph_.depth[node] == scope.construct->base) {
        exit = node;
        exit_ways |= way;
        if (exit_ways == 3) return exit;
      } else if (outside && way == 3 && graph_.depth[node] == graph_.depth[a] + 1 && is_one_place(node, ways)) {
        return node;  // `return x if c else y` goes on with either value
      } else if (!outside && (node == scope.stop || node == scope.again) && way == 3) {
        return node;
      }
      continue;
    }
    if (way == 3) return node;
    // Handlers of the statement around aren't part of the ways; those of statements on them are.
    graph_.each_successor(node, [&](int to) { if (ways[to] != 3) reach(to, way); }, graph_.handler[node] != scope.handler);
  }
  return -1;
}

Node* Reader::negated(Node* test) {
  if (test->kind == Kind::Not) return test->items[0];
  if (test->kind == Kind::Compare && test->number == 1) {
    Node* const other = tree_.make(Kind::Compare, test->items, {}, 1);
    other->names = {test->names[0] == "is" ? "is not" : "is"};
    return other;
  }
  if ((test->kind == Kind::And || test->kind == Kind::Or) && test->number != kOnItsOwnLine) {
    // not (not a or b): a and not b
    const auto turned = std::count_if(test->items.begin(), test->items.end(), [](const Node* item) { return item->kind == Kind::Not; });
    if (2 * static_cast<size_t>(turned) >= test->items.size() && std::none_of(test->items.begin(), test->items.end(), stays_as_it_is)) {
      Node* const all = tree_.make(test->kind == Kind::And ? Kind::Or : Kind::And);
      for (Node* const item : test->items) all->items.push_back(negated(item));
      return all;
    }
  }
  return tree_.make(Kind::Not, {test});
}

Node* Reader::both(Node* a, Node* b, bool chained) {
  if (chained && a->kind == Kind::Compare) {
    // a < b and b < c, where b is one value: a < b < c. It may be followed by more: a < b < c and d.
    Node* const second = joins(b, Kind::And) ? b->items[0] : b;
    if (second->kind == Kind::Compare && second->items[0] == a->items.back()) {
      Node* const chain = tree_.make(Kind::Compare, a->items);
      chain->items.insert(chain->items.end(), second->items.begin() + 1, second->items.end());
      chain->names = a->names;
      chain->names.insert(chain->names.end(), second->names.begin(), second->names.end());
      if (second == b) return chain;
      Node* const all = tree_.make(Kind::And, b->items);
      all->items[0] = chain;
      return all;
    }
    throw Refused("an unusual chain of comparisons");
  }
  Node* const all = tree_.make(Kind::And, joins(a, Kind::And) ? a->items : Nodes{a});
  if (joins(b, Kind::And)) all->items.insert(all->items.end(), b->items.begin(), b->items.end());
  else all->items.push_back(b);
  return all;
}

Node* Reader::either(Node* a, Node* b) {
  Node* const all = tree_.make(Kind::Or, joins(a, Kind::Or) ? a->items : Nodes{a});
  if (joins(b, Kind::Or)) all->items.insert(all->items.end(), b->items.begin(), b->items.end());
  else all->items.push_back(b);
  return all;
}

Reader::Condition Reader::condition_at(int node, Stack& stack, const Scope& scope) {
  const Op op = graph_.at(node).op;
  Condition found;
  found.test = pop(stack);
  found.yes = graph_.next[node];
  found.no = graph_.jump[node];
  found.via_yes = graph_.via_next[node];
  found.via_no = graph_.via_jump[node];
  bool keeps = op == Op::JUMP_IF_FALSE_OR_POP || op == Op::JUMP_IF_TRUE_OR_POP;
  if (!keeps && !stack.empty() && stack.back() == found.test && graph_.at(found.yes).op == Op::POP_TOP) {
    keeps = true;  // 3.12+: a copy is tested
    stack.pop_back();
    found.yes = graph_.next[found.yes];
  } else if (found.test->kind == Kind::And || found.test->kind == Kind::Or) {
    // 3.11: `(a and b) or c` whose parts stand on lines of their own. Within a line the compiler leads a jump on to where it ends.
    found.test = tree_.copy(*found.test);
    found.test->number = kOnItsOwnLine;
  }
  found.no_keeps = keeps;
  if (op == Op::POP_JUMP_IF_NONE || op == Op::POP_JUMP_IF_NOT_NONE) {
    found.test = tree_.make(Kind::Compare, {found.test, tree_.constant(Py_None)});
    found.test->number = 1;  // not an instruction of its own
    found.test->names = {op == Op::POP_JUMP_IF_NONE ? "is not" : "is"};
  } else if (jumps_if_true(op)) {
    std::swap(found.yes, found.no);
    std::swap(found.via_yes, found.via_no);
    std::swap(found.yes_keeps, found.no_keeps);
  }
  take_chain(found, stack);
  for (;;) {
    const bool chained = found.chained;
    if (scope.alone && !chained) break;
    if (!extend(found, stack, scope)) break;
    if (chained && !found.chained) pop(stack);  // the operand between the two
    if (found.chained) break;
  }
  found.first = node;
  return found;
}

// a < b < c: the right operand stays on the stack, and is dropped where the first comparison is false.
void Reader::take_chain(Condition& condition, Stack& stack) {
  if (condition.test->kind != Kind::Compare || stack.empty() || stack.back() != condition.test->items.back()) return;
  int cleanup = condition.no;
  if (condition.no_keeps && graph_.at(cleanup).op == Op::SWAP) cleanup = graph_.next[cleanup];
  if (cleanup < 0 || graph_.at(cleanup).op != Op::POP_TOP) return;
  condition.chained = true;
  condition.via_no = graph_.via_next[cleanup];
  condition.no = graph_.next[cleanup];
}

bool Reader::condition_behind(int node, size_t edges, const Stack& stack, const Scope& scope, Condition& found, bool alone) {
  if (absorbs(node, scope) || graph_.header[node] || graph_.handler[node] != scope.handler) return false;
  if (graph_.before[node].size() != edges) return false;
  Scope inner = within(scope, -1);
  inner.expression = true;
  inner.alone = alone;
  // Each operand of `a and b and c ...` is asked for by all that stand before it: what was found once is known from then on.
  NoCondition at{node, stack.size(), scope.again, scope.leave, scope.handler, scope.construct ? scope.construct->handler : -1, alone, ends_of(inner)};
  inner.blocked = at.ends;
  if (no_conditions_.contains(at)) return false;
  Stack copy = stack;
  Nodes out;
  const Trying trying(*this);
  try {
    const End end = run(node, copy, inner, out);
    if (end.how == How::tests && out.empty()) return found = end.condition, true;
  } catch (const Refused&) {
  }
  no_conditions_.insert(std::move(at));
  return false;
}

// Takes the next condition in where the two are one `and`, `or` or conditional expression.
bool Reader::extend(Condition& a, const Stack& stack, const Scope& scope) {
  Condition b;
  // `if a: continue` and `if b: continue` go to one place, but each on its own.
  const auto together = [&](int node, int via_a, int via_b) { return node != scope.again || via_a == via_b || !(explicit_continue(via_a) || explicit_continue(via_b)); };
  const auto is_and = [&] { return b.no == a.no && b.no_keeps == a.no_keeps && together(a.no, a.via_no, b.via_no); };
  const auto join = [&] {
    const Condition whole{both(a.test, b.test, a.chained), b.yes, a.no, b.yes_keeps, a.no_keeps, b.yes_edges, a.no_edges + b.no_edges, b.via_yes, b.via_no};
    a = whole;
    return true;
  };
  // The next comparison of a chain might be taken for a part of what follows the whole: `if a < b < c: if d: continue`.
  if (a.chained && condition_behind(a.yes, a.yes_edges, stack, scope, b, true) && is_and()) return join();
  if (!a.yes_keeps && condition_behind(a.yes, a.yes_edges, stack, scope, b)) {
    if (is_and()) return join();
    if (b.yes == a.no && together(a.no, a.via_no, b.via_yes) && !a.no_keeps && !b.yes_keeps && !a.chained && stays_as_it_is(a.test) && !stays_as_it_is(b.test)) {
      a = {both(a.test, negated(b.test), false), b.no, b.yes, b.no_keeps, false, b.no_edges, a.no_edges + b.yes_edges, b.via_no, b.via_yes};
      return true;
    }
    if (b.yes == a.no && together(a.no, a.via_no, b.via_yes) && !a.no_keeps && !b.yes_keeps && !a.chained && !stays_as_it_is(a.test)) {
      a = {either(negated(a.test), b.test), b.yes, b.no, false, b.no_keeps, a.no_edges + b.yes_edges, b.no_edges, b.via_yes, b.via_no};
      return true;
    }
    Condition c;
    if (!a.chained && !a.no_keeps && condition_behind(a.no, a.no_edges, stack, scope, c) && b.first != c.first && b.yes == c.yes && b.no == c.no && b.yes_keeps == c.yes_keeps && b.no_keeps == c.no_keeps) {
      a = {tree_.make(Kind::IfExp, {a.test, b.test, c.test}), b.yes, b.no, b.yes_keeps, b.no_keeps, b.yes_edges + c.yes_edges, b.no_edges + c.no_edges, c.via_yes, c.via_no};
      return true;
    }
  }
  if (!a.no_keeps && !a.chained && condition_behind(a.no, a.no_edges, stack, scope, b)) {
    if (b.yes == a.yes && b.yes_keeps == a.yes_keeps && together(a.yes, a.via_yes, b.via_yes)) {
      a = {either(a.test, b.test), a.yes, b.no, a.yes_keeps, b.no_keeps, a.yes_edges + b.yes_edges, b.no_edges, b.via_yes, b.via_no};
      return true;
    }
    if (b.no == a.yes && together(a.yes, a.via_yes, b.via_no) && !a.yes_keeps && !b.no_keeps && stays_as_it_is(a.test) && !stays_as_it_is(b.test)) {
      a = {either(a.test, negated(b.test)), b.no, b.yes, false, b.yes_keeps, a.yes_edges + b.no_edges, b.yes_edges, b.via_no, b.via_yes};
      return true;
    }
    if (b.no == a.yes && together(a.yes, a.via_yes, b.via_no) && !a.yes_keeps && !b.no_keeps && !stays_as_it_is(a.test)) {
      a = {both(negated(a.test), b.test, false), b.yes, b.no, b.yes_keeps, false, b.yes_edges, a.yes_edges + b.no_edges, b.via_yes, b.via_no};
      return true;
    }
  }
  return false;
}

int Reader::branch(int node, Stack& stack, const Scope& scope, Nodes& out, End& end) {
  Condition condition = condition_at(node, stack, scope);
  if (condition.yes_keeps != condition.no_keeps && scope.expression) {
    // (a and b) or c: where b is false c is come to, as from a, so that the test is part of a longer one.
    const int other = condition.no_keeps ? condition.yes : condition.no;
    if (graph_.before[other].size() != (condition.no_keeps ? condition.yes_edges : condition.no_edges)) {
      end = {How::tests, -1, -1, condition};
      return -1;
    }
  }
  if (condition.yes_keeps || condition.no_keeps) return value_of(condition, stack, scope);
  if (condition.chained) throw Refused("an unusual chain of comparisons");
  const int join = meet(condition.yes, condition.no, scope);
  // c if a and b else d: what is come to from elsewhere, too, isn't told by this test alone.
  const bool is_part = scope.expression && (graph_.before[condition.yes].size() > condition.yes_edges || graph_.before[condition.no].size() > condition.no_edges);
  if (!is_part && join >= 0 && graph_.depth[join] == static_cast<int>(stack.size()) + 1) return if_expression(condition, join, stack, scope);
  if (scope.expression) {
    end = {How::tests, -1, -1, condition};
    return -1;
  }
  return if_statement(condition, join, stack, scope, out, end);
}

Node* Reader::value_on_the_way(int node, int join, Stack stack, const Scope& scope) {
  const size_t size = stack.size();
  Scope inner = within(scope, join);
  inner.expression = false;
  Nodes out;
  if (node != join && run(node, stack, inner, out).how != How::falls) throw Refused("an expression that isn't come to the end of");
  if (!out.empty() || stack.size() != size + 1) throw Refused("statements inside an expression");
  return stack.back();
}

// `and` and `or` as values.
int Reader::value_of(Condition& condition, Stack& stack, const Scope& scope) {
  if (condition.yes_keeps && condition.no_keeps) throw Refused("an unusual use of `and` and `or`");
  const int join = condition.no_keeps ? condition.no : condition.yes;
  Node* value = nullptr;
  if (condition.chained) {
    Stack rest = stack;
    stack.pop_back();
    Scope inner = within(scope, join);
    inner.expression = false;
    Nodes out;
    if (run(condition.yes, rest, inner, out).how != How::falls || !out.empty() || rest.size() != stack.size() + 1) throw Refused("an unusual chain of comparisons");
    value = rest.back();
  } else {
    value = value_on_the_way(condition.no_keeps ? condition.yes : condition.no, join, stack, scope);
  }
  stack.push_back(condition.no_keeps ? both(condition.test, value, condition.chained) : either(condition.test, value));
  return join;
}

int Reader::if_expression(Condition& condition, int join, Stack& stack, const Scope& scope) {
  Node* const yes = value_on_the_way(condition.yes, join, stack, scope);
  Node* const no = value_on_the_way(condition.no, join, stack, scope);
  // The value that comes first in the code is the one for true.
  if (condition.no < condition.yes) stack.push_back(tree_.make(Kind::IfExp, {negated(condition.test), no, yes}));
  else stack.push_back(tree_.make(Kind::IfExp, {condition.test, yes, no}));
  return join;
}

// A `continue` of the source has a place of its own, which what leaves the handlers around it has, too. A jump without one has that of what stands
// before it.
bool Reader::explicit_continue(int via) const {
  if (via < 0) return false;
  const auto place = [&](int index) {
    const bytecode::Position& at = code_.positions[index];
    return std::tuple(at.line, at.end_line, at.column, at.end_column);
  };
  const auto leaves_handler = [](Op op) { return op == Op::POP_EXCEPT || op == Op::DELETE_FAST || op == Op::DELETE_NAME || op == Op::DELETE_GLOBAL || op == Op::DELETE_DEREF; };
  int before = via - 1;
  for (; before >= 0; before--) {
    const Op op = code_.instructions[before].op;
    if (!only_leads_on(op) && !leaves_handler(op)) break;
    if (op != Op::POP_EXCEPT && !only_leads_on(op)) before -= 2;  // error = None; del error
  }
  const bytecode::Position& at = code_.positions[via];
  return at.line >= 0 && at.line == at.end_line && at.end_column - at.column == 8 && (before < 0 || place(before) != place(via));
}

// Comparisons whose negation the compiler writes as another comparison.
bool Reader::stays_as_it_is(const Node* test) {
  if (test->kind != Kind::Compare || test->names.size() != 1 || test->number == 1) return false;
  const std::string& symbol = test->names[0];
  return (symbol == "in" || symbol == "not in" || symbol == "is" || symbol == "is not");
}

Node* Reader::assertion(Node* test, int fails, Stack stack, const Scope& scope) {
  Nodes out;
  Scope inner = within(scope, -1);
  run(fails, stack, inner, out);
  if (out.size() != 1 || out[0]->kind != Kind::Assert) throw Refused("an assertion that isn't one");
  Node* const statement = out[0];
  statement->items[0] = test;
  return statement;
}

int Reader::if_statement(Condition& condition, int join, Stack& stack, const Scope& scope, Nodes& out, End& end) {
  for (const bool holds : {true, false}) {
    const int fails = holds ? condition.no : condition.yes;
    if (graph_.at(fails).op != Op::LOAD_ASSERTION_ERROR || (!holds && stays_as_it_is(condition.test))) continue;
    out.push_back(assertion(holds ? condition.test : negated(condition.test), fails, stack, scope));
    end.via = -1;
    return holds ? condition.yes : condition.no;
  }
  Node* test = condition.test;
  int then = condition.yes, other = condition.no;
  int via_then = condition.via_yes, via_other = condition.via_no;
  const auto first = [&](int node, int via) { return via >= 0 ? std::min(via, node) : node; };
  const int behind = join >= 0 ? join : scope.stop;
  // if not c: continue
  if (join >= 0 && other == behind && then != behind && behind == scope.again && explicit_continue(via_other) && via_other < first(then, via_then) && !stays_as_it_is(test)) {
    Node* const statement = tree_.make(Kind::If, {negated(test)});
    statement->body = {tree_.make(Kind::Continue)};
    out.push_back(statement);
    end.via = via_then;
    return then;
  }
  const bool then_is_empty = then == behind && !(behind == scope.again && explicit_continue(via_then));
  if ((then_is_empty && other != behind) || (other != behind && first(other, via_other) < first(then, via_then))) {
    if (stays_as_it_is(test) && then == join) {
      // `not a in b` would be compiled as `a not in b`.
      Node* const statement = tree_.make(Kind::If, {test});
      out.push_back(statement);
      if (join == scope.again && join != scope.stop) {
        statement->body = {tree_.make(Kind::Continue)};
        end.via = via_other;
        return other;
      }
      statement->body = {tree_.make(join == scope.again ? Kind::Continue : Kind::Pass)};
      run(other, stack, within(scope, join), statement->orelse);
      end.via = -1;
      return join;
    }
    if (!stays_as_it_is(test)) {
      test = negated(test);
      std::swap(then, other);
      std::swap(via_then, via_other);
    }
  }
  Node* const statement = tree_.make(Kind::If, {test});
  out.push_back(statement);
  const int stop = join >= 0 ? join : scope.stop;
  Stack then_stack = stack;
  Scope inner = within(scope, stop);
  End end_then{How::falls, then, via_then};
  if (then != stop) end_then = run(then, then_stack, inner, statement->body);
  if (end_then.how == How::falls && end_then.at == scope.again && explicit_continue(end_then.via)) {
    statement->body.push_back(tree_.make(Kind::Continue));
    end_then.how = How::ends;
  }
  if (end_then.how == How::ends) {  // what follows needs no else
    end.via = via_other;
    return other;
  }
  if (other != stop) run(other, stack, inner, statement->orelse);
  stack = then_stack;  // the other way may have left a loop, with what that has there
  if (join >= 0) {
    end.via = -1;
    return join;
  }
  end = {end_then.how, end_then.at, end_then.via};
  return -1;
}

}  // namespace evalframe::decompiler
