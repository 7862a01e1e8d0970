// Reading, changing and dropping a frame at its entry, by the layout of the running version.
#define Py_BUILD_CORE 1
#include "cpython/entry_frame.h"

#include "core/check.h"
#include "cpython/generator_functions.h"
#include "frame_layout.h"

namespace evalframe::cpython {

namespace {

using layout::code;
using layout::frame_size;

// The owned fields as they are stored.
#if PY_VERSION_HEX >= 0x030D0000
PyObject*& code_field(Frame* frame) { return frame->f_executable; }
#else
PyObject*& code_field(Frame* frame) { return reinterpret_cast<PyObject*&>(frame->f_code); }
#endif
#if PY_VERSION_HEX >= 0x030C0000
PyObject*& function_field(Frame* frame) { return frame->f_funcobj; }
#else
PyObject*& function_field(Frame* frame) { return reinterpret_cast<PyObject*&>(frame->f_func); }
#endif

_Py_CODEUNIT* pointer_at_entry(PyCodeObject* code) { return _PyCode_CODE(code) - layout::kPointerToNext; }

int parameter_count(const PyCodeObject* code) {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
         ((code->co_flags & CO_VARKEYWORDS) != 0);
}

Ref argument_tuple(EntryFrame frame, int positional, Borrowed rest) {
  Py_ssize_t extra = rest ? PyTuple_GET_SIZE(rest.get()) : 0;
  Ref arguments = Ref::steal(PyTuple_New(positional + extra));
  if (!arguments) return {};
  for (int i = 0; i < positional; i++) {
    PyTuple_SET_ITEM(arguments.get(), i, Ref::borrow(frame.argument(i)).release());
  }
  for (Py_ssize_t i = 0; i < extra; i++) {
    PyTuple_SET_ITEM(arguments.get(), positional + i, Ref::borrow(PyTuple_GET_ITEM(rest.get(), i)).release());
  }
  return arguments;
}

}  // namespace

Borrowed EntryFrame::code() const { return code_of(frame_); }
Borrowed EntryFrame::function() const { return original_function(function_of(frame_)); }
Borrowed EntryFrame::globals() const { return globals_of(frame_); }
Borrowed EntryFrame::builtins() const { return builtins_of(frame_); }
Borrowed EntryFrame::locals_dict() const { return locals_dict_of(frame_); }
int EntryFrame::argument_count() const { return parameter_count(layout::code(frame_)); }
Borrowed EntryFrame::argument(int index) const { return slots(frame_).get(index); }

Ref EntryFrame::locals() const {
  if (frame_->f_locals) return Ref::borrow(frame_->f_locals);
  Ref dict = Ref::steal(PyDict_New());
  PyObject* names = layout::code(frame_)->co_localsplusnames;
  for (int i = 0; dict && i < argument_count(); i++) {
    PyObject* value = frame_->localsplus[i];
    if (value && PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(names, i), value) < 0) return {};
  }
  return dict;
}

bool is_at_entry(Frame* frame) {
  return frame->owner == FRAME_OWNED_BY_THREAD && layout::pointer(frame) == pointer_at_entry(code(frame));
}

void finish_frame(PyThreadState* thread, Frame* frame) {
  if constexpr (layout::kCalleeClears) pop_frame(thread, frame);
}

Frame* adopt_frame(PyThreadState* thread, Frame* frame) {
  if constexpr (layout::kCalleeClears) return frame;
  Frame* own = push_frame(thread, function_of(frame));
  if (!own) return nullptr;
  // Function and code stay with both: CPython's clearing wants them.
  const Ref made_with = Ref::steal(std::exchange(own->f_locals, std::exchange(frame->f_locals, nullptr)));
  for (int i = 0; i < parameter_count(code(frame)); i++) slots(own).put(i, slots(frame).take(i));
  return own;
}

Ref function_with_code(PyFunctionObject* function, PyCodeObject* code) {
  Ref made = Ref::steal(PyFunction_NewWithQualName(reinterpret_cast<PyObject*>(code), function->func_globals,
                                                   function->func_qualname));
  if (!made) return {};
  auto* fields = made.as<PyFunctionObject>();
  fields->func_closure = Ref::borrow(function->func_closure).release();
  Ref name = Ref::steal(std::exchange(fields->func_name, Ref::borrow(function->func_name).release()));
  Ref builtins = Ref::steal(std::exchange(fields->func_builtins, Ref::borrow(function->func_builtins).release()));
  return made;
}

bool serves_as(PyFunctionObject* candidate, PyFunctionObject* function) {
  return candidate->func_closure == function->func_closure && candidate->func_globals == function->func_globals &&
         candidate->func_builtins == function->func_builtins && candidate->func_name == function->func_name &&
         candidate->func_qualname == function->func_qualname;
}

void set_function(Frame* frame, Ref function) { const Ref before = Ref::steal(std::exchange(function_field(frame), function.release())); }

bool swap_code(PyThreadState* thread, Frame* frame, Borrowed function) {
  auto* new_code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function.get())->func_code);
  PyObject** base = reinterpret_cast<PyObject**>(frame);
  // Only the newest frame can change its size.
  if (thread->datastack_top != base + frame_size(code(frame))) return false;
  if (frame_size(new_code) >= static_cast<size_t>(thread->datastack_limit - base)) return false;
  thread->datastack_top = base + frame_size(new_code);
  for (int i = parameter_count(new_code); i < new_code->co_nlocalsplus; i++) frame->localsplus[i] = nullptr;
  frame->stacktop = new_code->co_nlocalsplus;
  layout::pointer(frame) = pointer_at_entry(new_code);
  // The new function holds the globals and builtins that the frame borrows.
  const Ref code_before = Ref::steal(std::exchange(code_field(frame), Ref::borrow(new_code).release()));
  const Ref function_before = Ref::steal(std::exchange(function_field(frame), Ref::borrow(function).release()));
  return true;
}

Ref call_with_arguments(EntryFrame frame, Borrowed function) {
  auto* code = reinterpret_cast<PyCodeObject*>(frame.code().get());
  if (frame.locals_dict()) {
    auto* fields = reinterpret_cast<PyFunctionObject*>(function.get());
    return Ref::steal(PyEval_EvalCodeEx(fields->func_code, fields->func_globals, frame.locals_dict().get(), nullptr, 0,
                                        nullptr, 0, nullptr, 0, nullptr, fields->func_closure));
  }
  const int named = code->co_argcount + code->co_kwonlyargcount;
  const bool has_rest = (code->co_flags & CO_VARARGS) != 0;
  Ref arguments = argument_tuple(frame, code->co_argcount, has_rest ? frame.argument(named) : Borrowed());
  Ref keywords = Ref::steal(PyDict_New());
  if (!arguments || !keywords) return {};
  for (int i = code->co_argcount; i < named; i++) {
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
    if (PyDict_SetItem(keywords.get(), name, frame.argument(i).get()) < 0) return {};
  }
  if (code->co_flags & CO_VARKEYWORDS) {
    if (PyDict_Update(keywords.get(), frame.argument(named + has_rest).get()) < 0) return {};
  }
  return Ref::steal(PyObject_Call(function.get(), arguments.get(), keywords.get()));
}

}  // namespace evalframe::cpython
