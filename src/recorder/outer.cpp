// Lists and dicts from outside that recorded code changes: what is known of them meanwhile, and what an exit does to them.
#include <algorithm>

#include "bytecode/stack.h"
#include "cpython/objects.h"
#include "recorder/nan.h"
#include "recorder/recorder.h"

namespace evalframe::recorder {

using evaluator::Activation;

namespace {

bool is_container(PyObject* object) { return PyList_CheckExact(object) || PyDict_CheckExact(object) || PySet_CheckExact(object); }

bool is_class(PyObject* object) { return PyType_Check(object) && PyType_HasFeature(reinterpret_cast<PyTypeObject*>(object), Py_TPFLAGS_HEAPTYPE); }

}  // namespace

bool Recorder::hands_on(const Activation& frame, const bytecode::Instruction& instruction) {
  using enum bytecode::Op;
  const bytecode::Op op = instruction.op;
  if (op == STORE_FAST || op == STORE_NAME || op == STORE_GLOBAL || op == STORE_DEREF || op == STORE_ATTR || op == POP_TOP || op == COPY ||
      op == SWAP || op == RETURN_VALUE || op == BUILD_TUPLE || op == BUILD_LIST || op == LOAD_METHOD || op == POP_JUMP_IF_NONE ||
      op == POP_JUMP_IF_NOT_NONE) {
    return true;
  }
  const auto call = frame.call_site();
  PyObject* const callable = call ? frame.slot(call->callable) : nullptr;
  return callable && (PyFunction_Check(callable) || PyMethod_Check(callable) || callable == list_append() || is_class(callable));
}

uint32_t Recorder::outer_of(uint32_t index) const {
  const Value& of = recording_->values[index];
  return of.kind == Value::Kind::kList || of.kind == Value::Kind::kDict || of.kind == Value::Kind::kReplayed ? recording_->containers[of.a].outer : 0;
}

Recorder::Outer* Recorder::find_outer(uint32_t value) {
  for (Outer& outer : outers_) {
    if (outer.value == value) return &outer;
  }
  return nullptr;
}

uint32_t Recorder::enter(uint32_t source_label, Borrowed object) {
  const Value source_value = value(source_label);
  if (source_value.kind != Value::Kind::kSource || !is_container(object.get())) return 0;
  if (parts_vary(source_value.a, object) || PyObject_Size(object.get()) > kMaxParts) return 0;
  std::vector<uint32_t> elements;
  if (PySet_CheckExact(object.get())) return require_elements(source_label, object) ? enter_known(source_label, object, {}, 0) : 0;
  if (PyList_CheckExact(object.get())) {
    guards().require_length(source_value.a, object);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object.get()); i++) {
      guards::Source item{guards::Reach::kItem};
      item.parent = source_value.a;
      item.index = static_cast<int32_t>(i);
      elements.push_back(source(std::move(item)));
    }
    return enter_known(source_label, object, std::move(elements), 0);
  }
  PyObject* key = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(object.get(), &at, &key, nullptr);) {
    if (!is_immutable(key)) return 0;
  }
  if (!may_touch_dict(source_value.a, object, true)) return 0;
  guards().require_keys(source_value.a, object);
  for (Py_ssize_t at = 0; PyDict_Next(object.get(), &at, &key, nullptr);) {
    guards::Source item{guards::Reach::kItem};
    item.parent = source_value.a;
    item.object = Ref::borrow(key);
    elements.push_back(constant(key));
    elements.push_back(source(std::move(item)));
  }
  return enter_known(source_label, object, std::move(elements), 0);
}

bool Recorder::require_elements(uint32_t source_label, Borrowed set) {
  const Value source_value = value(source_label);
  if (source_value.kind != Value::Kind::kSource || keys_vary(source_value.a) || PySet_GET_SIZE(set.get()) > kMaxParts) return false;
  if (!has_immutable_elements(set.get())) return false;
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set.get(), &at, &element, &hash);) {
    if (holds_nan(element)) return false;
  }
  guards().require_elements(source_value.a, set);
  return true;
}

