// The border for frames: making, filling, linking, leaving and dropping CPython's interpreter frames.
// Nothing outside cpython/ knows the layout behind `Frame`. A slot of localsplus or of the stack is one PyObject* on
// 3.11-3.13 (tagged from 3.14 on), so it is read and written through Slots only.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/ref.h"
#include "cpython/layout.h"

struct _PyInterpreterFrame;

namespace evalframe::cpython {

using Frame = ::_PyInterpreterFrame;

// localsplus and the value stack of one frame as one array: locals, cells and free variables first, then the stack.
class Slots {
 public:
  explicit Slots(PyObject** base) : base_(base) {}
  PyObject** base() const { return base_; }
  PyObject* get(int index) const { return base_[index]; }                    // borrowed; null where unbound
  void set(int index, Ref value) { Ref old = Ref::steal(base_[index]); base_[index] = value.release(); }  // drops the old value last
  void put(int index, Ref value) { base_[index] = value.release(); }         // into a slot that holds nothing
  Ref take(int index) { PyObject* value = base_[index]; base_[index] = nullptr; return Ref::steal(value); }

 private:
  PyObject** base_;
};
Slots slots(Frame* frame);

inline Borrowed code_of(Frame* frame) { return Borrowed(reinterpret_cast<PyObject**>(frame)[layout::kFrameCode]); }  // being run
Borrowed function_of(Frame* frame);   // its function object
inline Borrowed globals_of(Frame* frame) { return Borrowed(reinterpret_cast<PyObject**>(frame)[layout::kFrameGlobals]); }
inline Borrowed builtins_of(Frame* frame) { return Borrowed(reinterpret_cast<PyObject**>(frame)[layout::kFrameGlobals + 1]); }
bool has_frame_object(Frame* frame);  // someone may hold it: sys._getframe, a traceback
Borrowed locals_dict_of(Frame* frame);  // f_locals of module and class frames, else null
void set_locals_dict(Frame* frame, Ref names);
// The frame, of code that runs in a dict of names, has this one for its globals. False with an exception.
bool set_globals(Frame* frame, Borrowed globals);

// A new frame on the thread's data stack for `function` running its own code: every slot null, not linked. Null with
// MemoryError. The frame holds its own references.
Frame* push_frame(PyThreadState* thread, Borrowed function);
// A generator's frame is finished with it, and its space stays the generator's. Of others:
// drops everything the frame holds and gives its space back; a frame object that others still hold keeps its values
// (as when CPython returns from a frame). The frame must be the newest on the data stack and not linked.
void pop_frame(PyThreadState* thread, Frame* frame);
void clear_generator_frame(PyThreadState* thread, Frame* frame);  // 3.11: of a generator that has ended

// Where the frame is: the canonical instruction that runs now / is next is at code unit `unit`; `depth` counts slots in use (localsplus + stack).
// set_position(f, unit, depth): "next to run is `unit`"; used before a hand-over and for a caller that is suspended in a call.
void set_next(Frame* frame, int unit, int depth);
// While our evaluator runs the frame: instruction at `unit` is being run (line numbers, tracebacks).
void set_running(Frame* frame, int unit);
// set_running for the evaluator's inner loop: one store. Leaves the depth alone.
struct RunningCell {
  char** cell;
  char* code;
  void set(int unit) const { *cell = code + 2 * unit; }
  int unit() const { return static_cast<int>((*cell - code) / 2); }
};
inline RunningCell running_cell(Frame* frame, PyCodeObject* code) {
  return {reinterpret_cast<char**>(frame) + layout::kFramePointer, code->co_code_adaptive};
}
inline RunningCell running_cell(Frame* frame) { return running_cell(frame, code_of(frame).as<PyCodeObject>()); }
inline int next_unit(Frame* frame) { return running_cell(frame).unit() + layout::kPointerToNext; }  // of a frame that CPython gave us
// Slots in use, of a frame that isn't running; -1 while it runs: its stack is then nobody else's to see.
inline int& depth_of(Frame* frame) { return reinterpret_cast<int*>(frame)[2 * layout::kFrameStackTop]; }
inline void set_depth(Frame* frame, int depth) { depth_of(frame) = depth; }
inline PyObject** slot_base(Frame* frame) { return reinterpret_cast<PyObject**>(frame) + layout::kFrameSlots; }
// Puts the frame, the thread's current one, on the traceback of the exception that is set; not before its first RESUME.
void add_traceback_entry(PyThreadState* thread, Frame* frame);
Ref frame_object(PyThreadState* thread);  // of the thread's current frame; null (no exception) without memory for it

// Makes `frame` the thread's current one (what sys._getframe sees), on top of the present one; and takes it off.
class Link {
 public:
  Link() = default;
  Link(PyThreadState* thread, Frame* frame) { link(thread, frame); }
  ~Link() {
    if (thread_) unlink();
  }
  Link(Link&& other) noexcept : thread_(std::exchange(other.thread_, nullptr)), outer_(other.outer_) {}
  Link& operator=(const Link&) = delete;
  // Once.
  void link(PyThreadState* thread, Frame* frame);

