#include "runtime/native_call.h"

#include <algorithm>
#include <cstring>

#include "cpython/codec.h"
#include "cpython/variables.h"
#include "runtime/pending_exception.h"

namespace evalframe::runtime {

using regions::Exit, regions::State, regions::Type;
using Kind = Type::Kind;

namespace {

// Times that calls leave at an exit before it is looked for what may follow.
constexpr uint32_t kOften = 4, kAsked = UINT32_MAX;
// Regions one behind the other in one call.
constexpr int kMostInARow = 16;

// Whether what has been computed as `there` can be gone on with as `wanted`, in the same words.
bool leads_to(const Type& there, const Type& wanted) {
  if (there.kind == Kind::kUnread && wanted.kind == Kind::kUnread) return there.rank == 0;
  if (there == wanted) return there.kind != Kind::kView && there.kind != Kind::kFresh && there.kind != Kind::kHeld && there.kind != Kind::kViewItems && there.kind != Kind::kRange;
  return there.kind == Kind::kArray && wanted.kind == Kind::kArray && regions::may_enter_as(wanted, there);
}

bool leads_to(const regions::Region& from, const State& there, const regions::Region& to, const State& wanted) {
  if (there.instruction != wanted.instruction || there.types.size() != wanted.types.size()) return false;
  for (size_t i = 0; i < there.types.size(); i++) {
    const Type& type = there.types[i];
    if (!leads_to(type, wanted.types[i])) return false;
    if (type.kind != Kind::kObject) continue;
    const auto number = static_cast<size_t>(type.object);
    if (number >= from.objects.size() || number >= to.objects.size() || from.objects[number].get() != to.objects[number].get()) return false;
  }
  return true;
}

// Whether the words are still those of the object.
bool is_unchanged(const Type& type, PyObject* object, const int64_t* words) {
  int64_t own[regions::kWordsOfSlot] = {};
  regions::unbox(type, object, own);
  return std::memcmp(own, words, regions::words_of(type).size() * sizeof *words) == 0;
}

}  // namespace

// What all pieces of one call share.
struct NativeCall::Run {
  PyThreadState* thread;
  Borrowed function;
  PyObject* const* slots;
  Chain& chain;
  native::Arena::Scope& scope;
  int64_t* words;
  Left left = {};
  regions::Boxes boxes = {};
};

NativeCall::NativeCall(const bytecode::Code& code, Held<LoopRegion> start)
    : code_(code), variables_(static_cast<size_t>(code.code.as<PyCodeObject>()->co_nlocalsplus)), most_slots_(variables_ + static_cast<size_t>(code.code.as<PyCodeObject>()->co_stacksize) + 1) {
  LoopRegion* const region = start.get();
  add(region, std::move(start));
}

size_t NativeCall::add(LoopRegion* region, Held<LoopRegion> owned) {
  pieces_.push_back({std::move(owned), region, std::vector<Link>(region->region().exits.size())});
  return pieces_.size() - 1;
}

std::optional<NativeCall::End> NativeCall::take_end() { return std::exchange(end_, std::nullopt); }

bool NativeCall::link_to_known(End end) {
  for (size_t i = 0; i < pieces_.size(); i++) {
    const regions::Region& to = pieces_[i].region->region();
    if (!pieces_[i].owned || !leads_to(region_of(end), state_at(end), to, to.entries[0])) continue;
    pieces_[end.piece].links[end.exit].piece = i;
    return true;
  }
  return false;
}

std::optional<int> NativeCall::entry_of(End end, const LoopRegion& loop) const {
  const regions::Region& to = loop.region();
  for (size_t e = 0; e < to.entries.size(); e++) {
    if (leads_to(region_of(end), state_at(end), to, to.entries[e])) return static_cast<int>(e);
  }
  return std::nullopt;
}

void NativeCall::link(End end, LoopRegion* loop, int entry) {
  const auto known = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.region == loop; });
  const size_t piece = known != pieces_.end() ? static_cast<size_t>(known - pieces_.begin()) : add(loop, {});
  Link& link = pieces_[end.piece].links[end.exit];
  link.piece = piece, link.entry = entry;
}

bool NativeCall::link(End end, Held<LoopRegion> lead) {
  const regions::Region& to = lead->region();
  if (!leads_to(region_of(end), state_at(end), to, to.entries[0])) return false;
  LoopRegion* const region = lead.get();
  pieces_[end.piece].links[end.exit].piece = add(region, std::move(lead));
  return true;
}

int NativeCall::traverse(visitproc visit, void* arg) const {
  for (const Piece& piece : pieces_) {
    if (!piece.owned || piece.owned->holders() > 1) continue;
    if (const int stop = piece.region->region().traverse(visit, arg)) return stop;
  }
  return 0;
}

// One number for one object, and for no constant.
bool NativeCall::bind_slots(PyObject* const* slots, Bound& bound) const {
  for (const Ref& object : pieces_[0].region->region().objects) bound.push_back(object.get());
  const std::vector<Type>& types = from().types;
  for (size_t i = 0; i < types.size(); i++) {
    if (!regions::may_enter_slot(types[i], i < variables_ ? regions::type_in_variable(slots[i]) : regions::type_of(slots[i]))) return false;
    if (types[i].kind != Kind::kObject) continue;
    PyObject*& object = bound[static_cast<size_t>(types[i].object)];
    if (object && object != slots[i]) return false;
    if (!object && std::find(bound.begin(), bound.end(), slots[i]) != bound.end()) return false;
    object = slots[i];
  }
  return true;
}

