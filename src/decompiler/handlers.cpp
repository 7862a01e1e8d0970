// Statements with exception handlers: try, with. The compiler writes what leaves one (finally bodies, calls of __exit__) on each way out.
#include <algorithm>
#include <climits>
#include <functional>
#include <set>

#include "cpython/layout.h"
#include "decompiler/reader.h"

namespace evalframe::decompiler {

using bytecode::Op;

// Behind a finally body that always returns or raises.
constexpr int kNeverBehind = -2;

// The outermost handler that protects `node` and not yet the statements around it, or -1.
int Reader::outermost_new(int node, const Scope& scope) const {
  if (node < 0) throw Refused("a statement that nothing follows");
  int found = -1;
  int steps = 0;
  for (int handler = graph_.handler[node]; handler != scope.handler && handler >= 0 && steps++ < 1000; handler = graph_.handler[handler]) found = handler;
  return found;
}

int Reader::depth_kept(int handler, bool& lasti) const {
  for (const int node : graph_.handled[handler]) {
    if (const auto* const region = code_.handler(node)) {
      lasti = region->push_lasti;
      return region->depth;
    }
  }
  throw Refused("a handler that protects nothing");
}

// Where to go on in a way out that leaves the statement for the ones around it.
Reader::Scope Reader::tail_of(const Construct& construct, const Scope& scope) const {
  const Scope& outside = *construct.outside;
  Scope tail = within(outside, -1);
  tail.expression = false;
  if (scope.loop != outside.loop) {
    for (const int node : {tail.again, tail.leave}) if (node >= 0) tail.blocked.push_back(node);
    tail.again = tail.leave = -1;
  }
  return tail;
}

Reader::End Reader::leave(int node, Stack& stack, const Scope& scope, Nodes& out) {
  const Construct& construct = *scope.construct;
  const auto known = construct.unwound.find(node);
  const int after = known == construct.unwound.end() ? -1 : known->second;
  if (after == kNeverBehind) return {How::ends};
  if (after < 0) throw Refused("a way out of a try or with statement that isn't understood");
  const bool in_loop = scope.loop != construct.outside->loop;
  if (in_loop && node == scope.leave && pending(stack) == 0) {
    out.push_back(tree_.make(Kind::Break));
    return {How::ends};
  }
  if (scope.expression) return {How::ends};
  if (after == construct.exit && !in_loop && graph_.depth[node] == construct.base && pending(stack) == 0) return {How::falls, node};
  const Scope tail = tail_of(construct, scope);
  const bool with = graph_.at(graph_.next[construct.handler]).op == Op::WITH_EXCEPT_START;
  return run(with ? node : after, stack, tail, out);
}

void Reader::find_exits(Construct& construct, int start, const std::function<int(int)>& unwind, const Scope& scope) {
  std::set<int> seen{start};
  std::vector<int> open{start};
  std::vector<std::pair<int, int>> exits;  // node, where from
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    work();
    graph_.each_successor(node, [&](int to) {
      if (to == construct.handler) return;
      if (!graph_.covered(to, construct.handler)) exits.push_back({to, node});
      else if (seen.insert(to).second) open.push_back(to);
    });
  }
  int best = 1, best_from = -1;
  std::set<int> distinct;
  for (const auto& [node, from] : exits) {
    if (!construct.unwound.contains(node)) construct.unwound[node] = unwind(node);
    distinct.insert(construct.unwound[node]);
  }
  const bool with = graph_.at(graph_.next[construct.handler]).op == Op::WITH_EXCEPT_START;
  const int expected = with ? behind_suppression(construct.handler) : -1;
  for (const auto& [node, from] : exits) {
    const int after = construct.unwound[node];
    if (after < 0 || graph_.depth[node] != construct.base || (expected >= 0 && !same_place(after, expected))) continue;
    const int rank = rank_of_exit(after, scope);
    if (rank < best || (rank == best && from < best_from)) continue;
    if (rank == 1 && distinct.size() > 1 && best > 1) continue;
    best = rank;
    best_from = from;
    construct.exit = after;
  }
}

