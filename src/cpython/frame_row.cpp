// Makes the image of frames, and puts it where CPython's frames are.
#define Py_BUILD_CORE 1
#include "cpython/frame_row.h"

#include <algorithm>
#include <ranges>

#include "frame_layout.h"

namespace evalframe::cpython {

namespace {

Frame* at(PyObject** space) { return reinterpret_cast<Frame*>(space); }

}  // namespace

bool FrameRow::add(Borrowed function, int unit) {
  auto* const callee = function.as<PyFunctionObject>();
  auto* const code = reinterpret_cast<PyCodeObject*>(callee->func_code);
  if (!(code->co_flags & CO_OPTIMIZED)) return false;  // it has a dict of names
  const size_t begin = image_.size();
  image_.resize(begin + layout::frame_size(code));
  Frame* const frame = at(&image_[begin]);
  layout::initialize(frame, reinterpret_cast<PyFunctionObject*>(Py_NewRef(function.get())));
  set_running(frame, unit);
  // The image owns nothing.
  const Ref its_function = Ref::steal(reinterpret_cast<PyObject*>(layout::function(frame))), its_code = Ref::steal(reinterpret_cast<PyObject*>(layout::code(frame)));
  frames_.push_back({function, Borrowed(code), begin, begin + layout::kFrameSlots + static_cast<size_t>(code->co_nlocalsplus)});
  return true;
}

Frame* FrameRow::push(PyThreadState* thread) const {
  const auto keeps_code = [](const One& one) { return one.function.as<PyFunctionObject>()->func_code == one.code.get(); };
  PyObject** const space = thread->datastack_top;
  const bool fits = space && image_.size() < static_cast<size_t>(thread->datastack_limit - space);
  if (!fits || !std::ranges::all_of(frames_, keeps_code)) return nullptr;
  thread->datastack_top = space + image_.size();
  for (const One& one : frames_) {
    std::copy(image_.data() + one.begin, image_.data() + one.end, space + one.begin);
    Py_INCREF(one.function.get());
    Py_INCREF(one.code.get());
    layout::link(thread, at(space + one.begin));
  }
  return at(space);
}

void FrameRow::pop(PyThreadState* thread, Frame* outermost) const {
  auto** const space = reinterpret_cast<PyObject**>(outermost);
  for (const One& one : std::views::reverse(frames_)) {
    Frame* const frame = at(space + one.begin);
    layout::current(thread) = frame->previous;
    if (frame->frame_obj) {
      set_depth(frame, one.code.as<PyCodeObject>()->co_nlocalsplus);
      pop_frame(thread, frame);
      continue;
    }
    thread->datastack_top = space + one.begin;
    Py_DECREF(one.function.get());
    Py_DECREF(one.code.get());
  }
}

}  // namespace evalframe::cpython
