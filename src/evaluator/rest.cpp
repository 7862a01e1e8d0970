// The rests of operators and protocols, as CPython's own slots do it.
#include "evaluator/rest.h"

#include "bytecode/operators.h"
#include "core/check.h"
#include "core/made_once.h"
#include "cpython/objects.h"

namespace evalframe::evaluator {

namespace {

Ref made_class(const char* name, PyTypeObject* base, bool stands_in) {
  const Ref bases = Ref::steal(base ? PyTuple_Pack(1, base) : PyTuple_New(0)), dict = Ref::steal(PyDict_New());
  const Ref slots = Ref::steal(stands_in ? Py_BuildValue("(ss)", "call", "object") : PyTuple_New(0));
  if (!bases || !dict || !slots || PyDict_SetItemString(dict.get(), "__slots__", slots.get()) < 0) return Ref();
  return Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "sOO", name, bases.get(), dict.get()));
}

PyObject* give_self(PyObject* self, PyObject*, PyObject*) { return Py_NewRef(self); }

// An object that gives `result` when it is called with whatever.
Ref giving(PyObject* result) {
  static PyMethodDef definition{"result", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(give_self)), METH_VARARGS | METH_KEYWORDS, nullptr};
  return Ref::steal(PyCFunction_New(&definition, result));
}

// Its only method is what its instances have in a slot.
Ref class_of_stand_ins(PyObject* name) {
  static MadeOnce<Ref> classes;
  PyObject* const known = classes.get([] { return Ref::steal(PyDict_New()); }).get();
  if (PyObject* const found = known ? PyDict_GetItemWithError(known, name) : nullptr) return Ref::borrow(found);
  Ref made = made_class("object", nullptr, true);
  const Ref slot = made ? Ref::steal(PyObject_GetAttrString(made.get(), "call")) : Ref();
  if (!slot || PyObject_SetAttr(made.get(), name, slot.get()) < 0 || PyDict_SetItem(known, name, made.get()) < 0) return Ref();
  return made;
}

Ref call_method(PyObject* self, PyObject* name, PyObject* other) {
  PyObject* const found = _PyType_Lookup(Py_TYPE(self), name);
  if (!found) return Ref::borrow(Py_NotImplemented);
  const Ref held = Ref::borrow(found);
  const descrgetfunc get = Py_TYPE(found)->tp_descr_get;
  const Ref bound = get ? Ref::steal(get(found, self, reinterpret_cast<PyObject*>(Py_TYPE(self)))) : Ref::borrow(found);
  return bound ? Ref::steal(PyObject_CallOneArg(bound.get(), other)) : Ref();
}

Ref unsupported(PyObject* left, PyObject* right, Operator which) {
  const char *const left_name = Py_TYPE(left)->tp_name, *const right_name = Py_TYPE(right)->tp_name;
  if (which.compares) {
    PyErr_Format(PyExc_TypeError, "'%s' not supported between instances of '%.100s' and '%.100s'", bytecode::kCompareSymbols[which.number], left_name, right_name);
  } else {
    const bool power = which.number == static_cast<int>(bytecode::BinaryOp::kPower);
    PyErr_Format(PyExc_TypeError, "unsupported operand type(s) for %.100s: '%.100s' and '%.100s'", power ? "** or pow()" : bytecode::kBinarySymbols[which.number],
                 left_name, right_name);
  }
  return Ref();
}

}  // namespace

// The first to ask may be unwinding, and its exception is none of the class's.
PyObject* rest_type() {
  static MadeOnce<Ref> type;
  return type.get([] {
    Ref raised = PyErr_Occurred() ? cpython::take_raised() : Ref();
    Ref made = made_class("rest", &PyTuple_Type, false);
    if (raised) cpython::set_raised(std::move(raised));
    return made;
  }).get();
}

Ref make_rest(Borrowed parts) { return Ref::steal(PyObject_CallOneArg(rest_type(), parts.get())); }

bool is_rest_of_operator(PyObject* rest) { return PyBool_Check(PyTuple_GET_ITEM(rest, 0)); }

Resumes resumes_generator(PyObject* rest) {
  PyObject* const first = PyTuple_GET_ITEM(rest, 0);
  return PyLong_CheckExact(first) ? static_cast<Resumes>(PyLong_AsLong(first)) : Resumes::kNone;
}

bool is_rest_of_construction(PyObject* rest) { return PyTuple_GET_ITEM(rest, 0) == Py_Ellipsis; }

// As type.__call__ goes on.
Ref finish_construction(PyObject* rest, Ref result) {
  auto* const type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(rest, 1));
  const initproc initialize = PyObject_TypeCheck(result.get(), type) ? Py_TYPE(result.get())->tp_init : nullptr;
  PyObject* const keywords = PyTuple_GET_ITEM(rest, 3);
  if (initialize && initialize(result.get(), PyTuple_GET_ITEM(rest, 2), keywords == Py_None ? nullptr : keywords) < 0) return Ref();
  return result;
}

Ref stand_in(PyObject* name, PyObject* result, PyObject* object) {
  const Ref type = class_of_stand_ins(name);
  Ref made = type ? Ref::steal(PyObject_CallNoArgs(type.get())) : Ref();
  const Ref call = giving(result);
  if (!made || !call || PyObject_SetAttrString(made.get(), "call", call.get()) < 0 || PyObject_SetAttrString(made.get(), "object", object) < 0) return Ref();
  return made;
}

Ref finish_operator(PyObject* rest, Operator which, Ref result) {
  PyObject *const candidates = PyTuple_GET_ITEM(rest, 1), *const operands[] = {PyTuple_GET_ITEM(rest, 2), PyTuple_GET_ITEM(rest, 3)};
  if (result.get() != Py_NotImplemented && PyTuple_GET_ITEM(rest, 0) == Py_True) {
    const int truth = PyObject_IsTrue(result.get());
    return truth < 0 ? Ref() : Ref::borrow(truth ? Py_False : Py_True);
  }
  for (Py_ssize_t i = 0; result.get() == Py_NotImplemented && i < PyTuple_GET_SIZE(candidates); i++) {
    PyObject* const candidate = PyTuple_GET_ITEM(candidates, i);
    const bool of_right = PyTuple_GET_ITEM(candidate, 0) == Py_True;
    result = call_method(operands[of_right], PyTuple_GET_ITEM(candidate, 1), operands[!of_right]);
    if (!result) return Ref();
  }
  if (result.get() != Py_NotImplemented) return result;
  const bool of_equality = which.compares && (which.number == Py_EQ || which.number == Py_NE);
  if (of_equality) return Ref::borrow((operands[0] == operands[1]) == (which.number == Py_EQ) ? Py_True : Py_False);
  return unsupported(operands[0], operands[1], which);
}

}  // namespace evalframe::evaluator