// An argument may be what a region has as a constant.
bool NativeCall::bind_next(const Piece& piece, const Piece& next, const Bound& before, Bound& bound) const {
  const std::vector<Ref>&from = piece.region->region().objects, &to = next.region->region().objects;
  for (size_t k = 0; k < to.size(); k++) bound.push_back(to[k] || k >= from.size() || from[k] ? to[k].get() : before[k]);
  for (size_t k = 0; k < to.size(); k++) {
    if (!to[k] && bound[k] && std::count(bound.begin(), bound.end(), bound[k]) > 1) return false;
  }
  return true;
}

NativeCall::Left NativeCall::run(PyThreadState* thread, Borrowed function, PyObject* const* slots, Chain& chain) {
  Bound bound;
  if (!bind_slots(slots, bound)) return {};
  native::Arena::Scope scope(native::Arena::current());
  Run run{thread, function, slots, chain, scope, scope.take<int64_t>(most_slots_ * regions::kWordsOfSlot)};
  const std::vector<Type>& types = from().types;
  for (size_t i = 0; i < types.size(); i++) regions::unbox(types[i], slots[i], run.words + i * regions::kWordsOfSlot);
  run.left.entered = go(run, 0, 0, bound, 0);
  return std::move(run.left);
}

// A lead leaves at its first exit then, in front of its start. One that has done a turn of a loop is at the same instruction, with other types.
bool NativeCall::has_done_nothing(const Piece& piece, int entry, const Exit& exit, int64_t turns) {
  const regions::Region& region = piece.region->region();
  if (piece.owned) return &exit == region.exits.data();
  return turns == 0 && !exit.steps && exit.state.instruction == region.entries[static_cast<size_t>(entry)].instruction;
}

// False: nothing has been done from that entry on.
bool NativeCall::go(Run& run, size_t number, int entry, const Bound& bound, int depth) {
  Piece& piece = pieces_[number];
  LoopRegion& region = *piece.region;
  const Held<LoopRegion> held(&region);
  guards::Objects objects;
  if (!region.may_run(run.thread) || !region.guards_hold(bound.data(), objects)) return false;
  const size_t held_before = region.held_count();
  int64_t turns = 0;
  const Exit* const exit = region.execute(run.thread, run.scope, run.words, objects, bound.data(), entry, turns);
  if (!exit) return false;
  run.left.turns += turns;
  const bool fails = PyErr_Occurred();  // a handler of a signal has raised
  if (!fails && has_done_nothing(piece, entry, *exit, turns)) return false;
  const bool goes_on = !fails && go_behind(run, piece, *exit, bound, depth);
  if (!goes_on && !PyErr_Occurred()) PyErr_NoMemory();
  run.left.failed = !goes_on;
  if (region.held_count() > held_before) {
    const PendingException pending;
    region.release(held_before);
  }
  if (goes_on) region.make_missing();
  return true;
}

// False where memory ran out, or with an exception.
bool NativeCall::go_behind(Run& run, Piece& piece, const Exit& exit, const Bound& bound, int depth) {
  if (exit.returns()) return static_cast<bool>(run.left.result = result_of(run, exit, bound));
  Link& link = piece.links[static_cast<size_t>(&exit - piece.region->region().exits.data())];
  if (link.piece == kNowhere) {
    count_end(piece, exit, link);
  } else if (depth < kMostInARow && !cpython::breaker_is_set(run.thread)) {
    Bound next;
    if (bind_next(piece, pieces_[link.piece], bound, next) && go(run, link.piece, link.entry, next, depth + 1)) return !run.left.failed;
  }
  return make_frame(run, exit, bound);
}

void NativeCall::count_end(const Piece& piece, const Exit& exit, Link& link) {
  if (exit.steps || end_ || link.taken == kAsked || (++link.taken < kOften && !RegionTrial::at_once())) return;
  link.taken = kAsked;
  const auto number = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& other) { return &other == &piece; }) - pieces_.begin();
  end_ = {static_cast<size_t>(number), static_cast<size_t>(&link - piece.links.data())};
}

Ref NativeCall::boxed(Run& run, const Exit& exit, size_t slot, const Bound& bound) {
  const Type& type = exit.state.types[slot];
  if (type.kind == Kind::kObject) return Ref::borrow(bound[static_cast<size_t>(type.object)]);
  return run.boxes.box(type, run.words + slot * regions::kWordsOfSlot);
}

Ref NativeCall::result_of(Run& run, const Exit& exit, const Bound& bound) const {
  if (exit.state.instruction == State::kReturned) return boxed(run, exit, variables_, bound);
  const size_t count = exit.state.types.size() - variables_;
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; tuple && i < count; i++) {
    Ref item = boxed(run, exit, variables_ + i, bound);
    if (!item) return Ref();
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return tuple;
}

// What is in its slot still is the object that it was.
bool NativeCall::make_frame(Run& run, const Exit& exit, const Bound& bound) const {
  const std::vector<Type>& types = exit.state.types;
  const std::vector<Type>& given = from().types;
  std::vector<Ref> slots(types.size());
  for (size_t i = 0; i < types.size(); i++) {
    const Type& type = types[i];
    const int64_t* const words = run.words + i * regions::kWordsOfSlot;
    const bool may_be_same = i < given.size() && type == given[i] && !type.is_iterator() && type.kind != Kind::kObject;
    if (regions::is_nothing(type, words)) continue;
    slots[i] = may_be_same && is_unchanged(type, run.slots[i], words) ? Ref::borrow(run.slots[i]) : boxed(run, exit, i, bound);
    if (!slots[i]) return false;
  }
  run.left.steps = exit.steps;
  return run.chain.push(run.function, code_, std::move(slots), exit.state.instruction);
}

}  // namespace evalframe::runtime
