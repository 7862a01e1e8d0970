// Streams of text and bytes that are C code through and through, and print to such: a call of theirs sees nothing that a recording puts off.
#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "core/builtins.h"
#include "core/c_function.h"
#include "core/made_once.h"
#include "cpython/objects.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

// Types of the module `io`, which C code uses without asking a program's.
struct StreamTypes {
  Ref text, memory, writer, reader, bytes, file;
};
const StreamTypes& stream_types() {
  static MadeOnce<StreamTypes> types;
  return types.get([] {
    const Ref io = Ref::steal(PyImport_ImportModule("_io"));
    const auto named = [&](const char* name) { return io ? Ref::steal(PyObject_GetAttrString(io.get(), name)) : Ref(); };
    StreamTypes made{named("TextIOWrapper"), named("StringIO"), named("BufferedWriter"), named("BufferedReader"), named("BytesIO"), named("FileIO")};
    PyErr_Clear();
    return made;
  });
}

bool has_type(PyObject* object, const Ref& type) { return object && reinterpret_cast<PyObject*>(Py_TYPE(object)) == type.get(); }
bool is_of(PyObject* object, const Ref& type) { return type && PyObject_TypeCheck(object, type.as<PyTypeObject>()); }

// Of C objects, whose attributes run no code of a program's.
Ref part(PyObject* object, const char* name) {
  Ref found = Ref::steal(PyObject_GetAttrString(object, name));
  if (!found) PyErr_Clear();
  return found;
}

bool is_buffered_file(PyObject* buffer) {
  const StreamTypes& types = stream_types();
  return (has_type(buffer, types.writer) || has_type(buffer, types.reader)) && has_type(part(buffer, "raw").get(), types.file);
}

// Bytes in memory; or sys.__stdout__'s own file: others are closed when nobody has them any more, and guards would have them.
bool is_lasting_buffer(PyObject* stream, PyObject* buffer) {
  const StreamTypes& types = stream_types();
  if (has_type(buffer, types.bytes)) return true;
  return (has_type(buffer, types.file) || is_buffered_file(buffer)) && stream == PySys_GetObject("__stdout__");
}

// The class has the methods of one of C's.
bool inherits(PyTypeObject* type, const Ref& base, std::initializer_list<const char*> methods) {
  for (const char* method : methods) {
    const Ref name = Ref::steal(PyUnicode_InternFromString(method));
    if (!name || _PyType_Lookup(type, name.get()) != _PyType_Lookup(base.as<PyTypeObject>(), name.get())) return false;
  }
  return type->tp_getattro == base.as<PyTypeObject>()->tp_getattro;
}

// A stream of text that runs no Python code.
bool is_plain_stream(PyObject* stream) {
  const StreamTypes& types = stream_types();
  if (has_type(stream, types.memory)) return true;
  return is_of(stream, types.text) && inherits(Py_TYPE(stream), types.text, {"write", "flush", "buffer"}) && is_lasting_buffer(stream, part(stream, "buffer").get());
}

// The object has no attributes of its own under these names, nor will have.
bool lacks_own(Recorder& recorder, PyObject* object, std::initializer_list<const char*> names) {
  const Ref dict = part(object, "__dict__");
  if (!dict || !PyDict_CheckExact(dict.get())) return false;
  for (const char* text : names) {
    const Ref name = Ref::steal(PyUnicode_InternFromString(text));
    if (!name || PyDict_Contains(dict.get(), name.get()) != 0) return PyErr_Clear(), false;
    recorder.guards().require_name(dict.get(), name.get(), nullptr);
  }
  return true;
}

// sys.stdout is such a stream, and stays the same.
bool prints_plainly(Recorder& recorder) {
  PyObject* const stream = PySys_GetObject("stdout");
  static const Ref* const system = new Ref(Ref::steal(PyImport_ImportModule("sys")));
  static PyObject* const name = PyUnicode_InternFromString("stdout");
  if (!stream || !*system || !is_plain_stream(stream) || !lacks_own(recorder, stream, {"write", "flush"})) return false;
  const Value source = recorder.value(recorder.name_source(PyModule_GetDict(system->get()), name));
  recorder.guards().require_identity(source.a, stream);
  return !PyType_HasFeature(Py_TYPE(stream), Py_TPFLAGS_HEAPTYPE) || recorder.guards().require_type_version(source.a, stream);
}

