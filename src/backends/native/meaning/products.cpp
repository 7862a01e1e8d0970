// Asks NumPy for products whose last bits tell how they were rounded.
#include "backends/native/meaning/products.h"

#include "core/made_once.h"
#include "core/ref.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::native {
namespace {

Ref every(long step, const Ref& array) {
  const Ref number = Ref::steal(PyLong_FromLong(step));
  const Ref slice = Ref::steal(number ? PySlice_New(nullptr, nullptr, number.get()) : nullptr);
  return Ref::steal(slice ? PyObject_GetItem(array.get(), slice.get()) : nullptr);
}

// The square of `little` is in (1 + little)^2 - 1 only where the first multiplication is not rounded.
template <class Part> Products ask(int type, Part little) {
  npy_intp size = 8;
  const Ref array = Ref::steal(PyArray_SimpleNew(1, &size, type));
  if (!array) return PyErr_Clear(), Products::kMixed;
  Part* const parts = static_cast<Part*>(PyArray_DATA(numpy::as_array(array.get())));
  for (npy_intp i = 0; i < size; i++) parts[2 * i] = 1 + little, parts[2 * i + 1] = 1;
  bool fused = false, separate = false;
  for (const long step : {1, 2, -1, -2}) {
    const Ref view = every(step, array);
    const Ref product = Ref::steal(view ? PyNumber_Multiply(view.get(), view.get()) : nullptr);
    if (!product) return PyErr_Clear(), Products::kMixed;
    const Part real = *static_cast<const Part*>(PyArray_DATA(numpy::as_array(product.get())));
    (real == 2 * little ? separate : fused) = true;
  }
  return fused && separate ? Products::kMixed : fused ? Products::kFused : Products::kSeparate;
}

}  // namespace

Products products_of(graph::DType dtype) {
  static constinit MadeOnce<Products> of_floats, of_doubles;
  if (dtype == graph::DType::complex64) return of_floats.get([] { return ask<float>(NPY_CFLOAT, 0x1p-13f); });
  return of_doubles.get([] { return ask<double>(NPY_CDOUBLE, 0x1p-30); });
}

}  // namespace evalframe::native
