#include "runtime/loop_region.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "backends/native/run/arena.h"
#include "backends/native/run/float_flags.h"
#include "cpython/codec.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/error_state.h"
#include "regions/rows.h"
#include "runtime/measure.h"
#include "runtime/pending_exception.h"

namespace evalframe::runtime {

using native::Arena;
using regions::Extent, regions::Region, regions::State, regions::Type;
using Kind = Type::Kind;

int64_t LoopRegion::most_turns = INT64_MAX;
double RegionTrial::least_seconds = 0.02;
RegionTrial::Clock::duration RegionTrial::paused{};

LoopRegion::LoopRegion(Region region, const bytecode::Code& code)
    : region_(std::move(region)), guards_(region_.guards), routines_(region_.routines), code_(code), variables_(code, region_.names), function_(reinterpret_cast<regions::Function>(native::machine_code_at_hand(region_.ir))),
      lines_(region_.lines()), lines_of_block_(lines_ / std::max(region_.blocks, 1)) {
  is_final_ = function_ != nullptr;
  effort_ = is_final_ ? native::Effort::kFull : native::Effort::kQuick;
  if (!function_) function_ = reinterpret_cast<regions::Function>(native::machine_code(region_.ir, effort_));
  for (const State& entry : region_.entries) most_slots_ = std::max(most_slots_, entry.types.size());
  for (const regions::Exit& exit : region_.exits) most_slots_ = std::max(most_slots_, exit.state.types.size());
  // NumPy's functions may let other threads run, which see names, and change them and what else is read once, at the entry.
  const bool calls = std::any_of(region_.routines.begin(), region_.routines.end(), [](const regions::Routine& routine) { return routine.kind == regions::Routine::Kind::kObject; });
  const bool reads = std::any_of(region_.sources.begin(), region_.sources.end(), [](const Type& type) { return type.kind != Kind::kUnbound; });
  is_for_one_thread_ = calls && (reads || region_.names.count());
}

bool LoopRegion::is_to_be_optimised() const {
  if (is_final_) return false;
  if (RegionTrial::least_seconds == 0) return entered > 0;
  const double optimising = kSecondsOfLine * static_cast<double>(lines_);
  return seconds_ >= std::max(part_of_optimising(optimising) * optimising, RegionTrial::least_seconds);
}

void LoopRegion::optimise() {
  is_final_ = true;
  const Stopwatch watch;
  try {
    function_ = reinterpret_cast<regions::Function>(native::machine_code(region_.ir));
    effort_ = native::Effort::kFull;
  } catch (const std::runtime_error&) {
    PyErr_Clear();
  }
  compile_seconds += watch.seconds();
}

// What a turn takes besides the kernels and functions that it calls is a part of the code that there is.
constexpr double kSecondsOfLineRun = 1e-9;
// Turns from one look at that to the next.
constexpr int64_t kMostQuickTurns = 1 << 16, kMostTurnsOfQuickKernels = 1 << 8;

// Variables, names, stack: borrowed.
static std::vector<PyObject*> slots_of(cpython::Frame* frame, const regions::Names& names) {
  PyObject* const* const slots = cpython::slots(frame).base();
  const int own = cpython::code_of(frame).as<PyCodeObject>()->co_nlocalsplus;
  std::vector<PyObject*> all(slots, slots + own);
  for (size_t i = 0; i < names.count(); i++) all.push_back(names.value(i, slots));
  all.insert(all.end(), slots + own, slots + cpython::depth_of(frame));
  return all;
}

State state_of(const Chain& chain, int32_t instruction, const regions::Names& names, std::vector<Ref>& objects, std::vector<Type>& items) {
  cpython::Frame* const frame = chain.frames()[0];
  const std::vector<PyObject*> slots = slots_of(frame, names);
  const size_t variables = static_cast<size_t>(cpython::code_of(frame).as<PyCodeObject>()->co_nlocalsplus) + names.count();
  State state{instruction, {}};
  std::vector<PyObject*> seen;
  for (size_t i = 0; i < slots.size(); i++) {
    Type type = i < variables ? regions::type_in_variable(slots[i]) : regions::type_of(slots[i]);
    if (type.kind == Kind::kObject) {
      const auto known = std::find(seen.begin(), seen.end(), slots[i]);
      type.object = static_cast<int32_t>(known - seen.begin());
      if (known == seen.end()) {
        seen.push_back(slots[i]);
        objects.push_back(slots[i] == Py_None ? Ref::borrow(Py_None) : Ref());
        items.push_back(regions::type_of_items(slots[i]));
      }
    }
    state.types.push_back(type);
  }
  return state;
}

// Finds the objects that the loop carries along. False: they aren't of this entry.
bool LoopRegion::bind(const std::vector<PyObject*>& slots, const State& entry) {
  bound_.clear();
  for (const Ref& object : region_.objects) bound_.push_back(object.get());
  for (size_t i = 0; i < entry.types.size(); i++) {
    const bool may_lose = entry.types[i].kind == Kind::kArray ? region_.loses_arrays : entry.types[i].kind == Kind::kUnread && slots[i] && numpy::is_exact_array(slots[i]);
    if (may_lose && region_.changed.count(i) && !regions::ends_unnoticed(slots[i])) return false;
    if (entry.types[i].kind != Kind::kObject) continue;
    PyObject*& bound = bound_[static_cast<size_t>(entry.types[i].object)];
    if (bound && bound != slots[i]) return false;
    // One number for one object.
    if (!bound && std::find(bound_.begin(), bound_.end(), slots[i]) != bound_.end()) return false;
    bound = slots[i];
  }
  return true;
}

int LoopRegion::find_entry(const std::vector<PyObject*>& slots, int32_t instruction) {
  types_.clear();
  for (size_t e = 0; e < region_.entries.size(); e++) {
    const State& entry = region_.entries[e];
    if (entry.instruction != instruction || entry.types.size() != slots.size()) continue;
    if (types_.empty()) {
      for (size_t i = 0; i < slots.size(); i++) types_.push_back(i < variables_.count() ? regions::type_in_variable(slots[i]) : regions::type_of(slots[i]));
    }
    const auto may_enter_else = [](const Type& wanted, const Type& there) { return regions::may_enter_slot(regions::of_any_strides(wanted), there); };
    const auto all = [&](const auto& may) { return std::equal(entry.types.begin(), entry.types.end(), types_.begin(), may); };
    if (all(regions::may_enter_slot) && bind(slots, entry)) return static_cast<int>(e);
    met_other_strides |= all(may_enter_else);
  }
  return -1;
}

bool LoopRegion::read_sources(const guards::Objects& objects, int64_t* sources) const {
  for (size_t i = 0; i < region_.sources.size(); i++) {
    if (region_.sources[i].kind == Kind::kUnbound) continue;
    if (!regions::may_enter_as(region_.sources[i], regions::type_of(objects[i]))) return false;
    regions::unbox(region_.sources[i], objects[i], sources + i * regions::kWordsOfSlot);
  }
  return true;
}

static bool has_others(PyThreadState* thread) {
  PyThreadState* const first = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(thread));
  return first != thread || PyThreadState_Next(first);
}

