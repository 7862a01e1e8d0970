#include "inspect/value_text.h"

#include <numpy/ndarraytypes.h>

#include <array>
#include <charconv>
#include <cstring>

#include "core/object_text.h"
#include "cpython/objects.h"
#include "cpython/small_int.h"

namespace evalframe::inspect {

namespace {

constexpr Py_ssize_t kCharacters = 60;   // of a string
constexpr size_t kLength = 160;          // of a whole text, in bytes
constexpr Py_ssize_t kItems = 8;         // of a container
constexpr size_t kLongestRepr = 256;     // bits of an integer that is written out: the time it takes grows with the square
constexpr int kDepth = 3;

void append(std::string& out, PyObject* value, int depth);

void append_repr(std::string& out, PyObject* value) {
  const Ref repr = Ref::steal(PyObject_Repr(value));
  if (!repr) PyErr_Clear();
  out += repr ? utf8(repr.get()) : std::string_view("?");
}

void append_count(std::string& out, Py_ssize_t count) { out.append("... (").append(std::to_string(count)).append(")"); }

void append_int(std::string& out, PyObject* value) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (!overflow) {
    char digits[24];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
    return;
  }
  const size_t bits = _PyLong_NumBits(value);
  bits <= kLongestRepr ? append_repr(out, value) : void(out.append("<int of ").append(std::to_string(bits)).append(" bits>"));
}

// As float's repr has it; the usual sizes by a function that takes a fifth of the time.
void append_float(std::string& out, PyObject* value) {
  const double number = PyFloat_AS_DOUBLE(value), size = number < 0 ? -number : number;
  if (size >= 1e-4 && size < 1e16) {
    char digits[48];
    const std::string_view text(digits, static_cast<size_t>(std::to_chars(digits, digits + sizeof digits, number, std::chars_format::fixed).ptr - digits));
    out += text;
    if (text.find('.') == std::string_view::npos) out += ".0";
    return;
  }
  char* const digits = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
  if (!digits) return PyErr_Clear();
  out += digits;
  PyMem_Free(digits);
}

void append_str(std::string& out, PyObject* value) {
  const Py_ssize_t length = PyUnicode_GET_LENGTH(value);
  if (length <= kCharacters) return append_repr(out, value);
  const Ref start = Ref::steal(PyUnicode_Substring(value, 0, kCharacters));
  if (!start) return PyErr_Clear();
  append_repr(out, start.get());
  append_count(out, length);
}

void append_bytes(std::string& out, const char* characters, Py_ssize_t length) {
  const Ref start = Ref::steal(PyBytes_FromStringAndSize(characters, length < kCharacters ? length : kCharacters));
  if (!start) return PyErr_Clear();
  append_repr(out, start.get());
  if (length > kCharacters) append_count(out, length);
}

// `next`: appends the next item, false at the end.
template <class Next>
void append_items(std::string& out, Py_ssize_t count, int depth, Next next) {
  if (depth >= kDepth && count) {
    append_count(out, count);
    return;
  }
  for (Py_ssize_t index = 0; index < count; ++index) {
    if (index) out += ", ";
    if (index == kItems || out.size() > kLength) return append_count(out, count);
    if (!next(index)) return;
  }
}

void append_sequence(std::string& out, PyObject* value, int depth) {
  const bool tuple = PyTuple_CheckExact(value);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
  out += tuple ? '(' : '[';
  append_items(out, count, depth, [&](Py_ssize_t index) {
    append(out, PySequence_Fast_GET_ITEM(value, index), depth + 1);
    return true;
  });
  if (tuple && count == 1) out += ',';
  out += tuple ? ')' : ']';
}

void append_dict(std::string& out, PyObject* value, int depth) {
  Py_ssize_t position = 0;
  out += '{';
  append_items(out, PyDict_GET_SIZE(value), depth, [&](Py_ssize_t) {
    PyObject *key, *item;
    if (!PyDict_Next(value, &position, &key, &item)) return false;
    append(out, key, depth + 1);
    out += ": ";
    append(out, item, depth + 1);
    return true;
  });
  out += '}';
}

// Integers in the order of the table. That of anything else may change from run to run, so that its count is all that is said.
void append_set(std::string& out, PyObject* value, int depth) {
  const bool frozen = PyFrozenSet_CheckExact(value);
  const Py_ssize_t count = PySet_GET_SIZE(value);
  if (!count) return void(out += frozen ? "frozenset()" : "set()");
  if (frozen) out += "frozenset(";
  out += '{';
  Py_ssize_t position = 0, shown = 0;
  PyObject* element;
  Py_hash_t hash;
  while (shown < kItems && depth < kDepth && _PySet_NextEntry(value, &position, &element, &hash)) {
    if (!PyLong_CheckExact(element)) break;
    if (shown++) out += ", ";
    append(out, element, depth + 1);
  }
  if (shown < count) append_count(out, count);
  out += frozen ? "})" : "}";
}

// NumPy's own type alone has a static type object of this name.
bool is_array(PyObject* value) {
  const PyTypeObject* const type = Py_TYPE(value);
  return !PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HEAPTYPE) && !strcmp(type->tp_name, "numpy.ndarray");
}

