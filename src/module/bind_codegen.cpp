// Binds generated code: transformed code objects and resume functions of what a jit object captured.
//
// What the code calls are built-in functions over capsules: code may end up in a cycle through a module's names that the
// GC can't see, and of nanobind's own objects it would tell at exit.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "codegen/limits.h"
#include "codegen/transform.h"
#include "cpython/objects.h"
#include "module/bindings.h"
#include "runtime/compiled_graph.h"
#include "runtime/jit.h"

namespace nb = nanobind;

namespace evalframe {

namespace {

using runtime::Compilation;
using runtime::CompiledGraph;
using runtime::LeftState;

nb::object owned(Ref object) {
  if (!object) throw nb::python_error();
  return nb::steal(object.release());
}

template <class T>
Ref capsule_of(std::unique_ptr<T> payload) {
  PyObject* capsule = PyCapsule_New(payload.get(), nullptr, [](PyObject* self) { delete static_cast<T*>(PyCapsule_GetPointer(self, nullptr)); });
  if (capsule) payload.release();
  return Ref::steal(capsule);
}
template <class T>
T& content_of(PyObject* capsule) {
  return *static_cast<T*>(PyCapsule_GetPointer(capsule, nullptr));
}

using FastFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

// A built-in function with a state of its own.
template <class T>
struct Builtin {
  T state;
  std::string name;
  PyMethodDef definition;
};

template <class T>
nb::object make_builtin(T state, std::string name, FastFunction function) {
  auto builtin = std::make_unique<Builtin<T>>(Builtin<T>{std::move(state), std::move(name), {}});
  PyMethodDef& definition = builtin->definition;
  definition = {builtin->name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL, nullptr};
  const Ref capsule = capsule_of(std::move(builtin));
  if (!capsule) throw nb::python_error();
  return owned(Ref::steal(PyCFunction_New(&definition, capsule.get())));
}
template <class T>
T& state_of(PyObject* capsule) {
  return content_of<Builtin<T>>(capsule).state;
}

// Raised by a compiled graph that is left before its end; transformed code catches it and calls its Leave.
PyObject* graph_left;

PyObject* call_graph(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  auto left = std::make_unique<LeftState>();
  Ref values = state_of<CompiledGraph>(self).call(std::vector<Borrowed>(arguments, arguments + count), *left);
  if (values || left->node < 0) return values.release();
  const Ref error = Ref::steal(PyObject_CallNoArgs(graph_left)), state = capsule_of(std::move(left));
  if (!error || !state || PyObject_SetAttrString(error.get(), "state", state.get()) < 0) return nullptr;
  PyErr_SetObject(graph_left, error.get());
  return nullptr;
}

// The way out of transformed code where its graph was left.
struct Leave {
  Held<Compilation> compilation;
  std::vector<int32_t> sources;
};

PyObject* leave(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  const Leave& way_out = state_of<Leave>(self);
  if (count != static_cast<Py_ssize_t>(way_out.sources.size()) + 1 || !PyExceptionInstance_Check(arguments[0])) {
    PyErr_SetString(PyExc_TypeError, "__leave is called by transformed code only, with what its graph raised");
    return nullptr;
  }
  PyObject* error = arguments[0];
  // Its traceback holds the frame that holds it.
  PyException_SetTraceback(error, Py_None);
  if (!Py_IS_TYPE(error, reinterpret_cast<PyTypeObject*>(graph_left))) return cpython::set_raised(Ref::borrow(error)), nullptr;
  const Ref state = Ref::steal(PyObject_GetAttrString(error, "state"));
  if (!state || PyObject_SetAttrString(error, "state", Py_None) < 0) return nullptr;
  if (!PyCapsule_CheckExact(state.get())) return PyErr_SetString(PyExc_ValueError, "this exit has been taken already"), nullptr;
  return runtime::finish_left(*way_out.compilation, content_of<LeftState>(state.get()), way_out.sources,
                             std::vector<Borrowed>(arguments + 1, arguments + count)).release();
}

// Objects that transformed code has at its end, and that instructions alone can't make.
struct Rebuilt {
  Held<Compilation> compilation;
  std::vector<int32_t> sources;
  std::vector<uint32_t> values;
};

PyObject* rebuild(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  const Rebuilt& wanted = state_of<Rebuilt>(self);
  const recorder::Recording& recording = *wanted.compilation->recording;
  const graph::ExitPoint exit = recording.exit_at(static_cast<int32_t>(recording.graph.nodes.size()));
  const bool fits = count == static_cast<Py_ssize_t>(wanted.sources.size()) + 1 && PyTuple_CheckExact(arguments[0]) &&
                    PyTuple_GET_SIZE(arguments[0]) == static_cast<Py_ssize_t>(exit.values.size());
  if (!fits) return PyErr_SetString(PyExc_TypeError, "__rebuild is called by transformed code only, with what its graph gave"), nullptr;
  std::vector<Ref> outputs;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments[0]); i++) outputs.push_back(Ref::borrow(PyTuple_GET_ITEM(arguments[0], i)));
  std::vector<PyObject*> sources(recording.guards.sources.size());
  for (size_t i = 0; i < wanted.sources.size(); i++) sources[wanted.sources[i]] = arguments[i + 1];
  recorder::Rebuild rebuild(recording, exit, outputs, sources.data());
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(wanted.values.size())));
  for (size_t i = 0; tuple && i < wanted.values.size(); i++) {
    Ref object = rebuild.make(wanted.values[i]);
    if (!object) return PyErr_Occurred() ? nullptr : PyErr_NoMemory();
    PyTuple_SET_ITEM(tuple.get(), i, object.release());
  }
  return tuple.release();
}

