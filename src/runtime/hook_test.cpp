// The C interface of the installed header, and the slot of PEP 523 shared with others.
//
// This test binary has a copy of the core of its own, which shares nothing with evalframe._core but the interpreter: to
// _core, reached through its capsule, hooks installed here are another user's.
#include "cpython/hook.h"

#include <string>

#include "core/testing.h"
#include "evalframe/hook.h"
#include "evaluator/counts.h"
#include "evaluator/evaluate_all.h"

namespace evalframe {

namespace {

const evalframe_hook_api& api() {
  const evalframe_hook_api* table = evalframe_import_hook_api();
  EXPECT(table && table->version >= EVALFRAME_HOOK_API_VERSION);
  return *table;
}

_PyFrameEvalFunction slot() { return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()); }
void set_slot(_PyFrameEvalFunction function) { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), function); }

// Functions to call, in a namespace of their own.
class Program {
 public:
  explicit Program(const char* source) : globals_(Ref::steal(PyDict_New())) {
    PyDict_SetItemString(globals_.get(), "__builtins__", PyEval_GetBuiltins());
    EXPECT(Ref::steal(PyRun_String(source, Py_file_input, globals_.get(), globals_.get())));
  }
  Borrowed get(const char* name) const { return PyDict_GetItemString(globals_.get(), name); }
  Ref call(const char* name, long argument) const {
    const Ref number = Ref::steal(PyLong_FromLong(argument));
    return Ref::steal(PyObject_CallOneArg(get(name).get(), number.get()));
  }
  long number(const char* name, long argument) const {
    const Ref result = call(name, argument);
    EXPECT(result);
    return PyLong_AsLong(result.get());
  }
  bool raises(const char* name, PyObject* exception) const {
    if (call(name, 1)) return false;
    const bool matches = PyErr_ExceptionMatches(exception);
    PyErr_Clear();
    return matches;
  }

 private:
  Ref globals_;
};

const char* const kProgram =
    "def add(a):\n"
    "    return a + 1000\n"
    "def other(a):\n"
    "    return a + 2000\n"
    "def both(a):\n"
    "    return add(a) + other(a)\n";

evalframe_decision count(void* data, evalframe_frame*, PyObject**) {
  ++*static_cast<int*>(data);
  return EVALFRAME_RUN;
}

struct Installed {
  uint64_t id;
  Installed(evalframe_callback callback, void* data, void (*drop)(void*) = nullptr)
      : id(api().install(callback, data, drop, 0)) {
    EXPECT(id);
  }
  ~Installed() { api().remove(id); }
};

// Counts calls, as another user of the slot that is our own core's copy.
class CountingHook final : public cpython::FrameHook {
 public:
  explicit CountingHook(int* calls) : calls_(calls) {}
  Decision on_frame(PyThreadState*, cpython::EntryFrame, Ref&) override {
    ++*calls_;
    return Decision::kPass;
  }

 private:
  int* calls_;
};

// Runs the frames of one function itself.
class TakingHook final : public cpython::FrameHook {
 public:
  explicit TakingHook(Borrowed function) : function_(function) {}
  int taken = 0;
  Decision on_frame(PyThreadState* thread, cpython::EntryFrame frame, Ref& value) override {
    if (!(frame.function() == function_)) return Decision::kPass;
    taken++;
    cpython::Frame* own = cpython::adopt_frame(thread, frame.frame());
    if (!own) return Decision::kRaised;
    const auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GetCode(function_.get()));
    cpython::set_next(own, 0, code->co_nlocalsplus);
    value = cpython::run_in_cpython(thread, own, false);
    return Decision::kTaken;
  }

 private:
  Borrowed function_;
};

// Another user of the slot, as one finds them: calls whatever stood there.
int foreign_calls = 0;
_PyFrameEvalFunction foreign_next = nullptr;
PyObject* foreign(PyThreadState* thread, cpython::Frame* frame, int throwing) {
  ++foreign_calls;
  return foreign_next(thread, frame, throwing);
}
void put_foreign_in_slot() {
  foreign_calls = 0;
  foreign_next = slot();
  set_slot(foreign);
}

}  // namespace

