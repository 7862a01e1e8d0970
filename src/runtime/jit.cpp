// The jit object's type: vectorcall into the Capture, a descriptor like a function's, attributes of what it wraps.
#include "runtime/jit.h"

#include <structmember.h>

#include <algorithm>

#include "core/few.h"
#include "cpython/generator_functions.h"
#include "cpython/python_call.h"
#include "evaluator/bind_arguments.h"

namespace evalframe::runtime {

namespace {

struct JitObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* function;  // __wrapped__
  PyObject* dict;
  PyObject* weak_references;
  std::shared_ptr<Capture> capture;
};

PyTypeObject* jit_type;

JitObject* as_jit(PyObject* object) { return reinterpret_cast<JitObject*>(object); }

bool makes_generators(const JitObject* jit) {
  const auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(jit->function)->func_code);
  return code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
}

// Arguments at the places of their parameters, as far as that takes no search: keywords that are the parameters' own names,
// and defaults. The caller of the function holds what it gave; what else there is, is held here.
class QuickArguments {
 public:
  // False: they need a closer look.
  bool bind(const PyFunctionObject* function, PyObject* const* arguments, size_t flags, PyObject* names) {
    const auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
    const int count = code->co_argcount + code->co_kwonlyargcount;
    const Py_ssize_t given = PyVectorcall_NARGS(flags);
    if (count > kMost || code->co_flags & (CO_VARARGS | CO_VARKEYWORDS) || given > code->co_argcount) return false;
    std::copy_n(arguments, given, bound_);
    std::fill(bound_ + given, bound_ + count, nullptr);
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); k++) {
      int at = code->co_posonlyargcount;
      while (at < count && PyTuple_GET_ITEM(code->co_localsplusnames, at) != PyTuple_GET_ITEM(names, k)) at++;
      if (at == count || bound_[at]) return false;
      bound_[at] = arguments[given + k];
    }
    return fill_defaults(function, code->co_argcount, count);
  }
  PyObject* const* bound() const { return bound_; }

 private:
  static constexpr int kMost = 16;

  bool fill_defaults(const PyFunctionObject* function, int positional, int count) {
    defaults_ = Ref::borrow(function->func_defaults);
    const int first = positional - (defaults_ ? static_cast<int>(PyTuple_GET_SIZE(defaults_.get())) : 0);
    for (int i = 0; i < positional; i++) {
      if (bound_[i]) continue;
      if (i < first) return false;
      bound_[i] = PyTuple_GET_ITEM(defaults_.get(), i - first);
    }
    const auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
    for (int i = positional; i < count; i++) {
      if (bound_[i]) continue;
      if (keyword_default_ || !function->func_kwdefaults) return false;
      keyword_default_ = Ref::borrow(PyDict_GetItemWithError(function->func_kwdefaults, PyTuple_GET_ITEM(code->co_localsplusnames, i)));
      if (!keyword_default_) return PyErr_Clear(), false;
      bound_[i] = keyword_default_.get();
    }
    return true;
  }

  PyObject* bound_[kMost];
  Ref defaults_, keyword_default_;
};

// Stands for a capture that has no jit object, as long as someone else holds it.
constexpr char kCaptureName[] = "evalframe capture";
using Lasting = std::weak_ptr<Capture>;

void drop_owner(PyObject* capsule) { delete static_cast<Lasting*>(PyCapsule_GetPointer(capsule, kCaptureName)); }

std::shared_ptr<Capture> capture_of_owner(PyObject* owner) {
  if (PyCapsule_CheckExact(owner)) return static_cast<Lasting*>(PyCapsule_GetPointer(owner, kCaptureName))->lock();
  return as_jit(owner)->capture;
}

// Is told when generators of captured functions go on.
class ResumptionHook final : public cpython::FrameHook {
 public:
  Decision on_frame(PyThreadState*, cpython::EntryFrame, Ref&) override { return Decision::kPass; }
  bool takes_resumptions() const override { return true; }
  bool on_resumption(PyThreadState* thread, cpython::Frame* frame, bool throwing, Ref& value) override {
    const Borrowed owner = cpython::owner_of_generators(cpython::function_of(frame));
    const std::shared_ptr<Capture> capture = owner ? capture_of_owner(owner.get()) : nullptr;
    return capture && capture->resume(thread, frame, throwing, value);
  }
};

// The function by which its generators' frames are known again; null without one.
Ref function_for_generators(PyObject* function, PyObject* owner) {
  static const auto hook = std::make_shared<ResumptionHook>();
  Ref made = cpython::function_for_generators(function, owner, hook);
  if (!made) PyErr_Clear();
  return made;
}

// CPython makes the generator.
PyObject* make_generator(JitObject* jit, PyObject* const* arguments, size_t flags, PyObject* names) {
  const Ref function = function_for_generators(jit->function, reinterpret_cast<PyObject*>(jit));
  return PyObject_Vectorcall(function ? function.get() : jit->function, arguments, flags, names);
}