// Conditions as bits of MXCSR: invalid, divide by zero, overflow, underflow.
static int64_t bits_of(int reported) {
  return (reported & 8 ? 1 : 0) | (reported & 1 ? 4 : 0) | (reported & 2 ? 8 : 0) | (reported & 4 ? 16 : 0);
}

// Bytes for new arrays, in two halves: what turns use of it, again and again, stays in a core's caches.
constexpr size_t kMemory = size_t{8} << 20;

LoopRegion::Left LoopRegion::run(PyThreadState* thread, Chain& chain, int32_t instruction) {
  cpython::Frame* const frame = chain.frames()[0];
  const bool is_of_frame = !region_.names.dict || region_.names.dict.get() == cpython::globals_of(frame).get();
  if (!is_of_frame || !may_run(thread)) return {};
  const std::vector<PyObject*> slots = slots_of(frame, region_.names);
  const int entry = find_entry(slots, instruction);
  if (entry < 0 || !region_.names.are_alone(slots.data())) return {};
  const State& from = region_.entries[static_cast<size_t>(entry)];
  guards::Objects objects;
  if (!guards_hold(bound_.data(), objects)) return {};
  Words words(most_slots_ * regions::kWordsOfSlot);
  for (size_t i = 0; i < from.types.size(); i++) regions::unbox(from.types[i], slots[i], &words[i * regions::kWordsOfSlot]);
  const Words before = words;
  native::Arena::Scope scope(native::Arena::current());
  const std::vector<PyObject*> bound = bound_;  // what NumPy is called for may run any code, this loop's, too
  const size_t held_before = held_count();
  int64_t turns_done = 0;
  const regions::Exit* const at = execute(thread, scope, words.data(), objects, bound.data(), entry, turns_done);
  if (!at) return {};
  const regions::Exit& exit = *at;
  const bool stays = turns_done == 0 && !exit.steps && exit.state.instruction == instruction;
  Left left{true, false, exit.steps, stays, turns_done};
  {
    const PendingException pending;  // that a handler of a signal raised
    left.failed = !stays && !leave(chain, slots, from, exit, before, words, bound);
    release(held_before);
  }
  left.failed = left.failed || PyErr_Occurred();
  if (!left.failed) make_missing();
  return left;
}

