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
// 3.11, where who resumed the generator does it: its frame, not linked any more, has yielded or ended (then it's cleared, and a
// StopIteration that it raised becomes a RuntimeError).
void stop_generator(PyThreadState* thread, Frame* frame);

// The iterator that `await value` drives. Null with TypeError.
Ref awaitable_iterator(Borrowed value);
// What a coroutine awaits, null where it isn't suspended in an `await`.
Ref awaited_by(Borrowed coroutine);

}  // namespace evalframe::cpython