void append_array(std::string& out, PyObject* value) {
  auto* const array = reinterpret_cast<PyArrayObject*>(value);
  const char* const name = PyArray_DESCR(array)->typeobj->tp_name;
  const char* const dot = strrchr(name, '.');
  out.append("<array of ").append(dot ? dot + 1 : name).append(", shape (");
  for (int axis = 0; axis < PyArray_NDIM(array); ++axis) {
    if (axis) out += ", ";
    out += std::to_string(PyArray_DIM(array, axis));
  }
  if (PyArray_NDIM(array) == 1) out += ',';
  out += ")>";
}

void append_named(std::string& out, const char* what, const std::string& name) { out.append("<").append(what).append(name).append(">"); }

void append_exception(std::string& out, PyObject* value, int depth) {
  out += qualified_name(Py_TYPE(value));
  PyObject* const arguments = reinterpret_cast<PyBaseExceptionObject*>(value)->args;
  if (!arguments || !PyTuple_CheckExact(arguments) || depth >= kDepth) return;
  out += '(';
  append_items(out, PyTuple_GET_SIZE(arguments), depth, [&](Py_ssize_t index) {
    append(out, PyTuple_GET_ITEM(arguments, index), depth + 1);
    return true;
  });
  out += ')';
}

void append_cell(std::string& out, PyObject* value, int depth) {
  PyObject* const content = PyCell_GET(value);
  if (!content) return void(out += "<empty cell>");
  out += "<cell: ";
  append(out, content, depth + 1);
  out += '>';
}

void append_other(std::string& out, PyObject* value) {
  if (PyFunction_Check(value)) return append_named(out, "function ", qualified_name(value));
  if (PyType_Check(value)) return append_named(out, "class ", qualified_name(value));
  if (PyMethod_Check(value)) return append_named(out, "method ", qualified_name(value));
  if (PyCode_Check(value)) return append_named(out, "code ", std::string(utf8(reinterpret_cast<PyCodeObject*>(value)->co_qualname)));
  if (PyModule_CheckExact(value)) {
    const Ref name = Ref::steal(PyModule_GetNameObject(value));
    if (!name) PyErr_Clear();
    return append_named(out, "module ", std::string(utf8(name.get())));
  }
  const std::string name = PyCFunction_Check(value) ? qualified_name(value) : std::string();
  if (!name.empty()) return append_named(out, "built-in ", name);
  append_named(out, "", qualified_name(Py_TYPE(value)) + " object");
}

void append(std::string& out, PyObject* value, int depth) {
  if (!value) return void(out += "NULL");
  if (value == Py_None) return void(out += "None");
  if (PyBool_Check(value)) return void(out += value == Py_True ? "True" : "False");
  if (PyLong_CheckExact(value)) return append_int(out, value);
  if (PyFloat_CheckExact(value)) return append_float(out, value);
  if (PyUnicode_CheckExact(value)) return append_str(out, value);
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) return append_sequence(out, value, depth);
  if (PyDict_CheckExact(value)) return append_dict(out, value, depth);
  if (PyAnySet_CheckExact(value)) return append_set(out, value, depth);
  if (PyBytes_CheckExact(value)) return append_bytes(out, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
  if (PyByteArray_CheckExact(value)) {
    out += "bytearray(";
    append_bytes(out, PyByteArray_AS_STRING(value), PyByteArray_GET_SIZE(value));
    return void(out += ')');
  }
  if (PyCell_Check(value)) return append_cell(out, value, depth);
  if (value == Py_Ellipsis || value == Py_NotImplemented || PyComplex_CheckExact(value) || PyRange_Check(value)) return append_repr(out, value);
  if (is_array(value)) return append_array(out, value);
  if (PyExceptionInstance_Check(value)) return append_exception(out, value, depth);
  append_other(out, value);
}

// Back to a whole character.
void cut(std::string& text) {
  if (text.size() <= kLength) return;
  size_t end = kLength;
  while (end && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  text += "...";
}

uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
  return hash ^ (hash >> 29);
}

uint64_t mark_of_text(PyObject* value) {
  const auto* bytes = static_cast<const unsigned char*>(PyUnicode_DATA(value));
  const auto length = static_cast<size_t>(PyUnicode_GET_LENGTH(value));
  const auto kind = static_cast<size_t>(PyUnicode_KIND(value));
  size_t left = (length < kCharacters ? length : kCharacters) * kind;
  uint64_t hash = mixed(length, kind);
  for (; left >= sizeof hash; left -= sizeof hash, bytes += sizeof hash) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    hash = mixed(hash, word);
  }
  uint64_t rest = 0;
  memcpy(&rest, bytes, left);
  return mixed(hash, rest);
}

