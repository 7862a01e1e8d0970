#include "cpython/variables.h"

namespace evalframe::cpython {
namespace {

const PyCodeObject* as_code(Borrowed code) { return reinterpret_cast<const PyCodeObject*>(code.get()); }

}  // namespace

int variable_count(Borrowed code) { return as_code(code)->co_nlocalsplus; }

int argument_count(Borrowed code) {
  const PyCodeObject* object = as_code(code);
  return object->co_argcount + object->co_kwonlyargcount + ((object->co_flags & CO_VARARGS) != 0) +
         ((object->co_flags & CO_VARKEYWORDS) != 0);
}

Borrowed variable_name(Borrowed code, int slot) { return PyTuple_GET_ITEM(as_code(code)->co_localsplusnames, slot); }

uint8_t variable_kind(Borrowed code, int slot) {
  return static_cast<uint8_t>(PyBytes_AS_STRING(as_code(code)->co_localspluskinds)[slot]);
}

Ref present_locals() {
#if PY_VERSION_HEX >= 0x030D0000
  return Ref::steal(PyEval_GetFrameLocals());
#else
  return Ref::borrow(PyEval_GetLocals());
#endif
}

}  // namespace evalframe::cpython
