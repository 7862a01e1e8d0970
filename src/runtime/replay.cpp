#include "runtime/replay.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "cpython/codec.h"
#include "cpython/exceptions.h"
#include "cpython/generators.h"
#include "cpython/iterators.h"
#include "cpython/objects.h"

namespace evalframe::runtime {

void ReplayPosition::in(graph::Origin place) {
  const bool is_alone = !chain_ || chain_->empty();
  if (!is_alone) return stand_in(place);
  const cpython::FrameRow* const row = known_.at(place);
  if (row && row == row_) return;
  leave();
  if (row && (outermost_ = row->push(thread_))) {
    row_ = row;
    return;
  }
  stand_in(place);
  if (!row && !live_.empty() && live_.back().graph_frame == place.frame) learn(place);
}

// The frames that are there are all that the place needs.
void ReplayPosition::learn(graph::Origin place) {
  cpython::FrameRow row;
  for (const LiveFrame& live : live_) {
    const int32_t instruction = &live == &live_.back() ? place.instruction : recording_.graph.frames[(&live + 1)->graph_frame].call_instruction;
    if (!row.add(cpython::function_of(live.frame), live.code->instructions[instruction].offset)) return;
  }
  known_.add(place, std::move(row));
}

void ReplayPosition::leave() {
  if (row_) std::exchange(row_, nullptr)->pop(thread_, outermost_);
  pop_to(0);
}

void ReplayPosition::stand_in(graph::Origin place) {
  if (row_) leave();
  const bool is_innermost = !live_.empty() && live_.back().graph_frame == place.frame;
  if (is_innermost || enter(place.frame)) set_line(live_.back(), place.instruction);
}

// The frame is the innermost one then, inside of its callers.
bool ReplayPosition::enter(int32_t graph_frame) {
  for (size_t count = live_.size(); count > 0; count--) {
    if (live_[count - 1].graph_frame == graph_frame) return pop_to(count), true;
  }
  const graph::Frame& frame = recording_.graph.frames[graph_frame];
  if (frame.parent < 0) {
    pop_to(0);
  } else {
    if (!enter(frame.parent)) return false;
    set_line(live_.back(), frame.call_instruction);
  }
  return push(graph_frame);
}

// Those of the start come first, and each call has a frame behind those of the calls before.
static const recorder::FrameStart& start_of(const recorder::Recording& recording, int32_t graph_frame) {
  if (static_cast<size_t>(graph_frame) < recording.start.size()) return recording.start[graph_frame];
  const auto found = std::lower_bound(recording.pushes.begin(), recording.pushes.end(), graph_frame, [](const recorder::FrameStart& push, int32_t frame) { return push.graph_frame < frame; });
  CHECK(found != recording.pushes.end() && found->graph_frame == graph_frame);
  return *found;
}

bool ReplayPosition::push(int32_t graph_frame) {
  const recorder::FrameStart& start = start_of(recording_, graph_frame);
  if (chain_ && static_cast<size_t>(graph_frame) < std::min(chain_->size(), recording_.start.size())) {
    cpython::Frame* const there = chain_->frames()[graph_frame];
    live_.emplace_back(graph_frame, start.code, there, false).link.link(thread_, there);
    return true;
  }
  cpython::Frame* frame = cpython::push_frame(thread_, start.function.get());
  if (!frame) return PyErr_Clear(), false;
  cpython::set_next(frame, 0, start.code->code.as<PyCodeObject>()->co_nlocalsplus);
  live_.emplace_back(graph_frame, start.code, frame, true).link.link(thread_, frame);
  return true;
}

void ReplayPosition::set_line(LiveFrame& live, int32_t instruction) {
  const int unit = live.code->instructions[instruction].offset;
  if (live.made) return cpython::set_running(live.frame, unit);
  cpython::running_cell(live.frame).set(unit);
}

void ReplayPosition::pop_to(size_t count) {
  while (live_.size() > count) {
    cpython::Frame* frame = live_.back().frame;
    if (!live_.back().made) {
      live_.pop_back();
      continue;
    }
    cpython::set_depth(frame, live_.back().code->code.as<PyCodeObject>()->co_nlocalsplus);
    live_.pop_back();
    cpython::pop_frame(thread_, frame);
  }
}

namespace {

bool is_missing(const recorder::Recording& recording, uint32_t value, PyObject* const* sources) {
  const recorder::Value& of = recording.values[value];
  return of.kind == recorder::Value::Kind::kSource && !sources[of.a];
}

}  // namespace

static bool store_one(const recorder::Name& name, PyObject* owner, PyObject* key, PyObject* value) {
  switch (name.kind) {
    using enum recorder::Name::Kind;
    case kName: return PyDict_SetItem(name.dict.get(), name.name.get(), value) == 0;
    case kForget: return PyDict_DelItem(name.dict.get(), name.name.get()) == 0;
    case kAttribute: return (PyType_Check(owner) ? PyType_Type.tp_setattro : PyObject_GenericSetAttr)(owner, name.name.get(), value) == 0;
    case kAppend: return PyList_Append(owner, value) == 0;
    case kItem: return PyDict_SetItem(owner, key, value) == 0;
    case kDelete: return PyDict_DelItem(owner, key) == 0;
    case kCell: return PyCell_Set(owner, value) == 0;
    case kCall:
    case kContext: return false;  // made by the caller
    case kContents: return PyList_SetSlice(owner, 0, PY_SSIZE_T_MAX, value) == 0;
  }
  return false;
}

bool store_names(const recorder::Recording& recording, const recorder::Landing& landing, recorder::Rebuild& rebuild) {
  for (const recorder::PendingStore& store : landing.stores) {
    const recorder::Name& name = recording.names[store.name];
    if (name.kind == recorder::Name::Kind::kCall) {
      const Ref owner = rebuild.make(name.owner);
      if (!owner || !rebuild.call_on(store.value, owner.get())) return false;
      continue;
    }
    if (name.kind == recorder::Name::Kind::kContext) {
      if (!rebuild.make(store.value)) return false;
      continue;
    }
    const bool contents = name.kind == recorder::Name::Kind::kContents;
    const Ref value = contents ? rebuild.make_contents(store.value) : rebuild.make(store.value);
    const Ref owner = rebuild.make(name.owner), key = rebuild.make(name.key);
    if ((!value && store.value) || PyErr_Occurred() || !store_one(name, owner.get(), key.get(), value.get())) return false;
  }
  return true;
}

// The exceptions that are being handled from here on: the generators' among the frames from `kept` on are theirs. False with an
// exception (memory).
static bool handle(const recorder::Recording& recording, int32_t node, recorder::Rebuild& rebuild, const std::vector<recorder::FrameState>& states = {},
                   size_t kept = 0) {
  int levels = 0;
  for (size_t k = kept; k < states.size(); k++) {
    if (states[k].generator < 0) continue;
    levels++;
    const uint32_t handled = recording.handled_by(states[k].generator, node);
    if (!handled) continue;
    const Ref generator = rebuild.make(recording.generators[states[k].generator].value);
    Ref exception = rebuild.make(handled);
    if (!generator || !exception) return false;
    cpython::set_generator_handled(generator.get(), std::move(exception));
  }
  const uint32_t handled = recording.handled_at(node);
  if (!handled) return true;
  Ref exception = rebuild.make(handled);
  if (!exception) return false;
  const Ref old = cpython::exchange_handled(PyThreadState_Get(), std::move(exception), levels);
  return true;
}

void advance_iterator(const recorder::Recording& recording, int32_t node, PyObject* const* sources) {
  if (const int32_t turns = recording.advanced_at(node)) cpython::advance(sources[recording.iterator], turns);
}

Ref make_result(const recorder::Recording& recording, int32_t end, std::span<const Ref> values, PyObject* const* sources) {
  advance_iterator(recording, end, sources);
  const recorder::Value& result = recording.values[recording.result];
  if (recording.names.empty() && !recording.handles) switch (result.kind) {
    case recorder::Value::Kind::kSource: return Ref::borrow(sources[result.a]);
    case recorder::Value::Kind::kConstant:
      if (result.b) break;
      return Ref::borrow(recording.graph.constants[result.a].get());
    case recorder::Value::Kind::kNode: return Ref::borrow(values[0].get());  // the exit's only value
    default: break;
  }
  const Held<recorder::Landing> landing = recording.landing_at(end);
  recorder::Rebuild rebuild(recording, landing->exit, values, sources);
  if (!store_names(recording, *landing, rebuild)) return Ref();
  Ref made = rebuild.make(recording.result);
  return made && handle(recording, end, rebuild) ? std::move(made) : Ref();
}

PyObject* moved(const recorder::Landing::Move& move, const recorder::Recording& recording, std::span<const Ref> values, PyObject* const* sources) {
  using enum recorder::Landing::Move::From;
  switch (move.from) {
    case kNowhere: return nullptr;
    case kSource: return sources[move.at];
    case kConstant: return recording.graph.constants[move.at].get();
    case kExit: return values[move.at].get();
  }
  return nullptr;
}

namespace {

// The chain's frames, for tracebacks.
class ChainFrames final : public recorder::LiveFrames {
 public:
  ChainFrames(const Chain& chain, const std::vector<recorder::FrameState>& states) : chain_(chain), states_(states) {}
  Ref frame_object(int32_t frame) override {
    for (size_t k = 0; k < states_.size(); k++) {
      if (states_[k].identity == frame) return cpython::frame_object_of(PyThreadState_Get(), chain_.frames()[k]);
    }
    return Ref();
  }

