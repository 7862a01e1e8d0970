// The slot of PEP 523, who stands in it, and the way of a frame past the hooks.
#define Py_BUILD_CORE 1
#include "cpython/hook.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>
#include <mutex>
#include <vector>

#include "bytecode/verify.h"
#include "core/object_text.h"
#include "cpython/codec.h"
#include "frame_layout.h"

namespace evalframe::cpython {

namespace {

// --- the hooks --------------------------------------------------------------------------------------------------------

struct Installed {
  HookId id;
  bool takes_all;   // FrameHook::takes_all_frames
  bool resumes;     // FrameHook::takes_resumptions
  uint64_t thread;  // PyThreadState::id, which is never used again; 0: all threads
  std::shared_ptr<FrameHook> hook;
};

// A replacement that was checked, and the last function made to run it.
struct Replacement {
  Ref original, code, function;
};

// All of it is used with the GIL held. Made once and never destroyed: at exit the interpreter goes first.
struct State {
  std::vector<Installed> hooks;  // in the order of installation
  HookId last_id = 0;
  std::map<std::pair<PyObject*, PyObject*>, Replacement> replacements;
  Py_ssize_t extra_index = -1;
};

State& state() {
  static State* const the_state = new State;
  return *the_state;
}

// Read for every frame: reached without a call.
#define EVALFRAME_NEAR [[gnu::tls_model("initial-exec")]]
EVALFRAME_NEAR thread_local int suspended = 0;
EVALFRAME_NEAR thread_local PyObject* let_through = nullptr;  // the code object whose next frame no hook sees

// --- threads that end with hooks installed --------------------------------------------------------------------------

std::atomic<bool> threads_have_ended = false;
std::mutex ended_mutex;
std::vector<uint64_t>& ended_threads() {
  static auto* const threads = new std::vector<uint64_t>;
  return *threads;
}

// Runs at the end of a system thread, without the GIL: it can only leave a note.
struct ThreadEnd {
  std::vector<uint64_t> threads;
  ~ThreadEnd() {
    if (threads.empty()) return;
    const std::lock_guard lock(ended_mutex);
    ended_threads().insert(ended_threads().end(), threads.begin(), threads.end());
    threads_have_ended = true;
  }
};
thread_local ThreadEnd thread_end;

// --- the slot ---------------------------------------------------------------------------------------------------------

// Each level is a function of its own with its own successor. Levels beyond the first are for the case that another user
// of the slot came on top of us: what it calls stays where it is, and a new level goes on top of it.
constexpr int kLevels = 8;
int top = -1;                          // the level whose function is the topmost of ours; -1: none
_PyFrameEvalFunction next_of[kLevels];  // what stood in the slot before

// Another user of the slot stands below: it is to see the frames, so none is evaluated in its place.
bool another_follows(int level) { return level >= 0 && next_of[level] != _PyEval_EvalFrameDefault; }

// The hook that takes all frames of all threads, where there is no other, nor another user of the slot.
FrameHook* sole_taker = nullptr;
// The hook that sees frames, where there is no other, and its thread (0: all).
FrameHook* sole_hook = nullptr;
uint64_t sole_thread = 0;
// Hooks want generators that go on, and no other frames.
bool only_resumptions = false;
void update_taken() {
  const auto& hooks = state().hooks;
  const auto others = std::count_if(hooks.begin(), hooks.end(), [](const Installed& hook) { return !hook.resumes; });
  const auto taker = std::find_if(hooks.begin(), hooks.end(), [](const Installed& hook) { return hook.takes_all && hook.thread == 0; });
  only_resumptions = others == 0 && !hooks.empty();
  const auto sole = std::find_if(hooks.begin(), hooks.end(), [](const Installed& hook) { return !hook.resumes; });
  sole_hook = others == 1 ? sole->hook.get() : nullptr;
  sole_thread = others == 1 ? sole->thread : 0;
  sole_taker = others == 1 && taker != hooks.end() && !another_follows(top) ? taker->hook.get() : nullptr;
}
void set_top(int level) {
  top = level;
  update_taken();
}

PyObject* dispatch(int level, PyThreadState* thread, Frame* frame, int throwing);

template <int level>
PyObject* entry(PyThreadState* thread, Frame* frame, int throwing) {
  return dispatch(level, thread, frame, throwing);
}

constexpr _PyFrameEvalFunction kEntries[kLevels] = {entry<0>, entry<1>, entry<2>, entry<3>,
                                                    entry<4>, entry<5>, entry<6>, entry<7>};

_PyFrameEvalFunction slot() { return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()); }
void set_slot(_PyFrameEvalFunction function) { _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), function); }

