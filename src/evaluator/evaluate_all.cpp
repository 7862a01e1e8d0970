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
    if (cpython::is_traced(thread, entry.frame())) {
      ++counts.traced;
      return Decision::kPass;
    }
    const cpython::HooksResumed resumed;
    value = Ref::steal(evaluate_in_place(thread, entry.frame(), false));
    return Decision::kTaken;
  }

  bool takes_all_frames() const override { return true; }

  PyObject* evaluate(PyThreadState* thread, cpython::Frame* frame, bool throwing) override {
    return evaluate_in_place(thread, frame, throwing);
  }
};

}  // namespace

bool evaluate_all_frames() {
  if (evaluates_all_frames()) return true;
  static const auto* const hook = new std::shared_ptr<EvaluateAll>(std::make_shared<EvaluateAll>());
  installed = cpython::install_frame_hook(*hook, true);
  return installed != 0;
}

void stop_evaluating_all_frames() { cpython::remove_frame_hook(std::exchange(installed, 0)); }

bool evaluates_all_frames() { return installed != 0 && cpython::is_installed(installed); }

}  // namespace evalframe::evaluator
