// Loops of captured functions as native code: when they are made, entered, and made again as more of them is recorded.
#include <algorithm>
#include <stdexcept>

#include "core/log.h"
#include "core/object_text.h"
#include "cpython/codec.h"
#include "runtime/background.h"
#include "runtime/capture_run.h"
#include "runtime/log_compilation.h"
#include "runtime/pending_exception.h"

namespace evalframe::runtime {

using regions::Region, regions::State;

namespace {

// Runs after which a loop that is left at once isn't entered any more.
constexpr uint64_t kFewRuns = 64;
// A loop that isn't come to for so many places may never be.
constexpr int kMostWaited = 64;
// Lines of IR, a tenth of a millisecond each, from which on the innermost loop is made alone: what is around it may be for more of
// them, but it has to take long itself.
constexpr int64_t kManyLines = 15000;

LoopNote note_of(const bytecode::Code& code, int32_t instruction, const std::vector<regions::Obstacle>& obstacles) {
  const auto* of = code.code.as<PyCodeObject>();
  const auto line_of = [&](int32_t at) { return code.positions[static_cast<size_t>(at)].line; };
  LoopNote note{std::string(utf8(of->co_filename)), std::string(utf8(of->co_qualname)), line_of(instruction)};
  for (const regions::Obstacle& obstacle : obstacles) {
    std::pair<int, std::string> one{line_of(obstacle.instruction), obstacle.reason};
    if (std::find(note.obstacles.begin(), note.obstacles.end(), one) == note.obstacles.end()) note.obstacles.push_back(std::move(one));
  }
  return note;
}

}  // namespace

// What was noted of its line before is no longer so.
void Capture::note_loop(LoopNote note) {
  std::erase_if(waiting_loops_, [&](const LoopNote& other) { return other.line == note.line && other.file == note.file; });
  if (!note.is_native) waiting_loops_.push_back(std::move(note));
}

std::vector<LoopNote> Capture::loops() const {
  std::vector<LoopNote> all;
  for (const Held<LoopRegion>& region : regions_) {
    const regions::Region& of = region->region();
    LoopNote note = note_of(region->code(), region->instruction, of.obstacles);
    note.is_native = true;
    note.is_optimised = region->is_optimised();
    note.blocks = of.blocks, note.at_once = of.at_once, note.numpy_calls = of.numpy_calls(), note.ir_lines = of.lines(), note.compile_seconds = region->compile_seconds;
    note.runs = region->entered, note.turns = region->turns;
    note.ir = of.ir;
    all.push_back(std::move(note));
  }
  all.insert(all.end(), waiting_loops_.begin(), waiting_loops_.end());
  return all;
}

bool Capture::may_have_regions(const Run& run, const Entries& entries) const {
  return backend_has_regions() && entries.loop_first >= 0 && leave_before < 0 && run.chain.size() == 1;
}

bool Capture::awaits_region() const {
  return std::any_of(places_.begin(), places_.end(), [](const auto& place) {
    const Entries& entries = *place.second;
    return !entries.region && entries.region_trial.hope.value_or(false) && !entries.region_trial.is_fruitless();
  });
}

void Capture::drop_regions() {
  for (const auto& [place, entries] : places_) entries->region = Held<LoopRegion>();
  const Held<NativeCall> call = std::move(native_call_);
  const std::vector<Held<LoopRegion>> dropped = std::move(regions_);
  regions_.clear();
  const std::shared_ptr<RegionInTheMaking> making = std::move(making_);
}

Ended Capture::run_region(Run& run, Entries& entries, bool& ran) {
  if (!may_have_regions(run, entries)) return Ended::kRunning;
  if (making_ && making_->is_done) take_region();
  // Only what has been recorded since it was made can make another one of it, or arrays of other strides, or that share memory.
  entries.has_other_strides |= entries.region && entries.region->met_other_strides;
  entries.has_shared_memory |= entries.region && entries.region->met_shared_memory;
  const bool is_for_others = entries.region && (entries.region->met_other_strides || entries.region->met_shared_memory);
  const bool may_be_another = is_for_others || counters_.recordings > (entries.region ? entries.region->recordings : 0);
  if (!making_ && may_be_another) {
    const bool is_hinted = entries.place.frames[0].code == code_ && loop_hints_.has(code_, entries.place.frames[0].next, counters_.recordings);
    if (entries.region_trial.is_due(&run) || is_hinted) make_region(run, entries, is_hinted);
  }
  const Held<LoopRegion> region = entries.region;
  if (region && region->is_to_be_optimised()) optimise(region);
  LoopRegion::Left left;
  if (region) left = region->run(run.thread, run.chain, entries.place.frames[0].next);
  if (!left.entered) return Ended::kRunning;
  ran = !left.stays;
  if (left.failed) {
    run.result = Ref();
    return Ended::kRaised;
  }
  run.trial.stop();
  run.waited = 0;
  counters_.native_turns += static_cast<uint64_t>(left.turns);
  run.worth.nodes += static_cast<uint64_t>(left.turns) + 1;
  if (region->entered > kFewRuns && region->turns < 2 * region->entered && entries.region.get() == region.get()) {
    entries.region = Held<LoopRegion>();
    entries.region_trial.was_fruitless();
  }
  if (!ran || !left.steps) return Ended::kRunning;
  count(&Counters::exits);
  return run.chain.step(run.result);
}

std::vector<const recorder::Recording*> Capture::recordings_at(PyObject* code, int32_t instruction, int32_t depth) const {
  std::vector<const Compilation*> found;
  const auto at = places_.find(Place{{{code, instruction, depth}}});
  for (size_t i = 0; at != places_.end() && i < at->second->list.size(); i++) {
    const Compilation& entry = *at->second->list[i];
    if (entry.guards.surroundings_hold()) found.push_back(&entry);
  }
  std::stable_sort(found.begin(), found.end(), [](const Compilation* a, const Compilation* b) { return a->hits > b->hits; });
  std::vector<const recorder::Recording*> result;
  for (const Compilation* entry : found) result.push_back(entry->recording.get());
  return result;
}

Capture::FoundRegion Capture::find_region(Run& run, const Entries& entries) const {
  PyObject* const code = entries.place.frames[0].code;
  const auto recordings = [&](int32_t instruction, int32_t depth) { return recordings_at(code, instruction, depth); };
  std::vector<Ref> objects;
  std::vector<regions::Type> items;
  const int32_t at = entries.place.frames[0].next;
  const bytecode::Code& decoded = *cpython::decoded(code);
  const auto names = [&] {
    cpython::Frame* const frame = run.chain.frames()[0];
    regions::Names found = regions::names_of(decoded, at, cpython::globals_of(frame));
    const auto [first, last] = regions::outermost_loop(decoded, at);
    for (const auto& [place, there] : places_) {
      const Place::Frame& innermost = place.frames.back();
      if (place.frames.size() != 1 || innermost.code != code || innermost.next < first || innermost.next > last) continue;
      for (const Held<Compilation>& entry : there->list) regions::add_attributes(found, *entry->recording, decoded, cpython::slots(frame).base());
    }
    return found;
  };
  State state = state_of(run.chain, at, names(), objects, items);
  if (entries.has_other_strides) std::transform(state.types.begin(), state.types.end(), state.types.begin(), regions::of_any_strides);
  std::optional<FoundRegion> before = std::exchange(run.found, std::nullopt);
  if (before && before->may_share == entries.has_shared_memory && before->place == entries.place && before->recordings == counters_.recordings && before->state == state && before->items == items) return *std::move(before);
  const auto made = [&](regions::Within within) { return regions::make_region(decoded, state, names(), objects, items, recordings, {settings_.exact, settings_.fastmath}, entries.has_shared_memory, within); };
  Region region = made({});
  if (region.lines() >= kManyLines) {
    Region inner = made({entries.loop_first, entries.loop_last});
    if (!inner.entries.empty()) region = std::move(inner);
  }
  return {entries.place, counters_.recordings, entries.has_shared_memory, std::move(state), std::move(items), std::move(region)};
}

bool Capture::hopes_for_region(Run& run, Entries& entries) {
  if (!may_have_regions(run, entries)) return false;
  if (entries.region_trial.is_fruitless()) return false;
  // A loop that is native once all of its variables are bound begins with a turn that isn't.
  PyObject* const code = entries.place.frames[0].code;
  const bool is_native = std::any_of(regions_.begin(), regions_.end(), [&](const Held<LoopRegion>& region) { return region->code().code.get() == code; });
  if (is_native && run.waited < kMostWaited) return run.waited++, true;
  if (!entries.region_trial.hope) {
    run.found = find_region(run, entries);
    const auto& [place, recordings, may_share, state, items, region] = *run.found;
    entries.region_trial.hope = !region.entries.empty();
    if (!settings_.patience && *entries.region_trial.hope) native::will_compile(region.ir);
    if (region.entries.empty()) {
      const bytecode::Code& decoded = *cpython::decoded(entries.place.frames[0].code);
      note_loop(note_of(decoded, state.instruction, region.obstacles));
      if (log::is_on(log::Channel::regions)) log_no_region(decoded, state, region.obstacles);
    }
  }
  return *entries.region_trial.hope;
}

// A loop over numbers makes no arrays, but may be made into native code.
bool Capture::still_pays(Run& run, Entries& entries) {
  if (run.worth.pays) return true;
  // In a loop's first turn, behind an inner one, what it is to be made of isn't there yet.
  const bool leads_on = entries.loop_first < 0 ? comes_to_loop(entries) : entries.list.empty();
  if (leads_on && run.worth.waited < kMostWaited) return run.worth.waited++, true;
  if (!hopes_for_region(run, entries)) return false;
  run.worth = Worth();
  return true;
}

void Capture::make_region(Run& run, Entries& entries, bool is_hinted) {
  const PendingException pending;
  PyObject* const code_object = entries.place.frames[0].code;
  const bytecode::Code* const code = cpython::decoded(code_object);
  if (!code) return PyErr_Clear();
  const RegionTrial::Pause pause;
  FoundRegion found = find_region(run, entries);
  State& state = found.state;
  Region& region = found.region;
  const bool is_at_hand = !region.entries.empty() && native::is_at_hand(region.ir);
  if (is_hinted && !is_at_hand) return;
  entries.region_trial.begin();
  LoopNote note = note_of(*code, state.instruction, region.obstacles);
  if (region.entries.empty()) {
    note_loop(std::move(note));
    if (log::is_on(log::Channel::regions)) log_no_region(*code, state, region.obstacles);
    return;
  }
  double least = kPartOfCompiling * (kQuickSecondsOfLine * static_cast<double>(region.lines()) + (is_at_hand ? 0 : native::seconds_of_kernel(native::Effort::kQuick) * region.kernels()));
  if (settings_.patience && !is_at_hand) least = least / kPartOfCompiling + (native::llvm_is_loaded() ? 0 : native::kSecondsOfLoading);
  note.blocks = region.blocks, note.at_once = region.at_once, note.numpy_calls = region.numpy_calls(), note.ir_lines = region.lines();
  note.wait_seconds = std::max(least, RegionTrial::least_seconds);
  if (!settings_.patience && !is_at_hand) native::will_compile(region.ir);
  if (!is_hinted && !entries.region_trial.has_taken(least)) {
    run.found = std::move(found);
    return note_loop(std::move(note));
  }
  const auto making = std::make_shared<RegionInTheMaking>();
  making->code_object = Ref::borrow(code_object);
  making->place = entries.place;
  making->region = std::move(region);
  making->state = std::move(state);
  making->recordings = counters_.recordings;
  making_ = making;
  note.is_compiling = settings_.background && run_in_background([making] { making->make(); });
  if (note.is_compiling) return note_loop(std::move(note));
  making->make();
  take_region();
}

void Capture::optimise(const Held<LoopRegion>& region) {
  count(&Counters::optimised_loops);
  const PendingException pending;
  if (settings_.background && run_in_background([region] { region->optimise(); })) return;
  const RegionTrial::Pause pause;
  const double before = region->compile_seconds;
  region->optimise();
  counters_.compile_seconds += region->compile_seconds - before;
}

bool Capture::optimise_all() {
  const PendingException pending;
  std::vector<std::pair<Capture*, Held<LoopRegion>>> all;
  bool had_less = false;
  const auto add = [&](Capture& part) {
    for (const auto& [place, entries] : part.places_) {
      for (const Held<Compilation>& compilation : entries->list) had_less |= compilation->executable && compilation->executable->improve();
    }
    for (const Held<LoopRegion>& region : part.regions_) {
      if (!region->is_final() || !region->has_kernels_in_full()) all.emplace_back(&part, region);
    }
  };
  add(*this);
  std::vector<std::shared_ptr<Capture>> callees;
  for (const auto& [code, callee] : callees_) callees.push_back(callee);  // compiling runs Python code
  for (const std::shared_ptr<Capture>& callee : callees) add(*callee);
  for (const auto& [part, region] : all) {
    if (!region->is_final()) part->optimise(region);
    region->improve_kernels(native::Effort::kFull);
  }
  return had_less || !all.empty();
}

void Capture::take_region() {
  const std::shared_ptr<RegionInTheMaking> making = std::move(making_);
  if (!making) return;  // dropped while it was compiled
  const Held<LoopRegion>& made = making->made;
  PyObject* const code = making->code_object.get();
  if (!made) {
    const regions::Obstacle obstacle{making->state.instruction, making->error};
    note_loop(note_of(*cpython::decoded(code), making->state.instruction, {obstacle}));
    if (log::is_on(log::Channel::regions)) log_no_region(*cpython::decoded(code), making->state, {obstacle});
    entries_at(making->place)->region_trial.was_fruitless();
    return;
  }
  LoopNote note = note_of(*cpython::decoded(code), made->instruction, {});
  note.is_native = true;
  note_loop(std::move(note));
  counters_.compile_seconds += made->compile_seconds;
  count(&Counters::native_loops);
  if (code == code_) loop_hints_.add(code_, made->instruction, made->recordings);
  for (const State& entry : made->region().entries) {
    Entries& there = *entries_at(Place{{{code, entry.instruction, static_cast<int32_t>(entry.types.size() - made->region().names.count())}}});
    there.region = made;
    there.region_trial.begin();
  }
  const Held<NativeCall> call = std::move(native_call_);
  native_tries_ = 0;
  begins_with_graph_ = false;
  const std::vector<Held<LoopRegion>> before = std::move(regions_);
  regions_ = {made};
  for (const Held<LoopRegion>& region : before) {
    // Those that can be entered yet are held there, too.
    if (region->holders() > 1) regions_.push_back(region);
  }
  if (log::is_on(log::Channel::regions)) log_region(making->state, *made);
}

}  // namespace evalframe::runtime