// --- any stream, looked at in each run ---------------------------------------------------------------------------------------

bool is_own_attribute(PyObject* object, std::initializer_list<const char*> names) {
  const Ref dict = part(object, "__dict__");
  for (const char* name : names) {
    if (dict && PyDict_CheckExact(dict.get()) && PyDict_GetItemString(dict.get(), name)) return true;
  }
  return false;
}

// Text encodings that are written in C, and what is done about characters that they lack.
bool encodes_plainly(PyObject* stream) {
  const auto is_one_of = [](const Ref& text, std::initializer_list<std::string_view> known) {
    const char* const utf8 = text && PyUnicode_Check(text.get()) ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (!utf8) PyErr_Clear();
    return utf8 && std::find(known.begin(), known.end(), std::string_view(utf8)) != known.end();
  };
  return is_one_of(part(stream, "encoding"), {"utf-8", "UTF-8", "utf8", "ascii", "US-ASCII", "latin-1", "iso-8859-1", "ISO-8859-1"}) &&
         is_one_of(part(stream, "errors"), {"strict", "ignore", "replace", "surrogateescape", "backslashreplace"});
}

}  // namespace

bool runs_no_python(PyObject* stream) {
  const StreamTypes& types = stream_types();
  if (is_own_attribute(stream, {"write", "flush", "close"})) return false;
  for (const Ref* memory : {&types.memory, &types.bytes}) {
    if (is_of(stream, *memory)) return inherits(Py_TYPE(stream), *memory, {"write", "flush", "close"});
  }
  if (is_buffered_file(stream)) return true;
  if (!is_of(stream, types.text) || !inherits(Py_TYPE(stream), types.text, {"write", "flush", "buffer", "close"})) return false;
  const Ref buffer = part(stream, "buffer");
  return (has_type(buffer.get(), types.bytes) || is_buffered_file(buffer.get())) && encodes_plainly(stream);
}

namespace {

PyObject* is_plain(PyObject*, PyObject* stream) { return PyBool_FromLong(runs_no_python(stream)); }

// What a graph asks of a stream in front of its use.
PyObject* plain_test() {
  return c_function<is_plain>("is_plain_stream");
}

// --- print -------------------------------------------------------------------------------------------------------------------

// Its text follows from what is known, or is that of a number.
bool has_plain_text(Recorder& recorder, uint32_t label, PyObject* object) {
  return recorder.is_number(label, object) || (is_immutable(object) && recorder.known(label, object));
}

}  // namespace

bool is_stream(PyObject* object) {
  const StreamTypes& types = stream_types();
  return is_of(object, types.text) || is_of(object, types.memory) || is_of(object, types.bytes) || has_type(object, types.writer) || has_type(object, types.reader);
}

bool uses_plainly(Recorder& recorder, uint32_t label, PyObject* stream) {
  const Value value = recorder.value(label);
  if (!runs_no_python(stream)) return false;
  const graph::Operand operand = recorder.operand(label, stream);
  if (!operand) return false;
  if (value.kind != Value::Kind::kNode || !makes_streams(recorder.recording().graph, value.a)) recorder.check_call(plain_test(), operand, Py_True);
  return true;
}

bool is_plain_print(Recorder& recorder, const Given& given) {
  PyObject* const names = given.keyword_names.get();
  const size_t keywords = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
  const size_t positional = given.objects.size() - keywords;
  bool to_stream = false;
  for (size_t i = 0; i < given.objects.size(); i++) {
    PyObject* const name = i < positional ? nullptr : PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i - positional));
    const bool is_file = name && PyUnicode_CompareWithASCIIString(name, "file") == 0 && given.objects[i] != Py_None;
    to_stream = to_stream || is_file;
    if (is_file ? !is_stream(given.objects[i]) || !uses_plainly(recorder, given.labels[i], given.objects[i]) : !has_plain_text(recorder, given.labels[i], given.objects[i])) return false;
  }
  return to_stream || prints_plainly(recorder);
}

}  // namespace evalframe::recorder
