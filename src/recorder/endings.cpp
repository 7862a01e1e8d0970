// The recorder holds what it has seen, to know it again, and in plain Python nobody does. So it looks behind each instruction whether the
// program has let go of an object whose end someone is told: then the recording ends in front of that instruction.
#include "recorder/endings.h"

#include <algorithm>
#include <bitset>
#include <optional>

#include "bytecode/stack.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "recorder/recorder.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

using evaluator::Activation;

namespace {

int count(PyObject* object, void* counts) {
  (*static_cast<std::unordered_map<PyObject*, Py_ssize_t>*>(counts))[object]++;
  return 0;
}

struct Counted {
  PyObject* object;
  Py_ssize_t count = 0;
};
int count_one(PyObject* object, void* counted) {
  auto* const one = static_cast<Counted*>(counted);
  one->count += object == one->object;
  return 0;
}

// Few of those that a recording holds are counted: a bit for each address tells most of the others without a search.
struct Wanted {
  explicit Wanted(std::unordered_map<PyObject*, Py_ssize_t>& wanted) : counts(wanted) {
    for (const auto& [object, count] : counts) near.set(place(object));
  }
  static size_t place(PyObject* object) { return (reinterpret_cast<uintptr_t>(object) >> 4) % kPlaces; }
  static constexpr size_t kPlaces = 8192;
  std::bitset<kPlaces> near;
  std::unordered_map<PyObject*, Py_ssize_t>& counts;
};
int count_wanted(PyObject* object, void* counted) {
  auto& wanted = *static_cast<Wanted*>(counted);
  if (!wanted.near.test(Wanted::place(object))) return 0;
  if (const auto found = wanted.counts.find(object); found != wanted.counts.end()) found->second++;
  return 0;
}

// Nobody is told when it ends, and it holds nothing. Classes and modules don't end by a reference that goes: cycles lead to them.
bool ends_silently(PyObject* object) {
  if (PyType_Check(object) || PyModule_CheckExact(object)) return true;
  if (numpy::is_exact_array(object)) return !tells_of_its_end(object) && !PyArray_BASE(numpy::as_array(object));
  return !Py_TYPE(object)->tp_traverse && !tells_of_its_end(object);
}

}  // namespace

Endings::Endings(const Recorder& recorder) : recorder_(recorder) { recorder.traverse(count, &held_); }

bool Endings::ends(PyObject* object, Py_ssize_t references) {
  const auto held = held_.find(object), lost = lost_.find(object);
  const auto of = [](const auto& found, const auto& all) { return found == all.end() ? 0 : found->second; };
  return Py_REFCNT(object) <= of(held, held_) + of(lost, lost_) + references;
}

int Endings::visit(PyObject* object, void* endings) {
  static_cast<Endings*>(endings)->lose(object);
  return 0;
}

void Endings::lose(PyObject* object) {
  if (ends_silently(object)) return;
  lost_[object]++;
  if (ends(object, 0) && std::find(ending_.begin(), ending_.end(), object) == ending_.end()) ending_.push_back(object);
}

bool Endings::is_told(PyObject* object) {
  if (std::find(ending_.begin(), ending_.end(), object) != ending_.end()) return false;  // with another, of which nobody was told
  size_t next = first_ = ending_.size();
  ending_.push_back(object);
  for (; next < ending_.size(); next++) {
    PyObject* const now = ending_[next];
    if (tells_of_its_end(now) || next - first_ > kMost) return true;
    if (PyObject* const base = numpy::is_exact_array(now) ? PyArray_BASE(numpy::as_array(now)) : nullptr) lose(base);
    if (Py_TYPE(now)->tp_traverse && PyObject_IS_GC(now)) Py_TYPE(now)->tp_traverse(now, visit, this);
  }
  return false;
}

bool Endings::is_kept_by_recording() const {
  std::unordered_map<PyObject*, Py_ssize_t> kept;
  recorder_.recorded().traverse(count, &kept);
  return std::any_of(ending_.begin() + static_cast<std::ptrdiff_t>(first_), ending_.end(), [&](PyObject* object) { return kept.count(object) > 0; });
}

