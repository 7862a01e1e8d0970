// Frame hooks for other extension modules: plain C functions over cpython/hook.h.
#include "runtime/hook_api.h"

#include "cpython/hook.h"

// What the C interface calls a frame.
struct evalframe_frame {
  evalframe::cpython::EntryFrame entry;
};

namespace evalframe::runtime {

namespace {

using cpython::EntryFrame;
using cpython::FrameHook;

class NativeHook final : public FrameHook {
 public:
  NativeHook(evalframe_callback callback, void* data, void (*drop)(void*))
      : callback_(callback), data_(data), drop_(drop) {}
  NativeHook(const NativeHook&) = delete;
  NativeHook& operator=(const NativeHook&) = delete;
  ~NativeHook() override {
    if (drop_) drop_(data_);
  }

  Decision on_frame(PyThreadState*, EntryFrame entry, Ref& value) override {
    evalframe_frame frame{entry};
    PyObject* given = nullptr;
    const evalframe_decision decision = callback_(data_, &frame, &given);
    value = Ref::steal(given);
    switch (decision) {
      case EVALFRAME_RUN:
        return Decision::kPass;
      case EVALFRAME_RUN_CODE:
        if (value && PyCode_Check(value.get())) return Decision::kRunCode;
        return complain("EVALFRAME_RUN_CODE without a code object in *value", value);
      case EVALFRAME_RESULT:
        return value ? Decision::kResult : complain("EVALFRAME_RESULT without an object in *value", value);
      case EVALFRAME_RAISED:
        value.reset();
        return PyErr_Occurred() ? Decision::kRaised : complain("EVALFRAME_RAISED without an exception", value);
    }
    return complain("something that is no evalframe_decision", value);
  }

 private:
  static Decision complain(const char* what, Ref& value) {
    PyErr_Format(PyExc_SystemError, "a frame hook returned %s", what);
    value.reset();
    return Decision::kRaised;
  }

  evalframe_callback callback_;
  void* data_;
  void (*drop_)(void*);
};

uint64_t install(evalframe_callback callback, void* data, void (*drop)(void*), int all_threads) {
  return cpython::install_frame_hook(std::make_shared<NativeHook>(callback, data, drop), all_threads != 0);
}

int remove(uint64_t hook) { return cpython::remove_frame_hook(hook); }

PyObject* argument(evalframe_frame* frame, int index) {
  if (index < 0 || index >= frame->entry.argument_count()) return nullptr;
  return frame->entry.argument(index).get();
}

}  // namespace

const evalframe_hook_api& hook_api() {
  static const evalframe_hook_api api = {
      .version = EVALFRAME_HOOK_API_VERSION,
      .install = install,
      .remove = remove,
      .code = [](evalframe_frame* frame) { return frame->entry.code().get(); },
      .function = [](evalframe_frame* frame) { return frame->entry.function().get(); },
      .globals = [](evalframe_frame* frame) { return frame->entry.globals().get(); },
      .builtins = [](evalframe_frame* frame) { return frame->entry.builtins().get(); },
      .argument_count = [](evalframe_frame* frame) { return frame->entry.argument_count(); },
      .argument = argument,
      .locals = [](evalframe_frame* frame) { return frame->entry.locals().release(); },
  };
  return api;
}

}  // namespace evalframe::runtime