// The level whose function is in the slot; -1: none of ours.
int level_in_slot() {
  const auto* found = std::find(std::begin(kEntries), std::end(kEntries), slot());
  return found == std::end(kEntries) ? -1 : static_cast<int>(found - kEntries);
}

// The level that is out of the slot as tools have frames (SlotLent), -1: none; and the frames that do, of all threads.
int lent = -1;
int frames_with_slot_lent = 0;

void lend_slot() {
  if (lent >= 0 || level_in_slot() != top) return;
  lent = top;
  set_slot(next_of[lent]);
}

// Whatever became of the slot meanwhile, the level is free again: while it wasn't in the slot, no one can have kept it.
void end_loan() {
  if (lent < 0) return;
  set_top(std::exchange(lent, -1) - 1);
}

// False where all levels are in use.
bool occupy_slot() {
  end_loan();
  const int level = level_in_slot();
  if (level >= 0) {
    set_top(level);
    return true;
  }
  if (top + 1 == kLevels) return false;
  next_of[top + 1] = slot();
  set_top(top + 1);
  set_slot(kEntries[top]);
  return true;
}

// Gives the slot back. Where another user stands in it, ours stays behind as a pass-through, and goes when it's on top.
void leave_slot() {
  end_loan();
  const int level = level_in_slot();
  if (level < 0) return;
  set_slot(next_of[level]);
  set_top(level - 1);
}

void drop_hooks(std::vector<Installed> dropped) {
  if (dropped.empty()) return;
  update_taken();
  if (!state().hooks.empty()) return;
  leave_slot();
  // Moved out first: dropping references can run any code.
  const auto replacements = std::exchange(state().replacements, {});
}

template <class Condition>
std::vector<Installed> take_hooks(Condition condition) {
  auto& hooks = state().hooks;
  const auto middle = std::stable_partition(hooks.begin(), hooks.end(), [&](const auto& hook) { return !condition(hook); });
  std::vector<Installed> taken(std::make_move_iterator(middle), std::make_move_iterator(hooks.end()));
  hooks.erase(middle, hooks.end());
  return taken;
}

void drop_hooks_of_ended_threads() {
  std::vector<uint64_t> ended;
  {
    const std::lock_guard lock(ended_mutex);
    ended.swap(ended_threads());
    threads_have_ended = false;
  }
  drop_hooks(take_hooks([&](const Installed& hook) {
    return hook.thread != 0 && std::find(ended.begin(), ended.end(), hook.thread) != ended.end();
  }));
}

// --- the C stack ------------------------------------------------------------------------------------------------------

// With any hook each Python call takes C stack, which CPython only counts (3.11: not even that). A quarter of the stack
// stays free for C code that CPython lets recurse by its own count.
char* stack_limit() {
  EVALFRAME_NEAR static thread_local char* limit = nullptr;
  if (limit) return limit;
  pthread_attr_t attributes;
  void* base = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &base, &size);
    pthread_attr_destroy(&attributes);
  }
  limit = static_cast<char*>(base) + std::max<size_t>(size / 4, 1);
  return limit;
}

bool stack_is_used_up() { return static_cast<char*>(__builtin_frame_address(0)) < stack_limit(); }