PyObject* accepts(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  const auto& compilation = state_of<Held<Compilation>>(self);
  const recorder::FrameStart& start = compilation->recording->start[0];
  std::vector<PyObject*> slots(start.code->code.as<PyCodeObject>()->co_nlocalsplus);
  if (count > static_cast<Py_ssize_t>(slots.size()) || start.next != 0) return PyBool_FromLong(0);
  std::copy(arguments, arguments + count, slots.begin());
  return PyBool_FromLong(runtime::accepts(*compilation, slots));
}

// The text of the exception that is set. Code that we refuse ourselves is a bug, but none that a reader has to die of.
std::string take_error_text() {
  const Ref error = cpython::take_raised();
  const Ref text = Ref::steal(PyObject_Str(error.get()));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (utf8) return utf8;
  PyErr_Clear();
  return "out of memory";
}

// code or None, what it calls behind a break, why there is no code, a function that tells whether the guards hold
nb::tuple generate(const Held<Compilation>& compilation, int number, codegen::ResumeFunctions& resumes) {
  const std::string name = "__compiled_fn_" + std::to_string(number);
  const nb::object compiled = make_builtin(CompiledGraph(compilation, name), name, call_graph);
  const nb::object way_out = make_builtin(Leave{compilation, {}}, "__leave", leave);
  const nb::object maker = make_builtin(Rebuilt{compilation, {}, {}}, "__rebuild", rebuild);
  const nb::object guards = make_builtin(Held<Compilation>(compilation), "accepts", accepts);
  try {
    codegen::Transformed transformed =
        codegen::transform(*compilation->recording, {Ref::borrow(compiled.ptr()), Ref::borrow(way_out.ptr()), Ref::borrow(maker.ptr())}, resumes);
    if (!transformed.code) return nb::make_tuple(nb::none(), nb::list(), take_error_text(), guards);
    const nb::object code = owned(std::move(transformed.code));
    state_of<Leave>(PyCFunction_GET_SELF(way_out.ptr())).sources = std::move(transformed.left_with);
    auto& rebuilt = state_of<Rebuilt>(PyCFunction_GET_SELF(maker.ptr()));
    rebuilt.sources = std::move(transformed.rebuilt_from);
    rebuilt.values = std::move(transformed.rebuilt);
    nb::list functions;
    for (const codegen::ResumeFunction* resume : transformed.resumes) {
      functions.append(nb::borrow(resume->callable ? resume->callable.get() : resume->resume.code.get()));
    }
    return nb::make_tuple(code, functions, "", guards);
  } catch (const codegen::Limit& limit) {
    return nb::make_tuple(nb::none(), nb::list(), limit.reason, guards);
  }
}