// The last `added` elements weren't there at the start.
uint32_t Recorder::enter_known(uint32_t source_label, Borrowed object, std::vector<uint32_t> elements, size_t added) {
  PyObject* const entering = object.get();
  const Value::Kind kind = PyList_CheckExact(entering) ? Value::Kind::kList : PyDict_CheckExact(entering) ? Value::Kind::kDict : Value::Kind::kReplayed;
  const uint32_t made = container(kind, std::move(elements));
  Container& entered = recording_->containers[recording_->values[made].a];
  entered.outer = source_label;
  entered.initial.length -= static_cast<uint32_t>(added);
  if (added) move_window(recording_->values[made].a);
  outers_.push_back({made, source_label, Ref::borrow(object)});
  const Value own = value(source_label);
  take_over_iterators(source_label, outers_.back());
  for (const auto& [other, gone_through] : std::vector(through_)) {
    const Value other_value = value(other);
    if (other == source_label || Py_TYPE(gone_through) != Py_TYPE(object.get())) continue;
    guards().require_same(own.a, other_value.a, gone_through == object.get());
    if (gone_through == object.get()) take_over_iterators(other, outers_.back());
  }
  for (size_t slot = 0; slot < labels_.size(); slot++) {
    if (labels_[slot] != source_label) continue;
    labels_[slot] = made;
    recording_->journal.push_back({Change::Kind::kSlot, static_cast<int32_t>(slot), made});
  }
  return made;
}

// What goes through the source goes through what is known of it now.
void Recorder::take_over_iterators(uint32_t source_label, const Outer& outer) {
  for (auto& [at, iterator] : iterators_) {
    if (iterator.dropped) continue;
    for (uint32_t& over : iterator.over) {
      if (over != source_label) continue;
      over = outer.value;
      claim(outer.value, true);
    }
  }
  for (size_t slot = 0; slot < labels_.size(); slot++) {
    const Value iterator = value(labels_[slot]);
    if (iterator.kind != Value::Kind::kIterator || static_cast<uint32_t>(iterator.a) != source_label) continue;
    labels_[slot] = add_value({Value::Kind::kIterator, false, static_cast<int32_t>(outer.value), iterator.b});
    recording_->journal.push_back({Change::Kind::kSlot, static_cast<int32_t>(slot), labels_[slot]});
  }
}

bool Recorder::may_change(uint32_t container) {
  if (!outer_of(container)) return true;
  const auto found = std::find_if(outers_.begin(), outers_.end(), [&](const Outer& outer) { return outer.value == container; });
  PyObject* const object = found->object.get();
  const auto tells = [&](PyObject* item) { return tells_if_dropped_outside(item); };
  if (PyList_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); i++) {
      if (tells(PyList_GET_ITEM(object, i))) return false;
    }
    return may_put_off();
  }
  PyObject* item = nullptr;
  for (Py_ssize_t at = 0; PyDict_Check(object) && PyDict_Next(object, &at, nullptr, &item);) {
    if (tells(item)) return false;
  }
  return may_put_off();
}

// --- what exits do ---------------------------------------------------------------------------------------------------

void Recorder::note_change(int32_t container, const std::vector<uint32_t>& before) {
  for (Outer& outer : outers_) {
    const Value of = value(outer.value);
    if (of.a != container) continue;
    if (of.kind == Value::Kind::kDict) return note_items(outer, before, copied_elements(of));
    if (of.kind == Value::Kind::kReplayed) return note_store(add_name({Name::Kind::kCall, Ref(), Ref(), outer.value}, Borrowed()), elements(of).back());
    if (std::exchange(outer.stored, true)) return;
    return note_store(add_name({Name::Kind::kContents, Ref(), Ref(), outer.value}, Borrowed()), outer.value);
  }
}

// A dict's keys keep their places; others are taken out, or put behind them.
void Recorder::note_items(Outer& outer, const std::vector<uint32_t>& before, const std::vector<uint32_t>& now) {
  const auto find = [](const std::vector<uint32_t>& items, uint32_t key) {
    size_t at = 0;
    while (at < items.size() && items[at] != key) at += 2;
    return at < items.size() ? items[at + 1] : 0;
  };
  for (size_t i = 0; i < before.size(); i += 2) {
    if (find(now, before[i])) continue;
    std::erase_if(outer.items, [&](const auto& item) { return item.first == before[i]; });
    note_store(add_name({Name::Kind::kDelete, Ref(), Ref(), outer.value, before[i]}, Borrowed()), 0);
  }
  for (size_t i = 0; i < now.size(); i += 2) {
    if (find(before, now[i]) == now[i + 1]) continue;
    auto item = std::find_if(outer.items.begin(), outer.items.end(), [&](const auto& known) { return known.first == now[i]; });
    if (item == outer.items.end()) {
      outer.items.emplace_back(now[i], add_name({Name::Kind::kItem, Ref(), Ref(), outer.value, now[i]}, Borrowed()));
      item = outer.items.end() - 1;
    }
    note_store(item->second, now[i + 1]);
  }
}

