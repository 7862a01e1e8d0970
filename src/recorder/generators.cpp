// What the recorder knows of generators: their frames, which come and go, and what is left of those that are let go.
#include "cpython/generators.h"

#include "cpython/intrinsics.h"
#include "recorder/recorder.h"

namespace evalframe::recorder {

using evaluator::Activation, evaluator::Resumes;

uint32_t Recorder::generator(const Activation& frame) {
  const Live& live = frames_.back();
  const auto index = static_cast<int32_t>(recording_->generators.size());
  const uint32_t made = add_value({Value::Kind::kGenerator, false, index});
  recording_->generators.push_back({Ref::borrow(recording_->pushes[live.push].function.get()), &frame.code(), made, live.base, live.identity});
  generators_.push_back({});
  return made;
}

void Recorder::made_generator(PyObject* object) {
  if (!PyCoro_CheckExact(object)) return;
  Ref& weak = generators_[value(recording_->result).a].weak;
  weak = Ref::steal(PyWeakref_NewRef(object, nullptr));
  if (!weak) PyErr_Clear();
}

// Behind RETURN_GENERATOR: the frame's slots stay where they are.
bool Recorder::leaves_generator(const Activation& callee) {
  const bytecode::Instruction& last = callee.code().instructions[mark_.instruction];
  if (last.op != bytecode::Op::RETURN_GENERATOR) return false;
  const int32_t index = value(recording_->result).a;
  kept_slots_ = std::max(kept_slots_, frames_.back().end);
  recording_->suspensions.push_back({false, false, mark_.instruction + 1, mark_.depth});
  recording_->journal.push_back({Change::Kind::kSuspend, index, static_cast<uint32_t>(recording_->suspensions.size()) - 1});
  frames_.pop_back();
  return true;
}

void Recorder::went_on(const Activation& caller, const Activation& callee, const Plan& plan, int caller_depth) {
  const bool let_go = plan.resumes == Resumes::kLetGo;  // the caller is behind an instruction
  for (int i = caller_depth; !let_go && i < mark_.depth; i++) set_label(i, 0);
  const int32_t index = value(plan.label).a;
  const Generator& generator = recording_->generators[index];
  generators_[index].begun = true;
  generators_[index].waits = false;
  generators_[index].weak.reset();
  const Live& outer = frames_.back();
  const auto graph_frame = static_cast<int32_t>(recording_->graph.frames.size());
  recording_->graph.frames.push_back({callee.code().code.get(), outer.graph_frame, let_go ? caller.next() - 1 : mark_.instruction});
  recording_->pushes.push_back({Ref::borrow(generator.function.get()), generator.code, generator.base, graph_frame, generator.identity, index, caller.next(), caller_depth});
  const auto push = static_cast<int32_t>(recording_->pushes.size()) - 1;
  recording_->journal.push_back({Change::Kind::kPush, push, 0});
  const uint32_t when_ended = plan.resumes == Resumes::kDefault ? plan.contents[1] : plan.resumes == Resumes::kClose ? constant(Py_None) : 0;
  frames_.push_back({generator.code, generator.base, graph_frame, generator.identity, outer.end, 0, index, push, nullptr, plan.resumes, when_ended});
  set_label(callee.depth() - 1, plan.contents[0]);
  passed_down_ = plan.passed_down;
  passed_down_object_ = plan.passed_down ? Ref::borrow(plan.held.back().get()) : Ref();
}

uint32_t Recorder::awaited_by(const Value& generator) const {
  const Generating& of = generators_[generator.a];
  if (!of.waits || !of.delegates) return 0;
  const uint32_t awaited = labels_[recording_->generators[generator.a].base + of.depth - 1];
  return value(awaited).kind == Value::Kind::kGenerator ? awaited : 0;
}

// All of them go on, or none does: nothing may end the recording in between. One that handles an exception makes it the context of what
// reaches it from a throw() passed down, which nothing else does on an exception's way.
bool Recorder::may_pass_down(const Value& generator) const {
  Value of = generator;
  int levels = 1;
  for (; delegates(of); levels++) {
    const uint32_t awaited = awaited_by(of);
    if (!awaited || !waits(value(awaited)) || generators_[of.a].handled) return false;
    of = value(awaited);
  }
  return has_begun(of) && static_cast<int>(frames_.size()) + levels < kMaxInlineDepth && cpython::may_recurse(PyThreadState_Get(), levels + 1);
}

void Recorder::pass_down(Plan& resumption) {
  if (!passed_down_) return;
  resumption.held.push_back(Ref::borrow(passed_down_object_.get()));
  if (delegates(value(resumption.label))) {
    resumption.passed_down = passed_down_;
  } else {
    resumption.thrown = passed_down_;
    resumption.arguments[1] = passed_down_object_.get();
  }
}

bool Recorder::thrown(const Plan& plan, PyObject* exception) {
  raised_ = plan.thrown;
  if (recording_->graph.constants[recording_->values[raised_].b].get() != reinterpret_cast<PyObject*>(Py_TYPE(exception))) return false;
  if (generators_[frames_.back().generator].handled && !set_context(raised_, exception)) return false;
  return note_traceback(exception);
}

bool Recorder::stopped_iteration(PyObject* exception) {
  const bool none = reinterpret_cast<PyStopIterationObject*>(exception)->value == Py_None;
  raised_ = this->exception(PyExc_StopIteration, container(Value::Kind::kTuple, none ? std::vector<uint32_t>{} : std::vector<uint32_t>{recording_->result}));
  return Py_IS_TYPE(exception, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)) && set_context(raised_, exception) && note_traceback(exception);
}

