#include "frontends/torch/default_device.h"

#include "core/c_function.h"
#include "frontends/torch/names.h"

namespace evalframe::torch {

namespace {

struct Entries {
  Ref type, count, at;
};

const Entries& entries() {
  static MadeOnce<Entries> made;
  return made.get([] {
    return Entries{attribute_of("torch.utils._device", "DeviceContext"), attribute_of("torch._C", "_len_torch_function_stack"), attribute_of("torch._C", "_get_function_stack_at")};
  });
}

// Null where there is none, or several; maybe with an exception.
Ref the_only_mode() {
  const Entries& torch = entries();
  if (!torch.type || !torch.count || !torch.at) return Ref();
  const Ref count = Ref::steal(PyObject_CallNoArgs(torch.count.get())), first = Ref::steal(PyLong_FromLong(0));
  if (!count || !first || PyLong_AsLong(count.get()) != 1) return Ref();
  return Ref::steal(PyObject_CallOneArg(torch.at.get(), first.get()));
}

PyObject* ask(PyObject*, PyObject*) { return default_device().release(); }

}  // namespace

Ref default_device() {
  const Ref mode = the_only_mode();
  const bool names_device = mode && reinterpret_cast<PyObject*>(Py_TYPE(mode.get())) == entries().type.get();
  const Ref device = names_device ? attribute(mode.get(), "device") : Ref();
  PyErr_Clear();
  return device ? Ref::borrow(device.get()) : Ref::borrow(Py_None);
}

PyObject* asks_default_device() { return c_function<ask, METH_NOARGS>("default_device"); }

}  // namespace evalframe::torch
