// The recorder holds what it has seen, to know it again, and in plain Python nobody does. So it looks behind each instruction whether the
// program has let go of an object whose end someone is told: then the recording ends in front of that instruction.
#include "recorder/endings.h"

#include <algorithm>

#include "bytecode/stack.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "recorder/recorder.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

using evaluator::Activation;

namespace {

int count(PyObject* object, void* counts) {
  (*static_cast<Counts*>(counts))[object]++;
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

int count_wanted(PyObject* object, void* wanted) {
  auto& counts = *static_cast<std::unordered_map<PyObject*, Py_ssize_t>*>(wanted);
  if (const auto found = counts.find(object); found != counts.end()) found->second++;
  return 0;
}
int count_any(PyObject*, void* counted) {
  (*static_cast<Py_ssize_t*>(counted))++;
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
  const auto lost = lost_.find(object);
  return Py_REFCNT(object) <= held_[object] + (lost == lost_.end() ? 0 : lost->second) + references;
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
  Counts kept;
  recorder_.recorded().traverse(count, &kept);
  return std::any_of(ending_.begin() + static_cast<std::ptrdiff_t>(first_), ending_.end(), [&](PyObject* object) { return kept[object] > 0; });
}

// What it held, and others hold, too.
std::vector<PyObject*> Endings::left_by_last() const {
  std::vector<PyObject*> left;
  for (const auto& [object, count] : lost_) {
    if (std::find(ending_.begin(), ending_.end(), object) == ending_.end()) left.push_back(object);
  }
  return left;
}

// What only grows, from where the last walk has come.
int Recorder::traverse_growing(Seen& seen, visitproc visit, void* arg) const {
  for (; seen.objects < objects_.size(); seen.objects++) Py_VISIT(objects_[seen.objects].object.get());
  for (; seen.dicts < dicts_.size(); seen.dicts++) Py_VISIT(dicts_[seen.dicts].object.get());
  for (; seen.namespaces < namespaces_.size(); seen.namespaces++) Py_VISIT(namespaces_[seen.namespaces].object.get());
  for (; seen.stored < stored_.size(); seen.stored++) Py_VISIT(stored_[seen.stored].owner.get());
  for (; seen.outers < outers_.size(); seen.outers++) Py_VISIT(outers_[seen.outers].object.get());
  for (; seen.adopted < adopted_objects_.size(); seen.adopted++) Py_VISIT(adopted_objects_[seen.adopted].get());
  return 0;
}

// What is held for as long as a call, or a step of a generator, takes.
int Recorder::traverse_passing(visitproc visit, void* arg) const {
  for (const Live& frame : frames_) {
    if (!frame.rest) continue;
    for (const Ref& object : frame.rest->objects) Py_VISIT(object.get());
    for (const Rest::Candidate& candidate : frame.rest->candidates) Py_VISIT(candidate.function.get());
  }
  Py_VISIT(passed_down_object_.get());
  return bodies_.traverse(visit, arg);
}

int Recorder::traverse(visitproc visit, void* arg) const {
  Seen nothing;
  if (const int stopped = traverse_growing(nothing, visit, arg)) return stopped;
  if (const int stopped = traverse_passing(visit, arg)) return stopped;
  for (const Watched& watched : watched_) Py_VISIT(watched.object.get());
  for (const Appended& appended : appended_) Py_VISIT(appended.object.get());
  for (const Ref& silent : ended_silently_) Py_VISIT(silent.get());
  return recording_->traverse(visit, arg);
}

void Recorder::watch(PyObject* object, uint32_t label) {
  if (ends_silently(object) || is_adopted(object)) return;
  if (watched_ones_.insert(object).second) {
    Py_ssize_t& held = counts_[object];
    held++;
    watched_.push_back({Ref::borrow(object), &held, {}});
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

bool Recorder::is_last_reference(PyObject* object) {
  count_held();
  if (!may_hold_all(object, counts_[object], 1)) return false;
  Counted held{object};
  traverse(count_one, &held);
  return Py_REFCNT(object) <= held.count + lost_references(object) + 1;
}

bool Recorder::tells_if_dropped(PyObject* object) {
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

// Counts what has come since the last time: a look for ends is no walk through all that is held.
void Recorder::count_held() {
  traverse_growing(seen_, count, &counts_);
  recording_->traverse_new(seen_.recording, count, &counts_);
}

// Whether somebody else may have no reference to the object beside these: of those that are counted, some may have been given back.
bool Recorder::may_hold_all(PyObject* object, Py_ssize_t held, Py_ssize_t others) const {
  Counted passing{object};
  traverse_passing(count_one, &passing);
  return Py_REFCNT(object) <= held + passing.count + others;
}

bool Recorder::look_at_watched(const Activation& frame) {
  if (!frame.at_boundary()) return false;  // behind the second half
  count_held();
  Py_ssize_t passing = 0;
  traverse_passing(count_any, &passing);
  std::unordered_map<PyObject*, Py_ssize_t> last;  // of which nobody else may have a reference
  for (const Watched& watched : watched_) {
    PyObject* const object = watched.object.get();
    const bool is_near = Py_REFCNT(object) <= *watched.held + passing;
    if (is_near && may_hold_all(object, *watched.held, 0)) last.emplace(object, 0);
  }
  return !last.empty() && holds_last_of_any(last) && look_for_ends();
}

bool Recorder::holds_last_of_any(std::unordered_map<PyObject*, Py_ssize_t>& held) {
  traverse(count_wanted, &held);
  bool any = false;
  for (const auto& [object, count] : held) {
    counts_[object] = count + lost_references(object);  // less than was counted, if something gave way to a stronger fact
    any = any || Py_REFCNT(object) <= counts_[object];
  }
  return any;
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
  for (const auto& [object, count] : endings.lost()) counts_[object] += count - lost_references(object);
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
    watched.last_slot = static_cast<int32_t>(labels_.rend() - last);
  }
  std::stable_sort(watched_.begin(), watched_.end(), [](const Watched& one, const Watched& other) { return one.last_slot < other.last_slot; });
  for (Watched& watched : watched_) watched.object.reset();
}

}  // namespace evalframe::recorder
