// Asks ufuncs which loop they take.
#include "backends/native/meaning/loops.h"

#include <map>

#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::native {
namespace {

Ref type_argument(const Meta& meta) {
  switch (meta.kind) {
    case Kind::kInt: return Ref::borrow(&PyLong_Type);
    case Kind::kFloat: return Ref::borrow(&PyFloat_Type);
    case Kind::kComplex: return Ref::borrow(&PyComplex_Type);
    case Kind::kBool: return Ref::steal(PyArray_DescrFromType(NPY_BOOL));
    case Kind::kArray: case Kind::kNumpyScalar: return numpy::dtype_object(meta.dtype);
    case Kind::kNone: case Kind::kObject: case Kind::kTensor: break;
  }
  return Ref();
}

Loop resolve(PyObject* ufunc, const Meta* const* metas, int count, DType dtype, PyObject* casting) {
  const Ref types = Ref::steal(PyTuple_New(count + 1));
  for (int i = 0; i < count; i++) {
    Ref type = type_argument(*metas[i]);
    if (!type) return {};
    PyTuple_SET_ITEM(types.get(), i, type.release());
  }
  PyTuple_SET_ITEM(types.get(), count, Ref::borrow(Py_None).release());
  const Ref signature = Ref::steal(PyTuple_New(count + 1));
  for (int i = 0; i < count; i++) PyTuple_SET_ITEM(signature.get(), i, Ref::borrow(Py_None).release());
  Ref wanted = dtype == DType::kNone ? Ref::borrow(Py_None) : numpy::dtype_object(dtype);
  PyTuple_SET_ITEM(signature.get(), count, wanted.release());
  const Ref method = Ref::steal(PyObject_GetAttrString(ufunc, "resolve_dtypes"));
  const Ref positional = Ref::steal(PyTuple_Pack(1, types.get()));
  const Ref keywords = Ref::steal(PyDict_New());
  if (dtype != DType::kNone) PyDict_SetItemString(keywords.get(), "signature", signature.get());
  if (casting) PyDict_SetItemString(keywords.get(), "casting", casting);
  const Ref resolved = method ? Ref::steal(PyObject_Call(method.get(), positional.get(), keywords.get())) : Ref();
  if (!resolved) {
    PyErr_Clear();
    return {};
  }
  const Loop loop{numpy::dtype_of(PyTuple_GET_ITEM(resolved.get(), 0)), numpy::dtype_of(PyTuple_GET_ITEM(resolved.get(), count))};
  for (int i = 1; i < count; i++) {
    if (numpy::dtype_of(PyTuple_GET_ITEM(resolved.get(), i)) != loop.in) return {};
  }
  return loop;
}

}  // namespace

Loop loop_of(PyObject* ufunc, const Meta* const* metas, int count, DType dtype, PyObject* casting) {
  if (casting) return resolve(ufunc, metas, count, dtype, casting);
  // Remembered: a program uses few combinations.
  static std::map<std::pair<PyObject*, uint64_t>, Loop> cache;
  uint64_t key = count * 256 + static_cast<uint8_t>(dtype);
  for (int i = 0; i < count; i++) {
    const bool weak = metas[i]->kind != Kind::kArray && metas[i]->kind != Kind::kNumpyScalar;
    key = key * 256 + (weak ? 128 + static_cast<int>(metas[i]->kind) : static_cast<int>(metas[i]->dtype));
  }
  const auto found = cache.find({ufunc, key});
  if (found != cache.end()) return found->second;
  const Loop loop = resolve(ufunc, metas, count, dtype, nullptr);
  if (Py_TYPE(ufunc) == &PyUFunc_Type) cache.emplace(std::pair{Ref::borrow(ufunc).release(), key}, loop);
  return loop;
}

DType dtype_argument(PyObject* object) {
  if (numpy::is_warned_of(object)) return DType::kNone;
  PyArray_Descr* descr = nullptr;
  if (PyArray_DescrConverter(object, &descr) != NPY_SUCCEED) {
    PyErr_Clear();
    return DType::kNone;
  }
  const Ref held = Ref::steal(descr);
  return numpy::dtype_of(held.get());
}

}  // namespace evalframe::native
