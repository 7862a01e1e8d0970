// Dicts that are looked into or changed, and objects and modules whose attributes and names are read or stored: where one of
// them may be the dict of another (vars(x), globals()), and something is stored, guards say that it isn't.
#include <algorithm>

#include "bytecode/stack.h"
#include "cpython/attributes.h"
#include "cpython/frame.h"
#include "recorder/recorder.h"

namespace evalframe::recorder {

Recorder::Touched* Recorder::TouchedOnes::touch(int32_t source, Borrowed object, bool changes, bool as_a_whole) {
  const auto [found, is_new] = places_.try_emplace(source >= 0 ? static_cast<intptr_t>(source) : reinterpret_cast<intptr_t>(object.get()), all_.size());
  if (is_new) all_.push_back({source, Ref::borrow(object), false, false});
  Touched& touched = all_[found->second];
  touched.as_a_whole = touched.as_a_whole || as_a_whole;
  if (!is_new && touched.changed >= changes) return nullptr;
  touched.changed = changes;
  return &touched;
}

// A source for a dict that has none: it is the same one in every run.
int32_t Recorder::source_of_names(const Touched& names) {
  guards::Source at{guards::Reach::kObject};
  at.object = Ref::borrow(names.object.get());
  return value(source(std::move(at))).a;
}

// Of a dict that is the `__dict__` of an object, whichever that is: the object's; -1: another dict.
int32_t Recorder::owner_of_dict(int32_t source) const {
  if (source < 0) return -1;
  const guards::Source& at = recording_->guards.sources[static_cast<size_t>(source)];
  const bool shown = at.reach == guards::Reach::kAttribute && at.object && PyUnicode_CompareWithASCIIString(at.object.get(), "__dict__") == 0;
  return shown ? at.parent : -1;
}

// Whether the dict isn't what it was at the start, as attributes of its object were stored, or that under the key.
bool Recorder::has_stored_into_owner(int32_t source, Borrowed key) const {
  const int32_t owner = owner_of_dict(source);
  return owner >= 0 && std::ranges::any_of(recording_->names, [&](const Name& name) {
    const Value of = value(name.owner);
    const bool owned = name.kind == Name::Kind::kAttribute && of.kind == Value::Kind::kSource && of.a == owner;
    return owned && (!key || PyUnicode_Compare(name.name.get(), key.get()) == 0);
  });
}

// An object's own dict that is only asked for single names has others than are stored: it is asked whether it has behind each store (has_stored_into_owner).
bool Recorder::are_apart(const Touched& dict, const Touched& object) {
  if (!dict.changed && !object.changed) return true;
  if (cpython::own_dict(object.object.get()) == dict.object.get()) return !dict.changed && !dict.as_a_whole && owner_of_dict(dict.source) == object.source;
  guards().require_apart(dict.source, object.source);
  return true;
}

bool Recorder::is_other_dict(const Touched& dict, const Touched& names) {
  if (!dict.changed && !names.changed) return true;
  if (dict.object.get() == names.object.get()) return false;
  guards().require_same(dict.source, source_of_names(names), false);
  return true;
}

bool Recorder::may_touch_attributes(int32_t source, Borrowed object, bool stores) {
  const Touched* const now = objects_.touch(source, object, stores);
  if (!now) return true;
  for (const Touched& other : objects_) {
    if ((!stores && !other.changed) || other.object.get() == object.get()) continue;
    PyObject* const dict = cpython::own_dict(other.object.get());
    if (dict && dict == cpython::own_dict(object.get())) return false;
    guards().require_apart(source, other.source);
  }
  return std::all_of(dicts_.begin(), dicts_.end(), [&](const Touched& dict) { return are_apart(dict, *now); });
}

bool Recorder::may_touch_names(Borrowed dict, bool stores) {
  const Touched* const now = namespaces_.touch(-1, dict, stores);
  return !now || std::all_of(dicts_.begin(), dicts_.end(), [&](const Touched& other) { return is_other_dict(other, *now); });
}

bool Recorder::may_touch_dict(int32_t source, Borrowed dict, bool changes, Borrowed key) {
  if (has_stored_into_owner(source, key)) return false;
  const Touched* const now = dicts_.touch(source, dict, changes, !key);
  if (!now) return true;
  return std::all_of(objects_.begin(), objects_.end(), [&](const Touched& object) { return are_apart(*now, object); }) &&
         std::all_of(namespaces_.begin(), namespaces_.end(), [&](const Touched& names) { return is_other_dict(*now, names); });
}

// What the instruction asks the dict in the slot for, if for one name alone; null: for something else.
PyObject* Recorder::name_asked_for(const evaluator::Activation& frame, const bytecode::Instruction& instruction, int slot) {
  using enum bytecode::Op;
  static PyObject* const get = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "get");
  const auto call = frame.call_site();
  int at = -1;
  if (instruction.op == BINARY_SUBSCR && slot == frame.depth() - 2) at = slot + 1;
  if (instruction.op == CONTAINS_OP && slot == frame.depth() - 1) at = slot - 1;
  if (call && frame.slot(call->callable) == get && slot == call->first && call->count > 1) at = slot + 1;
  PyObject* const key = at >= 0 ? frame.slot(at) : nullptr;
  return key && PyUnicode_CheckExact(key) && known(label(at), key) ? key : nullptr;
}

// The instruction, which looks into its operands or hands them on, touches no dict under two names.
bool Recorder::touches_apart(const evaluator::Activation& frame, const bytecode::Instruction& instruction) {
  using enum bytecode::Op;
  const bytecode::Op op = instruction.op;
  const bool stores = op == STORE_GLOBAL || op == DELETE_GLOBAL || (!names() && (op == STORE_NAME || op == DELETE_NAME));
  if (!globals() && (stores || op == LOAD_GLOBAL || op == LOAD_NAME) && !may_touch_names(cpython::globals_of(frame.frame()), stores)) return false;
  for (int slot = frame.depth() - bytecode::stack_effect(instruction).takes; slot < frame.depth(); slot++) {
    PyObject* const object = frame.slot(slot);
    if (!object || !PyDict_CheckExact(object) || value_at(slot).kind != Value::Kind::kSource) continue;
    if (hands_on(frame, instruction)) return true;
    const int32_t source = value_at(slot).a;
    if (!may_touch_dict(source, object, false, owner_of_dict(source) < 0 ? nullptr : name_asked_for(frame, instruction, slot))) return false;
  }
  return true;
}

}  // namespace evalframe::recorder