// The default evaluator unwinds and clears the frame, whatever its state.
PyObject* refuse_for_recursion(PyThreadState* thread, Frame* frame) {
  PyErr_SetString(PyExc_RecursionError,
                  "maximum recursion depth exceeded: the C stack of this thread is used up (with a frame hook installed, "
                  "each Python call takes some of it)");
  return _PyEval_EvalFrameDefault(thread, frame, 1);
}

PyObject* run_next(int level, PyThreadState* thread, Frame* frame, int throwing) {
  if (__builtin_expect(stack_is_used_up(), 0) && !throwing) return refuse_for_recursion(thread, frame);
  // 3.12's budget for C recursion would be used up before the default limit on Python's. The check above stands in for it.
  const layout::KeepCBudget budget(thread);
  return next_of[level](thread, frame, throwing);
}

// --- whose code -------------------------------------------------------------------------------------------------------

#if PY_VERSION_HEX >= 0x030C0000
constexpr auto request_extra_index = PyUnstable_Eval_RequestCodeExtraIndex;
#else
constexpr auto request_extra_index = _PyEval_RequestCodeExtraIndex;
#endif

bool is_evalframe_module(PyObject* globals) {
  PyObject* name = PyDict_GetItemString(globals, "__name__");
  if (!name || !PyUnicode_Check(name)) return false;
  const std::string_view view = utf8(name);
  return view == "evalframe" || view.starts_with("evalframe.");
}

// evalframe's own Python code is seen by no hook. Looked up once for each code object.
bool is_own_code(Frame* frame) {
  if (const bytecode::Code* const decoded = decoded_before(layout::code(frame)); decoded && decoded->notes) return false;
  enum Owner : uintptr_t { kUnknown, kOther, kOwn };
  const Py_ssize_t index = state().extra_index;
  void* const owner = extra_of(layout::code(frame), index);
  if (owner) return owner == reinterpret_cast<void*>(kOwn);
  const bool own = is_evalframe_module(frame->f_globals);
  if (!set_extra(layout::code(frame), index, reinterpret_cast<void*>(own ? kOwn : kOther))) PyErr_Clear();
  return own;
}

// --- the way of a frame -----------------------------------------------------------------------------------------------

// The function to run in place of the frame's, checked and made once for each pair. Null with an exception.
Ref function_for(EntryFrame frame, Borrowed code) {
  constexpr size_t kMostReplacements = 1024;
  auto* function = reinterpret_cast<PyFunctionObject*>(frame.function().get());
  auto* new_code = reinterpret_cast<PyCodeObject*>(code.get());
  auto& known = state().replacements;
  const auto found = known.find({frame.code().get(), code.get()});
  if (found != known.end()) {
    auto* made = found->second.function.as<PyFunctionObject>();
    if (made && serves_as(made, function)) return Ref::borrow(made);
  } else if (const auto problem = bytecode::verify_replacement(frame.code(), code)) {
    PyErr_SetString(PyExc_ValueError, problem->c_str());
    return {};
  }
  Ref made = function_with_code(function, new_code);
  if (!made) return {};
  std::map<std::pair<PyObject*, PyObject*>, Replacement> forgotten;
  if (known.size() >= kMostReplacements) forgotten.swap(known);
  // A closure isn't kept: it would live as long as the hook.
  Ref kept = function->func_closure ? Ref() : Ref::borrow(made.get());
  known.insert_or_assign({frame.code().get(), code.get()},
                         Replacement{Ref::borrow(frame.code()), Ref::borrow(code), std::move(kept)});
  return made;
}

PyObject* run_code(int level, PyThreadState* thread, EntryFrame frame, Ref code) {
  Ref function = function_for(frame, code.get());
  if (!function) {
    finish_frame(thread, frame.frame());
    return nullptr;
  }
  if (swap_code(thread, frame.frame(), function.get())) {
    function.reset();
    code.reset();
    return run_next(level, thread, frame.frame(), 0);
  }
  let_through = code.get();
  Ref result = call_with_arguments(frame, function.get());
  let_through = nullptr;
  finish_frame(thread, frame.frame());
  return result.release();
}

