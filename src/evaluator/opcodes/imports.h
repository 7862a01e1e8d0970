// Instructions that import, and the intrinsic functions among which 3.12 and later have `import *`.
#pragma once

#include "cpython/c_call.h"
#include "cpython/imports.h"
#include "cpython/intrinsics.h"
#include "evaluator/handlers.h"
#include "evaluator/opcodes/containers.h"
#include "evaluator/opcodes/operators.h"
#include "evaluator/opcodes/variables.h"

namespace evalframe::evaluator {

inline Outcome Handlers::IMPORT_NAME(Activation& a, const Instruction& i) {
  const Ref import = cpython::import_function(cpython::builtins_of(frame(a)));
  if (!import) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "__import__ not found");
    return Outcome::kRaised;
  }
  PyObject* const locals = cpython::locals_dict_of(frame(a)).get();
  PyObject* arguments[] = {nullptr, name(a, i), cpython::globals_of(frame(a)).get(), locals ? locals : Py_None, peek(a, 1), peek(a, 2)};
  return replace(a, 2, cpython::call_c(thread(a), import.get(), arguments + 1, 5 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

inline Outcome Handlers::IMPORT_FROM(Activation& a, const Instruction& i) {
  Ref value = cpython::import_from(thread(a), peek(a, 1), name(a, i));
  if (!value) return Outcome::kRaised;
  push(a, std::move(value));
  return Outcome::kRan;
}

inline bool wrong_name_in_star(PyObject* module, PyObject* name, bool from_dict) {
  const Ref module_name = Ref::steal(PyObject_GetAttrString(module, "__name__"));
  if (!module_name) return false;
  if (!PyUnicode_Check(module_name.get())) {
    PyErr_Format(PyExc_TypeError, "module __name__ must be a string, not %.100s", Py_TYPE(module_name.get())->tp_name);
  } else {
    PyErr_Format(PyExc_TypeError, from_dict ? "Key in %U.__dict__ must be str, not %.100s" : "Item in %U.__all__ must be str, not %.100s",
                 module_name.get(), Py_TYPE(name)->tp_name);
  }
  return false;
}
// The attribute, or null; with an exception unless there is none.
inline Ref attribute_if_any(PyObject* object, const char* name) {
  Ref value = Ref::steal(PyObject_GetAttrString(object, name));
  if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
  return value;
}
// Binds what `from module import *` binds: the names in __all__, else those that don't begin with an underscore.
inline bool import_star(PyObject* locals, PyObject* module) {
  Ref names = attribute_if_any(module, "__all__");
  if (!names && PyErr_Occurred()) return false;
  const bool from_dict = !names;
  if (from_dict) {
    const Ref dict = attribute_if_any(module, "__dict__");
    if (!dict && !PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "from-import-* object has no __dict__ and no __all__");
    if (dict) names = Ref::steal(PyMapping_Keys(dict.get()));
    if (!names) return false;
  }
  for (Py_ssize_t index = 0;; ++index) {
    const Ref name = Ref::steal(PySequence_GetItem(names.get(), index));
    if (!name) {
      if (!PyErr_ExceptionMatches(PyExc_IndexError)) return false;
      PyErr_Clear();
      return true;
    }
    if (!PyUnicode_Check(name.get())) return wrong_name_in_star(module, name.get(), from_dict);
    if (from_dict && PyUnicode_GET_LENGTH(name.get()) > 0 && PyUnicode_READ_CHAR(name.get(), 0) == '_') continue;
    const Ref value = Ref::steal(PyObject_GetAttr(module, name.get()));
    if (!value || set_entry(locals, name.get(), value.get()) < 0) return false;
  }
}
inline Outcome Handlers::IMPORT_STAR(Activation& a, const Instruction&) {
  PyObject* const locals = namespace_of(a);
  const bool imported = locals && import_star(locals, peek(a, 1));
  if (layout::kStarBindsHidden && imported) bind_hidden(a, locals);
  return consume(a, 1, imported);
}
// The variables of inlined comprehensions take the values that the namespace has under their names.
inline void Handlers::bind_hidden(Activation& a, PyObject* locals) {
  for (int index = 0; index < code(a)->co_nlocals; ++index) {
    PyObject* const value = PyObject_GetItem(locals, PyTuple_GET_ITEM(code(a)->co_localsplusnames, index));
    if (value) {
      set_local(a, index, value);
    } else {
      PyErr_Clear();
    }
  }
}

// Shows the value of an expression statement typed at the prompt.
inline Ref displayed(PyObject* value) {
  const Ref hook = Ref::borrow(PySys_GetObject("displayhook"));
  if (hook) return Ref::steal(PyObject_CallOneArg(hook.get(), value));
  PyErr_SetString(PyExc_RuntimeError, "lost sys.displayhook");
  return Ref();
}
inline Outcome Handlers::PRINT_EXPR(Activation& a, const Instruction&) {
  return consume(a, 1, static_cast<bool>(displayed(peek(a, 1))));
}

inline Outcome Handlers::CALL_INTRINSIC_1(Activation& a, const Instruction& i) {
  switch (i.arg) {
    case cpython::kUnaryPositive: return UNARY_POSITIVE(a, i);
    case cpython::kListToTuple: return LIST_TO_TUPLE(a, i);
    case cpython::kPrint: return replace(a, 1, displayed(peek(a, 1)).release());
    case cpython::kImportStar: {
      const Outcome outcome = IMPORT_STAR(a, i);
      if (outcome == Outcome::kRan) push(a, Ref::borrow(Py_None));
      return outcome;
    }
  }
  return replace(a, 1, cpython::unary_intrinsic(thread(a), i.arg, peek(a, 1)).release());
}
inline Outcome Handlers::CALL_INTRINSIC_2(Activation& a, const Instruction& i) {
  return replace(a, 2, cpython::binary_intrinsic(thread(a), i.arg, peek(a, 2), peek(a, 1)).release());
}

}  // namespace evalframe::evaluator
