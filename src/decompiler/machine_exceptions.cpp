// Exceptions, context managers and patterns in a state machine.
#include <algorithm>

#include "decompiler/machine_parts.h"

namespace evalframe::decompiler {

void Machine::end_handling(int i) {
  const Node* const saved = pop();
  if (options_.generated && is_own(saved) && saved->number == 0) {
    // The frame began with an exception that was handled; `except*` may have set another in its place.
    begins_handling_ = true;
    if (level_ == 0) return go(resolve(i + 1));
    const bool within = std::any_of(stack_.begin(), stack_.end(), [](const Node* entry) { return entry->kind == Kind::Saved; });
    if (level_ > 1 || within) throw Refused("exceptions that are handled out of order");
  } else if (saved->kind != Kind::Saved || saved->number != level_ - 1) {
    throw Refused("exceptions that are handled out of order");
  }
  for (Node*& entry : stack_) {
    if (entry->kind == Kind::Name && entry->number == level_) entry = name(entry->text);
  }
  arrange();
  out_.push_back(set_state(enter(resolve(i + 1), stack_, level_ - 1)));
  out_.push_back(tree_.make(Kind::Break));
}

// With the context and the traceback that it has.
void Machine::raise_again() {
  settle();
  Node* const error = pop();
  if (!is_own(error)) throw Refused("an exception that isn't one");
  const ExceptionRegion* const region = block().region;
  stack_.resize(std::min(stack_.size(), static_cast<size_t>(region ? region->depth : 0)));
  clear({error});
  if (error->number > 0 && error->number == level_) {
    out_.push_back(tree_.make(Kind::Raise));
    return;
  }
  const Nodes raise = raise_as_it_is(error, {name(error->text)});
  out_.insert(out_.end(), raise.begin(), raise.end());
}

// Handling that begins with an exception on the stack is what raising it leads to.
void Machine::begin_handling(int i) {
  settle();
  Node* const error = pop();
  if (!is_own(error) || error->number != 0) throw Refused("an exception that isn't one");
  const auto depth = static_cast<int32_t>(stack_.size());
  block().region = &own_regions_.emplace_back(ExceptionRegion{i, i + 1, i, depth, false});
  const Nodes raise = raise_as_it_is(error, {name(error->text)});
  out_.insert(out_.end(), raise.begin(), raise.end());
}

// With its context and traceback; `gone` are emptied.
Nodes Machine::raise_as_it_is(Node* error, Nodes gone) {
  const auto parts = [&] { return tree_.make(Kind::Tuple, {tree_.make(Kind::Attribute, {error}, "__context__"), tree_.make(Kind::Attribute, {error}, "__traceback__")}); };
  const auto kept = [&] { return tree_.make(Kind::Tuple, {name(own("context")), name(own("traceback"))}); };
  gone.insert(gone.begin(), {name(own("context")), name(own("traceback"))});
  Node* const raise = tree_.make(Kind::Try);
  raise->body = {tree_.make(Kind::Raise, {error})};
  raise->last = {assign({parts()}, kept()), assign(gone, none())};
  return {assign({kept()}, parts()), raise};
}

// Classes are asked nothing: it is as in an `except` clause.
void Machine::match_exception() {
  Node* const type = pop();
  settle({type});
  const Node* const error = stack_.empty() ? nullptr : stack_.back();
  if (error == nullptr || !is_own(error)) throw Refused("a test of an exception that isn't one");
  Node* const result = fresh();
  Node* const attempt = tree_.make(Kind::Try);
  const bool is_handled = level_ > 0 && error->number == level_;
  attempt->body = is_handled ? Nodes{tree_.make(Kind::Raise)} : raise_as_it_is(name(error->text), {});
  const auto found = [&](Nodes types, PyObject* value) {
    Node* const handler = tree_.make(Kind::Handler, std::move(types));
    handler->body = {assign({name(result->text)}, tree_.constant(value))};
    return handler;
  };
  attempt->handlers = {found({type}, Py_True), found({}, Py_False)};
  out_.push_back(attempt);
  hold(result->text);
  stack_.push_back(name(result->text));
}

// What a clause of `except*` takes is what is handled from there on: raised, where there was nothing or another exception.
void Machine::divide_exception(int i) {
  const Nodes operands = reader_.pop(stack_, 2);
  settle(operands);
  Node *const rest = fresh(), *const match = fresh();
  put(assign({tree_.make(Kind::Tuple, {rest, match})}, call(helper("divided"), operands)), {rest, match});
  stack_.insert(stack_.end(), {rest, match});
  for (Node*& entry : stack_) {
    if (entry->kind == Kind::Name && entry->number == level_) entry = name(entry->text);
  }
  arrange();
  Node* const nothing = tree_.make(Kind::Compare, {stack_.back(), none()});
  nothing->names = {"is"};
  Node* const either = tree_.make(Kind::If, {nothing});
  either->body = {set_state(enter(resolve(i + 1), stack_, level_))};
  either->orelse = {set_state(raise_first(i))};
  if (level_ > 0) either->orelse.push_back(tree_.make(Kind::Break));
  out_.push_back(either);
}

// A block that raises what is on top of the stack, around which it's handled then.
int Machine::raise_first(int i) {
  const int level = std::max(level_ - 1, 0);
  const ExceptionRegion& region = own_regions_.emplace_back(ExceptionRegion{i, i + 1, i, static_cast<int32_t>(stack_.size()), false});
  const auto id = static_cast<int>(blocks_.size());
  Block& raising = blocks_.emplace_back(Block{.first = i, .end = i, .level = level, .region = &region, .ways = 1, .raises = true});
  raising.body = raise_as_it_is(stack_.back(), {});
  raising.handler = enter(resolve(i + 1), stack_, level + 1);
  blocks_at_[i].push_back(id);
  return id;
}

void Machine::gather_exceptions() { stack_.push_back(call(helper("gathered"), reader_.pop(stack_, 2))); }

void Machine::enter_context(bool async) {
  Node* const manager = settled_top();
  stack_.pop_back();
  Node *const enter = fresh(), *const exit = fresh();
  const auto method = [&](const char* name_of) {
    Node* const text = tree_.make(Kind::Raw, {}, std::string("'__") + (async ? "a" : "") + name_of + "__'");
    return call(helper("special"), {manager, text});
  };
  // Without one of them: the error that a `with` statement raises.
  Node* const missing = tree_.make(Kind::If, {tree_.make(Kind::Not, {exit})});
  Node* const with = tree_.make(Kind::With, {manager, nullptr}, {}, async);
  with->body = {tree_.make(Kind::Pass)};
  missing->body = {with};
  const auto first = [&](Node* found) { return tree_.make(Kind::Subscript, {found, tree_.make(Kind::Raw, {}, "0")}); };
  put(assign({enter}, method("enter")), {manager, enter});
  put(assign({exit}, tree_.make(Kind::And, {enter, method("exit")})), {manager, enter, exit});
  put(missing, {enter, exit});
  stack_.insert(stack_.end(), {first(exit), first(enter)});
  settle();
  stack_.back() = call(stack_.back(), {});
  if (!async) settle();
}

void Machine::exit_context() {
  settle();
  if (stack_.size() < 4 || !is_own(stack_.back())) throw Refused("the stack runs empty");
  Node* const exit = stack_[stack_.size() - 4];
  Node* const error = stack_.back();
  stack_.push_back(call(name(exit->text), {call(builtin("type"), {error}), error, tree_.make(Kind::Attribute, {error}, "__traceback__")}));
}

void Machine::length() {
  Node* const value = settled_top();
  stack_.push_back(call(builtin("len"), {value}));
}

void Machine::match_keys() {
  settle();
  if (stack_.size() < 2) throw Refused("the stack runs empty");
  stack_.push_back(call(helper("keyed"), {stack_[stack_.size() - 2], stack_.back()}));
}

Node* Machine::matched(Node* subject, const std::string& pattern, Node* yes, Node* no) {
  Node* const result = fresh();
  Node* const statement = tree_.make(Kind::MatchStatement, {subject});
  const auto add = [&](const std::string& text, Node* value) {
    Node* const one = tree_.make(Kind::Case, {tree_.make(Kind::Raw, {}, text), nullptr});
    one->body = {assign({name(result->text)}, value)};
    statement->handlers.push_back(one);
  };
  add(pattern, yes);
  add("_", no);
  out_.push_back(statement);
  hold(result->text);
  return name(result->text);
}

void Machine::match_kind(const char* pattern) {
  Node* const subject = settled_top();
  stack_.push_back(matched(subject, pattern, tree_.constant(Py_True), tree_.constant(Py_False)));
}

void Machine::match_class(int positional) {
  settle();
  const Nodes parts = reader_.pop(stack_, 3);
  if (parts[2]->kind != Kind::Constant || !PyTuple_Check(parts[2]->constant) || !is_own(parts[1])) throw Refused("a class pattern that isn't one");
  Node* const values = tree_.make(Kind::Tuple);
  std::string pattern;
  const auto add = [&](const std::string& keyword) {
    Node* const value = fresh();
    values->items.push_back(value);
    hold(value->text);
    pattern += (pattern.empty() ? "" : ", ") + keyword + value->text;
  };
  for (int i = 0; i < positional; i++) add("");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts[2]->constant); i++) add(name_text(PyTuple_GET_ITEM(parts[2]->constant, i)) + "=");
  stack_.push_back(matched(parts[0], parts[1]->text + "(" + pattern + ")", values, none()));
  clear();
}

}  // namespace evalframe::decompiler
