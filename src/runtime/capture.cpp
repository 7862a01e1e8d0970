#include "runtime/capture.h"

#include <algorithm>

#include "core/log.h"
#include "cpython/codec.h"
#include "runtime/log_compilation.h"

namespace evalframe::runtime {

int32_t Capture::leave_before = -1;
uint64_t Capture::left_as_asked = 0;

uint64_t Capture::set_leave_before(int32_t node) {
  leave_before = node;
  return std::exchange(left_as_asked, 0);
}

namespace {

std::vector<Capture*>& captures() {
  static std::vector<Capture*> all;
  return all;
}

constinit Counters gone_counters;  // of captures that are gone

// Who chose another backend, or one graph, wants that and not speed.
bool wants_speed(const Settings& settings) { return !settings.everything && !settings.custom && !settings.fullgraph && settings.backend == "native"; }

}  // namespace

Capture::Capture(Borrowed function, Settings settings)
    : function_(Ref::borrow(function)), settings_(std::move(settings)), may_be_tried_(wants_speed(settings_)) {
  captures().push_back(this);
}

Capture::~Capture() {
  captures().erase(std::find(captures().begin(), captures().end(), this));
  gone_counters += counters_;
}

const std::vector<Capture*>& Capture::all() { return captures(); }

Counters Capture::total_counters() {
  Counters total = gone_counters;
  for (const Capture* capture : captures()) total += capture->counters_;
  return total;
}

void Capture::look_at_code() {
  // What was captured of other code isn't reached any more.
  if (code_) clear();
  code_ = function_.as<PyFunctionObject>()->func_code;
  const auto* code = reinterpret_cast<PyCodeObject*>(code_);
  const bool by_position = !code->co_kwonlyargcount && !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
  in_order_ = by_position ? code->co_argcount : -1;
  first_ = entries_at(Place{{{code_, 0, code->co_nlocalsplus}}});
  first_->at_start = true;
}

Held<Entries> Capture::entries_at(const Place& place) {
  Held<Entries>& entries = places_[place];
  if (!entries) entries = make_entries(place);
  return entries;
}

Held<Entries> Capture::entries_of(const Chain& chain) {
  cpython::Frame* inner = chain.frames().back();
  Held<Entries>& lately = lately_[lately_index(cpython::next_unit(inner))];
  if (lately && stands_at(chain, *lately)) return lately;
  lately = entries_at(place_of(chain));
  lately->units.clear();
  for (cpython::Frame* frame : chain.frames()) lately->units.push_back(cpython::next_unit(frame));
  return lately;
}

void Capture::count_refusal(Entries& entries) {
  if (entries.runs_plain) return;
  entries.refused++;
  count(&Counters::limited);
  if (entries.refused == 1 && !entries.list.empty() && log::is_on(log::Channel::recompiles)) log_limit(limit_note(entries));
}

void Capture::clear() {
  // Entries may be running: they are held there. Dropping them can run any code, so this object is empty first.
  const auto places = std::move(places_);
  const Held<Entries> first = std::move(first_);
  const auto lately = std::move(lately_);
  const Held<NativeCall> call = std::move(native_call_);
  const auto regions = std::move(regions_);
  const auto making = std::move(making_);
  const auto callees = std::move(callees_);
  callees_.clear();
  places_.clear();
  regions_.clear();
  long_loops_.clear();
  loop_hints_ = LoopHints();
  native_tries_ = native_misses_ = native_waits_ = 0;
  begins_with_graph_ = false;
  code_ = nullptr;
}

std::vector<std::pair<Place, Held<Compilation>>> Capture::entries() const {
  std::vector<std::pair<Place, Held<Compilation>>> all;
  for (const auto& [place, entries] : places_) {
    for (const Held<Compilation>& entry : entries->list) all.emplace_back(place, entry);
    if (entries->several) all.emplace_back(place, entries->several);
  }
  return all;
}

std::string Capture::name_of(const Compilation& entry) const {
  const auto all = entries();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.second.get() == &entry; });
  const std::string number = std::to_string(found - all.begin());
  const size_t nodes = entry.recording->graph.nodes.size();
  return "graph " + number + " (__compiled_fn_" + number + ", " + std::to_string(nodes) + (nodes == 1 ? " node)" : " nodes)");
}

bool Capture::is_idle() const {
  const auto makes_arrays = [](const Held<Compilation>& entry) { return entry->array_nodes > 0; };
  return given_up_ || std::none_of(places_.begin(), places_.end(), [&](const auto& place) {
    const Held<Entries>& entries = place.second;
    return std::any_of(entries->list.begin(), entries->list.end(), makes_arrays) || (entries->several && makes_arrays(entries->several));
  });
}

std::vector<LimitNote> Capture::limits() const {
  std::vector<Held<Entries>> full;
  for (const auto& [place, entries] : places_) {
    if (entries->refused && !entries->list.empty()) full.push_back(entries);
  }
  std::vector<LimitNote> notes;
  for (const Held<Entries>& entries : full) notes.push_back(limit_note(*entries));
  return notes;
}

int Capture::traverse_with_callees(visitproc visit, void* arg) const {
  for (const auto& [callee, capture] : callees_) {
    if (capture.use_count() > 1) continue;
    if (const int stop = capture->traverse(visit, arg)) return stop;
  }
  return traverse(visit, arg);
}

int Capture::traverse(visitproc visit, void* arg) const {
  Py_VISIT(function_.get());
  Py_VISIT(settings_.custom.get());
  for (const Held<LoopRegion>& region : regions_) {
    const auto here = std::count_if(places_.begin(), places_.end(), [&](const auto& place) { return place.second->region.get() == region.get(); });
    if (region->holders() > 1 + static_cast<uint32_t>(here)) continue;
    if (const int stop = region->region().traverse(visit, arg)) return stop;
  }
  if (native_call_ && native_call_->holders() == 1) {
    if (const int stop = native_call_->traverse(visit, arg)) return stop;
  }
  for (const auto& [place, entries] : places_) {
    const auto here = std::count_if(lately_.begin(), lately_.end(), [&](const Held<Entries>& other) { return other.get() == entries.get(); });
    if (entries->holders() > 1 + static_cast<uint32_t>(here) + (entries.get() == first_.get())) continue;
    for (const Held<Compilation>& entry : entries->list) {
      if (entry->holders() > 1) continue;
      if (const int stop = entry->traverse(visit, arg)) return stop;
    }
    if (!entries->several || entries->several->holders() > 1) continue;
    if (const int stop = entries->several->traverse(visit, arg)) return stop;
  }
  return 0;
}

}  // namespace evalframe::runtime
