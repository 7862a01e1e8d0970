// The decoded form of a code object, kept with it in a slot of its co_extra.
#include "cpython/codec.h"

#include <algorithm>

namespace evalframe::cpython {
namespace {

using bytecode::Code;

void free_decoded(void* extra) { delete static_cast<Code*>(extra); }

#if PY_VERSION_HEX >= 0x030C0000
constexpr auto request_index = PyUnstable_Eval_RequestCodeExtraIndex;
#else
constexpr auto request_index = _PyEval_RequestCodeExtraIndex;
#endif

bool keep(PyCodeObject* code, Code* decoded) {
  if (decoded_index < 0) decoded_index = request_index(free_decoded);
  if (decoded_index < 0) {
    PyErr_SetString(PyExc_RuntimeError, "CPython has no co_extra slot left: too many libraries use them in this process");
    return false;
  }
  return set_extra(code, decoded_index, decoded);
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

const Code* decoded(Borrowed code) {
  if (const Code* known = PyCode_Check(code.get()) ? decoded_before(code.as<PyCodeObject>()) : nullptr) return known;
  std::unique_ptr<Code> made = decode(code);
  if (made == nullptr || !keep(code.as<PyCodeObject>(), made.get())) return nullptr;
  made->keep_alive.reset();
  return made.release();
}

}  // namespace evalframe::cpython