// What transformed code calls for a resume function. One in a loop isn't captured: each turn would be one call deeper.
Ref bind_resume(nb::handle jit, const runtime::Settings& settings, Ref function, bool captures, bool repeats) {
  if (!captures || repeats) return function;
  PyObject* custom = settings.custom ? settings.custom.get() : Py_None;
  return Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(Py_TYPE(jit.ptr())), "OsOOi", function.get(),
                                          settings.backend.c_str(), custom, Py_False, settings.max_entries));
}

// Whom each code object that is made is handed to, for another that is the same but for where its source is. Null: nobody.
PyObject* code_finisher = nullptr;

void set_code_finisher(nb::handle finisher) {
  Py_XSETREF(code_finisher, finisher.is_none() ? nullptr : finisher.inc_ref().ptr());
}

Ref finished_code(Ref code) {
  if (code_finisher == nullptr) return code;
  const Ref finisher = Ref::borrow(code_finisher);
  Ref finished = Ref::steal(PyObject_CallOneArg(finisher.get(), code.get()));
  if (finished && !PyCode_Check(finished.get())) return PyErr_SetString(PyExc_TypeError, "what finishes code must give a code object"), Ref();
  return finished;
}

nb::list generated_code(nb::handle jit, bool capture_resumed) {
  const auto capture = runtime::capture_of(jit.ptr());
  if (!capture) throw nb::python_error();
  codegen::ResumeFunctions resumes([&](Ref function, bool repeats) {
    return bind_resume(jit, capture->settings(), std::move(function), capture_resumed, repeats);
  }, finished_code);
  nb::list result;
  int number = 0;
  for (const runtime::Capture* part : capture->with_callees()) {
    for (const auto& [place, entry] : part->entries()) result.append(generate(entry, number++, resumes));
  }
  return result;
}

// The same of all that is captured in the process, in the order of captures(): for each function that of each of its entries.
nb::list captured_code() {
  // Taken before any object is made: what is collected meanwhile takes its captures with it.
  std::vector<std::vector<std::pair<runtime::Place, Held<Compilation>>>> captured;
  for (const runtime::Capture* capture : runtime::Capture::all()) captured.push_back(capture->entries());
  nb::list result;
  for (const auto& entries : captured) {
    codegen::ResumeFunctions resumes([](Ref function, bool) { return function; }, finished_code);
    nb::list of_one;
    int number = 0;
    for (const auto& [place, entry] : entries) of_one.append(generate(entry, number++, resumes));
    result.append(of_one);
  }
  return result;
}

}  // namespace

void bind_codegen(nb::module_& module) {
  graph_left = PyErr_NewExceptionWithDoc("evalframe._core.GraphLeft", "A compiled graph was left before its end.", nullptr, nullptr);
  if (!graph_left) throw nb::python_error();
  module.def("generated_code", generated_code, nb::arg("jit"), nb::arg("capture_resumed"),
             nb::sig("def generated_code(jit: object, capture_resumed: bool) -> list[tuple[typing.Any, ...]]"),
             "Of each entry, in the order of jit_entries: its code or None, what the code calls behind a break, why there is "
             "no code, and a function that tells whether its guards hold.");
  module.def("set_code_finisher", set_code_finisher, nb::arg("finisher").none(),
             nb::sig("def set_code_finisher(finisher: typing.Callable[[types.CodeType], types.CodeType] | None) -> None"),
             "Has each generated code object pass through a function, which gives the same code with another place of its source.");
  module.def("captured_code", captured_code, nb::sig("def captured_code() -> list[list[tuple[typing.Any, ...]]]"),
             "The same of each entry of each function in `captures`.");
}

}  // namespace evalframe
