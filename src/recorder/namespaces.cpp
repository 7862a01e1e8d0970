// Dicts that are looked into or changed, and objects and modules whose attributes and names are read or stored: where one of
// them may be the dict of another (vars(x), globals()), and something is stored, guards say that it isn't.
#include <algorithm>

#include "bytecode/stack.h"
#include "cpython/attributes.h"
#include "cpython/frame.h"
#include "recorder/recorder.h"

namespace evalframe::recorder {

Recorder::Touched* Recorder::TouchedOnes::touch(int32_t source, Borrowed object, bool changes) {
  const auto [found, is_new] = places_.try_emplace(source >= 0 ? static_cast<intptr_t>(source) : reinterpret_cast<intptr_t>(object.get()), all_.size());
  if (is_new) all_.push_back({source, Ref::borrow(object), false});
  Touched& touched = all_[found->second];
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

bool Recorder::are_apart(const Touched& dict, const Touched& object) {
  if (!dict.changed && !object.changed) return true;
  if (cpython::own_dict(object.object.get()) == dict.object.get()) return false;
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

bool Recorder::may_touch_dict(int32_t source, Borrowed dict, bool changes) {
  const Touched* const now = dicts_.touch(source, dict, changes);
  if (!now) return true;
  return std::all_of(objects_.begin(), objects_.end(), [&](const Touched& object) { return are_apart(*now, object); }) &&
         std::all_of(namespaces_.begin(), namespaces_.end(), [&](const Touched& names) { return is_other_dict(*now, names); });
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
    if (!may_touch_dict(value_at(slot).a, object, false)) return false;
  }
  return true;
}

}  // namespace evalframe::recorder
