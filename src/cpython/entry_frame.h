// A frame at its entry, as the hook meets it: its arguments are filled, nothing of it has run, it isn't linked.
#pragma once

#include "cpython/frame.h"

namespace evalframe::cpython {

// Reads the frame. Valid as long as the frame is at its entry.
class EntryFrame {
 public:
  explicit EntryFrame(Frame* frame) : frame_(frame) {}
  Frame* frame() const { return frame_; }
  Borrowed code() const;
  Borrowed function() const;
  Borrowed globals() const;
  Borrowed builtins() const;
  Borrowed locals_dict() const;   // of module and class frames, else null
  int argument_count() const;     // *args and **kwargs count one each
  Borrowed argument(int index) const;
  // {name: value} of the arguments, new; of module and class frames their namespace itself. Null with an exception.
  Ref locals() const;

 private:
  Frame* frame_;
};

// False for generators that go on, and for frames that were begun elsewhere.
bool is_at_entry(Frame* frame);

// A frame at its entry that isn't going to run: drops what it holds and gives its space back. What 3.12 and later
// expect of whoever evaluates a frame; on 3.11 its caller clears it, and nothing is done here.
void finish_frame(PyThreadState* thread, Frame* frame);

// Gives a frame at its entry to one who runs and drops it as a frame made by push_frame. On 3.12 and later this is the
// frame itself. On 3.11, where the caller clears what it has pushed, its contents move into a frame of our own and the
// empty one stays for the caller. Null with MemoryError; the frame is then as it was.
Frame* adopt_frame(PyThreadState* thread, Frame* frame);

// A function that is `function` but for its code. Null with an exception.
Ref function_with_code(PyFunctionObject* function, PyCodeObject* code);
bool serves_as(PyFunctionObject* candidate, PyFunctionObject* function);

// The frame is another function's from here on, which has its code, globals and builtins.
void set_function(Frame* frame, Ref function);

// Makes the frame run function's code, in place. False where the data stack has no room for it here: then nothing is
// changed, and call_with_arguments does it.
bool swap_code(PyThreadState* thread, Frame* frame, Borrowed function);
// Calls function with the frame's arguments as its caller bound them. The frame stays as it is.
Ref call_with_arguments(EntryFrame frame, Borrowed function);

}  // namespace evalframe::cpython