 private:
  void unlink();
  PyThreadState* thread_ = nullptr;
  Frame* outer_ = nullptr;
};

// Runs the rest of the frame (set_next was called; not linked) in CPython's evaluator. raise: the exception that is set on
// the thread is thrown at the instruction before next. The result, or null with an exception. Clears the frame as
// CPython's own return does, and gives its space back: the frame is gone afterwards, on every version.
Ref run_in_cpython(PyThreadState* thread, Frame* frame, bool raise);
// The same of a frame that CPython's slot for frame evaluation was given: on 3.11 the slot's caller clears it.
Ref run_in_cpython_in_place(PyThreadState* thread, Frame* frame, bool raise);

// PyObject_Vectorcall for calls of our evaluator. A Python function called by CPython's evaluator takes no C recursion
// budget, so it takes none here; RecursionError where the C stack is low.
PyObject* call(PyThreadState* thread, PyObject* callable, PyObject* const* arguments, size_t nargsf, PyObject* keyword_names);

// True while a tracer, profiler or monitoring tool is active on this thread: frames then belong to CPython's evaluator.
bool is_traced(PyThreadState* thread);
// The same, or a tool that watches only the frame's code object (3.12+).
bool is_traced(PyThreadState* thread, Frame* frame);
// Whether any of these bytes isn't zero, by two reads.
template <size_t kCount>
bool any_set(const unsigned char* bytes) {
  static_assert(kCount >= sizeof(uint64_t) && kCount <= 2 * sizeof(uint64_t));
  uint64_t low, high;
  memcpy(&low, bytes, sizeof low);
  memcpy(&high, bytes + kCount - sizeof high, sizeof high);
  return (low | high) != 0;
}
// What is_traced looks at, for the evaluator's inner loop. 3.11: a flag; later: a byte for each event, zero where no tool wants it.
// As long as the thread's current frame is one that it was asked in.
const unsigned char* trace_cells(PyThreadState* thread);
// False: is_traced is false for a frame that runs `code`; true: it has to be asked. From 3.12 on code has what tools want of it,
// null as long as no one looked at it.
[[gnu::always_inline]] inline bool may_be_traced(const unsigned char* cells, const PyCodeObject* code) {
  if (layout::k311) return *cells != 0;
  const bool by_code = *reinterpret_cast<void* const*>(reinterpret_cast<const char*>(code) + layout::kCodeMonitoring) != nullptr;
  return any_set<15>(cells) | by_code;
}
// Set where signals, pending calls, a thread switch, an async exception or the GC wait to be serviced.
struct BreakerCell {
  static constexpr int32_t kBits = layout::k313 ? 0xFF : -1;  // of the first four bytes, for generated code
  const volatile void* cell;
  bool is_set() const {
    // 3.13: the low byte holds the events (pycore_ceval.h: _PY_EVAL_EVENTS_MASK), the rest the instrumentation version.
    if (layout::k313) return (*static_cast<const volatile uintptr_t*>(cell) & 0xFF) != 0;
    return *static_cast<const volatile int*>(cell) != 0;
  }
};
BreakerCell breaker_cell(PyThreadState* thread);
inline bool breaker_is_set(PyThreadState* thread) { return breaker_cell(thread).is_set(); }
// Services them; false with an exception.
bool service_breaker(PyThreadState* thread);
// Calls on this thread may begin from addresses above this one.
uintptr_t stack_limit();
[[gnu::tls_model("initial-exec")]] extern constinit thread_local uintptr_t known_stack_limit;  // 0 before the first; reached without a call
[[gnu::always_inline]] inline bool c_stack_is_low() {
  const uintptr_t here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return here < known_stack_limit || (!known_stack_limit && here < stack_limit());
}
// Python's recursion limit and the C stack; false with RecursionError. Balanced by leave_recursion.
bool enter_recursion(PyThreadState* thread);
void leave_recursion(PyThreadState* thread);
// Whether there is a level left.
bool may_recurse(PyThreadState* thread, int levels = 1);
// Enters again, where something else counted the call meanwhile: what was there once doesn't fail.
void resume_recursion(PyThreadState* thread);

}  // namespace evalframe::cpython
