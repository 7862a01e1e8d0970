// Loops: which nodes belong to one, where its breaks go, and whether that leaves an else clause.
#include <algorithm>
#include <climits>
#include <map>

#include "decompiler/reader.h"

namespace evalframe::decompiler {

using bytecode::Op;

namespace {

// Statements that do no more than go on with the next turn.
bool idle(const Nodes& statements) {
  return std::all_of(statements.begin(), statements.end(), [](const Node* node) { return node->kind == Kind::Pass || node->kind == Kind::Continue; });
}

}  // namespace

// The nodes from which the header is come to again.
std::vector<bool> Reader::body_of(int header) const {
  std::vector<bool> inside(graph_.size(), false);
  std::vector<int> open;
  inside[header] = true;
  const auto add = [&](int node) {
    if (graph_.order[node] < graph_.order[header] || inside[node]) return;
    inside[node] = true;
    open.push_back(node);
  };
  for (const int node : graph_.before[header]) add(node);
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (const int earlier : graph_.before[node]) add(earlier);
    for (const int protects : graph_.handled[node]) add(protects);
  }
  return inside;
}

// What isn't reached by exceptions alone. Of a loop that is itself: without another exception.
std::vector<bool> Reader::warm_from(int header) const {
  std::vector<bool> warm(graph_.cold);
  warm.flip();
  if (warm[header]) return warm;
  std::vector<int> open{header};
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    if (warm[node]) continue;
    warm[node] = true;
    graph_.each_successor(node, [&](int to) { open.push_back(to); }, false);
  }
  return warm;
}

Reader::LoopNodes Reader::nodes_of_loop(int header) const {
  LoopNodes nodes{body_of(header), warm_from(header), {}, header};
  for (int i = 0; i < graph_.size(); i++) {
    if (!nodes.inside[i]) continue;
    if (nodes.warm[i]) nodes.last = std::max(nodes.last, i);
    if (i != header || !iterates(graph_.at(i).op)) graph_.each_successor(i, [&](int to) { if (!nodes.inside[to]) nodes.exits.push_back(to); }, false);
    add_handlers(i, header, nodes.exits);
  }
  return nodes;
}

// The handlers of statements in the loop: a break in one is a way out, too.
void Reader::add_handlers(int node, int header, std::vector<int>& exits) const {
  for (int handler = graph_.handler[node], steps = 0; handler >= 0 && steps < 1000 && !loop_is_inside(header, handler); handler = graph_.handler[handler], steps++) {
    if (std::find(exits.begin(), exits.end(), handler) == exits.end()) exits.push_back(handler);
  }
}

// Whether the loop at `header` stands inside the try statement of `handler`, and not the other way round.
bool Reader::loop_is_inside(int header, int handler) const {
  for (const int node : graph_.before[header]) {
    if (graph_.order[node] < graph_.order[header]) continue;
    const int via = graph_.next[node] == header ? graph_.via_next[node] : graph_.via_jump[node];
    if (graph_.covered(via >= 0 ? via : node, handler)) return true;
  }
  return false;
}

// Whether the body of the statement around is through there.
bool Reader::ends_construct(int node, const Scope& scope) const {
  if (scope.construct == nullptr || graph_.covered(node, scope.handler) || graph_.depth[node] != scope.construct->base) return false;
  const auto known = scope.construct->unwound.find(node);
  return known != scope.construct->unwound.end() && known->second >= 0 && known->second == scope.construct->exit;
}

// Of what the given nodes lead to without another turn of the loop, the first in the code that stands behind `last` with a stack of that depth and is
// warm; or -1.
int Reader::first_behind(const std::vector<int>& from, const LoopNodes& nodes, int last, int depth, const Scope& scope) const {
  std::vector<char> seen(graph_.size(), 0);
  std::vector<int> open = from;
  int first = INT_MAX;
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    if (seen[node] || nodes.inside[node]) continue;
    seen[node] = 1;
    if (node > last && nodes.warm[node] && graph_.depth[node] == depth) {
      first = std::min(first, node);
      continue;
    }
    if (absorbs(node, scope)) {
      if (node == scope.again || node == scope.stop || ends_construct(node, scope)) return node;
      continue;
    }
    graph_.each_successor(node, [&](int to) { open.push_back(to); }, false);
  }
  return first == INT_MAX ? -1 : first;
}

// Where the breaks of a loop go that ends at `end`, over the jump `via`: behind an else clause, if there is one. That may be no more than a jump.
int Reader::behind_else(int end, int via, const std::vector<int>& breaks, const LoopNodes& nodes, int depth, const Scope& scope) const {
  const int behind = first_behind(breaks, nodes, std::max(nodes.last, via >= 0 ? via : end - 1), depth, scope);
  return behind >= 0 && !nodes.inside[behind] ? behind : end;
}

