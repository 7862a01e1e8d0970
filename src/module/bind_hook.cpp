// The frame hook in Python: FrameInfo, Result, the installed hook, and the capsule of the C interface.
#include "module/bindings.h"
#include "runtime/callback_hook.h"
#include "runtime/hook_api.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace evalframe {

namespace {

using cpython::EntryFrame;
using runtime::FrameInfo;
using runtime::GivenResult;

EntryFrame entry(const FrameInfo& info) {
  if (!info.frame) {
    throw std::runtime_error("a FrameInfo can be read inside the hook's callback only: its frame has gone on since");
  }
  return *info.frame;
}

nb::object object(Borrowed borrowed) { return nb::borrow(borrowed.get()); }

nb::object object_or_raise(Ref owned) {
  if (!owned) throw nb::python_error();
  return nb::steal(owned.release());
}

PyCodeObject* code_of(const FrameInfo& info) { return reinterpret_cast<PyCodeObject*>(entry(info).code().get()); }

bool has_flag(const FrameInfo& info, int flag) { return (code_of(info)->co_flags & flag) != 0; }

nb::object representation(const FrameInfo& info) {
  if (!info.frame) return nb::str("<FrameInfo of a frame that has gone on>");
  PyCodeObject* code = code_of(info);
  return object_or_raise(Ref::steal(PyUnicode_FromFormat("<FrameInfo of %U(), %U:%d>", code->co_qualname,
                                                         code->co_filename, code->co_firstlineno)));
}

// An installed hook.
class Hook {
 public:
  explicit Hook(cpython::HookId id) : id_(id) {}
  void remove() { cpython::remove_frame_hook(std::exchange(id_, 0)); }
  bool is_installed() const { return id_ != 0 && cpython::is_installed(id_); }

 private:
  cpython::HookId id_;
};

Hook install(nb::object callback, bool all_threads) {
  if (!PyCallable_Check(callback.ptr())) {
    PyErr_Format(PyExc_TypeError,
                 "evalframe.hook() wants a callable that takes a FrameInfo, not %R of type %.100s", callback.ptr(),
                 Py_TYPE(callback.ptr())->tp_name);
    throw nb::python_error();
  }
  const auto id = cpython::install_frame_hook(runtime::make_callback_hook(callback.ptr()), all_threads);
  if (!id) throw nb::python_error();
  return Hook(id);
}

void bind_frame_info(nb::module_& module) {
  nb::class_<FrameInfo>(module, "FrameInfo", nb::is_final(),
                        "A call that is about to run. Can be read inside the hook's callback only.")
      .def_prop_ro("code", [](const FrameInfo& info) { return object(entry(info).code()); },
                   nb::sig("def code(self) -> types.CodeType"), "The code object about to run.")
      .def_prop_ro("function", [](const FrameInfo& info) { return object(entry(info).function()); },
                   nb::sig("def function(self) -> types.FunctionType"),
                   "The function called; modules and class bodies have one made for the occasion.")
      .def_prop_ro("globals", [](const FrameInfo& info) { return object(entry(info).globals()); },
                   nb::sig("def globals(self) -> dict[str, typing.Any]"))
      .def_prop_ro("builtins", [](const FrameInfo& info) { return object(entry(info).builtins()); },
                   nb::sig("def builtins(self) -> dict[str, typing.Any]"))
      .def_prop_ro("locals", [](const FrameInfo& info) { return object_or_raise(entry(info).locals()); },
                   nb::sig("def locals(self) -> dict[str, typing.Any]"),
                   "The arguments by parameter name, as the caller bound them; of a module or class body its namespace.")
      .def_prop_ro("name", [](const FrameInfo& info) { return nb::borrow(code_of(info)->co_name); },
                   nb::sig("def name(self) -> str"))
      .def_prop_ro("qualname", [](const FrameInfo& info) { return nb::borrow(code_of(info)->co_qualname); },
                   nb::sig("def qualname(self) -> str"))
      .def_prop_ro("is_generator", [](const FrameInfo& info) { return has_flag(info, CO_GENERATOR); })
      .def_prop_ro("is_coroutine",
                   [](const FrameInfo& info) { return has_flag(info, CO_COROUTINE | CO_ITERABLE_COROUTINE); })
      .def_prop_ro("is_async_generator", [](const FrameInfo& info) { return has_flag(info, CO_ASYNC_GENERATOR); })
      .def("__repr__", representation, nb::sig("def __repr__(self) -> str"));
}

void bind_result(nb::module_& module) {
  nb::class_<GivenResult>(module, "Result", nb::is_final(),
                          "Returned by a hook's callback: the call gives `value` and doesn't run.")
      .def("__init__", [](GivenResult* self, nb::object value) { new (self) GivenResult{Ref::borrow(value.ptr())}; },
           "value"_a.none(), nb::sig("def __init__(self, value: typing.Any) -> None"))
      .def_prop_ro("value", [](const GivenResult& self) { return object(self.value.get()); },
                   nb::sig("def value(self) -> typing.Any"));
}

void bind_installed_hook(nb::module_& module) {
  nb::class_<Hook>(module, "Hook", nb::is_final(), "An installed frame hook; as a context manager it is removed at the end.")
      .def("remove", &Hook::remove, "Removes the hook, from whichever thread. Removing it again does nothing.")
      .def_prop_ro("installed", &Hook::is_installed)
      .def("__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Hook"))
      .def("__exit__", [](Hook& self, nb::args) { self.remove(); },
           nb::sig("def __exit__(self, *args: object) -> None"));
}

}  // namespace

void bind_hook(nb::module_& module) {
  bind_frame_info(module);
  bind_result(module);
  bind_installed_hook(module);
  module.def("hook", install, "callback"_a.none(), nb::kw_only(), "all_threads"_a = false,
             nb::sig("def hook(callback: collections.abc.Callable[[FrameInfo], types.CodeType | Result | None], *, "
                     "all_threads: bool = False) -> Hook"),
             R"(Call ``callback(frame_info)`` before each Python call of this thread (of all threads: ``all_threads=True``).

The callback returns None (the call goes on), a code object to run instead, or ``Result(value)``. Calls made by the
callback itself, and evalframe's own, are not shown. Generators and coroutines are shown when they are created. The
last hook installed sees a call first; where it returns None the one before it is asked.

Calls that CPython has already specialised may pass unseen where its own frame evaluation slot is not asked: on 3.11
``obj[i]`` with a ``__getitem__`` written in Python.)");
  module.attr("_hook_api") = nb::capsule(&runtime::hook_api(), EVALFRAME_HOOK_API_NAME);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(cpython::remove_all_frame_hooks));
}

}  // namespace evalframe