// --- lists of which nothing is known ---------------------------------------------------------------------------------

bool Recorder::is_gone_through(Borrowed object) const {
  return std::any_of(through_.begin(), through_.end(), [&](const auto& through) { return through.second == object.get(); });
}

bool Recorder::may_append_outside(uint32_t list, Borrowed object) {
  if (!may_put_off() || is_gone_through(object)) return false;
  for (const auto& [other, gone_through] : through_) {
    if (PyList_CheckExact(gone_through) && other != list) guards().require_same(value(list).a, value(other).a, false);
  }
  return true;
}

void Recorder::append_outside(uint32_t list, Borrowed object, const std::vector<uint32_t>& values) {
  auto known = std::find_if(appended_.begin(), appended_.end(), [&](const Appended& of) { return of.source == list; });
  if (known == appended_.end()) {
    known = appended_.insert(known, {list, Ref::borrow(object), {}});
    counts_[object.get()]++;
  }
  for (const uint32_t appended : values) {
    known->values.push_back(appended);
    note_store(add_name({Name::Kind::kAppend, Ref(), Ref(), list}, Borrowed()), appended);
  }
}

// --- one object in several places ------------------------------------------------------------------------------------

// Operands that are lists or dicts from outside may be those that changed: guards say whether they are.
bool Recorder::resolve_operands(const Activation& frame, const bytecode::Instruction& instruction) {
  if (!touches_apart(frame, instruction)) return false;
  if (outers_.empty() && appended_.empty()) return true;
  const bool is_looked_into = !hands_on(frame, instruction);
  const auto call = frame.call_site();
  const int extended = call && frame.slot(call->callable) == list_extend() ? call->first : -1;
  for (int slot = frame.depth() - bytecode::stack_effect(instruction).takes; slot < frame.depth(); slot++) {
    PyObject* const object = frame.slot(slot);
    if (!object || !is_container(object) || value_at(slot).kind != Value::Kind::kSource) continue;
    if (!resolve_operand(slot, object, is_looked_into && slot != extended)) return false;
  }
  return true;
}

bool Recorder::resolve_operand(int slot, PyObject* object, bool is_looked_into) {
  const uint32_t present = label(slot);
  const int32_t at = value(present).a;
  for (const Outer& outer : outers_) {
    if (Py_TYPE(outer.object.get()) != Py_TYPE(object)) continue;
    const int32_t of = value(outer.source).a;
    if (of != at) guards().require_same(of, at, outer.object.get() == object);
    if (outer.object.get() == object) return set_label(slot, outer.value), true;
  }
  if (!PyList_CheckExact(object) || !is_looked_into) return true;
  std::vector<uint32_t> added;
  uint32_t appended_to = 0;
  // A list may have been appended to in several places.
  for (const Appended& list : appended_) {
    const int32_t of = value(list.source).a;
    if (of != at) guards().require_same(of, at, list.object.get() == object);
    if (list.object.get() != object) continue;
    if (appended_to) return false;
    appended_to = list.source;
    added = list.values;
  }
  if (!appended_to) return true;
  const Value source_value = value(appended_to);
  const Py_ssize_t length = PyList_GET_SIZE(object) - static_cast<Py_ssize_t>(added.size());
  if (varies(source_value.a) || length < 0 || length > kMaxParts) return false;
  guards().require_length_of(source_value.a, object, length);
  std::vector<uint32_t> elements;
  for (Py_ssize_t i = 0; i < length; i++) {
    guards::Source item{guards::Reach::kItem};
    item.parent = source_value.a;
    item.index = static_cast<int32_t>(i);
    elements.push_back(source(std::move(item)));
  }
  elements.insert(elements.end(), added.begin(), added.end());
  std::erase_if(appended_, [&](const Appended& list) { return list.source == appended_to; });
  set_label(slot, enter_known(appended_to, object, std::move(elements), added.size()));
  return true;
}

}  // namespace evalframe::recorder
