// Frames on the thread's data stack: making, linking, leaving to CPython's evaluator and dropping them.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <pthread.h>

#include <cstring>

#include "core/check.h"
#include "cpython/c_call.h"
#include "cpython/frame.h"
#include "cpython/hook.h"
#include "cpython/objects.h"
#include "cpython/unseen_call.h"
#include "frame_layout.h"

namespace evalframe::cpython {

namespace {

// --- space on the data stack: the same chunks as CPython's, whose own functions for them are hidden ---------------

PyObject** push_chunk(PyThreadState* thread, size_t size) {
  size_t bytes = 16 * 1024;
  while (bytes < sizeof(PyObject*) * (size + 1024)) bytes *= 2;
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  auto* const chunk = static_cast<_PyStackChunk*>(arena.alloc(arena.ctx, bytes));
  if (!chunk) return nullptr;
  chunk->previous = thread->datastack_chunk;
  chunk->size = bytes;
  chunk->top = 0;
  if (thread->datastack_chunk) thread->datastack_chunk->top = static_cast<size_t>(thread->datastack_top - &thread->datastack_chunk->data[0]);
  thread->datastack_chunk = chunk;
  thread->datastack_limit = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(chunk) + bytes);
  // The first chunk of a thread keeps one slot, so that popping never empties and frees it.
  PyObject** const space = &chunk->data[chunk->previous == nullptr];
  thread->datastack_top = space + size;
  return space;
}

PyObject** push_space(PyThreadState* thread, size_t size) {
  const bool fits = thread->datastack_top && size < static_cast<size_t>(thread->datastack_limit - thread->datastack_top);
  if (!fits) return push_chunk(thread, size);
  PyObject** const space = thread->datastack_top;
  thread->datastack_top += size;
  return space;
}

#if PY_VERSION_HEX < 0x030D0000
void pop_space(PyThreadState* thread, Frame* frame) {
  auto** const base = reinterpret_cast<PyObject**>(frame);
  _PyStackChunk* const chunk = thread->datastack_chunk;
  if (base != &chunk->data[0]) {
    CHECK(base < thread->datastack_top && base > &chunk->data[0]);
    thread->datastack_top = base;
    return;
  }
  _PyStackChunk* const previous = chunk->previous;
  thread->datastack_chunk = previous;
  thread->datastack_top = &previous->data[previous->top];
  thread->datastack_limit = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(previous) + previous->size);
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  arena.free(arena.ctx, chunk, chunk->size);
}

// True where the frame's contents have moved into its frame object, because others hold that.
bool kept_by_frame_object(PyThreadState* thread, Frame* frame) {
  const Ref object = Ref::steal(std::exchange(frame->frame_obj, nullptr));
  if (!object || Py_REFCNT(object.get()) == 1) return false;
  // The frame isn't linked any more, so the thread's current one is its caller. 3.11's generators have forgotten theirs. Without
  // memory for it there is none.
  const bool knows_caller = layout::kCalleeClears || frame->owner != FRAME_OWNED_BY_GENERATOR;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyFrameObject* const back = knows_caller ? PyThreadState_GetFrame(thread) : nullptr;
  PyErr_Restore(type, value, traceback);
  layout::move_into(object.as<PyFrameObject>(), frame, back);
  if (!PyObject_GC_IsTracked(object.get())) PyObject_GC_Track(object.get());
  return true;
}

// Drops all but the code.
void clear(PyThreadState* thread, Frame* frame) {
  if (kept_by_frame_object(thread, frame)) return;
  for (int index = 0; index < frame->stacktop; ++index) Py_XDECREF(frame->localsplus[index]);
  Py_XDECREF(frame->f_locals);
  Py_DECREF(layout::function(frame));
}
#endif

// --- the C stack -------------------------------------------------------------------------------------------------

// Python called from C in our evaluator takes about a kilobyte a level; libraries called from there need room too.
constexpr size_t kStackReserve = 128 * 1024;

}  // namespace

constinit thread_local uintptr_t known_stack_limit = 0;

uintptr_t stack_limit() {
  uintptr_t& limit = known_stack_limit;
  if (limit) return limit;
  pthread_attr_t attributes;
  void* lowest = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
  }
  const size_t reserve = size / 3 < kStackReserve ? size / 3 : kStackReserve;
  limit = lowest ? reinterpret_cast<uintptr_t>(lowest) + reserve : 1;
  return limit;
}

namespace {

bool raise_recursion_error(PyThreadState* thread) {
  thread->recursion_headroom++;
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
  thread->recursion_headroom--;
  return false;
}

}  // namespace