// One node, or two that return the same: a constant, or what waits on the stack.
bool Reader::same_place(int a, int b) const {
  if (a == b) return true;
  if (graph_.at(a).op != graph_.at(b).op || !same_operand(code_, a, code_, b)) return false;
  if (graph_.at(a).op == Op::RETURN_CONST || graph_.at(a).op == Op::RETURN_VALUE) return true;
  const int x = graph_.next[a], y = graph_.next[b];
  return graph_.at(a).op == Op::LOAD_CONST && x >= 0 && y >= 0 && graph_.at(x).op == Op::RETURN_VALUE && graph_.at(y).op == Op::RETURN_VALUE;
}

// Where a way out of handlers around leads.
int Reader::behind_handlers_around(int node, const Scope& scope) const {
  while (graph_.at(node).op == Op::POP_EXCEPT && graph_.next[node] >= 0 && node != scope.stop) node = graph_.next[node];
  return node;
}

// How likely it is that the body, when it's through, goes on there, and doesn't break, continue or return. 0: it can't.
int Reader::rank_of_exit(int after, const Scope& scope) const {
  after = behind_handlers_around(after, scope);
  const Op op = graph_.at(after).op;
  if (op == Op::POP_TOP || op == Op::SWAP || op == Op::RETURN_VALUE) return 0;
  if (op == Op::RETURN_CONST) return 1;
  if (op == Op::LOAD_CONST && graph_.next[after] >= 0 && graph_.at(graph_.next[after]).op == Op::RETURN_VALUE) return 1;
  if (after == scope.leave) return 2;
  if (after == scope.again) return 3;
  return 4;
}

