// States at exits: frames, stores that are due, and the graph values that they are made of.
#include "recorder/recording.h"

#include <algorithm>
#include <set>

#include "core/check.h"
#include "recorder/cursor.h"

namespace evalframe::recorder {

using graph::Operand;

namespace {
struct BreakRow {
  const char* reason;
  const char* hint;
};
constexpr BreakRow kBreaks[] = {
#define EVALFRAME_BREAK(name, reason, hint) {reason, hint},
#include "recorder/breaks.def"
#undef EVALFRAME_BREAK
};
}  // namespace

const char* reason(Break why) { return kBreaks[static_cast<int>(why)].reason; }
const char* hint(Break why) { return kBreaks[static_cast<int>(why)].hint; }

Recording::Cursor& Recording::cursor_to(int32_t node) const {
  const uint32_t wanted = marks[node].journal;
  if (!cursor_ || cursor_->position > wanted) {
    cursor_ = std::make_shared<Cursor>();
    cursor_->start(*this);
  }
  while (cursor_->position < wanted) cursor_->apply(*this, journal[cursor_->position++]);
  return *cursor_;
}

std::vector<FrameState> Recording::state_at(int32_t node) const {
  const Cursor& cursor = cursor_to(node);
  std::vector<FrameState> states;
  for (size_t k = 0; k < cursor.frames.size(); k++) {
    const Cursor::Live& live = cursor.frames[k];
    const bool innermost = k + 1 == cursor.frames.size();
    const int32_t depth = innermost ? marks[node].depth : live.depth;
    FrameState state{live.frame->function.get(), live.frame->code, live.frame->identity, live.frame->generator, innermost ? marks[node].instruction : live.next, {}, live.names, live.frame->globals};
    for (int32_t i = 0; i < depth; i++) {
      const size_t slot = live.frame->base + i;
      state.slots.push_back(slot < cursor.slots.size() ? cursor.slots[slot] : 0);
    }
    states.push_back(std::move(state));
  }
  return states;
}

std::vector<Recording::Variable> Recording::let_go() const {
  std::set<uint32_t> kept;
  for (const FrameState& frame : state_at(static_cast<int32_t>(graph.nodes.size()))) kept.insert(frame.slots.begin(), frame.slots.end());
  const auto is_known = [&](int32_t frame, int32_t slot) {
    return std::any_of(guards.sources.begin(), guards.sources.end(), [&](const guards::Source& source) {
      const bool is_here = source.reach == guards::Reach::kSlot && source.frame == frame && source.index == slot;
      return is_here && source.fact.check != guards::Check::kNone && source.fact.check != guards::Check::kArray;
    });
  };
  std::vector<Variable> found;
  for (int32_t frame = 0; frame < static_cast<int32_t>(initial.size()); frame++) {
    const std::vector<uint32_t>& slots = initial[static_cast<size_t>(frame)];
    const int32_t variables = start[static_cast<size_t>(frame)].code->code.as<PyCodeObject>()->co_nlocalsplus;
    for (int32_t slot = 0; slot < std::min(variables, static_cast<int32_t>(slots.size())); slot++) {
      const uint32_t value = slots[static_cast<size_t>(slot)];
      if (value && !kept.count(value) && !is_known(frame, slot)) found.push_back({frame, slot});
    }
  }
  return found;
}

std::vector<PendingStore> Recording::stores_at(int32_t node) const { return cursor_to(node).stores; }

int32_t Recording::advanced_at(int32_t node) const { return iterator < 0 ? 0 : cursor_to(node).advanced; }

int Recording::traverse_own(Seen& seen, visitproc visit, void* arg) const {
  for (; seen.constants < graph.constants.size(); seen.constants++) Py_VISIT(graph.constants[seen.constants].get());
  for (; seen.examples < examples.size(); seen.examples++) Py_VISIT(examples[seen.examples].get());
  for (; seen.start < start.size(); seen.start++) Py_VISIT(start[seen.start].function.get());
  for (; seen.pushes < pushes.size(); seen.pushes++) Py_VISIT(pushes[seen.pushes].function.get());
  for (; seen.names < names.size(); seen.names++) Py_VISIT(names[seen.names].dict.get());
  for (; seen.generators < generators.size(); seen.generators++) Py_VISIT(generators[seen.generators].function.get());
  return 0;
}

int Recording::traverse(visitproc visit, void* arg) const {
  Seen nothing;
  const int stopped = traverse_own(nothing, visit, arg);
  return stopped ? stopped : guards.traverse(visit, arg);
}

int Recording::traverse_new(Seen& seen, visitproc visit, void* arg) const {
  const int stopped = traverse_own(seen, visit, arg);
  return stopped ? stopped : guards.traverse_new(seen.guards, visit, arg);
}

bool Recording::makes_objects() const {
  return std::any_of(values.begin(), values.end(), [](const Value& value) {
    using enum Value::Kind;
    const bool is_class = value.kind == kConstant && value.b;
    return is_class || (value.kind >= kList && value.kind <= kGenerator && value.kind != kSlice && value.kind != kTraceback);
  });
}

uint32_t Recording::handled_at(int32_t node) const { return handles ? cursor_to(node).handled : 0; }

bool Recording::handles_at(int32_t node) const {
  if (!handles) return false;
  const Cursor& cursor = cursor_to(node);
  const auto handles_one = [&](const Cursor::Live& live) { return live.frame->generator >= 0 && cursor.generators[live.frame->generator].handled; };
  return cursor.handled || std::any_of(cursor.frames.begin(), cursor.frames.end(), handles_one);
}

uint32_t Recording::handled_by(int32_t generator, int32_t node) const { return cursor_to(node).generators[generator].handled; }

const MadeClass* Recording::made_class(int32_t constant) const {
  const auto found = std::find_if(classes.begin(), classes.end(), [&](const MadeClass& made) { return values[made.value].a == constant; });
  return found == classes.end() ? nullptr : &*found;
}

// The made class that the value stands for, or is an instance of; null: none.
const MadeClass* Recording::class_behind(const Value& value) const {
  const bool has_class = value.kind == Value::Kind::kInstance || value.kind == Value::Kind::kException || value.kind == Value::Kind::kMapping;
  if (classes.empty() || (!has_class && value.kind != Value::Kind::kConstant)) return nullptr;
  return made_class(has_class ? value.b : value.a);
}

void Recording::collect(uint32_t index, Cursor& cursor, std::vector<Operand>& operands) const {
  if (!cursor.is_first(index)) return;
  const Value& value = values[index];
  if (const MadeClass* const made = class_behind(value)) {
    for (const uint32_t part : {made->metaclass, made->bases, made->changes}) collect(part, cursor, operands);
    for (const uint32_t content : made->contents) collect(content, cursor, operands);
    if (made->value != index) collect(made->value, cursor, operands);
  }
  switch (value.kind) {
    case Value::Kind::kNode: operands.push_back(Operand::node(value.a)); return;
    case Value::Kind::kTuple:
    case Value::Kind::kSlice:
    case Value::Kind::kMade:
      for (uint32_t element : containers[value.a].elements) collect(element, cursor, operands);
      return;
    case Value::Kind::kList:
    case Value::Kind::kDict:
    case Value::Kind::kReplayed:
      if (containers[value.a].outer) return collect(containers[value.a].outer, cursor, operands);
      if (containers[value.a].instance) return collect(containers[value.a].instance, cursor, operands);
      [[fallthrough]];
    case Value::Kind::kMapping:
      if (containers[value.a].owner) collect(containers[value.a].owner, cursor, operands);
      [[fallthrough]];
    case Value::Kind::kDeque:
    case Value::Kind::kFunction:
    case Value::Kind::kInstance:
    case Value::Kind::kException:
    case Value::Kind::kCell:
      if (containers[value.a].factory) collect(containers[value.a].factory, cursor, operands);
      collect(containers[value.a].raised.call, cursor, operands);
      collect(containers[value.a].raised.handled, cursor, operands);
      return collect_elements(value, cursor, operands);
    case Value::Kind::kTruth:
    case Value::Kind::kIterator: return collect(static_cast<uint32_t>(value.a), cursor, operands);
    case Value::Kind::kTraceback:
      collect(containers[value.a].elements[0], cursor, operands);
      return collect_ended(trace_points[value.b].frame, cursor, operands);
    case Value::Kind::kGenerator: return collect_generator(value.a, cursor, operands);
    case Value::Kind::kFrame: return collect_ended(value.b, cursor, operands);
    case Value::Kind::kSource:
      if (!cursor.sources.empty()) cursor.sources[static_cast<size_t>(value.a)] = 1;
      return;
    case Value::Kind::kNull:
    case Value::Kind::kOuterException:
    case Value::Kind::kConstant: return;
  }
}

void Recording::collect_elements(const Value& value, Cursor& cursor, std::vector<Operand>& operands) const {
  const Window window = cursor.windows[value.a];
  for (uint32_t i = value.kind == Value::Kind::kCell ? window.length - 1 : 0; i < window.length; i++) {
    collect(containers[value.a].elements[window.begin + i], cursor, operands);
  }
}

// What a running one has is known with the frames.
void Recording::collect_generator(int32_t generator, Cursor& cursor, std::vector<Operand>& operands) const {
  const Cursor::GeneratorState& state = cursor.generators[generator];
  collect(state.handled, cursor, operands);
  if (state.phase != Cursor::GeneratorState::Phase::kWaiting) return;
  const auto first = static_cast<size_t>(generators[generator].base);
  const size_t end = std::min(first + static_cast<size_t>(state.suspension.depth), cursor.slots.size());
  for (size_t slot = first; slot < end; slot++) collect(cursor.slots[slot], cursor, operands);
}

int32_t Recording::generator_of(int32_t frame) const {
  const auto found = std::find_if(generators.begin(), generators.end(), [&](const Generator& generator) { return generator.identity == frame; });
  return found == generators.end() ? -1 : static_cast<int32_t>(found - generators.begin());
}

// What a frame has that an exception has left, and its callers, which its frame object leads to.
void Recording::collect_ended(int32_t frame, Cursor& cursor, std::vector<Operand>& operands) const {
  if (const int32_t generator = generator_of(frame); generator >= 0) collect(generators[generator].value, cursor, operands);
  const auto is_there = [&](const Cursor::Live& live) { return live.frame->identity == frame; };
  const auto found = ended.find(frame);
  if (found == ended.end() || std::any_of(cursor.frames.begin(), cursor.frames.end(), is_there)) return;
  for (const uint32_t value : found->second.slots) collect(value, cursor, operands);
  collect(found->second.names, cursor, operands);
  collect(frame_start(frame).globals, cursor, operands);
  collect_ended(found->second.back, cursor, operands);
}

const FrameStart& Recording::frame_start(int32_t frame) const {
  for (const FrameStart& known : start) {
    if (known.identity == frame) return known;
  }
  const auto found = std::find_if(pushes.begin(), pushes.end(), [&](const FrameStart& known) { return known.identity == frame; });
  CHECK(found != pushes.end());
  return *found;
}

graph::ExitPoint Recording::find_exit(int32_t node) const {
  graph::ExitPoint exit{node, {}};
  Cursor& cursor = cursor_to(node);
  cursor.begin_search(values.size());
  collect(cursor.handled, cursor, exit.values);
  for (const Cursor::Live& live : cursor.frames) {
    if (live.frame->generator >= 0) collect(cursor.generators[live.frame->generator].handled, cursor, exit.values);
  }
  for (const PendingStore& store : cursor.stores) {
    collect(names[store.name].owner, cursor, exit.values);
    collect(names[store.name].key, cursor, exit.values);
    collect(store.value, cursor, exit.values);
    if (names[store.name].kind == Name::Kind::kContents) collect_elements(values[store.value], cursor, exit.values);
  }
  if (static_cast<size_t>(node) == graph.nodes.size() && returns) {
    collect(result, cursor, exit.values);
    return exit;
  }
  for (size_t k = 0; k < cursor.frames.size(); k++) {
    const Cursor::Live& live = cursor.frames[k];
    collect(live.names, cursor, exit.values);
    collect(live.frame->globals, cursor, exit.values);
    const size_t depth = k + 1 == cursor.frames.size() ? marks[node].depth : live.depth;
    const size_t end = std::min(live.frame->base + depth, cursor.slots.size());
    for (size_t slot = live.frame->base; slot < end; slot++) collect(cursor.slots[slot], cursor, exit.values);
  }
  return exit;
}

std::vector<uint8_t> Recording::sources_read() const {
  cursor_.reset();
  cursor_to(0).sources.resize(guards.sources.size());
  for (size_t node = 0; node <= graph.nodes.size(); node++) find_exit(static_cast<int32_t>(node));
  std::vector<uint8_t> read = std::move(cursor_->sources);
  for (const int32_t source : input_sources) read[static_cast<size_t>(source)] = 1;
  if (iterator >= 0) read[static_cast<size_t>(iterator)] = 1;
  return read;
}

graph::ExitPoint Recording::exit_at(int32_t node) const { return static_cast<size_t>(node) == graph.nodes.size() ? landing_at(node)->exit : find_exit(node); }

Held<Landing> Recording::landing_at(int32_t node) const {
  const bool is_end = static_cast<size_t>(node) == graph.nodes.size();
  if (is_end && end_) return end_;
  const Held<Landing> landing(new Landing{{}, find_exit(node), state_at(node), stores_at(node), std::nullopt, std::nullopt, std::nullopt});
  if (!is_end) return landing;
  landing->moves = find_moves(*landing, false);
  landing->fills = find_moves(*landing, true);
  landing->branch = find_branch(*landing);
  return end_ = landing;
}

std::optional<Landing::Move> Recording::move_of(const Landing& landing, int32_t slot) const {
  using enum Landing::Move::From;
  const Value& value = values[landing.states[0].slots[static_cast<size_t>(slot)]];
  if (value.kind == Value::Kind::kNull) return Landing::Move{slot, kNowhere, 0};
  if (value.kind == Value::Kind::kSource) return Landing::Move{slot, kSource, value.a};
  if (value.kind == Value::Kind::kConstant && !value.b) return Landing::Move{slot, kConstant, value.a};
  if (value.kind != Value::Kind::kNode) return std::nullopt;
  const auto at = std::find(landing.exit.values.begin(), landing.exit.values.end(), Operand::node(value.a));
  return Landing::Move{slot, kExit, static_cast<int32_t>(at - landing.exit.values.begin())};
}

std::optional<std::vector<Landing::Move>> Recording::find_moves(const Landing& landing, bool all) const {
  if (handles || !landing.stores.empty() || landing.states.size() != 1) return std::nullopt;
  const FrameState& state = landing.states[0];
  if (state.identity != start[0].identity || state.names || state.globals || (all && state.generator >= 0)) return std::nullopt;
  std::vector<Landing::Move> moves;
  for (size_t i = 0; i < state.slots.size(); i++) {
    const bool is_there = all ? !state.slots[i] : i < initial[0].size() && initial[0][i] == state.slots[i];
    if (is_there) continue;
    const std::optional<Landing::Move> move = move_of(landing, static_cast<int32_t>(i));
    if (!move) return std::nullopt;
    moves.push_back(*move);
  }
  return moves;
}

std::optional<Landing::Branch> Recording::find_branch(const Landing& landing) const {
  using bytecode::Op;
  const bool is_plain = landing.fills && !landing.fills->empty() && iterator < 0 && !needs_frames && !keeps_ended;
  if (!is_plain || landing.fills->back().from != Landing::Move::From::kExit) return std::nullopt;
  const FrameState& state = landing.states[0];
  if (landing.fills->back().slot + 1 != static_cast<int32_t>(state.slots.size())) return std::nullopt;
  int32_t at = state.next;
  if (state.code->instructions[static_cast<size_t>(at)].op == Op::TO_BOOL) at++;
  const bytecode::Instruction& jump = state.code->instructions[static_cast<size_t>(at)];
  if ((jump.op != Op::POP_JUMP_IF_FALSE && jump.op != Op::POP_JUMP_IF_TRUE) || jump.target <= at) return std::nullopt;
  return jump.op == Op::POP_JUMP_IF_TRUE ? Landing::Branch{at + 1, jump.target} : Landing::Branch{jump.target, at + 1};
}

}  // namespace evalframe::recorder
