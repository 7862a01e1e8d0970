// What instructions do in a state machine: expressions, statements, and the ways on from a block.
#include <algorithm>

#include "bytecode/operators.h"
#include "bytecode/stack.h"
#include "cpython/intrinsics.h"
#include "decompiler/machine_parts.h"

namespace evalframe::decompiler {

namespace {

bool is_assignment(Op op) {
  return op == Op::STORE_FAST || op == Op::STORE_DEREF || op == Op::STORE_GLOBAL || op == Op::STORE_ATTR || op == Op::STORE_SUBSCR || op == Op::STORE_SLICE;
}

bool stores_variable(Op op) { return op == Op::STORE_FAST || op == Op::STORE_DEREF || op == Op::STORE_GLOBAL; }

// What it has of the stack stays there, but for what is above the number of entries that there are afterwards.
bool keeps_operands(Op op) {
  return op == Op::COPY || op == Op::LIST_APPEND || op == Op::SET_ADD || op == Op::MAP_ADD || op == Op::LIST_EXTEND || op == Op::SET_UPDATE || op == Op::DICT_UPDATE ||
         op == Op::DICT_MERGE || op == Op::RERAISE || op == Op::WITH_EXCEPT_START || op == Op::IMPORT_FROM || op == Op::MATCH_SEQUENCE || op == Op::MATCH_MAPPING || op == Op::MATCH_KEYS || op == Op::GET_LEN;
}

bool indexes(Op op) { return op == Op::BINARY_SUBSCR || op == Op::STORE_SUBSCR || op == Op::DELETE_SUBSCR; }

bool is_collection(const Node* node) { return node->kind == Kind::List || node->kind == Kind::Set || node->kind == Kind::Dict; }

}  // namespace

// All that is on the stack has been evaluated then; `operands` is what was taken from it, and is used behind that.
void Machine::settle(const Nodes& operands) {
  waiting_ = operands;
  for (Node*& entry : stack_) {
    if (is_marker(entry) || entry->kind == Kind::Constant || is_own(entry)) continue;
    Node* const value = entry;
    check_value(value);
    entry = fresh();
    put(assign({entry}, value));
  }
  waiting_.clear();
}

void Machine::check_value(const Node* node) {
  const bool half_formatted = node->kind == Kind::Formatted && node->text == "converted";
  const bool is_function = node->kind == Kind::Function || node->kind == Kind::Class || node->kind == Kind::TypeAlias;
  if (is_function) throw Refused("a function or class that isn't bound to its name at once");
  if (half_formatted || node->kind == Kind::ImportedModule || node->kind == Kind::ImportedName) throw Refused("a jump in the midst of what belongs together");
}

// A statement behind the evaluation of all that waits.
void Machine::emit(Node* statement) {
  settle({statement});
  put(statement);
}

void Machine::put(Node* statement, const Nodes& used_later) {
  if (++statements_ > 200'000) throw Refused("it is too long");
  out_.push_back(statement);
  note_targets(statement);
  clear(used_later);
}

void Machine::note_targets(const Node* statement) {
  if (statement->kind != Kind::Assign) return;
  for (size_t i = 0; i + 1 < statement->items.size(); i++) note_target(statement->items[i]);
}

void Machine::note_target(const Node* target) {
  if (target->kind == Kind::Tuple) {
    for (const Node* const item : target->items) note_target(item);
  } else if (target->kind == Kind::Starred) {
    note_target(target->items[0]);
  } else if (is_own(target)) {
    hold(target->text);
  }
}

void Machine::hold(const std::string& variable) {
  held_.insert(variable);
  touched_.insert(variable);
}

void Machine::find_own(const Node* node, std::set<std::string>& found) const {
  if (node == nullptr) return;
  if (is_own(node)) found.insert(node->text);
  for (const Nodes* const list : {&node->items, &node->body, &node->handlers, &node->orelse, &node->last}) {
    for (const Node* const item : *list) find_own(item, found);
  }
}

// Objects live no longer than they are on the stack.
void Machine::clear(const Nodes& used_later) {
  if (held_.empty()) return;
  std::set<std::string> used;
  for (const Node* const entry : used_later) find_own(entry, used);
  for (const Node* const entry : stack_) find_own(entry, used);
  for (const Node* const entry : waiting_) find_own(entry, used);
  Nodes gone;
  for (auto variable = held_.begin(); variable != held_.end();) {
    const bool lives = used.contains(*variable);
    if (!lives) gone.push_back(name(*variable));
    variable = lives ? std::next(variable) : held_.erase(variable);
  }
  if (!gone.empty()) out_.push_back(assign(gone, none()));
}

// The values of the stack in the variables of their places.
void Machine::arrange(const Nodes& used_later) {
  Node* const targets = tree_.make(Kind::Tuple);
  Node* const values = tree_.make(Kind::Tuple);
  for (size_t i = 0; i < stack_.size(); i++) {
    Node*& entry = stack_[i];
    if (is_marker(entry) || (entry->kind == Kind::Name && entry->text == place(i))) continue;
    check_value(entry);
    targets->items.push_back(name(place(i)));
    values->items.push_back(entry);
    entry = name(place(i), entry->kind == Kind::Name ? entry->number : 0);
  }
  if (targets->items.empty()) return clear(used_later);
  const bool single = targets->items.size() == 1;
  put(assign({single ? targets->items[0] : targets}, single ? values->items[0] : values), used_later);
}

void Machine::go(int index) {
  arrange();
  out_.push_back(set_state(enter(index, stack_, level_)));
}

void Machine::read(Block& block) {
  stack_ = block.entry;
  level_ = block.level;
  out_.clear();
  held_.clear();
  touched_.clear();
  temporaries_ = 0;
  for (size_t i = 0; i < stack_.size(); i++) if (!is_marker(stack_[i])) hold(place(i));
  const Stack entry = stack_;
  bool ends = false;
  for (int i = block.first; i < block.end && !ends; i = next_) {
    next_ = i + 1;
    if (changes_kept(i, block)) end_block_behind(i, block);
    const size_t written = out_.size();
    ends = instruction(i);
    for (size_t k = written; k < out_.size(); k++) note_place(out_[k], i);
  }
  const size_t written = out_.size();
  if (!ends) go(resolve(block.end));
  for (size_t k = written; k < out_.size(); k++) note_place(out_[k], block.end - 1);
  if (block.region) block.handler = handle(block, entry);
  block.body = out_;
  block.touched = touched_;
}

void Machine::note_place(Node* statement, int i) {
  if (statement->from < 0) statement->from = i;
  for (const Nodes* const list : {&statement->body, &statement->handlers, &statement->orelse, &statement->last}) {
    for (Node* const inner : *list) note_place(inner, i);
  }
}

// Whether the variable that is deleted there ends with the frame in any case, without being asked for: it's given to what the function returns.
bool Machine::ends_with_frame(int i) const {
  const Block& block = blocks_[static_cast<size_t>(block_)];
  if (block.region || code_.instructions[block.end - 1].op != Op::RETURN_VALUE) return false;
  const auto& all = code_.instructions;
  const auto loads_it = [&](const Instruction& one) { return one.op == Op::LOAD_FAST && one.arg == all[i].arg; };
  if (std::none_of(all.begin() + block.first, all.begin() + i, loads_it)) return false;
  return std::none_of(all.begin() + i + 1, all.begin() + block.end, [&](const Instruction& one) { return bytecode::argument_kind(one.op) == bytecode::Argument::local && one.arg == all[i].arg; });
}

// A handler keeps what was on the stack when the block began: what changes that ends the block, before anything else can raise.
bool Machine::changes_kept(int i, const Block& block) const {
  const Instruction& one = code_.instructions[i];
  const bytecode::StackEffect effect = bytecode::stack_effect(one);
  const int taken = keeps_operands(one.op) ? std::max(effect.takes - effect.gives, 0) : effect.takes;
  const auto depth = static_cast<int>(stack_.size());
  if (block.region == nullptr || depth - taken >= block.region->depth || bytecode::flow(one.op) == Flow::stop) return false;
  if (!never_raises(one.op)) throw Refused("values that are used up in a region whose handler keeps them");
  return true;
}

void Machine::end_block_behind(int i, Block& block) {
  if (i + 1 >= block.end) return;
  parts_[i + 1] = {block.end, block.region};
  block.end = i + 1;
}

int Machine::handle(const Block& block, const Stack& entry) {
  const auto depth = static_cast<size_t>(block.region->depth);
  if (entry.size() < depth) throw Refused("a handler that keeps more than there is");
  Stack stack(entry.begin(), entry.begin() + static_cast<std::ptrdiff_t>(depth));
  if (block.region->push_lasti) stack.push_back(tree_.make(Kind::Special));
  const int target = block.region->target;
  const bool begins = code_.instructions[target].op == Op::PUSH_EXC_INFO;
  if (begins) stack.push_back(tree_.make(Kind::Saved, {}, {}, block.level));
  stack.push_back(begins ? name(handled(block.level + 1), block.level + 1) : name(place(stack.size())));
  return enter(begins ? resolve(target + 1) : resolve(target), stack, block.level + (begins ? 1 : 0));
}

Node* Machine::settled_top() {
  settle();
  if (stack_.empty() || (is_marker(stack_.back()) && !is_own(stack_.back()))) throw Refused("a value that is missing");
  return stack_.back();
}

// Whether the block ends there.
bool Machine::instruction(int i) {
  const Instruction& one = code_.instructions[i];
  const Flow flow = bytecode::flow(one.op);
  if (one.op == Op::JUMP_FORWARD || one.op == Op::JUMP_BACKWARD || one.op == Op::JUMP_BACKWARD_NO_INTERRUPT) return go(resolve(one.target)), true;
  if (only_leads_on(one.op)) return false;
  if (one.op == Op::FOR_ITER) return turn(one, i), true;
  if (one.op == Op::SEND) return wait(one, i), true;
  if (flow == Flow::branch) return test(one, i), true;
  if (one.op == Op::PUSH_EXC_INFO) return begin_handling(i), true;
  if (one.op == Op::POP_EXCEPT) return end_handling(i), true;
  if (one.op == Op::CHECK_EG_MATCH) return divide_exception(i), true;
  if (one.op == Op::RERAISE) return raise_again(), true;
  if (flow == Flow::stop) {
    Nodes made;
    reader_.step_rest(i, stack_, made);
    settle(made);
    // In an asynchronous generator there can be no other.
    for (Node* const statement : made) if (statement->kind == Kind::Return && statement->items[0]->kind == Kind::Constant && statement->items[0]->constant == Py_None) statement->items.clear();
    out_.insert(out_.end(), made.begin(), made.end());
    return true;
  }
  plain(i);
  return false;
}

void Machine::plain(int i) {
  const Instruction& one = code_.instructions[i];
  const auto arg = static_cast<size_t>(one.arg);
  switch (one.op) {
    case Op::COPY: return copy(arg);
    case Op::SWAP: return swap(arg);
    case Op::GET_ITER: return iterate(i);
    case Op::TO_BOOL: return truth(i);
    case Op::BUILD_SLICE: return slice(i);
    case Op::BUILD_STRING: return join(i);
    case Op::BINARY_OP:
      if (one.arg >= bytecode::kBinaryOps) return in_place(i);
      break;
    case Op::COMPARE_OP:
      reader_.step_operator(i, stack_);
      if (one.arg2 > 0 && (one.arg2 & layout::kCompareAsBool) && !tests(i + 1)) stack_.back() = as_bool(pop_pushed());
      return;
    case Op::LIST_APPEND:
    case Op::SET_ADD:
    case Op::MAP_ADD:
    case Op::LIST_EXTEND:
    case Op::SET_UPDATE:
    case Op::DICT_UPDATE:
    case Op::DICT_MERGE: return grow(i);
    case Op::UNPACK_SEQUENCE:
    case Op::UNPACK_EX: return unpack(i);
    case Op::LOAD_FAST_AND_CLEAR: return put_aside(i);
    case Op::CHECK_EXC_MATCH: return match_exception();
    case Op::PREP_RERAISE_STAR: return gather_exceptions();
    case Op::CALL_INTRINSIC_2:
      if (one.arg == cpython::kPrepReraiseStar) return gather_exceptions();
      break;
    case Op::BEFORE_WITH:
    case Op::BEFORE_ASYNC_WITH: return enter_context(one.op == Op::BEFORE_ASYNC_WITH);
    case Op::WITH_EXCEPT_START: return exit_context();
    case Op::GET_LEN: return length();
    case Op::MATCH_SEQUENCE: return match_kind("[*_]");
    case Op::MATCH_MAPPING: return match_kind("{}");
    case Op::MATCH_KEYS: return match_keys();
    case Op::MATCH_CLASS: return match_class(one.arg);
    case Op::POP_TOP: return drop();
    case Op::DELETE_FAST:
      if (ends_with_frame(i)) return;
      break;
    default: break;
  }
  if (is_assignment(one.op)) return store(i);
  // Where an exception was raised is nothing but the line that is told when it's raised again.
  if (options_.generated && one.op == Op::CALL) std::replace_if(stack_.begin(), stack_.end(), [](const Node* entry) { return entry->kind == Kind::Special; }, tree_.make(Kind::Raw, {}, "-1"));
  Nodes made;
  reader_.step(i, stack_, made);
  for (Node* const statement : made) emit(statement);
}

Node* Machine::pop_pushed() {
  Node* const value = pop();
  stack_.push_back(value);
  return value;
}

// The next instruction tests the value for its truth itself.
bool Machine::tests(int i) const {
  while (i < size() && code_.instructions[i].op == Op::NOP) i++;
  if (i >= size() || parts_.contains(i)) return false;
  const Op op = code_.instructions[i].op;
  return op == Op::POP_JUMP_IF_FALSE || op == Op::POP_JUMP_IF_TRUE || op == Op::UNARY_NOT || op == Op::TO_BOOL;
}

void Machine::truth(int i) {
  if (!tests(i + 1)) stack_.back() = as_bool(pop_pushed());
}

void Machine::copy(size_t place_from_top) {
  if (place_from_top < 1 || place_from_top > stack_.size()) throw Refused("the stack runs empty");
  Node*& entry = stack_[stack_.size() - place_from_top];
  if (!is_marker(entry)) settle();
  stack_.push_back(entry->kind == Kind::Name ? name(entry->text, entry->number) : entry);
}

void Machine::swap(size_t place_from_top) {
  if (place_from_top < 1 || place_from_top > stack_.size()) throw Refused("the stack runs empty");
  Node*& other = stack_[stack_.size() - place_from_top];
  const bool imports = stack_.back()->kind == Kind::ImportedName || stack_.back()->kind == Kind::ImportedModule;
  if (!imports) settle();
  std::swap(stack_.back(), other);
}

// A comprehension that is a function gets its iterator as it is.
void Machine::iterate(int i) {
  const bool of_comprehension = stack_.size() > 1 && i + 1 < size() && code_.instructions[i + 1].op == Op::CALL && stack_[stack_.size() - 2]->kind == Kind::Comprehension && stack_[stack_.size() - 2]->body.size() > 0 &&
                                !parts_.contains(i + 1);
  if (of_comprehension) {
    reader_.step_wait(i, stack_);
    return;
  }
  Node* const value = pop();
  stack_.push_back(call(builtin("iter"), {value}));
}

void Machine::slice(int i) {
  const size_t count = code_.instructions[i].arg == 3 ? 3 : 2;
  if (i + 1 < size() && indexes(code_.instructions[i + 1].op) && !parts_.contains(i + 1)) {
    reader_.step_operator(i, stack_);
    return;
  }
  Nodes parts = reader_.pop(stack_, count);
  stack_.push_back(call(builtin("slice"), std::move(parts)));
}

// Texts of which some aren't those of an f-string's parts.
void Machine::join(int i) {
  Nodes parts = reader_.pop(stack_, static_cast<size_t>(code_.instructions[i].arg));
  const bool plain = std::all_of(parts.begin(), parts.end(), [](const Node* part) {
    return (part->kind == Kind::Constant && PyUnicode_Check(part->constant)) || (part->kind == Kind::Formatted && part->text != "converted");
  });
  stack_.push_back(plain ? tree_.make(Kind::Joined, std::move(parts)) : call(tree_.make(Kind::Attribute, {tree_.make(Kind::Raw, {}, "''")}, "join"), {tree_.make(Kind::Tuple, std::move(parts))}));
}

void Machine::in_place(int i) {
  Nodes operands = reader_.pop(stack_, 2);
  const int operation = code_.instructions[i].arg;
  const Node* const left = operands[0];
  const bool is_variable = left->kind == Kind::Name && !is_own(left) && i + 1 < size() && stores_variable(code_.instructions[i + 1].op) && !parts_.contains(i + 1);
  if (is_variable && variable_at(i + 1) == left->text) {
    next_ = i + 2;
    return emit(tree_.make(Kind::AugAssign, {operands[0], operands[1]}, {}, operation));
  }
  settle(operands);
  Node* const result = fresh();
  stack_.push_back(result);
  put(assign({result}, operands[0]), {operands[1]});
  put(tree_.make(Kind::AugAssign, {result, operands[1]}, {}, operation));
}

std::string Machine::variable_at(int i) const {
  const Instruction& one = code_.instructions[i];
  return one.op == Op::STORE_GLOBAL ? reader_.global(one.arg) : reader_.local(one.arg);
}

void Machine::grow(int i) {
  const Instruction& one = code_.instructions[i];
  const auto count = static_cast<size_t>(one.arg);
  const bool pair = one.op == Op::MAP_ADD;
  const size_t taken = pair ? 2 : 1;
  if (count < 1 || stack_.size() < count + taken) throw Refused("the stack runs empty");
  const Node* const target = stack_[stack_.size() - count - taken];
  const bool in_display = count == 1 && is_collection(target) && one.op != Op::SET_ADD && !pair;
  if (in_display) {
    Nodes made;
    reader_.step(i, stack_, made);
    return;
  }
  if (one.op == Op::DICT_MERGE) throw Refused("keywords that are put together around a jump");
  settle();
  Node* const value = pop();
  Node* const key = pair ? pop() : nullptr;
  Node* const collection = stack_[stack_.size() - count];
  const auto method = [&](const char* method, Node* argument) { put(tree_.make(Kind::Expr, {call(tree_.make(Kind::Attribute, {collection}, method), {argument})})); };
  const auto spread = [&](Kind kind) { return tree_.make(kind, {tree_.make(Kind::Starred, {value})}); };
  switch (one.op) {
    case Op::LIST_APPEND: return method("append", value);
    case Op::SET_ADD: return method("add", value);
    case Op::LIST_EXTEND: return method("extend", spread(Kind::List));
    case Op::SET_UPDATE: return method("update", spread(Kind::Set));
    case Op::DICT_UPDATE: return method("update", tree_.make(Kind::Dict, {nullptr, value}));
    default: return put(assign({tree_.make(Kind::Subscript, {collection, key})}, value));
  }
}

void Machine::unpack(int i) {
  const Instruction& one = code_.instructions[i];
  const bool starred = one.op == Op::UNPACK_EX;
  const int before = one.arg & 0xFF, count = starred ? before + 1 + (one.arg >> 8) : one.arg;
  if (count > 10'000) throw Refused("it unpacks too many values");
  Node* const value = pop();
  Node* const targets = tree_.make(count == 0 ? Kind::List : Kind::Tuple);
  // The first ones that are stored at once.
  int stored = 0;
  while (stored < count && i + 1 + stored < size() && !parts_.contains(i + 1 + stored) && stores_variable(code_.instructions[i + 1 + stored].op)) stored++;
  for (int k = 0; k < count; k++) {
    Node* const target = k < stored ? name(variable_at(i + 1 + k)) : fresh();
    targets->items.push_back(starred && k == before ? tree_.make(Kind::Starred, {target}) : target);
  }
  settle({value});
  put(assign({targets}, value), targets->items);
  next_ = i + 1 + stored;
  for (int k = count; k-- > stored;) {
    const Node* const target = targets->items[static_cast<size_t>(k)];
    stack_.push_back(name(target->kind == Kind::Starred ? target->items[0]->text : target->text));
  }
}

// The variable of an inlined comprehension, which may be unbound (3.12+): as a tuple of its value, or an empty one.
void Machine::put_aside(int i) {
  const int slot = code_.instructions[i].arg;
  if (reader_.local(slot).starts_with(".") || is_cell(slot)) throw Refused("a comprehension whose variables are shared with functions in it");
  settle();
  Node* const saved = fresh();
  Node* const variable = name(reader_.local(slot));
  Node* const attempt = tree_.make(Kind::Try);
  attempt->body = {assign({saved}, tree_.make(Kind::Tuple, {variable})), tree_.make(Kind::Delete, {variable})};
  Node* const unbound = tree_.make(Kind::Handler);
  unbound->body = {assign({saved}, tree_.make(Kind::Tuple))};
  attempt->handlers = {unbound};
  stack_.push_back(name(saved->text, -1));
  hold(saved->text);
  out_.push_back(attempt);
}

void Machine::put_back(const std::string& variable, Node* saved) {
  settle({saved});
  put(assign({name(variable)}, none()), {saved});
  put(tree_.make(Kind::Delete, {name(variable)}), {saved});
  Node* const bind = tree_.make(Kind::For, {name(variable), saved});
  bind->body = {tree_.make(Kind::Pass)};
  put(bind);
}

void Machine::store(int i) {
  const Instruction& one = code_.instructions[i];
  if (stores_variable(one.op)) {
    const std::string variable = variable_at(i);
    Node* value = pop();
    if (value->kind == Kind::Name && value->number == -1) return put_back(variable, value);
    if (value->kind == Kind::Null) {
      // Nothing: the variable is unbound then.
      emit(assign({name(variable)}, none()));
      return emit(tree_.make(Kind::Delete, {name(variable)}));
    }
    if (value->kind == Kind::Special && options_.generated) value = tree_.make(Kind::Raw, {}, "-1");
    if (value->kind == Kind::ImportedModule || value->kind == Kind::ImportedName) {
      Nodes made;
      reader_.assign(name(variable), value, stack_, made);
      for (Node* const statement : made) emit(statement);
      return;
    }
    Node* const defined = reader_.definition(name(variable), value);
    return emit(defined ? defined : assign({name(variable)}, value));
  }
  Node* target = nullptr;
  if (one.op == Op::STORE_ATTR) {
    target = tree_.make(Kind::Attribute, {pop()}, reader_.global(one.arg));
  } else if (one.op == Op::STORE_SUBSCR) {
    target = tree_.make(Kind::Subscript, reader_.pop(stack_, 2));
  } else {
    const Nodes parts = reader_.pop(stack_, 3);
    target = tree_.make(Kind::Subscript, {parts[0], tree_.make(Kind::Slice, {parts[1], parts[2], nullptr})});
  }
  Node* const value = pop();
  emit(assign({target}, value));
}

void Machine::drop() {
  Node* const value = pop();
  if (is_marker(value) || value->kind == Kind::Constant || value->kind == Kind::ImportedName) return;
  if (is_own(value)) return clear();
  if (value->kind == Kind::ImportedModule) {
    Nodes made;
    reader_.drop(value, stack_, made);
    for (Node* const statement : made) emit(statement);
    return;
  }
  check_value(value);
  emit(tree_.make(Kind::Expr, {value}));
}

void Machine::test(const Instruction& one, int i) {
  const int jump = resolve(one.target), next = resolve(i + 1);
  if (one.op == Op::JUMP_IF_FALSE_OR_POP || one.op == Op::JUMP_IF_TRUE_OR_POP) return test_or_pop(one, jump, next);
  Node* test = pop();
  if (is_marker(test) && !is_own(test)) throw Refused("a test of what isn't a value");
  check_value(test);
  if (one.op == Op::POP_JUMP_IF_NONE || one.op == Op::POP_JUMP_IF_NOT_NONE) {
    test = tree_.make(Kind::Compare, {test, none()});
    test->names = {"is"};
  }
  const bool jumps_if = one.op == Op::POP_JUMP_IF_TRUE || one.op == Op::POP_JUMP_IF_NONE;
  settle({test});
  arrange_below(test);
  const int jumped = enter(jump, stack_, level_), passed = enter(next, stack_, level_);
  out_.push_back(choice(test, jumps_if ? jumped : passed, jumps_if ? passed : jumped));
  clear();
}

// What is tested is evaluated behind what waits on the stack, which goes to its places first: so it must not read what those have held.
void Machine::arrange_below(Node*& test) {
  std::set<std::string> used;
  find_own(test, used);
  for (size_t i = 0; i < stack_.size(); i++) {
    const bool moves = !is_marker(stack_[i]) && !(stack_[i]->kind == Kind::Name && stack_[i]->text == place(i));
    if (!moves || !used.contains(place(i))) continue;
    Node* const held = fresh();
    put(assign({held}, test), {held});
    test = held;
    break;
  }
  arrange({test});
}

void Machine::test_or_pop(const Instruction& one, int jump, int next) {
  settled_top();
  arrange();
  Node* const value = stack_.back();
  Node* const either = tree_.make(Kind::If, {value});
  const bool jumps_if = one.op == Op::JUMP_IF_TRUE_OR_POP;
  Nodes& stays = jumps_if ? either->body : either->orelse;
  Nodes& pops = jumps_if ? either->orelse : either->body;
  stays = {set_state(enter(jump, stack_, level_))};
  stack_.pop_back();
  pops = {assign({name(value->text)}, none()), set_state(enter(next, stack_, level_))};
  out_.push_back(either);
}

void Machine::turn(const Instruction& one, int i) {
  settled_top();
  arrange();
  const size_t slot = stack_.size();
  Node* const item = name(place(slot));
  has_end_ = true;
  out_.push_back(assign({item}, call(builtin("next"), {stack_.back(), name(own("end"))})));
  hold(item->text);
  Node* const over = tree_.make(Kind::Compare, {name(place(slot)), name(own("end"))});
  over->names = {"is"};
  Node* const either = tree_.make(Kind::If, {over});
  stack_.push_back(name(place(slot)));
  const int next = enter(resolve(i + 1), stack_, level_);
  stack_.resize(slot - 1);
  const int behind = enter(resolve(target_of(one)), stack_, level_);
  either->body = {assign({name(place(slot - 1)), name(place(slot))}, none()), set_state(behind)};
  either->orelse = {set_state(next)};
  out_.push_back(either);
}

void Machine::wait(const Instruction& one, int i) {
  reader_.step_wait(i, stack_);
  if (!layout::kSendPopsReceiver && stack_.size() > 1) stack_[stack_.size() - 2] = tree_.make(Kind::Special);
  settle();
  go(resolve(one.target));
}

}  // namespace evalframe::decompiler