bool LoopRegion::may_run(PyThreadState* thread) const { return !is_broken_ && !(is_for_one_thread_ && has_others(thread)); }

bool LoopRegion::guards_hold(PyObject* const* bound, guards::Objects& objects) const {
  PyObject* const* const frames[] = {bound};
  return guards_.check(frames, objects, nullptr);
}

void LoopRegion::improve_kernels(native::Effort effort) {
  const RegionTrial::Pause pause;
  const Stopwatch watch;
  routines_.improve(effort);
  compile_seconds += watch.seconds();
  seconds_with_kernels_ = 0;
}

void LoopRegion::make_missing() {
  if (!has_kernels_in_full()) {
    const native::Effort more = native::more_than(routines_.effort());
    const double longer = native::longer_by(routines_.effort()), saved = seconds_with_kernels_ * longer / (1 + longer);
    if (saved >= native::seconds_of_kernel(more) * routines_.functions_of_effort()) improve_kernels(more);
  }
  try {
    routines_.make_missing();
  } catch (const std::runtime_error&) {
    PyErr_Clear();
    is_broken_ = true;
  }
}

// Of the elements of an array, with words as unbox() has them: nothing where it has none.
static Extent extent_of(const Type& type, const int64_t* words) {
  Extent all(std::bit_cast<const char*>(words[1]), graph::size_of(type.dtype));
  const int64_t *const sizes = words + 2, *const strides = sizes + type.rank;
  for (int axis = 0; axis < type.rank; axis++) {
    if (sizes[axis] == 0) return {nullptr, 0};
    all = all.along(sizes[axis], strides[axis]);
  }
  return all;
}

bool LoopRegion::shares_memory(const int64_t* words, const int64_t* sources, const State& entry, Arena::Scope& scope) const {
  const auto extent = [&](int holder) {
    const auto number = static_cast<size_t>(holder > 0 ? holder - 1 : -1 - holder);
    return extent_of((holder > 0 ? entry.types : region_.sources)[number], (holder > 0 ? words : sources) + number * regions::kWordsOfSlot);
  };
  auto* const stored = scope.take<Extent>(region_.stored.size());
  Extent* end = stored;
  const auto meets_stored = [&](const Extent& one) { return std::any_of(stored, end, [&](const Extent& other) { return one.meets(other); }); };
  for (const int holder : region_.stored) {
    const Extent one = extent(holder);
    if (meets_stored(one)) return true;
    *end++ = one;
  }
  return std::any_of(region_.read.begin(), region_.read.end(), [&](int holder) { return !region_.stored.count(holder) && meets_stored(extent(holder)); });
}

