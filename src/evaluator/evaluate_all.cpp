// The hook that runs every frame in our evaluator.
#include "evaluator/evaluate_all.h"

#include "cpython/hook.h"
#include "evaluator/activation.h"
#include "evaluator/counts.h"

namespace evalframe::evaluator {

namespace {

cpython::HookId installed = 0;

class EvaluateAll final : public cpython::FrameHook {
 public:
  Decision on_frame(PyThreadState* thread, cpython::EntryFrame entry, Ref& value) override {
    // CPython makes the generator out of its own frame.
    constexpr int kMakesGenerator = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    if (reinterpret_cast<PyCodeObject*>(entry.code().get())->co_flags & kMakesGenerator) return Decision::kPass;
    if (cpython::is_traced(thread, entry.frame())) {
      ++counts.traced;
      return Decision::kPass;
    }
    const cpython::HooksResumed resumed;
    cpython::Frame* const frame = cpython::adopt_frame(thread, entry.frame());
    if (!frame) return Decision::kRaised;
    value = evaluate(thread, frame);
    return Decision::kTaken;
  }

  bool takes_all_frames() const override { return true; }

  PyObject* on_resume(PyThreadState* thread, cpython::Frame* frame, bool throwing) override {
    return evaluate(thread, frame, throwing).release();
  }
};

}  // namespace

bool evaluate_all_frames() {
  if (evaluates_all_frames()) return true;
  installed = cpython::install_frame_hook(std::make_shared<EvaluateAll>(), true);
  return installed != 0;
}

void stop_evaluating_all_frames() { cpython::remove_frame_hook(std::exchange(installed, 0)); }

bool evaluates_all_frames() { return installed != 0 && cpython::is_installed(installed); }

}  // namespace evalframe::evaluator
