#include "cpython/variables.h"

namespace evalframe::cpython {
namespace {

}  // namespace

int variable_count(Borrowed code) { return code.as<PyCodeObject>()->co_nlocalsplus; }

int argument_count(Borrowed code) {
  const PyCodeObject* object = code.as<PyCodeObject>();
  return object->co_argcount + object->co_kwonlyargcount + ((object->co_flags & CO_VARARGS) != 0) +
         ((object->co_flags & CO_VARKEYWORDS) != 0);
}

Borrowed variable_name(Borrowed code, int slot) { return PyTuple_GET_ITEM(code.as<PyCodeObject>()->co_localsplusnames, slot); }

uint8_t variable_kind(Borrowed code, int slot) {
  return static_cast<uint8_t>(PyBytes_AS_STRING(code.as<PyCodeObject>()->co_localspluskinds)[slot]);
}

Ref present_locals() {
#if PY_VERSION_HEX >= 0x030D0000
  return Ref::steal(PyEval_GetFrameLocals());
#else
  return Ref::borrow(PyEval_GetLocals());
#endif
}

}  // namespace evalframe::cpython