const regions::Exit* LoopRegion::execute(PyThreadState* thread, native::Arena::Scope& scope, int64_t* words, const guards::Objects& objects, PyObject* const* bound, int entry, int64_t& turns_done) {
  int64_t* const sources = scope.take<int64_t>(region_.sources.size() * regions::kWordsOfSlot);
  if (!read_sources(objects, sources)) return nullptr;
  if (!region_.stored.empty() && shares_memory(words, sources, region_.entries[static_cast<size_t>(entry)], scope)) {
    met_shared_memory = true;
    return nullptr;
  }
  char* const memory = region_.routines.empty() ? nullptr : scope.take<char>(kMemory + regions::kRoomForParts);
  regions::Held& held = routines_.held;
  PyObject* const* const bound_before = held.bound;
  const int reported_before = std::exchange(held.reported, numpy::reported_conditions());
  // Many turns at once that are left soon have logged all of them, and may do so again and again: they have as much room of their own.
  const auto most_logged = static_cast<size_t>(region_.most_logged());
  const size_t at_once = most_logged + regions::kRoomForArrays;
  // What stands in front of it is no entry.
  regions::LogEntry* const log = scope.take<regions::LogEntry>(1 + at_once + regions::kMostParts + most_logged) + 1;
  log[-1] = {};
  regions::PartLog parts;
  if (memory) parts.room = memory + kMemory;
  const bool is_timed = !is_final_ || !has_kernels_in_full();
  const int64_t most_timed_turns = routines_.effort() == native::Effort::kQuick ? kMostTurnsOfQuickKernels : kMostQuickTurns;
  regions::Header header{0, is_timed ? std::min(most_turns, most_timed_turns) : most_turns, cpython::breaker_cell(thread).cell, bits_of(held.reported), memory, memory ? memory + kMemory : nullptr, routines_.entries(), &held.count, unseen,
                         scope.take<int64_t>(regions::kSavedNumbers + most_slots_ * regions::kWordsOfSlot), log, regions::undo, regions::log_many, bound, log + at_once, regions::log_rows, &parts, regions::log_part};
  held.bound = bound;
  int32_t number = 0;
  std::optional<Stopwatch> watch;
  if (is_timed) watch.emplace();
  native::without_flags([&] {
    native::clear_flags();
    number = function_(words, sources, &header, entry);
  });
  held.bound = bound_before;
  held.reported = reported_before;
  entered++;
  turns += static_cast<uint64_t>(turns_done = header.turns);
  unseen = header.unseen;
  if (watch) {
    const double all = watch->seconds();
    seconds_ += std::min(all, kSecondsOfLineRun * static_cast<double>(header.turns * lines_of_block_));
    seconds_with_kernels_ += all;
  }
  return &region_.exits[static_cast<size_t>(number)];
}

// Brings the frame to where the loop was left. False with MemoryError.
bool LoopRegion::leave(Chain& chain, const std::vector<PyObject*>& slots, const State& from, const regions::Exit& exit, const Words& before,
                       const Words& all_words, const std::vector<PyObject*>& bound) const {
  const std::vector<Type>& types = exit.state.types;
  Chain::Slots changed;
  std::vector<std::pair<size_t, Ref>> changed_names;
  Chain::Old old;
  regions::Boxes boxes;
  for (size_t i = 0; i < types.size(); i++) {
    const int64_t* const words = &all_words[i * regions::kWordsOfSlot];
    const bool same_type = i < from.types.size() && from.types[i] == types[i];
    const bool same_words = std::memcmp(words, &before[i * regions::kWordsOfSlot], sizeof *words * regions::kWordsOfSlot) == 0;
    if (same_type && (same_words || types[i].kind == Kind::kObject)) continue;
    if (same_type && types[i].is_iterator() && regions::set_iterator(types[i], slots[i], words)) continue;  // no one else has it
    Ref value = types[i].kind == Kind::kObject ? Ref::borrow(bound[static_cast<size_t>(types[i].object)]) : boxes.box(types[i], words);
    if (!value && !regions::is_nothing(types[i], words)) return false;
    if (variables_.is_name(i)) changed_names.emplace_back(i - variables_.own(), std::move(value));
    else changed.emplace_back(static_cast<int>(i < variables_.own() ? i : variables_.depth_of(i)), std::move(value));
  }
  for (const auto& [name, value] : changed_names) {
    old.push_back(Ref::borrow(region_.names.value(name, slots.data())));  // that ends when all is in place
    if (!region_.names.store(name, slots.data(), value.get())) return false;
  }
  chain.refill(0, code_, std::move(changed), static_cast<int>(variables_.depth_of(types.size())), exit.state.instruction, old);
  return true;
}

bool RegionTrial::is_due(const void* run) {
  if (is_fruitless()) return false;
  if (++arrivals_ % 8 && least_seconds > 0) return false;
  const Clock::time_point now = Clock::now() - paused;
  if (run_ == run) seconds_ += std::chrono::duration<double>(now - last_).count();
  run_ = run;
  last_ = now;
  return arrivals_ >= next_ && (least_seconds == 0 || seconds_ >= std::max(wait_, least_seconds));
}

bool RegionTrial::has_taken(double seconds) {
  if (least_seconds == 0 || seconds_ >= seconds) return true;
  wait_ = seconds;
  next_ = 0;
  hope = true;
  return false;
}

void RegionTrial::begin() {
  hope.reset();
  next_ = 2 * arrivals_;
  wait_ = 2 * seconds_;
}

}  // namespace evalframe::runtime