// Follows a copy of a finally body beside the original in the handler: where the copy goes on, kNeverBehind if it always leaves, or -1 if it's none.
int Reader::matches_copy(int copy, int original) const {
  const int depth = graph_.depth[original];
  std::set<std::pair<int, int>> seen{{copy, original}};
  std::vector<std::pair<int, int>> open{{copy, original}};
  int after = -1;
  while (!open.empty()) {
    auto [a, b] = open.back();
    open.pop_back();
    if (graph_.at(b).op == Op::RERAISE && graph_.depth[b] == depth && graph_.at(b).arg == 0) {
      if (after >= 0 && after != a && !same_place(after, a)) return -1;
      after = a;
      continue;
    }
    const auto add = [&](int x, int y) { if (seen.insert({x, y}).second) open.push_back({x, y}); };
    // `return`, `break` and `continue` in the handler drop the exception first.
    const auto drops = [&](Op op) { return op == Op::POP_TOP || op == Op::POP_EXCEPT || op == Op::SWAP; };
    while (a != b && graph_.at(a).op != graph_.at(b).op && drops(graph_.at(b).op) && graph_.next[b] >= 0) b = graph_.next[b];
    if (a == b) continue;
    Op op_a = graph_.at(a).op, op_b = graph_.at(b).op;
    int yes_a = graph_.next[a], no_a = graph_.jump[a], yes_b = graph_.next[b], no_b = graph_.jump[b];
    if (is_branch(op_a) && is_branch(op_b) && jumps_if_true(op_a) != jumps_if_true(op_b)) {
      std::swap(yes_a, no_a);
      op_a = op_b;
    }
    // A variable of the body isn't known to be bound in the handler.
    if (op_b == Op::LOAD_FAST_CHECK && op_a == Op::LOAD_FAST) op_a = op_b;
    if (op_a != op_b || !same_operand(code_, a, code_, b)) return -1;
    if ((yes_a < 0) != (yes_b < 0) || (no_a < 0) != (no_b < 0)) return -1;
    if (yes_a >= 0) add(yes_a, yes_b);
    if (no_a >= 0) add(no_a, no_b);
    if (seen.size() > 20'000) return -1;
  }
  return after < 0 ? kNeverBehind : after;
}

// Behind __exit__(None, None, None), with a value to return below or above; or -1.
int Reader::behind_exit_call(int node) const {
  const auto is = [&](Op op) { return node >= 0 && graph_.at(node).op == op; };
  const auto step = [&] { node = graph_.next[node]; };
  if (is(Op::SWAP)) step();
  for (int i = 0; i < 3; i++) {
    if (!is(Op::LOAD_CONST) || constant(graph_.at(node).arg) != Py_None) return -1;
    step();
  }
  if (!is(Op::CALL)) return -1;
  step();
  if (is(Op::GET_AWAITABLE)) {
    step();
    if (!is(Op::LOAD_CONST)) return -1;
    step();
    if (!is(Op::SEND)) return -1;
    node = graph_.jump[node];
    if (is(Op::END_SEND)) step();
  }
  if (!is(Op::POP_TOP)) return -1;
  step();
  return node;
}

// Where a with statement goes on when __exit__ has suppressed an exception; or -1.
int Reader::behind_suppression(int handler) const {
  int node = graph_.next[handler];
  for (int steps = 0; node >= 0 && steps < 12; steps++) {
    const Op op = graph_.at(node).op;
    if (is_branch(op)) {
      node = jumps_if_true(op) ? graph_.jump[node] : graph_.next[node];
      for (const Op expected : {Op::POP_TOP, Op::POP_EXCEPT, Op::POP_TOP, Op::POP_TOP}) {
        if (node < 0 || graph_.at(node).op != expected) return -1;
        node = graph_.next[node];
      }
      return node;
    }
    node = op == Op::SEND ? graph_.jump[node] : graph_.next[node];
  }
  return -1;
}

int Reader::with_statement(int node, Stack& stack, const Scope& scope, Nodes& out) {
  if (scope.expression) throw Refused("statements inside an expression");
  const bool async = graph_.at(node).op == Op::BEFORE_ASYNC_WITH;
  Node* const statement = tree_.make(Kind::With, {pop(stack), nullptr}, {}, async);
  const Stack rest = stack;
  stack.push_back(tree_.make(Kind::WithExit, {}, {}, async));
  Node* const item = tree_.make(Kind::Incoming);
  stack.push_back(item);
  int start = graph_.next[node];
  for (int steps = 0; async && steps < 4 && outermost_new(start, scope) < 0; steps++) {
    step(start, stack, out);
    start = graph_.next[start] >= 0 ? graph_.next[start] : graph_.jump[start];
  }
  const int handler = outermost_new(start, scope);
  if (handler < 0 || graph_.at(graph_.next[handler]).op != Op::WITH_EXCEPT_START) throw Refused("a with statement without a handler");
  bool lasti = false;
  Construct construct{handler, depth_kept(handler, lasti)};
  construct.outside = &scope;
  find_exits(construct, start, [&](int to) { return behind_exit_call(to); }, scope);
  Scope inner = within(scope, -1);
  inner.handler = handler;
  inner.construct = &construct;
  inner.expression = false;
  out.push_back(statement);
  run(start, stack, inner, statement->body);
  if (!item->items.empty()) statement->items[1] = item->items[0];
  stack = rest;
  return construct.exit >= 0 ? construct.exit : behind_suppression(handler);
}

// A handler that ends in raising the same again, whatever it was, is that of a finally clause.
bool Reader::is_finally(int handler) const {
  const int start = graph_.next[handler];
  if (start < 0 || graph_.at(start).op == Op::POP_TOP) return false;
  std::set<int> seen{start};
  std::vector<int> open{start};
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    const Op op = graph_.at(node).op;
    if ((op == Op::CHECK_EXC_MATCH || op == Op::CHECK_EG_MATCH) && graph_.depth[node] <= graph_.depth[start] + 3 && graph_.handler[node] == graph_.handler[start]) return false;
    graph_.each_successor(node, [&](int to) { if (graph_.depth[to] >= graph_.depth[start] && seen.insert(to).second) open.push_back(to); }, false);
  }
  return true;
}

// A finally clause raises the exception again at each of its ends.
void Reader::strip_reraise(Nodes& statements) {
  const auto raises = [](const Nodes& list) { return !list.empty() && list.back()->kind == Kind::Reraise; };
  for (size_t i = 0; i + 1 < statements.size(); i++) {
    Node* const statement = statements[i];
    if (statement->kind != Kind::If || !statement->orelse.empty() || !raises(statement->body)) continue;
    // What follows belongs to the way on which it isn't raised yet.
    statement->orelse.assign(statements.begin() + static_cast<std::ptrdiff_t>(i) + 1, statements.end());
    statements.resize(i + 1);
  }
  if (raises(statements)) statements.pop_back();
  if (statements.empty()) return;
  Node* const last = statements.back();
  if (last->kind == Kind::Try) {
    for (Node* const handler : last->handlers) strip_reraise(handler->body);
    strip_reraise(last->orelse);
  }
  if (last->kind == Kind::MatchStatement) {
    for (Node* const one : last->handlers) strip_reraise(one->body);
  }
  if (last->kind != Kind::If) return;
  strip_reraise(last->body);
  strip_reraise(last->orelse);
  if (!last->body.empty() || last->orelse.empty() || stays_as_it_is(last->items[0])) return;
  last->items[0] = negated(last->items[0]);
  last->body.swap(last->orelse);
}