PyObject* carry_out(FrameHook::Decision decision, int level, PyThreadState* thread, EntryFrame frame, Ref value) {
  using enum FrameHook::Decision;
  switch (decision) {
    case kPass:
      return run_next(level, thread, frame.frame(), 0);
    case kRunCode:
      return run_code(level, thread, frame, std::move(value));
    case kResult:
    case kRaised:
      finish_frame(thread, frame.frame());
      return value.release();
    case kTaken:
      return value.release();
  }
  __builtin_unreachable();
}

// The hook of this thread that was installed last before `id`.
const Installed* hook_before(HookId id, uint64_t thread) {
  const auto& hooks = state().hooks;
  const auto found = std::find_if(hooks.rbegin(), hooks.rend(), [&](const Installed& hook) {
    return hook.id < id && (hook.thread == 0 || hook.thread == thread);
  });
  return found == hooks.rend() ? nullptr : &*found;
}

PyObject* consult_hooks(int level, PyThreadState* thread, Frame* frame) {
  Ref value;
  auto decision = FrameHook::Decision::kPass;
  HookId id = ~HookId{0};
  // Hooks come and go while one is called, so each is looked for anew.
  while (decision == FrameHook::Decision::kPass) {
    const Installed* installed = hook_before(id, thread->id);
    if (!installed) break;
    id = installed->id;
    if (installed->resumes || (installed->takes_all && another_follows(level))) continue;
    const std::shared_ptr<FrameHook> hook = installed->hook;
    const HooksSuspended none_sees_the_hook;
    decision = hook->on_frame(thread, EntryFrame(frame), value);
  }
  return carry_out(decision, level, thread, EntryFrame(frame), std::move(value));
}

bool is_let_through(Frame* frame) {
  if (__builtin_expect(let_through == nullptr, 1) || code_of(frame).get() != let_through) return false;
  let_through = nullptr;
  return true;
}

// A generator goes on: only those who take all frames, or such ones, want it.
PyObject* go_on(int level, PyThreadState* thread, Frame* frame, int throwing) {
  const Installed *taker = nullptr, *resumer = nullptr;
  for (HookId id = ~HookId{0}; const Installed* installed = hook_before(id, thread->id); id = installed->id) {
    if (installed->takes_all) taker = installed;
    if (installed->resumes) resumer = installed;
  }
  const bool is_free = (taker || resumer) && !another_follows(level) && !is_own_code(frame) && !stack_is_used_up();
  const std::shared_ptr<FrameHook> all = is_free && taker ? taker->hook : nullptr;
  const std::shared_ptr<FrameHook> some = is_free && resumer ? resumer->hook : nullptr;
  Ref value;
  if (some && some->on_resumption(thread, frame, throwing != 0, value)) return value.release();
  return all ? all->evaluate(thread, frame, throwing != 0) : run_next(level, thread, frame, throwing);
}

// Every frame goes to one hook: without asking who else is there.
PyObject* take(FrameHook* taker, int level, PyThreadState* thread, Frame* frame, int throwing) {
  const bool resumes = frame->owner == FRAME_OWNED_BY_GENERATOR;
  if ((!resumes && (throwing || !is_at_entry(frame))) || is_own_code(frame)) return run_next(level, thread, frame, throwing);
  if (__builtin_expect(stack_is_used_up(), 0)) {
    return resumes ? run_next(level, thread, frame, throwing) : refuse_for_recursion(thread, frame);
  }
  if (resumes || !is_traced(thread, frame)) return taker->evaluate(thread, frame, throwing != 0);
  Ref value;
  const FrameHook::Decision decision = taker->on_frame(thread, EntryFrame(frame), value);
  if (decision != FrameHook::Decision::kPass) return carry_out(decision, level, thread, EntryFrame(frame), std::move(value));
  const SlotLent as_without_hooks(true);
  return run_next(level, thread, frame, 0);
}

// The one hook there is says so of a frame that begins.
bool is_passed_on(int level, PyThreadState* thread, Frame* frame, int throwing) {
  if (!sole_hook || level != top || throwing || suspended || let_through || (sole_thread != 0 && sole_thread != thread->id)) return false;
  return is_at_entry(frame) && sole_hook->passes(EntryFrame(frame));
}

