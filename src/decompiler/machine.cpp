#include "decompiler/machine.h"

#include <algorithm>

#include "cpython/intrinsics.h"
#include "cpython/variables.h"
#include "decompiler/bodies.h"
#include "decompiler/machine_parts.h"

namespace evalframe::decompiler {

namespace {

// Variables of the machine, behind a prefix that makes them unlike all names of the code: those that stand for builtin functions and classes,
// which a program may have named otherwise; what a loop's iterator gives at its end; and with a number places of the stack and single values.
constexpr const char* kBuiltins[] = {"BaseException", "BaseExceptionGroup", "TypeError", "ValueError", "hasattr", "id", "issubclass", "iter", "len", "next", "object", "set", "slice", "tuple", "type"};
constexpr const char* kOthers[] = {"state", "error", "end", "special", "divided", "gathered", "keyed", "context", "traceback", "s", "t"};

// Functions that see a frame's variables: those of the machine, too.
constexpr const char* kSeeVariables[] = {"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"};

// Functions that a machine brings along: `@` is its prefix, and stands before the builtins that they use, too.
struct Helper {
  const char* name;
  std::vector<const char*> builtins;
  std::string text;
};
const Helper kHelpers[] = {
    // What a `with` statement does to find a method: in the class, whatever the object itself says.
    {"special", {"type", "hasattr"},
     "@special = lambda @x, @name: [@type(@found).__get__(@found, @x, @type(@x)) if @hasattr(@type(@found), '__get__') else @found "
     "for @each in @type(@x).__mro__ if @name in @each.__dict__ for @found in [@each.__dict__[@name]]]\n"},
    // What `except*` does with an exception, which may be None: what is left of it, and what the clause handles. Classes are asked nothing.
    {"divided", {"BaseException", "BaseExceptionGroup", "TypeError", "issubclass", "tuple", "type"},
     std::string(R"(def @divided(error, classes):
    each = classes if @issubclass(@type(classes), @tuple) else (classes,)
    for one in each:
        if not @issubclass(@type(one), @type) or not @issubclass(one, @BaseException):
            raise @TypeError('catching classes that do not inherit from BaseException is not allowed')
    for one in each:
        if @issubclass(one, @BaseExceptionGroup):
            raise @TypeError('catching ExceptionGroup with except* is not allowed. Use except instead.')
    is_group = @issubclass(@type(error), @BaseExceptionGroup)
    for one in each:
        if @type.__subclasscheck__(one, @type(error)):
            return (None, error if is_group else @BaseExceptionGroup('', (error,)))
    if not is_group:
        return (error, None)
    parts = error.split(classes)
)") + (layout::kUnmatchedGroupStays ? "    return (error if parts[0] is None else parts[1], parts[0])\n" : "    return (parts[1], parts[0])\n")},
    // What is raised behind all clauses, or None: of what they raised, and what they left or raised again, which is one exception as it was in the first.
    {"gathered", {"BaseExceptionGroup", "id", "issubclass", "len", "set", "type"},
     R"(def @gathered(first, errors):
    if not errors or not @issubclass(@type(first), @BaseExceptionGroup):
        return errors[0] if errors else None
    raised, left, single = [], [], @set()
    for error in errors:
        if error is not None:
            is_same = error.__traceback__ is first.__traceback__ and error.__cause__ is first.__cause__ and error.__context__ is first.__context__
            (left if is_same else raised).append(error)
    while left:
        error = left.pop()
        if @issubclass(@type(error), @BaseExceptionGroup):
            left.extend(error.exceptions)
        else:
            single.add(@id(error))
    again = @BaseExceptionGroup.subgroup(first, lambda error: @id(error) in single)
    if again is not None:
        raised.append(again)
    if @len(raised) > 1:
        return @BaseExceptionGroup('', raised)
    return raised[0] if raised else None
)"},
    // What a mapping pattern asks for: the values of the keys, or None.
    {"keyed", {"ValueError", "object", "set", "tuple"},
     R"(def @keyed(mapping, keys):
    if not keys:
        return ()
    get, seen, values, missing = mapping.get, @set(), [], @object()
    for key in keys:
        if key in seen:
            raise @ValueError('mapping pattern checks duplicate key (%r)' % (key,))
        seen.add(key)
        values.append(get(key, missing))
        if values[-1] is missing:
            return None
    return @tuple(values)
)"},
};

void add_names(const PyCodeObject* code, std::set<std::string>& names, int depth = 0) {
  for (PyObject* const all : {code->co_names, code->co_localsplusnames}) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all); i++) names.insert(name_text(PyTuple_GET_ITEM(all, i)));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts) && depth < 60; i++) {
    PyObject* const inner = PyTuple_GET_ITEM(code->co_consts, i);
    if (PyCode_Check(inner)) add_names(reinterpret_cast<PyCodeObject*>(inner), names, depth + 1);
  }
}

