// Stores that are put off until the graph is left: into names, attributes and cells.
#include "recorder/recorder.h"

#include <algorithm>

#include "recorder/rules/rules.h"

namespace evalframe::recorder {

// What came last: a name that was deleted and stored again is at the end of its dict.
int32_t Recorder::place_of_name(Borrowed dict, Borrowed name) const {
  const std::vector<Name>& names = recording_->names;
  auto at = static_cast<int32_t>(names.size()) - 1;
  while (at >= 0 && !(names[at].dict.get() == dict.get() && names[at].name.get() == name.get())) at--;
  return at;
}

uint32_t Recorder::stored(Borrowed dict, Borrowed name) const {
  const int32_t at = place_of_name(dict, name);
  return at < 0 || recording_->names[at].kind == Name::Kind::kForget ? 0 : stored_[at].value;
}

bool Recorder::has_forgotten(Borrowed dict, Borrowed name) const {
  const int32_t at = place_of_name(dict, name);
  return at >= 0 && recording_->names[at].kind == Name::Kind::kForget;
}

void Recorder::store(Borrowed dict, Borrowed name, uint32_t value) {
  int32_t at = place_of_name(dict, name);
  if (at < 0 || recording_->names[at].kind == Name::Kind::kForget) at = add_name({Name::Kind::kName, Ref::borrow(dict), Ref::borrow(name)}, Borrowed());
  note_store(at, value);
}

void Recorder::forget(Borrowed dict, Borrowed name) {
  note_store(add_name({Name::Kind::kForget, Ref::borrow(dict), Ref::borrow(name)}, Borrowed()), constant(Py_None));
}

int32_t Recorder::add_name(Name name, Borrowed object) {
  recording_->names.push_back(std::move(name));
  stored_.push_back({0, object ? Ref::borrow(object) : Ref()});
  return static_cast<int32_t>(stored_.size()) - 1;
}

void Recorder::hold(int change) {
  if (held_ == 0 && change > 0) stores_before_lock_ = stores_;
  held_ = std::max(held_ + change, 0);
  if (held_ == 0) stores_before_lock_ = 0;
}

void Recorder::note_store(int32_t name, uint32_t value) {
  stores_++;
  stored_[name].value = value;
  recording_->store_notes.push_back({guards().asked_at, name, static_cast<uint32_t>(recording_->graph.nodes.size()), static_cast<uint32_t>(recording_->journal.size())});
  recording_->journal.push_back({Change::Kind::kStore, name, value});
}

// Objects of two types are two objects, and the types are guarded.
int32_t Recorder::place_of_attribute(uint32_t owner, Borrowed object, Borrowed name) {
  const std::vector<Name>& names = recording_->names;
  int32_t found = -1;
  for (size_t i = 0; i < names.size(); i++) {
    if (names[i].kind != Name::Kind::kAttribute || names[i].name.get() != name.get()) continue;
    const bool same = stored_[i].owner.get() == object.get();
    if (same) found = static_cast<int32_t>(i);
    const Value known = value(names[i].owner), present = value(owner);
    if (names[i].owner == owner || Py_TYPE(stored_[i].owner.get()) != Py_TYPE(object.get())) continue;
    if (known.kind == Value::Kind::kSource && present.kind == Value::Kind::kSource) guards().require_same(known.a, present.a, same);
  }
  return found;
}

uint32_t Recorder::stored_attribute(uint32_t owner, Borrowed object, Borrowed name) {
  const int32_t at = place_of_attribute(owner, object, name);
  return at < 0 ? 0 : stored_[at].value;
}

void Recorder::store_attribute(uint32_t owner, Borrowed object, Borrowed name, uint32_t value) {
  int32_t at = place_of_attribute(owner, object, name);
  if (at < 0) at = add_name({Name::Kind::kAttribute, Ref(), Ref::borrow(name), owner}, object);
  note_store(at, value);
}

bool Recorder::has_stored_into(Borrowed object) const {
  return std::any_of(stored_.begin(), stored_.end(), [&](const Stored& one) { return one.owner.get() == object.get(); });
}

std::vector<uint32_t> Recorder::calls_put_off(Borrowed object) const {
  std::vector<uint32_t> calls;
  for (size_t i = 0; i < stored_.size(); i++) {
    if (recording_->names[i].kind == Name::Kind::kContext && stored_[i].owner.get() == object.get()) calls.push_back(stored_[i].value);
  }
  return calls;
}

uint32_t Recorder::value_in_class(PyTypeObject* type, Borrowed name, Borrowed found) {
  for (size_t i = 0; i < stored_.size(); i++) {
    const Name& known = recording_->names[i];
    if (known.kind == Name::Kind::kAttribute && stored_[i].owner.get() == reinterpret_cast<PyObject*>(type) && known.name.get() == name.get()) return stored_[i].value;
  }
  if (const MadeClass* const made = made_class(reinterpret_cast<PyObject*>(type))) {
    const std::span<const uint32_t> changes = elements(value(made->changes));
    for (size_t i = changes.size(); i > 0; i -= 2) {
      if (constant_of(changes[i - 2]) == name.get()) return changes[i - 1];
    }
    const auto at = std::find_if(made->names.begin(), made->names.end(), [&](uint32_t key) { return constant_of(key) == name.get(); });
    return at == made->names.end() ? fixed(found) : made->contents[static_cast<size_t>(at - made->names.begin())];
  }
  if (guards::is_class_data(found) && name_varies(reinterpret_cast<PyObject*>(type), name)) return name_source(reinterpret_cast<PyObject*>(type), name);
  guards().fix_attribute(reinterpret_cast<PyObject*>(type), name);
  // Somebody is told when it is replaced: no recording holds it.
  return tells_if_dropped(found.get()) ? name_source(reinterpret_cast<PyObject*>(type), name) : fixed(found);
}

// One that a function holds is fixed; one in a frame's slot may be any.
int32_t Recorder::place_of_cell(uint32_t owner, Borrowed cell) {
  const auto source_of = [&](uint32_t of, PyObject* object) {
    if (value(of).kind == Value::Kind::kSource) return value(of).a;
    guards::Source at{guards::Reach::kObject};
    at.object = Ref::borrow(object);
    return value(source(std::move(at))).a;
  };
  int32_t found = -1;
  for (size_t i = 0; i < recording_->names.size(); i++) {
    const uint32_t known = recording_->names[i].owner;
    if (recording_->names[i].kind != Name::Kind::kCell) continue;
    const bool same = stored_[i].owner.get() == cell.get();
    if (same) found = static_cast<int32_t>(i);
    const bool fixed = value(known).kind == Value::Kind::kConstant && value(owner).kind == Value::Kind::kConstant;
    if (known != owner && !fixed) guards().require_same(source_of(known, stored_[i].owner.get()), source_of(owner, cell.get()), same);
  }
  return found;
}

uint32_t Recorder::stored_in_cell(uint32_t owner, Borrowed cell) {
  const int32_t at = place_of_cell(owner, cell);
  return at < 0 ? 0 : stored_[at].value;
}

void Recorder::store_in_cell(uint32_t owner, Borrowed cell, uint32_t value) {
  int32_t at = place_of_cell(owner, cell);
  if (at < 0) at = add_name({Name::Kind::kCell, Ref(), Ref(), owner}, cell);
  note_store(at, value);
}

bool Recorder::may_put_off() const {
  // Closures have it in a cell.
  const auto holds = [this](uint32_t held, uint32_t label) {
    const Value& value = recording_->values[held];
    return held == label || (value.kind == Value::Kind::kCell && elements(value).back() == label);
  };
  return std::all_of(telling_.begin(), telling_.end(), [&](const auto& slot) { return holds(labels_[slot.first], slot.second); });
}

}  // namespace evalframe::recorder