TEST(NativeHookSeesCallsAndTheirArguments) {
  struct Seen {
    const Program program{kProgram};
    int calls = 0;
    bool right = true;
  } seen;
  const auto look = [](void* data, evalframe_frame* frame, PyObject**) {
    auto& seen = *static_cast<Seen*>(data);
    seen.calls++;
    const Ref locals = Ref::steal(api().locals(frame));
    PyObject* argument = api().argument(frame, 0);
    seen.right = seen.right && api().function(frame) == seen.program.get("add").get() &&
                 api().code(frame) == PyFunction_GetCode(api().function(frame)) &&
                 api().globals(frame) == PyFunction_GetGlobals(api().function(frame)) &&
                 api().builtins(frame) == PyEval_GetBuiltins() && api().argument_count(frame) == 1 &&
                 PyLong_AsLong(argument) == 5 && PyDict_GetItemString(locals.get(), "a") == argument &&
                 api().argument(frame, 1) == nullptr && api().argument(frame, -1) == nullptr;
    return EVALFRAME_RUN;
  };
  const Installed hook(look, &seen);
  EXPECT(seen.program.number("add", 5) == 1005);
  EXPECT(seen.calls == 1 && seen.right);
}

TEST(NativeHookRunsOtherCodeOrGivesTheResult) {
  struct Plan {
    const Program program{kProgram};
    evalframe_decision decision = EVALFRAME_RUN_CODE;
  } plan;
  const auto decide = [](void* data, evalframe_frame*, PyObject** value) {
    const auto& plan = *static_cast<Plan*>(data);
    PyObject* other = plan.program.get("other").get();
    *value = plan.decision == EVALFRAME_RUN_CODE ? Ref::borrow(PyFunction_GetCode(other)).release() : PyLong_FromLong(7);
    return plan.decision;
  };
  const Installed hook(decide, &plan);
  EXPECT(plan.program.number("add", 1) == 2001);
  plan.decision = EVALFRAME_RESULT;
  EXPECT(plan.program.number("add", 1) == 7);
}

TEST(NativeHookThatAnswersNonsenseRaisesSystemError) {
  const Program program(kProgram);
  for (const int decision : {int{EVALFRAME_RUN_CODE}, int{EVALFRAME_RESULT}, int{EVALFRAME_RAISED}, 17}) {
    int answer = decision;
    const auto decide = [](void* data, evalframe_frame*, PyObject**) {
      return static_cast<evalframe_decision>(*static_cast<int*>(data));
    };
    const Installed hook(decide, &answer);
    EXPECT(program.raises("add", PyExc_SystemError));
  }
  EXPECT(program.number("add", 1) == 1001);
}

TEST(NativeHookRaises) {
  const Program program(kProgram);
  const auto raise = [](void*, evalframe_frame*, PyObject**) {
    PyErr_SetString(PyExc_KeyError, "no");
    return EVALFRAME_RAISED;
  };
  const Installed hook(raise, nullptr);
  EXPECT(program.raises("add", PyExc_KeyError));
}

TEST(NativeHookDropsItsDataWhenRemoved) {
  int dropped = 0;
  const uint64_t hook = api().install(count, &dropped, [](void* data) { *static_cast<int*>(data) = 100; }, 0);
  EXPECT(hook && dropped == 0);
  EXPECT(api().remove(hook) == 1 && dropped == 100);
  EXPECT(api().remove(hook) == 0);
}

TEST(HookTakesAFrameOver) {
  const Program program(kProgram);
  const auto hook = std::make_shared<TakingHook>(program.get("add"));
  const cpython::HookId id = cpython::install_frame_hook(hook);
  EXPECT(id);
  for (int i = 0; i < 1000; i++) EXPECT(program.number("both", i) == 2 * i + 3000);
  const Ref text = Ref::steal(PyUnicode_FromString("no number"));
  EXPECT(!Ref::steal(PyObject_CallOneArg(program.get("both").get(), text.get())));
  EXPECT(PyErr_ExceptionMatches(PyExc_TypeError));
  PyErr_Clear();
  EXPECT(hook->taken == 1001 && cpython::remove_frame_hook(id));
}

TEST(SlotIsGivenBackWithTheLastHook) {
  const auto before = slot();
  int calls = 0;
  {
    const Installed first(count, &calls);
    EXPECT(slot() != before);
    { const Installed second(count, &calls); }
    EXPECT(slot() != before);
  }
  EXPECT(slot() == before);
}

TEST(HookCallsWhateverStoodInTheSlot) {
  const Program program(kProgram);
  put_foreign_in_slot();
  int calls = 0;
  {
    const Installed hook(count, &calls);
    EXPECT(program.number("both", 1) == 3002);
  }
  EXPECT(slot() == foreign);
  set_slot(foreign_next);
  EXPECT(calls == 3 && foreign_calls == 3);
}