Slots slots(Frame* frame) { return Slots(frame->localsplus); }
bool has_frame_object(Frame* frame) { return frame->frame_obj && Py_REFCNT(frame->frame_obj) > 1; }
Borrowed function_of(Frame* frame) { return Borrowed(layout::function(frame)); }
static_assert(offsetof(Frame, owner) == layout::kFrameOwner && FRAME_OWNED_BY_GENERATOR == layout::kOwnedByGenerator);
static_assert(offsetof(Frame, stacktop) == layout::kFrameStackTop * sizeof(PyObject*));
static_assert(offsetof(Frame, localsplus) == layout::kFrameSlots * sizeof(PyObject*));
static_assert(offsetof(Frame, f_globals) == layout::kFrameGlobals * sizeof(PyObject*));
static_assert(offsetof(Frame, f_builtins) == (layout::kFrameGlobals + 1) * sizeof(PyObject*));
Borrowed locals_dict_of(Frame* frame) { return Borrowed(frame->f_locals); }

void set_locals_dict(Frame* frame, Ref names) { const Ref old = Ref::steal(std::exchange(frame->f_locals, names.release())); }

bool set_globals(Frame* frame, Borrowed globals) {
  Ref function = Ref::steal(PyFunction_New(code_of(frame).get(), globals.get()));
  if (!function) return false;
  frame->f_globals = globals.get();
  frame->f_builtins = function.as<PyFunctionObject>()->func_builtins;
  const Ref old = layout::exchange_function(frame, std::move(function));
  return true;
}

Frame* push_frame(PyThreadState* thread, Borrowed function) {
  auto* const callee = reinterpret_cast<PyFunctionObject*>(function.get());
  const size_t size = layout::frame_size(reinterpret_cast<PyCodeObject*>(callee->func_code));
  PyObject** const space = push_space(thread, size);
  if (!space) {
    PyErr_NoMemory();
    return nullptr;
  }
  memset(static_cast<void*>(space), 0, size * sizeof(PyObject*));
  auto* const frame = reinterpret_cast<Frame*>(space);
  layout::initialize(frame, reinterpret_cast<PyFunctionObject*>(Py_NewRef(function.get())));
  // As when CPython calls such a function: a module's names are its globals.
  const bool is_module = !(reinterpret_cast<PyCodeObject*>(callee->func_code)->co_flags & CO_OPTIMIZED);
  if (is_module) frame->f_locals = Py_NewRef(callee->func_globals);
  return frame;
}

void pop_frame(PyThreadState* thread, Frame* frame) {
  CHECK(frame->stacktop >= 0);
#if PY_VERSION_HEX >= 0x030D0000
  _PyEval_FrameClearAndPop(thread, frame);
#else
  const bool of_generator = frame->owner == FRAME_OWNED_BY_GENERATOR;
  // 3.11 leaves the clearing to the generator.
  if (of_generator && !layout::kCalleeClears) return;
  if (of_generator) {
    PyGenObject* const generator = _PyFrame_GetGenerator(frame);
    generator->gi_frame_state = FRAME_CLEARED;
    layout::leave_generator(thread, generator);
  }
  PyCodeObject* const code = layout::code(frame);
  if (layout::kFinalizersCountAsCallees) layout::recursion_remaining(thread)--;
  clear(thread, frame);
  // A generator's frame keeps it (3.12).
  if (!of_generator) Py_DECREF(code);
  if (layout::kFinalizersCountAsCallees) layout::recursion_remaining(thread)++;
  if (of_generator) {
    frame->previous = nullptr;
  } else {
    pop_space(thread, frame);
  }
#endif
}

void clear_generator_frame([[maybe_unused]] PyThreadState* thread, [[maybe_unused]] Frame* frame) {
#if PY_VERSION_HEX < 0x030C0000
  PyCodeObject* const code = layout::code(frame);
  clear(thread, frame);
  Py_DECREF(code);
#endif
}

void set_next(Frame* frame, int unit, int depth) {
  layout::pointer(frame) = _PyCode_CODE(layout::code(frame)) + unit - layout::kPointerToNext;
  frame->stacktop = depth;
}

void set_running(Frame* frame, int unit) {
  running_cell(frame).set(unit);
  frame->stacktop = -1;
}

void add_traceback_entry(PyThreadState* thread, Frame* frame) {
  if (_PyFrame_IsIncomplete(frame)) return;
  if (const Ref object = frame_object(thread)) {
    PyTraceBack_Here(object.as<PyFrameObject>());
  } else {
    PyErr_NoMemory();
  }
}

Ref frame_object(PyThreadState* thread) { return Ref::steal(PyThreadState_GetFrame(thread)); }

void Link::link(PyThreadState* thread, Frame* frame) {
  thread_ = thread;
  outer_ = layout::current(thread);
  layout::link(thread, frame);
}
void Link::unlink() { layout::current(thread_) = outer_; }

