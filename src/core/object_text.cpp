#include "core/object_text.h"

#include "core/kept_name.h"

namespace evalframe {

namespace {

constexpr Py_ssize_t kLongTuple = 16;

// Its repr calls nothing that a program can define.
bool is_plain(PyObject* object) {
  if (object == Py_None || object == Py_Ellipsis || PyLong_CheckExact(object) || PyFloat_CheckExact(object)) return true;
  if (PyBool_Check(object) || PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object)) return true;
  if (!PyTuple_CheckExact(object) || PyTuple_GET_SIZE(object) > kLongTuple) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
    if (!is_plain(PyTuple_GET_ITEM(object, i))) return false;
  }
  return true;
}

// An attribute of its type's that C code computes; empty: it has none.
std::string computed_name(PyObject* object, const char* attribute_name) {
  PyObject* const attribute = kept_name(attribute_name);
  PyTypeObject* type = Py_TYPE(object);
  PyObject* found = attribute ? _PyType_Lookup(type, attribute) : nullptr;
  if (!found || !Py_IS_TYPE(found, &PyGetSetDescr_Type) || type->tp_getattro != PyObject_GenericGetAttr) return PyErr_Clear(), "";
  const Ref name = Ref::steal(PyObject_GetAttr(object, attribute));
  return name && PyUnicode_Check(name.get()) ? std::string(utf8(name.get())) : (PyErr_Clear(), "");
}

}  // namespace

std::string_view utf8(Borrowed text) {
  const char* const characters = text && PyUnicode_Check(text.get()) ? PyUnicode_AsUTF8(text.get()) : nullptr;
  return characters ? characters : (PyErr_Clear(), "?");
}

std::string qualified_name(Borrowed borrowed) {
  PyObject* object = borrowed.get();
  if (PyType_Check(object)) {
    const Ref name = Ref::steal(PyType_GetQualName(borrowed.as<PyTypeObject>()));
    return name ? std::string(utf8(name.get())) : (PyErr_Clear(), "");
  }
  if (PyFunction_Check(object)) return std::string(utf8(borrowed.as<PyFunctionObject>()->func_qualname));
  if (PyMethod_Check(object)) return qualified_name(PyMethod_GET_FUNCTION(object));
  // Functions made in C (Cython's, too) have the one, ufuncs the other.
  const std::string name = computed_name(object, "__qualname__");
  return name.empty() ? computed_name(object, "__name__") : name;
}

std::string object_text(Borrowed object, size_t limit) {
  std::string text = qualified_name(object);
  const Ref shown = text.empty() && is_plain(object.get()) ? Ref::steal(PyObject_Repr(object.get())) : Ref();
  if (shown) text = utf8(shown.get());
  if (PyErr_Occurred()) PyErr_Clear();
  if (text.empty()) text = std::string("<") + Py_TYPE(object.get())->tp_name + ">";
  return text.size() > limit ? text.substr(0, limit - 3) + "..." : text;
}

}  // namespace evalframe
