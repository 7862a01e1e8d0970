// Exceptions that are made again as if they had been raised: their tracebacks, the frames in those, and what they were raised in.
#pragma once

#include "cpython/frame.h"

namespace evalframe::cpython {

// Whether `error.args` and the like are what BaseException keeps, and no slot, property or attribute that a class has under the same name.
bool keeps_as_base(const PyTypeObject* type);
// Whether calling the class, with so many positional arguments, makes an exception of it, and no Python code runs but __init__.
bool makes_exception_plainly(PyTypeObject* type, Py_ssize_t arguments);
// __init__, where it is a function of Python's; else null.
PyObject* exception_initializer(PyTypeObject* type);
// Whether the initializer, of a type in C, only keeps the arguments.
bool keeps_arguments_only(PyObject* initializer);
// An exception of such a class with these arguments; a function of Python's isn't called.
Ref make_exception(PyTypeObject* type, Borrowed arguments);
// A group of exceptions that has nothing yet, not even what it can't be without; and the attributes that nobody else can set.
bool is_class_of_groups(PyTypeObject* type);
Ref make_bare_group(PyTypeObject* type);
void fill_group(PyObject* group, Ref message, Ref exceptions);

// The program gets it, without its traceback, as it gets one of a signal's handler: where the interpreter looks for such the next time.
void raise_soon(Ref exception);

// What the innermost frame handles (a generator's: itself), or null.
Ref own_handled_exception(PyThreadState* thread);
// The exception was raised where `outer` was being handled; it is to be as if `handled` had been. Null: nothing.
void attach_context(Borrowed exception, Borrowed outer, Borrowed handled);

// The frame object of a frame that isn't linked. Null with an exception.
Ref frame_object_of(PyThreadState* thread, Frame* frame);

// The frame object of a frame that has ended was called from this one.
void set_caller(PyFrameObject* frame, Borrowed caller);

// A frame that has ended, but for its frame object, which has its variables.
class EndedFrame {
 public:
  EndedFrame(PyThreadState* thread, Borrowed function, int unit);
  ~EndedFrame();
  EndedFrame(const EndedFrame&) = delete;
  EndedFrame& operator=(const EndedFrame&) = delete;
  Borrowed object() const { return object_.get(); }  // null with an exception
  void put(int slot, Ref value);
  void give_names(Ref names);
  bool give_globals(Borrowed globals);
  // Gives the object; `back` is that of the caller, or null.
  Ref end(Borrowed back);

 private:
  PyThreadState* thread_;
  Frame* frame_;
  Ref object_;
};

}  // namespace evalframe::cpython
