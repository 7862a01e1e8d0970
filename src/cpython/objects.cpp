// The exceptions that are raised and handled on a thread, for every version.
#include "cpython/objects.h"

namespace evalframe::cpython {

#if PY_VERSION_HEX >= 0x030C0000
Ref take_raised() { return Ref::steal(PyErr_GetRaisedException()); }
void set_raised(Ref exception) { PyErr_SetRaisedException(exception.release()); }
#else
Ref take_raised() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyException_SetTraceback(value, traceback ? traceback : Py_None);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref::steal(value);
}
void set_raised(Ref exception) {
  PyObject* const traceback = PyException_GetTraceback(exception.get());
  PyObject* const type = Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())));
  PyErr_Restore(type, exception.release(), traceback);
}
#endif

Ref handled_exception(PyThreadState* thread) {
  const _PyErr_StackItem* item = thread->exc_info;
  while ((!item->exc_value || item->exc_value == Py_None) && item->previous_item) item = item->previous_item;
  return item->exc_value == Py_None ? Ref() : Ref::borrow(item->exc_value);
}

Ref exchange_handled(PyThreadState* thread, Ref exception) {
  // None stands for nothing on the operand stack only: 3.13 looks for null.
  if (exception.get() == Py_None) exception.reset();
  return Ref::steal(std::exchange(thread->exc_info->exc_value, exception.release()));
}

}  // namespace evalframe::cpython
