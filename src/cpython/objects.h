// CPython functions that every supported libpython exports and whose headers differ, and the exception being handled.
#pragma once

#include "core/ref.h"

extern "C" {
PyAPI_FUNC(int) _PyObject_GetMethod(PyObject* object, PyObject* name, PyObject** method);
PyAPI_FUNC(PyObject*) _PyType_Lookup(PyTypeObject* type, PyObject* name);
PyAPI_FUNC(int) _PyDict_MergeEx(PyObject* dict, PyObject* update, int override);
PyAPI_FUNC(int) _PySet_NextEntry(PyObject* set, Py_ssize_t* position, PyObject** element, Py_hash_t* hash);
PyAPI_FUNC(int) _PySet_Update(PyObject* set, PyObject* iterable);
PyAPI_FUNC(PyObject*) _Py_CheckFunctionResult(PyThreadState* thread, PyObject* callable, PyObject* result, const char* where);
PyAPI_FUNC(PyObject*) _PyUnicode_JoinArray(PyObject* separator, PyObject* const* items, Py_ssize_t count);
PyAPI_FUNC(void) _PyErr_SetKeyError(PyObject* key);
PyAPI_FUNC(PyObject*) _PyErr_FormatFromCause(PyObject* type, const char* format, ...);
}

namespace evalframe::cpython {

// Takes the exception that is set off the thread: normalized, with its traceback.
Ref take_raised();
// ... by a handler: to it CPython 3.11 gives one that has no traceback with None for that, by which except* tells exceptions apart.
Ref take_caught();
// Sets it again, with the traceback that it carries.
void set_raised(Ref exception);
// The first entry of its traceback; null: it has none, for which CPython 3.11 may keep None.
Ref first_entry(Borrowed exception);
// Merging dicts has raised: takes a KeyError that names a key off the thread, and gives that. Else null, and the exception stays.
Ref take_refused_key();
// The dict that a view of its keys, values or items shows; borrowed.
inline PyObject* dict_of_view(PyObject* view) { return reinterpret_cast<PyObject**>(view)[sizeof(PyObject) / sizeof(PyObject*)]; }
// What the weak reference leads to: None where that is gone, or about to go.
Ref referent(PyObject* reference);
// A new dict of what the dict holds, in its order, whatever a class that inherits says: PyDict_Copy and PyDict_Update ask its methods.
// Null with an exception.
Ref copy_of_dict(PyObject* dict);
// An OrderedDict with the same keys and values, in the same order. Null with an exception.
Ref copy_of_ordered_dict(PyObject* dict);
// How Python functions are called, unless C code has given one another way (PyFunction_SetVectorcall, 3.12 and later).
vectorcallfunc vectorcall_of_functions();
// The innermost exception being handled on this thread, or null.
Ref handled_exception(PyThreadState* thread);
// Puts `exception` (null or None: none) in the place of the one being handled by the innermost frame, and gives the old one.
// levels: of as many generators, the innermost ones that run, out.
Ref exchange_handled(PyThreadState* thread, Ref exception, int levels = 0);

}  // namespace evalframe::cpython
