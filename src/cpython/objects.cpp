// The exceptions that are raised and handled on a thread, for every version.
#include "cpython/objects.h"

namespace evalframe::cpython {

Ref first_entry(Borrowed exception) {
  Ref traceback = Ref::steal(PyException_GetTraceback(exception.get()));
  return traceback && PyTraceBack_Check(traceback.get()) ? std::move(traceback) : Ref();
}

#if PY_VERSION_HEX >= 0x030C0000
Ref take_raised() { return Ref::steal(PyErr_GetRaisedException()); }
Ref take_caught() { return take_raised(); }
void set_raised(Ref exception) { PyErr_SetRaisedException(exception.release()); }

Ref take_refused_key() {
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return Ref();
  Ref error = take_raised();
  PyObject* const arguments = error.as<PyBaseExceptionObject>()->args;
  if (PyTuple_Check(arguments) && PyTuple_GET_SIZE(arguments) == 1) return Ref::borrow(PyTuple_GET_ITEM(arguments, 0));
  set_raised(std::move(error));
  return Ref();
}
#else
Ref take_raised() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  // Where there is none and was none, CPython would keep None.
  if (traceback || first_entry(value)) PyException_SetTraceback(value, traceback ? traceback : Py_None);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref::steal(value);
}
Ref take_caught() {
  Ref exception = take_raised();
  if (!exception.as<PyBaseExceptionObject>()->traceback) PyException_SetTraceback(exception.get(), Py_None);
  return exception;
}
void set_raised(Ref exception) {
  PyObject* const traceback = PyException_GetTraceback(exception.get());
  PyObject* const type = Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())));
  PyErr_Restore(type, exception.release(), traceback);
}

// Only what C code has raised isn't an object yet, but the tuple of its arguments; KeyErrors of Python code stay here.
Ref take_refused_key() {
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return Ref();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (!value || !PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 1) {
    PyErr_Restore(type, value, traceback);
    return Ref();
  }
  const Ref dropped[] = {Ref::steal(type), Ref::steal(value), Ref::steal(traceback)};
  return Ref::borrow(PyTuple_GET_ITEM(value, 0));
}
#endif

Ref copy_of_dict(PyObject* dict) {
  // Keys keep the hashes that they have given.
  if (Py_TYPE(dict)->tp_iter == PyDict_Type.tp_iter) return Ref::steal(PyDict_Copy(dict));
  Ref copy = Ref::steal(PyDict_New());
  const auto put = [&](PyObject* key, PyObject* value) { return value && PyDict_SetItem(copy.get(), key, value) == 0; };
  if (!copy) return copy;
  if (PyODict_Check(dict)) {  // has an order of its own
    const Ref keys = Ref::steal(PyODict_Type.tp_iter(dict));
    while (const Ref key = keys ? Ref::steal(PyODictIter_Type.tp_iternext(keys.get())) : Ref()) {
      if (!put(key.get(), PyDict_GetItemWithError(dict, key.get()))) return Ref();
    }
    return PyErr_Occurred() ? Ref() : std::move(copy);
  }
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    if (!put(key, value)) return Ref();
  }
  return copy;
}

Ref copy_of_ordered_dict(PyObject* dict) {
  const Ref items = copy_of_dict(dict);
  Ref copy = items ? Ref::steal(PyODict_New()) : Ref();
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; copy && PyDict_Next(items.get(), &at, &key, &value);) {
    if (PyODict_SetItem(copy.get(), key, value) < 0) return Ref();
  }
  return copy;
}

vectorcallfunc vectorcall_of_functions() {
  static const vectorcallfunc usual = [] {
    const Ref code = Ref::steal(PyCode_NewEmpty("", "", 1)), globals = Ref::steal(PyDict_New());
    const Ref function = Ref::steal(code && globals ? PyFunction_New(code.get(), globals.get()) : nullptr);
    return function ? function.as<PyFunctionObject>()->vectorcall : nullptr;
  }();
  return usual;
}

Ref handled_exception(PyThreadState* thread) {
  const _PyErr_StackItem* item = thread->exc_info;
  while ((!item->exc_value || item->exc_value == Py_None) && item->previous_item) item = item->previous_item;
  return item->exc_value == Py_None ? Ref() : Ref::borrow(item->exc_value);
}

Ref exchange_handled(PyThreadState* thread, Ref exception, int levels) {
  // None stands for nothing on the operand stack only: 3.13 looks for null.
  if (exception.get() == Py_None) exception.reset();
  _PyErr_StackItem* item = thread->exc_info;
  for (; levels > 0; levels--) item = item->previous_item;
  return Ref::steal(std::exchange(item->exc_value, exception.release()));
}

Ref referent(PyObject* reference) {
  PyObject* const object = reinterpret_cast<PyWeakReference*>(reference)->wr_object;
  return Ref::borrow(object && Py_REFCNT(object) > 0 ? object : Py_None);
}

}  // namespace evalframe::cpython
