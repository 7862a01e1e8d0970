// Frames that call one another, put onto the data stack at once: as an image of how they lie there.
#pragma once

#include <vector>

#include "cpython/frame.h"

namespace evalframe::cpython {

// Frames without values in their slots, each running an instruction, outermost first. Functions are borrowed, and keep their code.
class FrameRow {
 public:
  // False: no image can be made of such a frame.
  bool add(Borrowed function, int unit);
  // Puts them there and makes the last one the thread's current one. The outermost; null: nothing is done, as there is no room, or a function has other code.
  Frame* push(PyThreadState* thread) const;
  // What was pushed last. Frame objects that others hold live on, as when a frame returns.
  void pop(PyThreadState* thread, Frame* outermost) const;

 private:
  struct One {
    Borrowed function, code;
    size_t begin, end;  // in the image, in pointers; behind the end is its stack, which nobody reads while it runs
  };
  std::vector<One> frames_;
  std::vector<PyObject*> image_;
};

}  // namespace evalframe::cpython