// Where the code goes on behind an except clause, for a try statement whose body never comes to its end; or -1.
int Reader::behind_handlers(int handler, const Scope& scope) const {
  std::set<int> seen{handler};
  std::vector<int> open{handler};
  int best = -1, best_rank = 0;
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    graph_.each_successor(node, [&](int to) { if (to != scope.handler && graph_.depth[to] > graph_.depth[handler] - 1 && seen.insert(to).second) open.push_back(to); });
    if (graph_.at(node).op != Op::POP_EXCEPT || graph_.depth[node] != graph_.depth[handler]) continue;
    int after = graph_.next[node];
    if (graph_.at(after).op == Op::LOAD_CONST) {
      const int store = graph_.next[after];
      const int del = store >= 0 ? graph_.next[store] : -1;
      if (del >= 0 && std::string(bytecode::name(graph_.at(del).op)).starts_with("DELETE_")) after = graph_.next[del];
    }
    if (after == scope.stop) return after;
    if (scope.construct && !graph_.covered(after, scope.handler)) {
      const auto known = scope.construct->unwound.find(after);
      if (known != scope.construct->unwound.end() && known->second != scope.construct->exit) continue;  // leaves the statement around, too
    }
    const int rank = rank_of_exit(after, scope);
    if (rank > best_rank || (rank == best_rank && rank > 0 && after < best)) {
      best = after;
      best_rank = rank;
    }
  }
  return best_rank > 1 ? best : -1;
}

int Reader::try_statement(int node, int handler, Stack& stack, const Scope& scope, Nodes& out) {
  if (scope.expression) throw Refused("statements inside an expression");
  if (graph_.at(graph_.next[handler]).op == Op::WITH_EXCEPT_START) throw Refused("a way into the middle of a with statement");
  bool lasti = false;
  Construct construct{handler, depth_kept(handler, lasti)};
  construct.outside = &scope;
  const bool last = is_finally(handler);
  const int original = graph_.next[handler];
  find_exits(construct, node, [&](int to) { return last ? matches_copy(to, original) : to; }, scope);
  Node* const statement = tree_.make(Kind::Try);
  out.push_back(statement);
  Scope inner = within(scope, -1);
  inner.handler = handler;
  inner.construct = &construct;
  Stack body_stack = stack;
  inner.entered = scope.entered;
  run(node, body_stack, inner, statement->body);

  Stack handling(stack.begin(), stack.begin() + std::min<std::ptrdiff_t>(construct.base, static_cast<std::ptrdiff_t>(stack.size())));
  if (static_cast<int>(handling.size()) != construct.base) throw Refused("a handler that keeps more of the stack than there is");
  if (lasti) handling.push_back(tree_.make(Kind::Saved));
  handling.push_back(tree_.make(Kind::Exception));
  if (last) {
    out.back() = with_finally(statement, handler, handling, scope);
    return construct.exit;
  }
  if (const int first = first_of_star(handler); first >= 0) {
    statement->number = 1;
    const int follow = star_handlers(first, stack, scope, statement->handlers);
    else_clause(statement, construct.exit, follow, stack, scope);
    return follow;
  }
  return except_clauses(statement, construct, handling, stack, scope);
}

// The statement with its finally clause. try/except/finally is try/finally around try/except.
Node* Reader::with_finally(Node* statement, int handler, Stack& handling, const Scope& scope) {
  Nodes statements;
  run(handler, handling, within(scope, -1), statements);
  strip_reraise(statements);
  if (statements.empty()) statements.push_back(tree_.make(Kind::Pass));
  const bool around_handlers = statement->body.size() == 1 && statement->body[0]->kind == Kind::Try && statement->body[0]->last.empty();
  Node* const whole = around_handlers ? statement->body[0] : statement;
  whole->last = statements;
  return whole;
}