// What it held, and others hold, too.
std::vector<PyObject*> Endings::left_by_last() const {
  std::vector<PyObject*> left;
  for (const auto& [object, count] : lost_) {
    if (std::find(ending_.begin(), ending_.end(), object) == ending_.end()) left.push_back(object);
  }
  return left;
}

int Recorder::traverse(visitproc visit, void* arg) const {
  for (const TouchedOnes* const ones : {&objects_, &dicts_, &namespaces_}) {
    for (const Touched& touched : *ones) Py_VISIT(touched.object.get());
  }
  for (const Stored& stored : stored_) Py_VISIT(stored.owner.get());
  for (const Outer& outer : outers_) Py_VISIT(outer.object.get());
  for (const Appended& appended : appended_) Py_VISIT(appended.object.get());
  for (const Ref& adopted : adopted_objects_) Py_VISIT(adopted.get());
  for (const Live& frame : frames_) {
    if (!frame.rest) continue;
    for (const Ref& object : frame.rest->objects) Py_VISIT(object.get());
    for (const Rest::Candidate& candidate : frame.rest->candidates) Py_VISIT(candidate.function.get());
  }
  Py_VISIT(passed_down_object_.get());
  for (const Watched& watched : watched_) Py_VISIT(watched.object.get());
  for (const Ref& silent : ended_silently_) Py_VISIT(silent.get());
  return recording_->traverse(visit, arg);
}

void Recorder::watch(PyObject* object, uint32_t label) {
  if (ends_silently(object) || is_adopted(object)) return;
  if (watched_ones_.insert(object).second) {
    watched_.push_back({Ref::borrow(object), 0, {}});
    watched_.back().references = Py_REFCNT(object);
  }
  if (!label) return;
  const auto watched = std::find_if(watched_.begin(), watched_.end(), [&](const Watched& one) { return one.object.get() == object; });
  if (watched != watched_.end() && !stands_for(*watched, label)) watched->labels.push_back(label);
}

// Of the others that the instruction gives, somebody outside has a reference; if that goes, tells_if_dropped() has been asked.
void Recorder::watch_results(const Site& site) {
  const int depth = site.frame.depth();
  for (int slot = std::max(site.depth - bytecode::stack_effect(site.instruction).takes, 0); slot < depth; slot++) {
    PyObject* const object = site.frame.slot(slot);
    if (object && value_at(slot).kind == Value::Kind::kSource && tells_of_its_end(object)) watch(object, label(slot));
  }
}

// Those of objects that have ended silently, as the last look for ends has found them; later ones end there, too.
Py_ssize_t Recorder::lost_references(PyObject* object) const {
  const auto found = lost_.find(object);
  return found == lost_.end() ? 0 : found->second;
}

bool Recorder::is_last_reference(PyObject* object) const {
  Counted held{object};
  traverse(count_one, &held);
  return Py_REFCNT(object) <= held.count + lost_references(object) + 1;
}

bool Recorder::tells_if_dropped(PyObject* object) const {
  if (!object || ends_silently(object)) return false;
  if (!is_last_reference(object)) return false;
  Endings endings(*this);
  for (const Ref& silent : ended_silently_) endings.is_told(silent.get());
  return endings.ends(object, 1) && endings.is_told(object);
}

bool Recorder::tells_if_dropped_outside(PyObject* object) {
  if (tells_if_dropped(object)) return true;
  if (object) watch(object, 0);
  return false;
}

// Of a frame that is there; generators may go, with what they hold.
bool Recorder::is_in_slot(Watched& watched, const Activation& frame) const {
  const auto holds = [&](int32_t slot) { return labels_[static_cast<size_t>(slot)] && stands_for(watched, labels_[static_cast<size_t>(slot)]); };
  if (watched.labels.empty()) return false;
  const Live& inner = frames_.back();
  const int32_t end = inner.generator >= 0 ? 0 : inner.base + frame.depth();
  if (watched.slot >= 0 && watched.slot < end && holds(watched.slot)) return true;
  for (size_t k = 0; k < frames_.size(); k++) {
    const Live& live = frames_[k];
    if (live.generator >= 0) continue;
    const int32_t push = k + 1 < frames_.size() ? frames_[k + 1].push : -1;
    const int32_t last = &live == &inner ? end : live.base + (push >= 0 ? recording_->pushes[static_cast<size_t>(push)].depth : recording_->start[k].depth);
    for (watched.slot = live.base; watched.slot < last; watched.slot++) {
      if (holds(watched.slot)) return true;
    }
  }
  watched.slot = -1;
  return false;
}