constexpr int kMostNested = 40;  // blocks in one another, which leaves room for those around the function

int nesting(const Nodes& statements) {
  int most = 0;
  for (const Node* const one : statements) {
    for (const Nodes* const inner : {&one->body, &one->handlers, &one->orelse}) most = std::max(most, inner->empty() ? 0 : nesting(*inner) + 1);
  }
  return most;
}

}  // namespace

bool is_ours(const std::string& name, const std::string& prefix) {
  if (!name.starts_with(prefix)) return false;
  std::string stem = name.substr(prefix.size());
  while (!stem.empty() && stem.back() >= '0' && stem.back() <= '9') stem.pop_back();
  const auto is_stem = [&](const char* each) { return stem == each; };
  return prefix != "_" || std::any_of(std::begin(kBuiltins), std::end(kBuiltins), is_stem) || std::any_of(std::begin(kOthers), std::end(kOthers), is_stem);
}

Nodes Machine::run() {
  choose_prefix();
  find_blocks();
  const int start = enter(resolve(0), {}, 0);
  while (!open_.empty()) {
    block_ = open_.back();
    open_.pop_back();
    read(block());
  }
  Nodes rest = is_tree() ? tree(start) : Nodes();
  const bool is_plain = !rest.empty() && nesting(rest) <= kMostNested;
  if (!is_plain) rest = {set_state(start), level_loop(0)};
  number_states();
  Nodes body{tree_.make(Kind::Comment, {}, comment(is_plain))};
  add_start(body);
  body.insert(body.end(), rest.begin(), rest.end());
  check_variables(body);
  return body;
}

void Machine::choose_prefix() {
  std::set<std::string> names;
  add_names(object(), names);
  for (const auto& [index, name] : options_.names) names.insert(name);
  for (const char* const name : kSeeVariables) {
    if (names.contains(name)) sees_variables_ = name;
    if (names.contains(name) && !options_.generated) throw Refused(std::string("a state machine has variables of its own, and `") + name + "` may show them");
  }
  const auto taken = [&] { return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return is_ours(name, prefix_); }); };
  for (int i = 0; taken(); i++) prefix_ = "_m" + std::to_string(i) + "_";
}

