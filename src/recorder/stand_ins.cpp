#include "recorder/stand_ins.h"

#include <unordered_map>

#include "core/builtins.h"
#include "core/c_function.h"
#include "cpython/generators.h"
#include "cpython/hidden_code.h"
#include "recorder/policy.h"

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

// What a sort compares in the place of its keys: it is told what has come of comparisons before, and stops at the next one.
struct Comparisons {
  PyObject* outcomes;
  Py_ssize_t made = 0;
  Py_ssize_t left = -1, right = -1;
};
struct Place {
  PyObject_HEAD
  Py_ssize_t number;
  Comparisons* comparisons;
};

PyObject* compare_places(PyObject* left, PyObject* right, int) {
  Comparisons& all = *reinterpret_cast<Place*>(left)->comparisons;
  if (all.made < PyList_GET_SIZE(all.outcomes)) return Py_NewRef(PyList_GET_ITEM(all.outcomes, all.made++));
  all.left = reinterpret_cast<Place*>(left)->number, all.right = reinterpret_cast<Place*>(right)->number;
  PyErr_SetString(PyExc_RuntimeError, "not compared yet");
  return nullptr;
}

PyTypeObject* type_of_places() {
  static PyType_Slot slots[] = {{Py_tp_richcompare, reinterpret_cast<void*>(compare_places)}, {0, nullptr}};
  static PyType_Spec spec{"evalframe.place", sizeof(Place), 0, Py_TPFLAGS_DEFAULT, slots};
  static PyObject* const type = PyType_FromSpec(&spec);
  return reinterpret_cast<PyTypeObject*>(type);
}

// How a sort of so many keys goes on behind these outcomes of its comparisons: the places of the next two keys, or the tuple of all
// places, in order, alone.
PyObject* next_comparison(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  const bool fits = count == 3 && PyLong_CheckExact(arguments[0]) && PyBool_Check(arguments[1]) && PyList_CheckExact(arguments[2]);
  if (!fits) return PyErr_Format(PyExc_TypeError, "a number, a bool and a list of bools are wanted");
  Comparisons comparisons{arguments[2]};
  const Py_ssize_t length = PyLong_AsSsize_t(arguments[0]);
  const Ref list = Ref::steal(PyList_New(0)), keywords = Ref::steal(Py_BuildValue("{sO}", "reverse", arguments[1])), none = Ref::steal(PyTuple_New(0));
  for (Py_ssize_t i = 0; list && i < length; i++) {
    const Ref place = Ref::steal(type_of_places()->tp_alloc(type_of_places(), 0));
    if (!place) return nullptr;
    place.as<Place>()->number = i, place.as<Place>()->comparisons = &comparisons;
    if (PyList_Append(list.get(), place.get()) < 0) return nullptr;
  }
  const Ref sort = list ? Ref::steal(PyObject_GetAttrString(list.get(), "sort")) : Ref();
  if (!sort || !keywords || !none) return nullptr;
  const Ref sorted = Ref::steal(PyObject_Call(sort.get(), none.get(), keywords.get()));
  if (!sorted && comparisons.left < 0) return nullptr;
  if (!sorted) return PyErr_Clear(), Py_BuildValue("nn", comparisons.left, comparisons.right);
  const Ref places = Ref::steal(PyTuple_New(length));
  for (Py_ssize_t i = 0; places && i < length; i++) {
    PyObject* const number = PyLong_FromSsize_t(reinterpret_cast<Place*>(PyList_GET_ITEM(list.get(), i))->number);
    if (!number) return nullptr;
    PyTuple_SET_ITEM(places.get(), i, number);
  }
  return places ? PyTuple_Pack(1, places.get()) : nullptr;
}

// What C's map(), zip() and the like are given of an iterator that a class of the program's makes: asked for an iterator it gives that one, which isn't asked.
struct Asked {
  PyObject_HEAD
  PyObject* iterator;
};

PyObject* give_iterator(PyObject* asked) { return Py_NewRef(reinterpret_cast<Asked*>(asked)->iterator); }

void drop_iterator(PyObject* asked) {
  PyTypeObject* const type = Py_TYPE(asked);
  Py_DECREF(reinterpret_cast<Asked*>(asked)->iterator);
  type->tp_free(asked);
  Py_DECREF(type);
}

PyObject* as_asked(PyObject*, PyObject* iterator) {
  if (Py_TYPE(iterator)->tp_iter == PyObject_SelfIter) return Py_NewRef(iterator);
  static PyType_Slot slots[] = {{Py_tp_iter, reinterpret_cast<void*>(give_iterator)}, {Py_tp_dealloc, reinterpret_cast<void*>(drop_iterator)}, {0, nullptr}};
  static PyType_Spec spec{"evalframe.asked", sizeof(Asked), 0, Py_TPFLAGS_DEFAULT, slots};
  static PyObject* const type = PyType_FromSpec(&spec);
  Asked* const asked = type ? PyObject_New(Asked, reinterpret_cast<PyTypeObject*>(type)) : nullptr;
  if (asked) asked->iterator = Py_NewRef(iterator);
  return reinterpret_cast<PyObject*>(asked);
}

PyObject* close_generator(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  const bool fits = count == 2 && (PyGen_CheckExact(arguments[0]) || PyCoro_CheckExact(arguments[0])) && PyExceptionInstance_Check(arguments[1]);
  if (!fits) return PyErr_Format(PyExc_TypeError, "a generator and an exception are wanted");
  return cpython::close_with(PyThreadState_Get(), arguments[0], Ref::borrow(arguments[1])).release();
}

}  // namespace

PyObject* close_with() { return c_function<close_generator>("close_with"); }

PyObject* asked_iterator() { return c_function<as_asked>("asked", "The iterator, or what gives it without asking it for one of its own."); }

PyObject* step_of_sort() {
  return c_function<next_comparison>("step_of_sort");
}

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
  if (found != table().end()) return &found->second;
  PyObject* const original = followed_instead(callable);
  if (!original) return nullptr;
  return &table().try_emplace(Ref::borrow(callable).release(), StandIn{Ref::borrow(original), -1}).first->second;
}

PyObject* places_in_order() {
  return c_function<order_places>("places_in_order", "The places of keys in the order in which a sort leaves what has these keys.");
}

PyObject* matches_of_pattern() {
  return c_function<find_matches>("matches", "The matches that a substitution of the pattern replaces in the text, at most so many, if not 0.");
}

}  // namespace evalframe::recorder