Ref run_in_cpython_in_place(PyThreadState* thread, Frame* frame, bool raise) {
  CHECK(frame->stacktop >= 0);
  // Where 3.13 is thrown into, the pointer must be on the instruction that raises: tracebacks read the line from it.
  // A generator's is on the RESUME behind its YIELD_VALUE, which has the same.
  const bool of_generator = frame->owner == FRAME_OWNED_BY_GENERATOR;
  if (raise && layout::kPointerToNext == 0 && !of_generator) --layout::pointer(frame);
  [[maybe_unused]] const layout::KeepCBudget budget(thread);
  const SlotLent as_without_hooks(is_traced(thread, frame));
  return Ref::steal(_PyEval_EvalFrameDefault(thread, frame, raise));
}

Ref run_in_cpython(PyThreadState* thread, Frame* frame, bool raise) {
  Ref result = run_in_cpython_in_place(thread, frame, raise);
  if (!layout::kCalleeClears) pop_frame(thread, frame);
  return result;
}

PyObject* call(PyThreadState* thread, PyObject* callable, PyObject* const* arguments, size_t nargsf, PyObject* keyword_names) {
  if (!PyFunction_Check(callable) && !PyMethod_Check(callable)) return call_c(thread, callable, arguments, nargsf, keyword_names);
  if (c_stack_is_low()) {
    raise_recursion_error(thread);
    return nullptr;
  }
  [[maybe_unused]] const layout::KeepCBudget budget(thread);
  return PyObject_Vectorcall(callable, arguments, nargsf, keyword_names);
}

bool is_traced(PyThreadState* thread) { return layout::traced(thread); }
bool is_traced(PyThreadState* thread, Frame* frame) { return layout::traced(thread) || layout::code_traced(layout::code(frame)); }
const unsigned char* trace_cells(PyThreadState* thread) { return layout::trace_cells(thread); }
BreakerCell breaker_cell(PyThreadState* thread) { return {layout::breaker_cell(thread)}; }

#if PY_VERSION_HEX >= 0x030D0000
extern "C" PyAPI_FUNC(int) _Py_HandlePending(PyThreadState* thread);
bool service_breaker(PyThreadState* thread) { return _Py_HandlePending(thread) == 0; }
#else
namespace {

// An empty Python function: its RESUME makes CPython's evaluator service the breaker.
PyObject* empty_function() {
  static PyObject* function = nullptr;
  static bool being_made = false;
  // Compiling it is an audit event, whose hooks are frames that may get here.
  if (function || std::exchange(being_made, true)) return function;
  const Ref globals = unseen_globals();
  // Not by PyRun_String, which resets what CPython knows of an unhandled KeyboardInterrupt.
  const Ref code = globals ? Ref::steal(Py_CompileString("def service_breaker(): pass\n", "<evalframe>", Py_file_input)) : Ref();
  const Ref done = code ? Ref::steal(PyEval_EvalCode(code.get(), globals.get(), globals.get())) : Ref();
  being_made = false;
  if (!done) return nullptr;
  function = Py_XNewRef(PyDict_GetItemString(globals.get(), "service_breaker"));
  return function;
}

// The empty function's own entry is the outermost of the traceback.
void drop_outermost_traceback_entry() {
  Ref error = take_raised();
  const Ref traceback = first_entry(error.get());
  PyTracebackObject* const inner = traceback ? traceback.as<PyTracebackObject>()->tb_next : nullptr;
  PyException_SetTraceback(error.get(), inner ? reinterpret_cast<PyObject*>(inner) : Py_None);
  set_raised(std::move(error));
}

}  // namespace

bool service_breaker(PyThreadState* thread) {
  // Signal handlers are given the current frame, so they run before another frame is entered.
  if (PyErr_CheckSignals() < 0) return false;
  if (!breaker_cell(thread).is_set()) return true;
  PyObject* const function = empty_function();
  if (!function) {
    if (PyErr_Occurred()) return false;
    // Another thread is making it and may be waiting for the interpreter's lock, which this loop would never give up.
    PyEval_RestoreThread(PyEval_SaveThread());
    return true;
  }
  const Ref result = call_unseen(thread, function, nullptr, 0);
  if (!result) drop_outermost_traceback_entry();
  return static_cast<bool>(result);
}
#endif

bool enter_recursion(PyThreadState* thread) {
  int& remaining = layout::recursion_remaining(thread);
  if (c_stack_is_low()) return raise_recursion_error(thread);
  // While a RecursionError is being handled there is headroom of 50 calls, as in CPython.
  if (remaining-- > 0 || (thread->recursion_headroom && remaining >= -50)) return true;
  ++remaining;
  return raise_recursion_error(thread);
}

void leave_recursion(PyThreadState* thread) { ++layout::recursion_remaining(thread); }
bool may_recurse(PyThreadState* thread, int levels) { return layout::recursion_remaining(thread) >= levels; }
void resume_recursion(PyThreadState* thread) { --layout::recursion_remaining(thread); }

}  // namespace evalframe::cpython
