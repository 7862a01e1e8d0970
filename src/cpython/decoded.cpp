// The decoded form of a code object, kept with it in a slot of its co_extra.
#include "cpython/codec.h"

#include <algorithm>

namespace evalframe::cpython {
namespace {

using bytecode::Code;

void free_decoded(void* extra) { delete static_cast<Code*>(extra); }

Py_ssize_t extra_index() {
#if PY_VERSION_HEX >= 0x030C0000
  static const Py_ssize_t index = PyUnstable_Eval_RequestCodeExtraIndex(free_decoded);
#else
  static const Py_ssize_t index = _PyEval_RequestCodeExtraIndex(free_decoded);
#endif
  return index;
}

bool keep(PyCodeObject* code, Code* decoded) {
  if (extra_index() < 0) {
    PyErr_SetString(PyExc_RuntimeError, "CPython has no co_extra slot left: too many libraries use them in this process");
    return false;
  }
  return set_extra(code, extra_index(), decoded);
}

}  // namespace

bool set_extra(PyCodeObject* code, Py_ssize_t index, void* value) {
  auto* extra = static_cast<CodeExtra*>(code->co_extra);
  if (const Py_ssize_t size = extra ? extra->size : 0; size <= index) {
    extra = static_cast<CodeExtra*>(PyMem_Realloc(extra, sizeof(CodeExtra) + static_cast<size_t>(index) * sizeof(void*)));
    if (!extra) {
      PyErr_NoMemory();
      return false;
    }
    std::fill(&extra->values[size], &extra->values[index + 1], nullptr);
    extra->size = index + 1;
    code->co_extra = extra;
  }
  extra->values[index] = value;
  return true;
}

const Code* decoded_before(PyCodeObject* code) {
  return static_cast<const Code*>(extra_of(code, extra_index()));
}

const Code* decoded(Borrowed code) {
  if (const Code* known = PyCode_Check(code.get()) ? decoded_before(code.as<PyCodeObject>()) : nullptr) return known;
  std::unique_ptr<Code> made = decode(code);
  if (made == nullptr || !keep(code.as<PyCodeObject>(), made.get())) return nullptr;
  made->keep_alive.reset();
  return made.release();
}

}  // namespace evalframe::cpython
