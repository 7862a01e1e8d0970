// Rules for calls that have an effect outside, or read what changes outside, and look at nothing that a recording puts off: text for
// a stream that is C code through and through, clocks, streams of random numbers. They are called where they stand in the graph.
#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "core/builtins.h"
#include "core/made_once.h"
#include "cpython/objects.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

// --- streams of text ---------------------------------------------------------------------------------------------------------

// Types of the module `io`, which C code uses without asking a program's.
struct StreamTypes {
  Ref text, memory, buffered, bytes, file;
};
const StreamTypes& stream_types() {
  static MadeOnce<StreamTypes> types;
  return types.get([] {
    const Ref io = Ref::steal(PyImport_ImportModule("_io"));
    const auto named = [&](const char* name) { return io ? Ref::steal(PyObject_GetAttrString(io.get(), name)) : Ref(); };
    StreamTypes made{named("TextIOWrapper"), named("StringIO"), named("BufferedWriter"), named("BytesIO"), named("FileIO")};
    PyErr_Clear();
    return made;
  });
}

bool has_type(PyObject* object, const Ref& type) { return object && reinterpret_cast<PyObject*>(Py_TYPE(object)) == type.get(); }

// Of C objects, whose attributes run no code of a program's.
Ref part(PyObject* object, const char* name) {
  Ref found = Ref::steal(PyObject_GetAttrString(object, name));
  if (!found) PyErr_Clear();
  return found;
}

// Bytes in memory; or sys.__stdout__'s own file: others are closed when nobody has them any more, and guards would have them.
bool is_plain_buffer(PyObject* stream, PyObject* buffer) {
  const StreamTypes& types = stream_types();
  if (has_type(buffer, types.bytes)) return true;
  const bool file = has_type(buffer, types.file) || (has_type(buffer, types.buffered) && has_type(part(buffer, "raw").get(), types.file));
  return file && stream == PySys_GetObject("__stdout__");
}

// The class has the method of one of C's.
bool inherits(PyTypeObject* type, const Ref& base, const char* method) {
  const Ref name = Ref::steal(PyUnicode_InternFromString(method));
  return name && _PyType_Lookup(type, name.get()) == _PyType_Lookup(base.as<PyTypeObject>(), name.get());
}

// A stream of text that runs no Python code.
bool is_plain_stream(PyObject* stream) {
  const StreamTypes& types = stream_types();
  if (!types.memory || !types.text) return false;
  if (has_type(stream, types.memory)) return true;
  if (!PyObject_TypeCheck(stream, types.text.as<PyTypeObject>())) return false;
  PyTypeObject* const type = Py_TYPE(stream);
  return inherits(type, types.text, "write") && inherits(type, types.text, "flush") && inherits(type, types.text, "buffer") &&
         type->tp_getattro == types.text.as<PyTypeObject>()->tp_getattro && is_plain_buffer(stream, part(stream, "buffer").get());
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

// Its text follows from what is known, or is that of a number.
bool has_plain_text(const Site& site, int slot) {
  Recorder& recorder = site.recorder;
  PyObject* const object = site.frame.slot(slot);
  return recorder.is_number(recorder.label(slot), object) || (is_immutable(object) && recorder.known(recorder.label(slot), object));
}

bool have_plain_text(const Site& site, const Activation::CallSite& call) {
  for (int i = 0; i < call.count; i++) {
    if (!has_plain_text(site, call.first + i)) return false;
  }
  return true;
}

// print(..., file=stream) is left to CPython.
bool names_a_file(const Activation::CallSite& call) {
  PyObject* const names = call.keyword_names.get();
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "file") == 0) return true;
  }
  return false;
}

// --- clocks and random numbers -----------------------------------------------------------------------------------------------

bool is_clock(PyObject* callable) {
  static constexpr std::string_view kClocks[] = {"time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "process_time_ns", "thread_time", "thread_time_ns"};
  if (!PyCFunction_Check(callable)) return false;
  PyObject* const module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  const std::string_view name(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name);
  return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "time") == 0 && std::ranges::find(kClocks, name) != std::end(kClocks);
}

// The type of C that draws random.Random's numbers.
PyTypeObject* type_of_streams() {
  static MadeOnce<Ref> found;
  return found
      .get([] {
        const Ref module = Ref::steal(PyImport_ImportModule("_random"));
        Ref type = module ? Ref::steal(PyObject_GetAttrString(module.get(), "Random")) : Ref();
        PyErr_Clear();
        return type;
      })
      .as<PyTypeObject>();
}

// random.random, bound or not.
bool draws_a_number(PyObject* callable) {
  PyTypeObject* const type = type_of_streams();
  const char* name = nullptr;
  if (type && Py_TYPE(callable) == &PyMethodDescr_Type && PyDescr_TYPE(callable) == type) {
    name = reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name;
  } else if (type && PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) && PyObject_TypeCheck(PyCFunction_GET_SELF(callable), type)) {
    name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  }
  return name && (std::string_view(name) == "random" || std::string_view(name) == "getrandbits");
}

bool all_are_numbers(const Site& site, const Activation::CallSite& call, int from) {
  for (int i = from; i < call.count; i++) {
    if (!site.recorder.is_number(site.recorder.label(call.first + i), site.frame.slot(call.first + i))) return false;
  }
  return true;
}

}  // namespace

bool is_random_stream(PyObject* object) {
  PyTypeObject* const type = type_of_streams();
  return type && PyObject_TypeCheck(object, type);
}

bool has_known_effect(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  // What the program has let go of, and the recording still has, would tell of its end behind the effect.
  if (!site.recorder.may_put_off()) return false;
  if (callable == builtin("print").get()) return !names_a_file(call) && have_plain_text(site, call) && prints_plainly(site.recorder);
  return (is_clock(callable) || draws_a_number(callable)) && all_are_numbers(site, call, PyCFunction_Check(callable) ? 0 : 1);
}

}  // namespace evalframe::recorder