// Binds the arguments to the parameters first: keywords, defaults, *args and **kwargs.
Ref call_bound(JitObject* jit, PyObject* const* arguments, size_t flags, PyObject* names, bool* handled) {
  const auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(jit->function)->func_code);
  QuickArguments quick;
  if (quick.bind(reinterpret_cast<PyFunctionObject*>(jit->function), arguments, flags, names)) {
    return jit->capture->call(PyThreadState_Get(), quick.bound(), handled);
  }
  Few<Ref, 8> bound(static_cast<size_t>(code->co_nlocalsplus));
  *handled = false;
  if (!evaluator::bind_arguments(jit->function, arguments, flags, names, bound.data())) {
    *handled = PyErr_Occurred();
    return Ref();
  }
  return jit->capture->call(PyThreadState_Get(), pointers(bound.data()), handled);
}

PyObject* call(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* names) {
  JitObject* jit = as_jit(self);
  if (makes_generators(jit)) return make_generator(jit, arguments, flags, names);
  bool handled;
  Ref result = !names && jit->capture->are_in_order(PyVectorcall_NARGS(flags))
                   ? jit->capture->call(PyThreadState_Get(), arguments, &handled)
                   : call_bound(jit, arguments, flags, names, &handled);
  if (!handled) return PyObject_Vectorcall(jit->function, arguments, flags, names);
  return result.release();
}

PyObject* get(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) return Ref::borrow(self).release();
  return PyMethod_New(self, object);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  JitObject* jit = as_jit(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(jit->function);
  Py_VISIT(jit->dict);
  return jit->capture ? jit->capture->traverse_with_callees(visit, arg) : 0;
}

int clear(PyObject* self) {
  JitObject* jit = as_jit(self);
  if (jit->capture) jit->capture->clear();
  Py_CLEAR(jit->dict);
  return 0;
}

void dealloc(PyObject* self) {
  JitObject* jit = as_jit(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (jit->weak_references) PyObject_ClearWeakRefs(self);
  clear(self);
  Ref function = Ref::steal(jit->function);
  jit->capture.~shared_ptr();
  type->tp_free(self);
  Ref held = Ref::steal(type);
}

// What the object doesn't have itself is the function's: __name__, __doc__, __defaults__, user attributes.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GetAttr(as_jit(self)->function, name);
}

// What calls depend on is set in the function, where calls read it.
int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  for (const char* own : {"__code__", "__defaults__", "__kwdefaults__"}) {
    if (PyUnicode_CompareWithASCIIString(name, own) == 0) return PyObject_SetAttr(as_jit(self)->function, name, value);
  }
  return PyObject_GenericSetAttr(self, name, value);
}

PyObject* represent(PyObject* self) { return PyUnicode_FromFormat("<evalframe.jit of %R>", as_jit(self)->function); }

PyObject* reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(as_jit(self)->function, "__qualname__"); }

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* kNames[] = {"function", "backend", "custom", "fullgraph", "max_entries", "exact", "fastmath", "background", "dynamic", "compiling", nullptr};
  PyObject* function = nullptr;
  const char* backend = "native";
  PyObject* custom = Py_None;
  int fullgraph = 0, max_entries = 8, exact = 0, fastmath = 0, background = 0, dynamic = 0, compiling = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!|sOpipppip", const_cast<char**>(kNames), &PyFunction_Type, &function, &backend,
                                   &custom, &fullgraph, &max_entries, &exact, &fastmath, &background, &dynamic, &compiling)) {
    return nullptr;
  }
  Settings settings;
  settings.backend = backend;
  if (custom != Py_None) settings.custom = Ref::borrow(custom);
  settings.fullgraph = fullgraph;
  settings.max_entries = max_entries;
  settings.exact = exact;
  settings.fastmath = fastmath;
  settings.background = background;
  settings.dynamic = static_cast<Dynamic>(dynamic);
  settings.compiling = compiling;
  auto* jit = as_jit(type->tp_alloc(type, 0));
  if (!jit) return nullptr;
  new (&jit->capture) std::shared_ptr<Capture>(std::make_shared<Capture>(function, std::move(settings)));
  jit->vectorcall = call;
  jit->function = Ref::borrow(function).release();
  return reinterpret_cast<PyObject*>(jit);
}

PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, "Pickled by name, as functions are."}, {}};
PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(JitObject, function), READONLY, "The function as it was."},
    {"__dictoffset__", T_PYSSIZET, offsetof(JitObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(JitObject, weak_references), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(JitObject, vectorcall), READONLY, nullptr},
    {}};
PyGetSetDef getters[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr}, {}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(make)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(get)},
                       {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
                       {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
                       {Py_tp_repr, reinterpret_cast<void*>(represent)},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_getset, getters},
                       {Py_tp_doc, const_cast<char*>("A function whose calls are captured and served by compiled graphs.")},
                       {0, nullptr}};
PyType_Spec spec = {"evalframe._core.Jit", sizeof(JitObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};

}  // namespace