std::string Machine::comment(bool is_plain) const {
  std::string line = is_plain ? "evalframe: this does what the code does, but is compiled to other code: " : "evalframe: a state machine, which does what the code does but isn't how it was written: ";
  std::string names;
  for (const auto& [index, name] : options_.names) names += (names.empty() ? "" : ", ") + name;
  line += names.empty() ? options_.reason : "constants of it are " + names;
  if (!sees_variables_.empty()) line += "; here `" + sees_variables_ + "` shows variables that aren't the code's";
  if (begins_handling_) line += "; here `sys.exc_info` tells of the exception that is handled when it begins only where that is so for the caller, and to the end";
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

// What is a variable because of code that can never run is one still; and none has the name of a global one.
void Machine::check_variables(Nodes& body) {
  std::set<std::string> stored;
  for (const auto& [first, part] : parts_) {
    for (int i = first; i < part.end; i++) {
      const Instruction& one = code_.instructions[i];
      const bool is_global = one.op == Op::LOAD_GLOBAL || one.op == Op::STORE_GLOBAL || one.op == Op::DELETE_GLOBAL;
      if (is_global && is_variable(reader_.global(one.arg))) throw Refused("a variable that has the name of a global one");
      if (blocks_at_.contains(first) && (one.op == Op::STORE_FAST || one.op == Op::STORE_DEREF)) stored.insert(reader_.local(one.arg));
    }
  }
  std::vector<std::string> mentioned;
  if (options_.generated) {
    for (const Node* const statement : body) find_variables(statement, mentioned);
  }
  bool all_stored = true, in_order = true;
  auto place = mentioned.begin();
  for (int i = cpython::argument_count(object()); i < first_free(object()); i++) {
    all_stored = all_stored && stored.contains(reader_.local(i));
    const auto found = std::find(mentioned.begin(), mentioned.end(), reader_.local(i));
    in_order = in_order && found >= place;
    place = found;
  }
  if (!all_stored || (options_.generated && !in_order) || !keeps_free_variables(object(), body)) keep_variables(tree_, object(), body);
}

// In the order in which the compiler comes upon them, each once.
void Machine::find_variables(const Node* node, std::vector<std::string>& found) const {
  if (node == nullptr) return;
  if ((node->kind == Kind::Name || node->kind == Kind::Handler) && std::find(found.begin(), found.end(), node->text) == found.end()) found.push_back(node->text);
  Nodes items = node->items;
  if (node->kind == Kind::Assign || node->kind == Kind::For) std::rotate(items.begin(), items.end() - 1, items.end());
  for (const Nodes* const list : {static_cast<const Nodes*>(&items), &node->body, &node->handlers, &node->orelse, &node->last}) {
    for (const Node* const inner : *list) find_variables(inner, found);
  }
}

bool Machine::is_variable(const std::string& wanted) const {
  for (int i = 0; i < object()->co_nlocalsplus; i++) if (reader_.local(i) == wanted) return true;
  return false;
}

Node* Machine::builtin(const char* stem) {
  builtins_.insert(stem);
  return name(own(stem));
}

Node* Machine::call(Node* function, Nodes arguments) {
  arguments.insert(arguments.begin(), function);
  return tree_.make(Kind::Call, std::move(arguments));
}

Node* Machine::assign(Nodes targets, Node* value) {
  targets.push_back(value);
  return tree_.make(Kind::Assign, std::move(targets));
}

void Machine::find_blocks() {
  std::set<int> starts{0};
  for (int i = 0; i < size(); i++) {
    const Instruction& instruction = code_.instructions[i];
    if (depths_[i] < 0) continue;
    // What waits goes back to its SEND until that has its value, and is one expression with it.
    if (instruction.target >= 0 && code_.instructions[instruction.target].op != Op::SEND) starts.insert(target_of(instruction));
    if (instruction.op == Op::PUSH_EXC_INFO) starts.insert({i, i + 1});
    if (instruction.target >= 0 || instruction.op == Op::POP_EXCEPT || instruction.op == Op::CHECK_EG_MATCH || bytecode::flow(instruction.op) == Flow::stop) starts.insert(i + 1);
  }
  for (const ExceptionRegion& region : code_.regions) starts.insert({region.start, region.end, region.target});
  starts.erase(starts.lower_bound(size()), starts.end());
  for (auto start = starts.begin(); start != starts.end(); ++start) {
    Part& part = parts_[*start];
    part.end = std::next(start) == starts.end() ? size() : *std::next(start);
    const ExceptionRegion* const region = code_.handler(*start);
    if (region && !only_raises_again(region->target) && !is_quiet(*start, part.end)) part.region = region;
  }
}

// Nothing in it can raise, so that it has no use for a handler.
bool Machine::is_quiet(int first, int end) const {
  return std::all_of(code_.instructions.begin() + first, code_.instructions.begin() + end, [](const Instruction& one) { return never_raises(one.op) || only_leads_on(one.op); });
}

// What the compiler puts at the end of handlers and generators: out of the function it goes anyway, and there the language itself does that.
bool Machine::only_raises_again(int index) const {
  if (is_op(index, Op::CALL_INTRINSIC_1, cpython::kStopIterationError) && is_op(index + 1, Op::RERAISE, 1)) return true;
  return is_op(index, Op::COPY, 3) && is_op(index + 1, Op::POP_EXCEPT, 0) && is_op(index + 2, Op::RERAISE, 1) && leaves(index + 2);
}

bool Machine::leaves(int index) const {
  const ExceptionRegion* const region = code_.handler(index);
  return region == nullptr || is_op(region->target, Op::CALL_INTRINSIC_1, cpython::kStopIterationError);
}

// Where something is done, at or behind the instruction.
int Machine::resolve(int index) const {
  const int start = index;
  for (int steps = 0; only_leads_on(code_.instructions[index].op); steps++) {
    if (steps > size()) return start;
    const int target = code_.instructions[index].target;
    index = target >= 0 ? target : index + 1;
  }
  return parts_.contains(index) ? index : start;
}

bool Machine::alike(const Node* a, const Node* b) {
  const bool values = a->kind == Kind::Name && b->kind == Kind::Name;
  return (values || a->kind == b->kind) && a->number == b->number;
}

// Another way to a part of the code: the block is that of the level, and of the same things on the stack, whose values are in the variables of
// their places.
int Machine::enter(int index, const Stack& stack, int level) {
  constexpr size_t kMost = 8;  // of one part
  const auto part = parts_.find(index);
  if (part == parts_.end()) throw Refused("a jump into the midst of what belongs together");
  std::vector<int>& blocks = blocks_at_[index];
  for (const int id : blocks) {
    Block& block = blocks_[static_cast<size_t>(id)];
    if (block.raises || block.level != level || !std::equal(stack.begin(), stack.end(), block.entry.begin(), block.entry.end(), alike)) continue;
    block.ways++;
    return id;
  }
  if (blocks.size() == kMost) throw Refused("a place that is come to with too many different things on the stack");
  const auto id = static_cast<int>(blocks_.size());
  Block& block = blocks_.emplace_back(Block{.first = index, .end = part->second.end, .level = level, .region = part->second.region, .ways = 1});
  for (size_t i = 0; i < stack.size(); i++) block.entry.push_back(is_marker(stack[i]) ? stack[i] : name(place(i), stack[i]->number));
  blocks.push_back(id);
  open_.push_back(id);
  return id;
}

bool Machine::is_marker(const Node* node) const {
  return (node->kind == Kind::Name && node->number > 0) || node->kind == Kind::Null || node->kind == Kind::Self || node->kind == Kind::Saved || node->kind == Kind::Special || node->kind == Kind::AssertionError;
}

bool Machine::is_state(const Node* statement) const {
  return statement->kind == Kind::Assign && statement->items[0]->kind == Kind::Name && statement->items[0]->text == own("state");
}

bool Machine::leads_on_two_ways(const Node* statement) const {
  return statement->kind == Kind::If && std::any_of(statement->body.begin(), statement->body.end(), [&](const Node* one) { return is_state(one); });
}

// Each block has one way to it, so that it can stand there: no loop, and no state. Not so many that they could stand too deep in one another.
bool Machine::is_tree() const {
  constexpr size_t kMost = 1000;
  if (blocks_.size() > kMost) return false;
  for (const Block& block : blocks_) {
    if (block.ways != 1 || block.level > 0) return false;
    if (block.region == nullptr) continue;
    // What chooses the way on would stand outside of the `try` statement.
    const auto chooses = [&](const Node* one) { return leads_on_two_ways(one) || (is_state(one) && one->items[1]->kind == Kind::IfExp); };
    if (begins_level(*block.region) || std::any_of(block.body.begin(), block.body.end(), chooses)) return false;
  }
  return true;
}

Nodes Machine::tree(int id) {
  const Block& block = blocks_[static_cast<size_t>(id)];
  if (block.region == nullptr) return tree_of(block.body);
  const auto way_on = std::find_if(block.body.begin(), block.body.end(), [&](const Node* one) { return is_state(one); });
  Node* const attempt = tree_.make(Kind::Try);
  attempt->body.assign(block.body.begin(), way_on);
  Node* const handler = tree_.make(Kind::Handler, {builtin("BaseException")}, handled(block.level + 1));
  handler->body = begin_handler(*block.region, {id});
  attempt->handlers = {handler};
  attempt->orelse = tree_of({way_on, block.body.end()});
  Nodes all{attempt};
  const Nodes behind = tree(block.handler);
  all.insert(all.end(), behind.begin(), behind.end());
  return all;
}

// With the blocks in the place of what leads to them.
Nodes Machine::tree_of(const Nodes& statements) {
  Nodes all;
  for (size_t i = 0; i < statements.size(); i++) {
    Node* const one = statements[i];
    const bool chooses = is_state(one) && one->items[1]->kind == Kind::IfExp;
    if (!is_state(one) && !leads_on_two_ways(one)) {
      all.push_back(one);
      continue;
    }
    const Nodes rest(statements.begin() + static_cast<std::ptrdiff_t>(i) + 1, statements.end());
    const auto behind = [&](const Node* state) {
      Nodes part = rest;
      const Nodes block = tree(state->number);
      part.insert(part.end(), block.begin(), block.end());
      return part;
    };
    if (is_state(one) && !chooses) {
      const Nodes block = behind(one->items[1]);
      all.insert(all.end(), block.begin(), block.end());
      return all;
    }
    Node* const test = tree_.make(Kind::If, {chooses ? one->items[1]->items[0] : one->items[0]});
    test->from = one->from;
    test->body = chooses ? behind(one->items[1]->items[1]) : tree_of(one->body);
    const Nodes other = chooses ? behind(one->items[1]->items[2]) : tree_of(one->orelse);
    all.push_back(test);
    all.insert(all.end(), other.begin(), other.end());
    return all;
  }
  return all;
}

// `blocks` empty: of all others.
Node* Machine::case_of(const std::vector<int>& blocks, Nodes body) {
  Node* const one = tree_.make(Kind::Case, {blocks.empty() ? tree_.make(Kind::Raw, {}, "_") : tree_.make(Kind::OrPattern), nullptr});
  for (const int block : blocks) one->items[0]->items.push_back(state_of(block));
  one->body = std::move(body);
  return one;
}

Node* Machine::match_state(Nodes cases) {
  Node* const match = tree_.make(Kind::MatchStatement, {name(own("state"))});
  match->handlers = std::move(cases);
  return match;
}

Node* Machine::state_of(int block) { return states_.emplace_back(tree_.make(Kind::Raw, {}, {}, block)); }

// In the order of the code.
void Machine::number_states() {
  int numbered = 0;
  for (const auto& [first, blocks] : blocks_at_) {
    for (const int block : blocks) blocks_[static_cast<size_t>(block)].number = numbered++;
  }
  for (Node* const state : states_) state->text = std::to_string(blocks_[static_cast<size_t>(state->number)].number);
}

Node* Machine::level_loop(int level) {
  Nodes cases;
  // By region and by the block that begins its handler; in the order of the code, as where regions lie in memory isn't the same in each run.
  std::vector<std::pair<std::pair<const ExceptionRegion*, int>, std::vector<int>>> by_region;
  for (const auto& [first, blocks] : blocks_at_) {
    for (const int id : blocks) {
      const Block& block = blocks_[static_cast<size_t>(id)];
      if (block.level != level) continue;
      cases.push_back(case_of({id}, block.body));
      if (!block.region) continue;
      const std::pair handled(block.region, block.handler);
      auto known = std::find_if(by_region.begin(), by_region.end(), [&](const auto& each) { return each.first == handled; });
      if (known == by_region.end()) known = by_region.insert(known, {handled, {}});
      known->second.push_back(id);
    }
  }
  Node* const dispatch = match_state(std::move(cases));
  Node* const loop = tree_.make(Kind::While, {tree_.constant(Py_True)});
  loop->body = {dispatch};
  if (by_region.empty()) return loop;
  Node* const attempt = tree_.make(Kind::Try);
  attempt->body = {dispatch};
  Node* const handler = tree_.make(Kind::Handler, {builtin("BaseException")}, handled(level + 1));
  Nodes ways;
  bool deeper = false;
  for (const auto& [handled, blocks] : by_region) {
    const auto& [region, handler] = handled;
    Nodes begin = begin_handler(*region, blocks);
    const bool begins = begins_level(*region);
    begin.push_back(set_state(handler));
    if (!begins) begin.push_back(tree_.make(Kind::Continue));
    deeper = deeper || begins;
    ways.push_back(case_of(blocks, std::move(begin)));
  }
  ways.push_back(case_of({}, {tree_.make(Kind::Raise)}));
  handler->body = {match_state(std::move(ways))};
  if (deeper) handler->body.push_back(level_loop(level + 1));
  attempt->handlers = {handler};
  loop->body = {attempt};
  return loop;
}

Nodes Machine::begin_handler(const ExceptionRegion& region, const std::vector<int>& blocks) {
  const bool begins = begins_level(region);
  const auto depth = static_cast<size_t>(region.depth);
  const std::string error = place(depth + region.push_lasti);
  Nodes body, gone;
  std::set<std::string> touched;
  for (const int id : blocks) touched.insert(blocks_[static_cast<size_t>(id)].touched.begin(), blocks_[static_cast<size_t>(id)].touched.end());
  for (size_t i = 0; i < depth; i++) touched.erase(place(i));
  if (!begins) touched.erase(error);
  for (const std::string& variable : touched) gone.push_back(name(variable));
  if (!gone.empty()) body.push_back(assign(gone, none()));
  if (!begins) body.push_back(assign({name(error)}, name(handled(blocks_[static_cast<size_t>(blocks[0])].level + 1))));
  return body;
}

void Machine::add_start(Nodes& body) {
  for (const Helper& helper : kHelpers) {
    if (helpers_.contains(helper.name)) builtins_.insert(helper.builtins.begin(), helper.builtins.end());
  }
  Node* const import = tree_.make(Kind::ImportFrom, {}, "builtins");
  for (const std::string& stem : builtins_) import->names.insert(import->names.end(), {stem, own(stem)});
  if (!builtins_.empty()) body.push_back(import);
  if (has_end_) body.push_back(assign({name(own("end"))}, tree_.make(Kind::List)));
  for (const Helper& helper : kHelpers) {
    if (!helpers_.contains(helper.name)) continue;
    std::string text = helper.text;
    for (size_t at = 0; (at = text.find('@', at)) != std::string::npos;) text.replace(at, 1, prefix_);
    body.push_back(tree_.make(Kind::Lines, {}, text));
  }
}

Node* Machine::helper(const char* stem) {
  helpers_.insert(stem);
  return name(own(stem));
}

Nodes machine_body(Tree& tree, const Code& code, const std::vector<int>& depths, const ReadNested& nested, const MachineOptions& options) {
  if (!(code.code.as<PyCodeObject>()->co_flags & CO_OPTIMIZED)) throw Refused("a state machine's variables would be those of the class or module");
  return Machine(tree, code, depths, nested, options).run();
}

}  // namespace evalframe::decompiler