PyObject* dispatch(int level, PyThreadState* thread, Frame* frame, int throwing) {
  if (FrameHook* const taker = sole_taker; taker && level == top && !suspended && !let_through &&
      !threads_have_ended.load(std::memory_order_relaxed)) {
    return take(taker, level, thread, frame, throwing);
  }
  if (is_passed_on(level, thread, frame, throwing)) return run_next(level, thread, frame, 0);
  if (only_resumptions && level == top && frame->owner != FRAME_OWNED_BY_GENERATOR) return run_next(level, thread, frame, throwing);
  if (__builtin_expect(threads_have_ended.load(std::memory_order_relaxed), 0)) drop_hooks_of_ended_threads();
  if (__builtin_expect(level != top && kEntries[level] == slot(), 0)) set_top(level);
  if (__builtin_expect(state().hooks.empty(), 0)) leave_slot();
  if (frame->owner == FRAME_OWNED_BY_GENERATOR && !suspended && level == top) return go_on(level, thread, frame, throwing);
  if (throwing || suspended || level != top || !hook_before(~HookId{0}, thread->id) || !is_at_entry(frame) ||
      is_own_code(frame) || is_let_through(frame)) {
    return run_next(level, thread, frame, throwing);
  }
  if (__builtin_expect(stack_is_used_up(), 0)) return refuse_for_recursion(thread, frame);
  return consult_hooks(level, thread, frame);
}

}  // namespace

SlotLent::SlotLent(bool is_traced) : lent_(is_traced && sole_taker) {
  if (!lent_) return;
  ++frames_with_slot_lent;
  lend_slot();
}
SlotLent::~SlotLent() {
  if (!lent_ || --frames_with_slot_lent > 0 || lent < 0) return;
  occupy_slot();
}

HooksSuspended::HooksSuspended() { suspended++; }
HooksSuspended::~HooksSuspended() { suspended--; }
HooksResumed::HooksResumed() : suspended_(std::exchange(suspended, 0)) {}
HooksResumed::~HooksResumed() { suspended = suspended_; }

HookId install_frame_hook(std::shared_ptr<FrameHook> hook, bool all_threads) {
  PyThreadState* thread = PyThreadState_Get();
  if (thread->interp != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_RuntimeError, "frame hooks work in the main interpreter only, not in a subinterpreter");
    return 0;
  }
  if (state().extra_index < 0) state().extra_index = request_extra_index(nullptr);
  if (state().extra_index < 0) {
    PyErr_SetString(PyExc_RuntimeError, "CPython has no place left for data kept with code objects (co_extra)");
    return 0;
  }
  if (!occupy_slot()) {
    PyErr_SetString(PyExc_RuntimeError,
                    "another user of the frame evaluation hook (PEP 523) has replaced evalframe's too often; remove the "
                    "other one before installing a new hook");
    return 0;
  }
  if (!all_threads) thread_end.threads.push_back(thread->id);
  const bool takes_all = hook->takes_all_frames(), resumes = hook->takes_resumptions();
  state().hooks.push_back({++state().last_id, takes_all, resumes, all_threads ? 0 : thread->id, std::move(hook)});
  update_taken();
  return state().last_id;
}

bool remove_frame_hook(HookId id) {
  std::vector<Installed> taken = take_hooks([&](const Installed& hook) { return hook.id == id; });
  const bool was_installed = !taken.empty();
  drop_hooks(std::move(taken));
  return was_installed;
}

bool is_installed(HookId id) {
  return std::any_of(state().hooks.begin(), state().hooks.end(), [&](const Installed& hook) { return hook.id == id; });
}

bool all_frames_are_taken(PyThreadState* thread) { return sole_taker && top >= 0 && thread->interp->eval_frame == kEntries[top]; }

void remove_all_frame_hooks() {
  drop_hooks(take_hooks([](const Installed&) { return true; }));
}

}  // namespace evalframe::cpython