TEST(HookRemovedUnderAnotherUserPassesThroughAndGoesLater) {
  const Program program(kProgram);
  const auto before = slot();
  int calls = 0;
  {
    const Installed hook(count, &calls);
    put_foreign_in_slot();
    EXPECT(program.number("both", 1) == 3002);
    EXPECT(calls == 3 && foreign_calls == 3);
  }
  EXPECT(slot() == foreign);
  EXPECT(program.number("both", 1) == 3002);
  EXPECT(calls == 3 && foreign_calls == 6);
  set_slot(foreign_next);  // the other user leaves: what it found was ours, which has nothing to do any more
  EXPECT(slot() != before);
  EXPECT(program.number("both", 1) == 3002);
  EXPECT(slot() == before && calls == 3);
}

TEST(HookInstalledOverAnotherUserOverAHookSeesEachCallOnce) {
  const Program program(kProgram);
  const auto before = slot();
  int first_calls = 0, second_calls = 0;
  {
    const Installed first(count, &first_calls);
    put_foreign_in_slot();
    {
      const Installed second(count, &second_calls);
      EXPECT(program.number("both", 1) == 3002);
      EXPECT(first_calls == 3 && second_calls == 3 && foreign_calls == 3);
    }
    EXPECT(program.number("both", 1) == 3002);
    EXPECT(first_calls == 6 && second_calls == 3 && foreign_calls == 6);
    set_slot(foreign_next);
    EXPECT(program.number("both", 1) == 3002);
    EXPECT(first_calls == 9 && second_calls == 3 && foreign_calls == 6);
  }
  EXPECT(slot() == before);
}

TEST(TwoCoresShareTheSlotInEitherOrder) {
  const Program program(kProgram);
  const auto before = slot();
  for (const bool ours_first : {true, false}) {
    int calls = 0, foreign_core_calls = 0;
    const auto foreign_hook = std::make_shared<CountingHook>(&foreign_core_calls);
    cpython::HookId foreign_id = ours_first ? 0 : cpython::install_frame_hook(foreign_hook);
    const uint64_t id = api().install(count, &calls, nullptr, 0);
    if (ours_first) foreign_id = cpython::install_frame_hook(foreign_hook);
    EXPECT(program.number("both", 1) == 3002);
    EXPECT(calls == 3 && foreign_core_calls == 3);
    EXPECT(api().remove(id));
    EXPECT(program.number("both", 1) == 3002);
    EXPECT(calls == 3 && foreign_core_calls == 6);
    EXPECT(cpython::remove_frame_hook(foreign_id));
    EXPECT(program.number("both", 1) == 3002);
    EXPECT(calls == 3 && foreign_core_calls == 6);
    EXPECT(slot() == before);
  }
}

TEST(LentSlotIsTakenBack) {
  if (cpython::layout::k311) return;  // nothing is lent
  const Program program(kProgram);
  const auto before = slot();
  EXPECT(evaluator::evaluate_all_frames());
  const auto ours = slot();
  const uint64_t evaluated = evaluator::counts.evaluated;
  {
    const cpython::SlotLent lent(true);
    EXPECT(slot() == before);
    {
      const cpython::SlotLent again(true);
    }
    EXPECT(slot() == before && program.number("both", 1) == 3002);
  }
  EXPECT(slot() == ours && evaluator::counts.evaluated == evaluated);
  EXPECT(program.number("both", 1) == 3002 && evaluator::counts.evaluated == evaluated + 3);
  {
    const cpython::SlotLent lent(true);
    evaluator::stop_evaluating_all_frames();
  }
  EXPECT(slot() == before);
}

TEST(LentSlotIsTakenBackFromOneWhoCameMeanwhile) {
  if (cpython::layout::k311) return;
  const Program program(kProgram);
  const auto before = slot();
  EXPECT(evaluator::evaluate_all_frames());
  const uint64_t evaluated = evaluator::counts.evaluated;
  {
    const cpython::SlotLent lent(true);
    put_foreign_in_slot();
    EXPECT(program.number("both", 1) == 3002 && foreign_calls == 3);
  }
  // Ours is on top again, and leaves the frames to the one below.
  EXPECT(slot() != foreign && program.number("both", 1) == 3002);
  EXPECT(foreign_calls == 6 && evaluator::counts.evaluated == evaluated);
  evaluator::stop_evaluating_all_frames();
  EXPECT(slot() == foreign);
  set_slot(foreign_next);
  EXPECT(slot() == before);
}

TEST(FramesAreLeftToAnotherUserOfTheSlot) {
  const Program program(kProgram);
  put_foreign_in_slot();
  EXPECT(evaluator::evaluate_all_frames());
  const uint64_t evaluated = evaluator::counts.evaluated;
  EXPECT(program.number("both", 1) == 3002);
  EXPECT(foreign_calls == 3 && evaluator::counts.evaluated == evaluated);
  evaluator::stop_evaluating_all_frames();
  EXPECT(slot() == foreign);
  set_slot(foreign_next);
}

}  // namespace evalframe
