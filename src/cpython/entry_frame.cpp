// Reading, changing and dropping a frame at its entry, by the layout of the running version.
#include "cpython/raw_frame.h"
// (first: the internal headers want to come before all others)
#include "core/check.h"
#include "cpython/entry_frame.h"

namespace evalframe::cpython {

namespace {

PyCodeObject* code_object(Frame* frame) { return reinterpret_cast<PyCodeObject*>(raw::code(frame)); }

int parameter_count(const PyCodeObject* code) {
  return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
         ((code->co_flags & CO_VARKEYWORDS) != 0);
}

#if PY_VERSION_HEX >= 0x030C0000
// Gives the newest frame's space on the data stack back.
void pop_space(PyThreadState* thread, Frame* frame) {
  PyObject** base = reinterpret_cast<PyObject**>(frame);
  _PyStackChunk* chunk = thread->datastack_chunk;
  if (base != &chunk->data[0]) {
    thread->datastack_top = base;
    return;
  }
  // The frame is the first of its chunk: the chunk goes, as in CPython's _PyThreadState_PopFrame, which isn't exported.
  _PyStackChunk* previous = chunk->previous;
  CHECK(previous != nullptr);
  thread->datastack_chunk = previous;
  thread->datastack_top = &previous->data[previous->top];
  thread->datastack_limit = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(previous) + previous->size);
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  arena.free(arena.ctx, chunk, chunk->size);
}
#endif

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

Borrowed EntryFrame::code() const { return raw::code(frame_); }
Borrowed EntryFrame::function() const { return raw::function(frame_); }
Borrowed EntryFrame::globals() const { return frame_->f_globals; }
Borrowed EntryFrame::builtins() const { return frame_->f_builtins; }
Borrowed EntryFrame::locals_dict() const { return frame_->f_locals; }
int EntryFrame::argument_count() const { return parameter_count(code_object(frame_)); }
Borrowed EntryFrame::argument(int index) const { return frame_->localsplus[index]; }

Ref EntryFrame::locals() const {
  if (frame_->f_locals) return Ref::borrow(frame_->f_locals);
  Ref dict = Ref::steal(PyDict_New());
  PyObject* names = code_object(frame_)->co_localsplusnames;
  for (int i = 0; dict && i < argument_count(); i++) {
    PyObject* value = frame_->localsplus[i];
    if (value && PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(names, i), value) < 0) return {};
  }
  return dict;
}

bool is_at_entry(Frame* frame) {
  return frame->owner == FRAME_OWNED_BY_THREAD && raw::is_rewound(frame, code_object(frame));
}

void finish_frame([[maybe_unused]] PyThreadState* thread, [[maybe_unused]] Frame* frame) {
#if PY_VERSION_HEX >= 0x030C0000
  // Everything is taken out before anything is dropped: dropping can run Python code on this data stack.
  PyCodeObject* code = code_object(frame);
  Ref code_owner = Ref::steal(raw::code(frame));
  Ref function = Ref::steal(raw::function(frame));
  Ref locals = Ref::steal(frame->f_locals);
  DCHECK(frame->frame_obj == nullptr);
  for (int i = 0; i < parameter_count(code); i++) {
    Ref argument = Ref::steal(std::exchange(frame->localsplus[i], nullptr));
  }
  pop_space(thread, frame);
#endif
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

bool swap_code(PyThreadState* thread, Frame* frame, Borrowed function) {
  PyCodeObject* old_code = code_object(frame);
  auto* new_code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function.get())->func_code);
  PyObject** base = reinterpret_cast<PyObject**>(frame);
  // Only the newest frame can change its size.
  if (thread->datastack_top != base + raw::size(old_code)) return false;
  if (raw::size(new_code) >= thread->datastack_limit - base) return false;
  thread->datastack_top = base + raw::size(new_code);
  for (int i = parameter_count(new_code); i < new_code->co_nlocalsplus; i++) frame->localsplus[i] = nullptr;
  frame->stacktop = new_code->co_nlocalsplus;
  raw::rewind(frame, new_code);
  // The new function holds the globals and builtins that the frame borrows.
  Ref code_before = Ref::steal(std::exchange(raw::code(frame), Ref::borrow(new_code).release()));
  Ref function_before = Ref::steal(std::exchange(raw::function(frame), Ref::borrow(function).release()));
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