// The end of an `except`, which only forgets what was handled.
static bool forgets_exception(const bytecode::Instruction* handler) {
  using enum bytecode::Op;
  return handler[0].op == COPY && handler[1].op == POP_EXCEPT && handler[2].op == RERAISE;
}

// Whether a generator that is let go there has more to do than to release what it holds.
bool Recorder::waits_in_cleanup(const bytecode::Code& code, int32_t instruction) const {
  while (const bytecode::ExceptionRegion* const region = code.handler(instruction)) {
    const bytecode::Instruction& handler = code.instructions[region->target];
    if (handler.op == bytecode::Op::CALL_INTRINSIC_1 && handler.arg == cpython::kStopIterationError) return false;
    const bool forgets = forgets_exception(&handler);
    if (handler.op != bytecode::Op::CLEANUP_THROW && !forgets) return true;
    instruction = region->target + (forgets ? 2 : 0);
  }
  return false;
}

std::vector<Unfinished> Recorder::unfinished() const {
  std::vector<Unfinished> found;
  for (size_t i = 0; i < generators_.size(); i++) {
    PyObject* const object = generators_[i].waits && generators_[i].weak ? generators_[i].weak.as<PyWeakReference>()->wr_object : Py_None;
    if (object != Py_None) found.push_back({recording_->generators[i].value, Ref::borrow(object)});
  }
  return found;
}

void Recorder::yielded(const Activation& callee) {
  const int32_t index = frames_.back().generator;
  Generating& generator = generators_[index];
  generator.waits = true;
  generator.delegates = (callee.instruction().arg & 3) >= 2;  // of RESUME
  generator.depth = callee.depth();
  const bool cleans_up = waits_in_cleanup(callee.code(), mark_.instruction);
  generator.weak = cleans_up ? Ref::steal(PyWeakref_NewRef(cpython::generator_of(callee.frame()).get(), nullptr)) : Ref();
  if (cleans_up && !generator.weak) PyErr_Clear();
  set_label(callee.depth(), 0);
  recording_->suspensions.push_back({true, callee.delegates(), callee.next(), callee.depth()});
  recording_->journal.push_back({Change::Kind::kSuspend, index, static_cast<uint32_t>(recording_->suspensions.size()) - 1});
  frames_.pop_back();
}

bool Recorder::leaves_unfinished() const {
  return std::any_of(generators_.begin(), generators_.end(), [](const Generating& generator) { return generator.waits && generator.weak; });
}

bool Recorder::has_let_go() {
  const auto is_gone = [](const Generating& generator) { return generator.waits && generator.weak && generator.weak.as<PyWeakReference>()->wr_object == Py_None; };
  if (std::none_of(generators_.begin(), generators_.end(), is_gone)) return false;
  stop_in_front(Break::kIterator, "a generator that is let go in a try or with");
  return true;
}

}  // namespace evalframe::recorder