// Between where the body of a try statement goes on and what follows the statement.
void Reader::else_clause(Node* statement, int start, int follow, Stack stack, const Scope& scope) {
  if (start >= 0 && start != follow) run(start, stack, within(scope, follow), statement->orelse);
}

// Returns what follows the statement.
int Reader::except_clauses(Node* statement, const Construct& construct, Stack& handling, const Stack& stack, const Scope& scope) {
  const int handler = construct.handler;
  int join = -1;
  if (construct.exit >= 0) {
    join = construct.exit == scope.stop || construct.exit == scope.again ? construct.exit : meet(construct.exit, handler, scope);
    // A body that goes on with what always leaves, in an else clause: what follows is where the handlers go on.
    if (join < 0) join = behind_handlers(handler, scope);
    const int through = join < 0 ? -1 : behind_handlers_around(join, scope);
    if (through >= 0 && (through == scope.again || through == scope.leave) && join != scope.stop && join != construct.exit) join = -1;
  } else {
    join = behind_handlers(handler, scope);
  }
  Nodes statements;
  const End end = run(handler, handling, within(scope, join >= 0 ? join : scope.stop), statements);
  bool star = false;
  statement->handlers = handlers_of(statements, star);
  statement->number = star;
  // Handlers that go on where the statements around end, too, are no way to what the body goes on with.
  if (construct.exit >= 0 && join < 0 && end.how == How::falls) join = scope.stop;
  else if (join < 0) return construct.exit;
  if (join >= 0) else_clause(statement, construct.exit, join, stack, scope);
  return join;
}

// Where the first type of `except*` clauses is computed, behind the list of what they raise; or -1.
int Reader::first_of_star(int handler) const {
  int node = graph_.next[handler];
  bool list = false;
  for (; graph_.at(node).op == Op::COPY || graph_.at(node).op == Op::BUILD_LIST || graph_.at(node).op == Op::SWAP; node = graph_.next[node]) list = list || graph_.at(node).op == Op::BUILD_LIST;
  if (!list) return -1;
  for (int steps = 0, at = node; at >= 0 && steps < 1000; steps++, at = graph_.next[at]) {
    if (graph_.at(at).op == Op::CHECK_EG_MATCH) return node;
    if (is_branch(graph_.at(at).op)) return -1;
  }
  return -1;
}

// except* E: what matches goes to the clause, what doesn't on to the next one. Returns where all go on if nothing is left to raise.
int Reader::star_handlers(int node, const Stack& stack, const Scope& scope, Nodes& handlers) {
  const auto filled = [&](int at) {
    Stack all = stack;
    while (static_cast<int>(all.size()) < graph_.depth[at]) all.push_back(tree_.make(Kind::Saved));
    return all;
  };
  const auto expect = [&](int at, Op op) {
    if (at < 0 || graph_.at(at).op != op) throw Refused("an except* clause that isn't one");
    return graph_.next[at];
  };
  while (graph_.at(node).op != Op::LIST_APPEND) {
    work();
    Stack type = filled(node);
    Nodes none;
    for (; graph_.at(node).op != Op::CHECK_EG_MATCH; node = graph_.next[node]) {
      step(node, type, none);
      if (!none.empty() || graph_.next[node] < 0) throw Refused("an except* clause that isn't one");
    }
    const int test = expect(graph_.next[node], Op::COPY);
    const int matched = expect(test, Op::POP_JUMP_IF_NONE);
    Node* const clause = tree_.make(Kind::Handler, {pop(type)});
    handlers.push_back(clause);
    node = expect(graph_.jump[test], Op::POP_TOP);
    const bool last = graph_.at(node).op == Op::LIST_APPEND;
    const int body = graph_.next[matched], stop = last ? first_append(body, graph_.depth[node]) : node;
    Stack own = filled(body);
    if (graph_.at(matched).op != Op::POP_TOP) {
      Stack bound{tree_.make(Kind::Exception)};
      step(matched, bound, none);
      if (none.size() != 1 || none[0]->kind != Kind::BindException) throw Refused("an except* clause that isn't one");
      clause->text = none[0]->text;
    }
    run(body, own, within(scope, stop), clause->body);
    if (!clause->text.empty()) strip_unbinding(clause->body, clause->text);
  }
  const int test = expect(graph_.next[graph_.next[node]], Op::COPY);
  if (test < 0 || !is_branch(graph_.at(test).op)) throw Refused("an except* clause that isn't one");
  const int nothing_left = graph_.at(test).op == Op::POP_JUMP_IF_NONE ? graph_.jump[test] : graph_.next[test];
  return expect(expect(nothing_left, Op::POP_TOP), Op::POP_EXCEPT);
}

