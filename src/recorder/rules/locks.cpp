// Locks of the module threading: taken in the graph where that takes no waiting, and what may be recorded while one is held.
#include <algorithm>

#include "core/c_function.h"
#include "cpython/attributes.h"
#include "cpython/frame.h"
#include "graph/leave.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using enum bytecode::Op;

// One that another thread has is waited for outside of the graph: the other thread may wait for what was put off.
PyObject* acquire_at_once(PyObject*, PyObject* lock) {
  Ref taken = Ref::steal(PyObject_CallMethod(lock, "acquire", "O", Py_False));
  if (taken.get() != Py_False) return taken.release();
  graph::ask_to_leave();
  return nullptr;
}

// Whether others may change it, or put another one in its place, while they hold the lock: data, containers and None.
bool is_shared_state(PyObject* object) {
  const bool stays = PyFunction_Check(object) || PyCFunction_Check(object) || PyMethod_Check(object) || PyType_Check(object) || PyModule_Check(object);
  return !stays && !is_acted_on(object) && !(PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) && !PyType_FastSubclass(Py_TYPE(object), Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_DICT_SUBCLASS));
}

bool is_changeable(PyObject* object) {
  return object && (PyList_Check(object) || PyDict_Check(object) || PyAnySet_Check(object) || PyByteArray_Check(object));
}

// logging holds its locks around handlers and streams, not around data: a record may go where it would have gone a moment before.
bool is_of_logging(const evaluator::Activation& frame) {
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const module = PyDict_CheckExact(modules) ? PyDict_GetItemString(modules, "logging") : nullptr;
  return module && PyModule_Check(module) && PyModule_GetDict(module) == cpython::globals_of(frame.frame()).get();
}

// A functools.cached_property's lock is for the dicts of instances: what it has itself is set when its class is made.
bool is_of_cached_property(const Site& site) {
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const module = PyDict_CheckExact(modules) ? PyDict_GetItemString(modules, "functools") : nullptr;
  if (!module || !PyModule_Check(module) || PyModule_GetDict(module) != cpython::globals_of(site.frame.frame()).get()) return false;
  PyObject* const type = PyDict_GetItemString(PyModule_GetDict(module), "cached_property");
  PyObject* const self = site.instruction.op == LOAD_ATTR ? site.frame.slot(site.depth - 1) : site.frame.slot(0);
  return (site.instruction.op == LOAD_ATTR || site.instruction.op == LOAD_GLOBAL) && type && self && reinterpret_cast<PyObject*>(Py_TYPE(self)) == type;
}

// What the instruction is about to load; null: nothing that is read from outside.
Ref about_to_load(const Site& site, const Plan& plan) {
  const bytecode::Op op = site.instruction.op;
  PyObject* found = nullptr;
  if (op == LOAD_GLOBAL || op == LOAD_NAME) {
    if (!site.recorder.stored(cpython::globals_of(site.frame.frame()), name_of(site))) found = PyDict_GetItemWithError(cpython::globals_of(site.frame.frame()).get(), name_of(site));
  } else if (op == LOAD_DEREF) {
    PyObject* const cell = site.frame.slot(site.instruction.arg);
    const Value::Kind kind = site.recorder.value_at(site.instruction.arg).kind;
    if (cell && PyCell_Check(cell) && kind != Value::Kind::kCell) found = PyCell_GET(cell);
  } else if ((op == LOAD_ATTR || op == LOAD_METHOD) && plan.kind != Plan::Kind::kInline && site.recorder.value_at(site.depth - 1).kind == Value::Kind::kSource) {
    PyObject* const object = site.frame.slot(site.depth - 1);
    if (!cpython::is_plain_to_load(object, name_of(site))) return Ref();
    Ref attribute = Ref::steal(PyObject_GetAttr(object, name_of(site)));
    if (!attribute) PyErr_Clear();
    return attribute;
  }
  return found ? Ref::borrow(found) : Ref();
}

// Whether it looks into a container from outside.
bool looks_into_shared(const Site& site) {
  const bytecode::Op op = site.instruction.op;
  if (op != BINARY_SUBSCR && op != BINARY_SLICE && op != CONTAINS_OP && op != GET_ITER && op != UNPACK_SEQUENCE && op != CALL && op != TO_BOOL &&
      op != POP_JUMP_IF_TRUE && op != POP_JUMP_IF_FALSE && op != COMPARE_OP) {
    return false;
  }
  for (int slot = site.depth - 1; slot >= std::max(site.depth - 4, 0); slot--) {
    if (site.recorder.value_at(slot).kind == Value::Kind::kSource && is_changeable(site.frame.slot(slot))) return true;
  }
  return false;
}

}  // namespace

PyObject* acquire_without_waiting() {
  return c_function<acquire_at_once>("acquire_at_once");
}

bool reads_under_lock(const Site& site, const Plan& plan) {
  if (plan.kind == Plan::Kind::kBreak || is_of_logging(site.frame)) return false;
  if (is_of_cached_property(site)) return false;
  const Ref loaded = about_to_load(site, plan);
  return (loaded && is_shared_state(loaded.get())) || looks_into_shared(site);
}

}  // namespace evalframe::recorder