int Reader::loop(int node, Stack& stack, const Scope& scope, Nodes& out) {
  return iterates(graph_.at(node).op) ? for_loop(node, stack, scope, out) : while_loop(node, stack, scope, out);
}

int Reader::for_loop(int node, Stack& stack, const Scope& scope, Nodes& out) {
  if (stack.empty() || stack.back()->kind != Kind::Iterator) throw Refused("a loop over what isn't made an iterator before it");
  LoopNodes nodes = nodes_of_loop(node);
  if (!nodes.inside[graph_.next[node]]) nodes.exits.push_back(graph_.next[node]);  // a body that always leaves
  work(graph_.size() / 8);
  const int end = graph_.jump[node];
  // Breaks go behind an else clause, if there is one.
  const int leave = behind_else(end, graph_.via_jump[node], nodes.exits, nodes, graph_.depth[node] - 1, scope);
  Node* const iterator = stack.back();
  const bool in_expression = iterator->items[0]->text != ".0" && pending(stack) > 0;
  Node* const item = tree_.make(Kind::Incoming);
  Node* const statement = tree_.make(Kind::For, {nullptr, iterator->items[0]}, {}, graph_.at(node).op == Op::GET_ANEXT);
  const size_t floor = floor_;
  floor_ = stack.size();
  Scope inner = within(scope, node);
  inner.again = node;
  inner.leave = in_expression ? -1 : leave;
  inner.loop = node;
  inner.entered = -1;
  inner.expression = false;
  Stack body = stack;
  body.push_back(item);
  run(graph_.next[node], body, inner, statement->body);
  if (item->items.empty()) throw Refused("a loop that binds nothing");
  statement->items[0] = item->items[0];
  floor_ = floor;
  stack.pop_back();
  if (in_expression) {
    // 3.12+: a comprehension is part of the code around it.
    size_t index = stack.size();
    while (index > 0 && stack[index - 1]->kind != Kind::List && stack[index - 1]->kind != Kind::Set && stack[index - 1]->kind != Kind::Dict) index--;
    if (index == 0) throw Refused("a loop inside an expression");
    stack[index - 1] = comprehension_of({statement}, stack[index - 1]);
    return end;
  }
  out.push_back(statement);
  if (leave != end) otherwise(statement, end, leave, stack, scope);
  return leave;
}

// The else clause of a loop.
void Reader::otherwise(Node* statement, int start, int leave, Stack stack, const Scope& scope) {
  if (start != scope.stop) run(start, stack, within(scope, leave), statement->orelse);
  else if (start == scope.again) statement->orelse.push_back(tree_.make(Kind::Continue));
}

// The test of `while`, if the loop starts with one: one side of it leaves the loop.
bool Reader::test_of_while(int node, const Stack& stack, const Scope& inner, const LoopNodes& nodes, Condition& found) {
  Scope testing = inner;
  testing.stop = -1;
  testing.expression = true;
  Stack copy = stack;
  Nodes none;
  try {
    const Trying trying(*this);
    const End end = run(node, copy, testing, none);
    if (end.how != How::tests || !none.empty()) return false;
    found = end.condition;
  } catch (const Refused&) {
    return false;
  }
  // A body that always leaves belongs to no cycle of its own.
  if (nodes.inside[found.yes] == nodes.inside[found.no]) return false;
  // A test that can't be turned round is an `if` that breaks.
  return nodes.inside[found.yes] || !stays_as_it_is(found.test);
}

int Reader::while_loop(int node, Stack& stack, const Scope& scope, Nodes& out) {
  if (scope.expression) throw Refused("a loop inside an expression");
  const LoopNodes nodes = nodes_of_loop(node);
  work(graph_.size() / 8);
  Node* const statement = tree_.make(Kind::While, {tree_.constant(Py_True)});
  Scope inner = within(scope, node);
  inner.again = node;
  inner.loop = node;
  inner.entered = node;
  inner.leave = first_behind(nodes.exits, nodes, nodes.last, graph_.depth[node], scope);
  Condition condition;
  const bool tests = test_of_while(node, stack, inner, nodes, condition);
  out.push_back(statement);
  if (!tests) {
    Stack body = stack;
    run(node, body, inner, statement->body);
    return inner.leave;
  }
  const bool positive = nodes.inside[condition.yes];
  statement->items[0] = positive ? condition.test : negated(condition.test);
  const int end = positive ? condition.no : condition.yes;
  const int start = positive ? condition.yes : condition.no;
  // Other ways out of the loop than its test tell where `break` goes.
  std::vector<int> breaks = nodes.exits;
  std::erase(breaks, end);
  const int leave = behind_else(end, positive ? condition.via_no : condition.via_yes, breaks, nodes, graph_.depth[node], scope);
  inner.entered = -1;
  inner.leave = leave;
  if (start != node) {
    Stack body = stack;
    run(start, body, inner, statement->body);
  }
  if (leave != end) otherwise(statement, end, leave, stack, scope);
  return leave;
}

