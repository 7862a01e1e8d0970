// The way from a frame to a Python callback and back.
#include "runtime/callback_hook.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace evalframe::runtime {

namespace {

using cpython::EntryFrame;
using cpython::FrameHook;

PyCodeObject* code_of(EntryFrame frame) { return reinterpret_cast<PyCodeObject*>(frame.code().get()); }

// Adds to the exception that is set by whom and for which call it was raised.
void add_note(Borrowed callback, EntryFrame frame) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  PyCodeObject* code = code_of(frame);
  const Ref note = Ref::steal(PyUnicode_FromFormat("raised by the frame hook %R, called before %U() (%U:%d)",
                                                   callback.get(), code->co_qualname, code->co_filename,
                                                   code->co_firstlineno));
  const Ref done = note ? Ref::steal(PyObject_CallMethod(value, "add_note", "O", note.get())) : Ref();
  if (!done) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

class CallbackHook final : public FrameHook {
 public:
  explicit CallbackHook(Borrowed callback) : callback_(Ref::borrow(callback)) {}

  Decision on_frame(PyThreadState*, EntryFrame frame, Ref& value) override {
    nb::object info = take_info();
    if (!info.is_valid()) return Decision::kRaised;
    nb::inst_ptr<FrameInfo>(info)->frame = frame;
    Ref answer = Ref::steal(PyObject_CallOneArg(callback_.get(), info.ptr()));
    nb::inst_ptr<FrameInfo>(info)->frame.reset();
    // One that nobody kept serves again.
    if (Py_REFCNT(info.ptr()) == 1) std::swap(spare_, info);
    if (answer) return decide(frame, std::move(answer), value);
    add_note(callback_.get(), frame);
    return Decision::kRaised;
  }

 private:
  nb::object take_info() {
    if (spare_.is_valid()) return std::exchange(spare_, nb::object());
    try {
      return nb::cast(new FrameInfo, nb::rv_policy::take_ownership);
    } catch (nb::python_error& error) {
      error.restore();
      return {};
    }
  }

  Decision decide(EntryFrame frame, Ref answer, Ref& value) {
    if (answer.get() == Py_None) return Decision::kPass;
    if (PyCode_Check(answer.get())) {
      value = std::move(answer);
      return Decision::kRunCode;
    }
    if (const nb::handle object(answer.get()); nb::isinstance<GivenResult>(object)) {
      value = Ref::borrow(nb::inst_ptr<GivenResult>(object)->value.get());
      return Decision::kResult;
    }
    PyCodeObject* code = code_of(frame);
    PyErr_Format(PyExc_TypeError,
                 "the frame hook %R returned %R for %U() (%U:%d); it may return None (the call goes on), a code object to "
                 "run instead, or evalframe.Result(value)",
                 callback_.get(), answer.get(), code->co_qualname, code->co_filename, code->co_firstlineno);
    return Decision::kRaised;
  }

  Ref callback_;
  nb::object spare_;
};

}  // namespace

std::shared_ptr<FrameHook> make_callback_hook(Borrowed callback) { return std::make_shared<CallbackHook>(callback); }

}  // namespace evalframe::runtime