// Where the last except* clause goes on when it's through: what is left of the exception is put into the list.
int Reader::first_append(int from, int depth) const {
  std::set<int> seen{from};
  std::vector<int> open{from};
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    if (graph_.at(node).op == Op::LIST_APPEND && graph_.depth[node] == depth) return node;
    graph_.each_successor(node, [&](int to) { if (seen.insert(to).second) open.push_back(to); }, false);
  }
  return -1;
}

// The statements of a handler, which are tests of what the exception matches, as except clauses.
Nodes Reader::handlers_of(const Nodes& statements, bool& star) {
  Nodes handlers;
  const Nodes* rest = &statements;
  for (;;) {
    Node* const handler = tree_.make(Kind::Handler);
    if (rest->empty()) {
      handlers.push_back(handler);  // `except: pass`: what no clause takes is raised again
      break;
    }
    if (rest->front()->kind == Kind::Reraise && !handlers.empty()) break;
    const Node* const first = rest->front();
    const bool matches = first->kind == Kind::If && first->items[0]->kind == Kind::Match;
    const bool unmatches = first->kind == Kind::If && first->items[0]->kind == Kind::Not && first->items[0]->items[0]->kind == Kind::Match;
    Nodes* next = nullptr;
    if (matches || unmatches) {
      const Node* const match = matches ? first->items[0] : first->items[0]->items[0];
      star = star || match->number != 0;
      handler->items = {match->items[0]};
      Node* const behind = tree_.make(Kind::Try);  // holds a list
      Nodes taken = matches ? first->body : first->orelse;
      Nodes other = matches ? first->orelse : first->body;
      // What follows an arm that never ends was written behind the test.
      Nodes following(rest->begin() + 1, rest->end());
      Nodes& last = matches ? other : taken;
      last.insert(last.end(), following.begin(), following.end());
      handler->body = taken;
      behind->body = other;
      next = &behind->body;
    } else {
      handler->body = *rest;
    }
    if (!handler->body.empty() && handler->body[0]->kind == Kind::BindException) {
      handler->text = handler->body[0]->text;
      handler->body.erase(handler->body.begin());
      strip_unbinding(handler->body, handler->text);
    }
    handlers.push_back(handler);
    if (next == nullptr) break;
    rest = next;
  }
  return handlers;
}

// `except E as e` ends in e = None; del e on each way out.
void Reader::strip_unbinding(Nodes& statements, const std::string& name) {
  for (size_t i = 0; i < statements.size(); i++) {
    Node* const statement = statements[i];
    if (i + 1 < statements.size() && statement->kind == Kind::Assign && statement->items.size() == 2 && statement->items[0]->kind == Kind::Name &&
        statement->items[0]->text == name && statement->items[1]->kind == Kind::Constant && statement->items[1]->constant == Py_None &&
        statements[i + 1]->kind == Kind::Delete && statements[i + 1]->items[0]->kind == Kind::Name && statements[i + 1]->items[0]->text == name) {
      statements.erase(statements.begin() + static_cast<std::ptrdiff_t>(i), statements.begin() + static_cast<std::ptrdiff_t>(i) + 2);
      i--;
      continue;
    }
    if (statement->kind == Kind::Function || statement->kind == Kind::Class) continue;
    for (Nodes* list : {&statement->body, &statement->orelse, &statement->last}) strip_unbinding(*list, name);
    for (Node* handler : statement->handlers) if (handler->kind == Kind::Handler) strip_unbinding(handler->body, name);
  }
}

}  // namespace evalframe::decompiler