namespace {

// `_evalframe` of the object's class: a tuple that begins with a jit object and what that is called with in the place of `self`.
// Null with an exception.
Ref told_by_class(PyObject* self) {
  static PyObject* const attribute = PyUnicode_InternFromString("_evalframe");
  Ref told = Ref::borrow(_PyType_Lookup(Py_TYPE(self), attribute));
  const bool tells = told && PyTuple_CheckExact(told.get()) && PyTuple_GET_SIZE(told.get()) >= 2 && PyObject_TypeCheck(PyTuple_GET_ITEM(told.get(), 0), jit_type);
  if (tells) return told;
  PyErr_Format(PyExc_TypeError, "%.100s has no captured function", Py_TYPE(self)->tp_name);
  return Ref();
}

PyObject* call_stand_in(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  const Ref told = told_by_class(self);
  if (!told) return nullptr;
  const Py_ssize_t all = count + (names ? PyTuple_GET_SIZE(names) : 0);
  Few<PyObject*, 16> given(static_cast<size_t>(all) + 1);
  given[0] = PyTuple_GET_ITEM(told.get(), 1);
  std::copy_n(arguments, all, given.data() + 1);
  return PyObject_Vectorcall(PyTuple_GET_ITEM(told.get(), 0), given.data(), static_cast<size_t>(count) + 1, names);
}

// Whether the function is one of (self, /, *args, **kwargs).
bool takes_the_rest(PyFunctionObject* function) {
  constexpr int kFlags = CO_OPTIMIZED | CO_VARARGS | CO_VARKEYWORDS, kGenerators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  const auto* const code = reinterpret_cast<PyCodeObject*>(function->func_code);
  return code->co_argcount == 1 && code->co_posonlyargcount == 1 && !code->co_kwonlyargcount && (code->co_flags & (kFlags | kGenerators)) == kFlags && cpython::has_usual_vectorcall(function);
}

bool are_names(PyObject* keywords) {
  PyObject* key = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &key, nullptr);) {
    if (!PyUnicode_CheckExact(key)) return false;
  }
  return true;
}

PyObject* call_with(PyObject* callable, PyObject* first, PyObject* arguments, PyObject* keywords) {
  const Py_ssize_t count = PyTuple_GET_SIZE(arguments);
  Few<PyObject*, 16> given(static_cast<size_t>(count) + 1);
  given[0] = first;
  std::copy_n(&PyTuple_GET_ITEM(arguments, 0), count, given.data() + 1);
  return PyObject_VectorcallDict(callable, given.data(), static_cast<size_t>(count) + 1, keywords);
}

// The same as tp_call: a tuple and a dict are what the function's *args and **kwargs are to be, the dict as a copy, which the caller may have yet.
PyObject* call_as_given(PyObject* self, PyObject* arguments, PyObject* keywords) {
  const Ref told = told_by_class(self);
  if (!told) return nullptr;
  PyObject *const jit = PyTuple_GET_ITEM(told.get(), 0), *const first = PyTuple_GET_ITEM(told.get(), 1), *const function = as_jit(jit)->function;
  const bool fits = takes_the_rest(reinterpret_cast<PyFunctionObject*>(function)) && PyTuple_CheckExact(arguments) && (!keywords || are_names(keywords));
  if (!fits) return call_with(jit, first, arguments, keywords);
  const Ref own = Ref::steal(keywords ? PyDict_Copy(keywords) : PyDict_New());
  if (!own) return nullptr;
  PyObject* const parameters[] = {first, arguments, own.get()};
  bool handled;
  Ref result = as_jit(jit)->capture->call(PyThreadState_Get(), parameters, &handled);
  return handled ? result.release() : call_with(function, first, arguments, keywords);
}

PyMethodDef stand_in_call{"__call__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_stand_in)), METH_FASTCALL | METH_KEYWORDS,
                          "__call__($self, /, *args, **kwargs)\n--\n\nCalls what was captured."};

}  // namespace

void take_calls(PyTypeObject* type) { type->tp_call = call_as_given; }

bool add_jit_type(PyObject* module) {
  if (!jit_type) jit_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!jit_type || PyModule_AddObjectRef(module, "Jit", reinterpret_cast<PyObject*>(jit_type)) < 0) return false;
  // A method of any class that takes it: one in Python would take longer than most guards.
  const Ref method = Ref::steal(PyDescr_NewMethod(&PyBaseObject_Type, &stand_in_call));
  return method && PyModule_AddObjectRef(module, "call_stand_in", method.get()) == 0;
}

void take_generator(const cpython::EntryFrame& frame, const std::shared_ptr<Capture>& capture, Ref& owner) {
  // Of a jit object's generator the frame is another's already.
  if (cpython::owner_of_generators(cpython::function_of(frame.frame()))) return;
  if (!owner) owner = Ref::steal(PyCapsule_New(new Lasting(capture), kCaptureName, drop_owner));
  if (!owner) return PyErr_Clear();
  Ref function = function_for_generators(frame.function().get(), owner.get());
  if (function) cpython::set_function(frame.frame(), std::move(function));
}

std::shared_ptr<Capture> capture_of(Borrowed object) {
  if (jit_type && PyObject_TypeCheck(object.get(), jit_type)) return as_jit(object.get())->capture;
  PyErr_Format(PyExc_TypeError, "expected a function made by evalframe.jit, not %.100s", Py_TYPE(object.get())->tp_name);
  return nullptr;
}

}  // namespace evalframe::runtime