// How much is held: where that has changed, counts of references don't say what the program has done.
size_t Recorder::count_held() const {
  return objects_.size() + dicts_.size() + namespaces_.size() + stored_.size() + outers_.size() + appended_.size() + frames_.size() +
         recording_->graph.constants.size() + recording_->guards.sources.size() + recording_->guards.functions.size();
}

bool Recorder::look_at_watched(const Activation& frame) {
  if (!frame.at_boundary()) return false;  // behind the second half
  std::optional<bool> more;  // only where it matters: counting takes longer than most of this
  const auto holds_more = [&] {
    if (!more) {
      const size_t now = count_held();
      more = std::exchange(held_before_, now) != now;
    }
    return *more;
  };
  std::unordered_map<PyObject*, Py_ssize_t> held;  // of those that may have been let go: one walk for all, because it goes through the whole recording
  for (Watched& watched : watched_) {
    const Py_ssize_t now = Py_REFCNT(watched.object.get()), before = std::exchange(watched.references, now);
    const bool was_in_slot = watched.slot >= 0;
    if (now == before && !was_in_slot && !holds_more()) continue;  // into a slot, or out of one, it would come with another count
    if (!is_in_slot(watched, frame) && (now < before || was_in_slot || holds_more())) held.emplace(watched.object.get(), 0);
  }
  return !held.empty() && holds_last_of_any(held) && look_for_ends();
}

bool Recorder::holds_last_of_any(std::unordered_map<PyObject*, Py_ssize_t>& held) const {
  Wanted wanted(held);
  traverse(count_wanted, &wanted);
  return std::any_of(held.begin(), held.end(), [&](const auto& one) { return Py_REFCNT(one.first) <= one.second + lost_references(one.first); });
}

bool Recorder::look_for_ends() {
  Endings endings(*this);
  const auto is_told = [&](PyObject* object) {
    if (!endings.is_told(object)) return false;
    recording_->keeps_ended = endings.is_kept_by_recording();
    mark_ = whole_mark_, nodes_before_ = nodes_before_whole_;
    stop_in_front(Break::kEnd, type_name(object));
    let_go();
    return true;
  };
  // With them goes what others held, too, until now.
  for (const Ref& silent : ended_silently_) {
    if (is_told(silent.get())) return true;
  }
  for (size_t i = 0; i < watched_.size();) {
    PyObject* const object = watched_[i].object.get();
    if (!endings.ends(object, 0)) {
      i++;
    } else if (is_told(object)) {
      return true;
    } else {
      ended_silently_.push_back(std::move(watched_[i].object));
      watched_.erase(watched_.begin() + static_cast<std::ptrdiff_t>(i));
      for (PyObject* const other : endings.left_by_last()) watch(other, 0);
      i = 0;  // it may have held others
    }
  }
  lost_ = endings.lost();
  return false;
}

// Here the program's frames stand as they do where plain Python lets go of the objects, which it does in the order of slots.
void Recorder::let_go() {
  for (TouchedOnes* const ones : {&objects_, &dicts_, &namespaces_}) *ones = TouchedOnes();
  stored_.clear();
  outers_.clear();
  appended_.clear();
  ended_silently_.clear();
  for (Watched& watched : watched_) {
    const auto last = std::find_if(labels_.rbegin(), labels_.rend(), [&](uint32_t label) { return label && stands_for(watched, label); });
    watched.slot = static_cast<int32_t>(labels_.rend() - last);
  }
  std::stable_sort(watched_.begin(), watched_.end(), [](const Watched& one, const Watched& other) { return one.slot < other.slot; });
  for (Watched& watched : watched_) watched.object.reset();
}

}  // namespace evalframe::recorder
