// The border for frames that belong to a generator, coroutine or asynchronous generator: they go on and stop many times.
#pragma once

#include "cpython/frame.h"

namespace evalframe::cpython {

inline bool belongs_to_generator(Frame* frame) { return reinterpret_cast<const char*>(frame)[layout::kFrameOwner] == layout::kOwnedByGenerator; }

// The generator, coroutine or asynchronous generator that has what the frame has, and goes on where the frame's position says
// (set_next). The frame is left empty, to be dropped. Null with an exception.
Ref make_generator(PyThreadState* thread, Frame* frame);

// The frame, not linked any more, has yielded and waits to be resumed. delegates: at a `yield from` or `await`.
void suspend_generator(PyThreadState* thread, Frame* frame, bool delegates);
bool is_suspended(Borrowed generator);
// Lets a generator that waits go on: its frame, to be linked. `sent`: what it is given, null where nothing is.
Frame* resume_generator(PyThreadState* thread, Borrowed generator, Ref sent);
// Behind that: the frame, not linked any more, has yielded, or is finished with.
void leave_suspended_frame(PyThreadState* thread, Frame* frame, bool delegates);
void leave_finished_frame(PyThreadState* thread, Frame* frame);
// Runs the rest of such a frame in CPython's evaluator, up to where it yields or ends, and leaves it so.
Ref run_generator_in_cpython(PyThreadState* thread, Frame* frame, bool raise, bool& yielded);

// A generator or coroutine of the function that hasn't begun, and has nothing in its slots. Null with an exception.
Ref bare_generator(PyThreadState* thread, Borrowed function);
Frame* frame_of(Borrowed generator);
Borrowed generator_of(Frame* frame);
// It waits at this code unit with so many slots in use, having been filled; it handles the exception (or null).
void suspend_bare_generator(Borrowed generator, int unit, int depth, bool delegates);
void set_generator_handled(Borrowed generator, Ref exception);
// Of one that waits. Null with an exception.
Ref frame_object_of_generator(Borrowed generator);
// One that was never begun is over.
bool end_bare_generator(Borrowed generator);
// 3.11, where who resumed the generator does it: its frame, not linked any more, has yielded or ended (then it's cleared, and a
// StopIteration that it raised becomes a RuntimeError).
void stop_generator(PyThreadState* thread, Frame* frame);

// The iterator that `await value` drives. Null with TypeError.
Ref awaitable_iterator(Borrowed value);
// A generator has ended with this result: sets StopIteration.
void set_stop_iteration(Ref result);
// Sets the exception, to be raised in the generator, which has been resumed.
void set_thrown(Borrowed generator, Ref exception);

// What it waits for, null where it isn't suspended in an `await` or `yield from`.
Ref awaited_by(Borrowed generator);
// The generator is closed, and what it waited for has raised this instead of ending. Null with an exception.
Ref close_with(PyThreadState* thread, Borrowed generator, Ref exception);

}  // namespace evalframe::cpython
