#include "recorder/stand_ins.h"

#include <unordered_map>

#include "core/builtins.h"
#include "cpython/hidden_code.h"

namespace evalframe::recorder {

namespace {

// Lives as long as the process.
std::unordered_map<PyObject*, StandIn>& table() {
  static auto* const made = new std::unordered_map<PyObject*, StandIn>();
  return *made;
}

// sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse), as a tuple.
PyObject* order_places(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !PyList_CheckExact(arguments[0])) return PyErr_Format(PyExc_TypeError, "a list of keys and a bool are wanted");
  const Ref places = Ref::steal(PyList_New(0)), key = Ref::steal(PyObject_GetAttrString(arguments[0], "__getitem__"));
  for (Py_ssize_t i = 0; places && i < PyList_GET_SIZE(arguments[0]); i++) {
    const Ref place = Ref::steal(PyLong_FromSsize_t(i));
    if (!place || PyList_Append(places.get(), place.get()) < 0) return nullptr;
  }
  const Ref sort = places ? Ref::steal(PyObject_GetAttrString(places.get(), "sort")) : Ref(), none = Ref::steal(PyTuple_New(0));
  const Ref keywords = key ? Ref::steal(Py_BuildValue("{sOsO}", "key", key.get(), "reverse", arguments[1])) : Ref();
  if (!sort || !none || !keywords || !Ref::steal(PyObject_Call(sort.get(), none.get(), keywords.get()))) return nullptr;
  return PySequence_Tuple(places.get());
}

// So many of pattern.finditer(text) as a substitution replaces, as a tuple.
PyObject* find_matches(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  const Py_ssize_t most = count == 3 ? PyNumber_AsSsize_t(arguments[2], PyExc_OverflowError) : -1;
  if (count != 3 || (most == -1 && PyErr_Occurred())) return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_TypeError, "a pattern, text and a number are wanted");
  const Ref matches = Ref::steal(PyObject_CallMethod(arguments[0], "finditer", "O", arguments[1])), found = Ref::steal(PyList_New(0));
  while (matches && found && (most == 0 || PyList_GET_SIZE(found.get()) < most)) {
    const Ref match = Ref::steal(PyIter_Next(matches.get()));
    if (!match || PyList_Append(found.get(), match.get()) < 0) break;
  }
  return !matches || !found || PyErr_Occurred() ? nullptr : PyList_AsTuple(found.get());
}

}  // namespace

bool add_stand_in(Borrowed callable, Borrowed function, int through) {
  const Ref hidden = cpython::without_resume(function.as<PyFunctionObject>()->func_code);
  if (!hidden || PyObject_SetAttrString(function.get(), "__code__", hidden.get()) < 0) return false;
  PyObject* key = Ref::borrow(callable).release();
  if (PyUnicode_CheckExact(key)) PyUnicode_InternInPlace(&key);
  table()[key] = {Ref::borrow(function), through};
  return true;
}

const StandIn* stand_in_named(const char* name) {
  const Ref key = Ref::steal(PyUnicode_InternFromString(name));
  return stand_in_of(key.get());
}

const StandIn* stand_in_of(PyObject* callable) {
  const auto found = table().find(callable);
  return found == table().end() ? nullptr : &found->second;
}

PyObject* places_in_order() {
  static PyMethodDef definition{"places_in_order", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(order_places)), METH_FASTCALL,
                                "The places of keys in the order in which a sort leaves what has these keys."};
  static PyObject* const made = PyCFunction_New(&definition, nullptr);
  return made;
}

PyObject* matches_of_pattern() {
  static PyMethodDef definition{"matches", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(find_matches)), METH_FASTCALL,
                                "The matches that a substitution of the pattern replaces in the text, at most so many, if not 0."};
  static PyObject* const made = PyCFunction_New(&definition, nullptr);
  return made;
}

}  // namespace evalframe::recorder