// Of a container: its length and what of it a text shows. `left`: characters, more than that no text has room for.
class Marker {
 public:
  void add(PyObject* value, int depth) {
    if (!value || left_ <= 0) return;
    left_ -= kLeast;
    // Most values; told from those of other types by what is mixed in besides.
    if (PyLong_CheckExact(value) && cpython::is_small_int(value)) {
      const auto number = cpython::small_int_value(value);
      left_ -= (number > 9) + (number > 99) + (number > 999) + (number > 9999);
      hash_ = mixed(hash_, static_cast<uint64_t>(number) * 2 + 1);
      return;
    }
    hash_ = mixed(hash_, reinterpret_cast<uint64_t>(Py_TYPE(value)));
    if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) return add_sequence(value, depth);
    if (PyDict_CheckExact(value)) return add_dict(value, depth);
    if (PyCell_Check(value)) return add(PyCell_GET(value), depth + 1);
    const Mark mark = mark_of(value);
    tells_ &= mark.tells;
    by_contents_ &= mark.by_contents;
    hash_ = mixed(hash_, mark.bits);
  }
  Mark mark() const { return {hash_, tells_, tells_ && by_contents_}; }

 private:
  void add_sequence(PyObject* value, int depth) {
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
    hash_ = mixed(hash_, static_cast<uint64_t>(count));
    for (Py_ssize_t index = 0; depth < kDepth && index < count && index < kItems && left_ > 0; ++index) add(PySequence_Fast_GET_ITEM(value, index), depth + 1);
  }
  void add_dict(PyObject* value, int depth) {
    hash_ = mixed(hash_, static_cast<uint64_t>(PyDict_GET_SIZE(value)));
    Py_ssize_t position = 0;
    PyObject *key, *item;
    for (Py_ssize_t index = 0; depth < kDepth && index < kItems && left_ > 0 && PyDict_Next(value, &position, &key, &item); ++index) {
      add(key, depth + 1);
      add(item, depth + 1);
    }
  }
  uint64_t hash_ = 0x9E3779B97F4A7C15u;
  static constexpr int kLeast = 3;  // what each value takes: a character and ", "
  int left_ = static_cast<int>(kLength) + 2 * kLeast;
  bool tells_ = true, by_contents_ = true;
};

}  // namespace

std::string value_text(Borrowed value) {
  std::string text;
  append(text, value.get(), 0);
  cut(text);
  return text;
}

std::string own_repr(Borrowed value) {
  const Ref held = Ref::borrow(value);
  const Ref repr = Ref::steal(PyObject_Repr(held.get()));
  if (!repr) {
    PyErr_Clear();
    return value_text(value) + " (its repr raises)";
  }
  std::string text(utf8(repr.get()));
  for (char& character : text) {
    if (character == '\n') character = ' ';
  }
  cut(text);
  return text;
}

bool has_repr_of_its_own(Borrowed value) {
  if (!value) return false;
  PyTypeObject* const type = Py_TYPE(value.get());
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || is_array(value.get());
}

Mark mark_of(Borrowed borrowed) {
  PyObject* const value = borrowed.get();
  if (!value) return {0, true, false};
  const PyTypeObject* const type = Py_TYPE(value);
  if (type == &PyLong_Type) {
    if (cpython::is_small_int(value)) return {static_cast<uint64_t>(cpython::small_int_value(value)), true, true};
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return {static_cast<uint64_t>(number), !overflow, !overflow};
  }
  if (type == &PyFloat_Type) {
    uint64_t bits;
    memcpy(&bits, &reinterpret_cast<PyFloatObject*>(value)->ob_fval, sizeof bits);
    return {bits, true, true};
  }
  if (type == &PyUnicode_Type) return {mark_of_text(value), true, true};
  if (type == &PyFunction_Type) return {reinterpret_cast<uint64_t>(reinterpret_cast<PyFunctionObject*>(value)->func_qualname), true, false};
  if (type == &PyBool_Type) return {value == Py_True, true, true};
  if (type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type || type == &PyCell_Type) {
    Marker marker;
    marker.add(value, 0);
    return marker.mark();
  }
  // What can't change, and what is told by its type: any other object.
  if (type == &PyBytes_Type || type == &PyComplex_Type || type == &PyRange_Type || type == &PyCFunction_Type || type == &PyModule_Type) return {0, true, false};
  const bool in_parts = PyAnySet_CheckExact(value) || PyByteArray_CheckExact(value) || is_array(value) || PyExceptionInstance_Check(value) || PyType_Check(value) ||
                        PyMethod_Check(value) || PyCode_Check(value);
  return {0, !in_parts, !in_parts};
}

}  // namespace evalframe::inspect