 private:
  const Chain& chain_;
  const std::vector<recorder::FrameState>& states_;
};

}  // namespace

// The exit that does no more than to move objects. False: nothing has been done, as it needs a source that has no object, or there is no memory.
static bool move_slots(Chain& chain, const recorder::Recording& recording, const recorder::Landing& landing, std::span<const Ref> values,
                       PyObject* const* sources) {
  using enum recorder::Landing::Move::From;
  Chain::Slots changed;
  Chain::Old old;
  for (const recorder::Landing::Move& move : chain.empty() ? *landing.fills : *landing.moves) {
    PyObject* const object = moved(move, recording, values, sources);
    if (!object && move.from != kNowhere) return false;
    changed.emplace_back(move.slot, object ? Ref::borrow(object) : Ref());
  }
  const recorder::FrameState& state = landing.states[0];
  if (chain.empty() && !chain.push(state.function, *state.code, {}, state.next)) return PyErr_Clear(), false;
  chain.drop_to(1);
  chain.refill(0, *state.code, std::move(changed), static_cast<int>(state.slots.size()), state.next, old);
  return true;
}

bool take_exit(Chain& chain, const recorder::Recording& recording, int32_t node, std::span<const Ref> values,
               PyObject* const* sources) {
  advance_iterator(recording, node, sources);
  const Held<recorder::Landing> landing = recording.landing_at(node);
  if ((chain.empty() ? landing->fills : landing->moves) && move_slots(chain, recording, *landing, values, sources)) return true;
  const std::vector<recorder::FrameState>& states = landing->states;
  ChainFrames frames(chain, states);
  recorder::Rebuild rebuild(recording, landing->exit, values, sources, &frames);
  Chain::Old old;
  size_t kept = 0;
  while (kept < chain.size() && kept < states.size() && states[kept].identity == recording.start[kept].identity) kept++;
  chain.drop_to(kept);
  // All frames are there before anything is made: tracebacks lead to them.
  for (size_t k = kept; k < states.size(); k++) {
    if (states[k].generator >= 0) {
      Ref generator = rebuild.make(recording.generators[states[k].generator].value);
      if (!generator) return false;
      chain.push_generator(std::move(generator), Ref());
      continue;
    }
    if (!chain.push(states[k].function, *states[k].code, {}, states[k].next)) return false;
  }
  // Iterators are made over what dicts hold then.
  if (!store_names(recording, *landing, rebuild)) return false;
  for (size_t k = 0; k < states.size(); k++) {
    const recorder::FrameState& state = states[k];
    const bool is_kept = k < kept;
    Chain::Slots changed;
    if (state.names && !chain.give_names(k, rebuild.make(state.names))) return false;
    if (state.globals && !chain.give_globals(k, rebuild.make(state.globals).get())) return false;
    for (size_t i = 0; i < state.slots.size(); i++) {
      if (is_kept ? i < recording.initial[k].size() && recording.initial[k][i] == state.slots[i] : state.slots[i] == 0) continue;
      changed.emplace_back(static_cast<int>(i), rebuild.make(state.slots[i]));
      if (state.slots[i] && !changed.back().second && (is_kept || !is_missing(recording, state.slots[i], sources))) return false;
    }
    chain.refill(k, *state.code, std::move(changed), static_cast<int>(state.slots.size()), state.next, old);
  }
  return handle(recording, node, rebuild, states, kept);
}

}  // namespace evalframe::runtime