// [a if c else b for ...]: each way may add its element itself.
Node* Reader::conditional_element(const Nodes& statements, Node* collection) {
  Nodes all;
  for (Node* const statement : statements) if (statement->kind != Kind::Pass && statement->kind != Kind::Continue) all.push_back(statement);
  if (all.empty()) return nullptr;
  Node* const first = all[0];
  if (all.size() == 1 && first->kind == Kind::Element && first->items.size() == 1) return first->items[0];
  if (all.size() == 1 && first->kind == Kind::Expr && first->items[0]->kind == Kind::Yield && collection == nullptr) return first->items[0]->items[0];
  if (first->kind != Kind::If || (all.size() > 1) != first->orelse.empty()) return nullptr;
  Node* const yes = conditional_element(first->body, collection);
  Node* const no = yes ? conditional_element(all.size() > 1 ? Nodes(all.begin() + 1, all.end()) : first->orelse, collection) : nullptr;
  return no ? tree_.make(Kind::IfExp, {first->items[0], yes, no}) : nullptr;
}

// A loop (or what stands for one in a comprehension's code object) as a comprehension.
Node* Reader::comprehension_of(const Nodes& statements, Node* collection) {
  Node* const whole = tree_.make(Kind::Comprehension);
  whole->text = collection == nullptr ? "()" : collection->kind == Kind::List ? "[]" : "{}";
  const Nodes* inner = &statements;
  for (;;) {
    Nodes rest;
    for (Node* statement : *inner) {
      if (statement->kind != Kind::Pass && statement->kind != Kind::Continue) rest.push_back(statement);
    }
    // if not c: continue
    if (rest.size() >= 2 && rest[0]->kind == Kind::If && rest[0]->orelse.empty() && rest[0]->body.size() == 1 && rest[0]->body[0]->kind == Kind::Continue && !whole->body.empty()) {
      whole->body.back()->items.push_back(negated(rest[0]->items[0]));
      Node* const holder = tree_.make(Kind::If, {}, {});
      holder->body.assign(rest.begin() + 1, rest.end());
      inner = &holder->body;
      continue;
    }
    // for y in [f(x)]: the compiler makes an assignment of it.
    if (rest.size() >= 2 && rest[0]->kind == Kind::Assign && rest[0]->items.size() == 2 && !whole->body.empty()) {
      whole->body.push_back(tree_.make(Kind::Generator, {rest[0]->items[0], tree_.make(Kind::List, {rest[0]->items[1]})}));
      Node* const holder = tree_.make(Kind::If);
      holder->body.assign(rest.begin() + 1, rest.end());
      inner = &holder->body;
      continue;
    }
    if (Node* const element = conditional_element(rest, collection)) {
      if (whole->body.empty()) throw Refused("a comprehension that isn't one");
      whole->items = {element};
      return whole;
    }
    if (rest.empty() && !whole->body.empty()) {
      // [x for x in y if False]: nothing is left of the element.
      whole->body.back()->items.push_back(tree_.constant(Py_False));
      whole->items.assign(collection && collection->kind == Kind::Dict ? 2 : 1, tree_.constant(Py_None));
      return whole;
    }
    if (rest.size() != 1) throw Refused("a comprehension that isn't one");
    Node* const statement = rest[0];
    if (statement->kind == Kind::For && statement->orelse.empty()) {
      whole->body.push_back(tree_.make(Kind::Generator, {statement->items[0], statement->items[1]}, {}, statement->number));
      inner = &statement->body;
    } else if (statement->kind == Kind::If && !whole->body.empty() && (idle(statement->orelse) || idle(statement->body))) {
      whole->body.back()->items.push_back(idle(statement->orelse) ? statement->items[0] : negated(statement->items[0]));
      inner = idle(statement->orelse) ? &statement->body : &statement->orelse;
    } else if (statement->kind == Kind::Element) {
      whole->items = statement->items;
      break;
    } else if (statement->kind == Kind::Expr && statement->items[0]->kind == Kind::Yield && collection == nullptr) {
      whole->items = {statement->items[0]->items[0]};
      break;
    } else {
      throw Refused("a comprehension that isn't one");
    }
  }
  if (whole->body.empty()) throw Refused("a comprehension that isn't one");
  return whole;
}

}  // namespace evalframe::decompiler
