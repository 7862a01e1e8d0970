// Keeps labels beside slots, and turns plans into nodes.
#include "recorder/recorder.h"

#include <algorithm>

#include "core/object_text.h"
#include "cpython/layout.h"
#include "cpython/codec.h"
#include "cpython/generator_functions.h"
#include "cpython/generators.h"
#include "cpython/objects.h"
#include "recorder/policy.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

using evaluator::Activation;
using graph::Form;
using graph::Kind;
using graph::Operand;

namespace {

constexpr int32_t kMaxJumpsOfTorch = 4096;  // all layers of a model, and what goes through their parts


}  // namespace

static bool is_torchs(Borrowed function) { return torch::is_watched() && PyFunction_Check(function.get()) && is_in_torch(function.get()); }

// Appends the handler of a `with` and the one that it is under itself, which raises again what it gets. The next one around them, or null.
static const bytecode::ExceptionRegion* pass_on(const bytecode::Code& code, const bytecode::ExceptionRegion& end_of_with, std::vector<int32_t>& passing) {
  passing.push_back(end_of_with.target);
  const bytecode::ExceptionRegion* const own = code.handler(end_of_with.target);
  if (!own) return nullptr;
  passing.push_back(own->target);
  return code.handler(own->target);
}

// ... of those around the frame's next instruction that managers of torch's have begun, up to the first other handler.
static std::vector<int32_t> ends_of_torch(const Activation& frame) {
  const bytecode::Code& code = frame.code();
  std::vector<int32_t> passing;
  const bytecode::ExceptionRegion* region = torch::is_watched() ? code.handler(frame.next()) : nullptr;
  while (region && code.instructions[static_cast<size_t>(region->target) + 1].op == bytecode::Op::WITH_EXCEPT_START) {
    const int place = locals_count(code) + region->depth - 1;
    PyObject* const exit = place < frame.depth() ? frame.slot(place) : nullptr;
    if (!exit || !PyMethod_Check(exit) || !is_of_torch(Py_TYPE(PyMethod_GET_SELF(exit)))) break;
    region = pass_on(code, *region, passing);
  }
  return passing;
}

Recorder::Recorder(const std::vector<const Activation*>& chain, const guards::Paths& varying, Purpose purpose)
    : recording_(std::make_unique<Recording>()), varying_(varying), purpose_(purpose) {
  if (torch::is_watched()) {
    states_ = torch::present_states();
    kernels_ = torch::present_kernels();
    recording_->records_gradients = torch::records_gradients();
  }
  int32_t base = 0;
  for (size_t k = 0; k < chain.size(); k++) {
    const Activation& frame = *chain[k];
    const int depth = frame.depth();
    const auto graph_frame = static_cast<int32_t>(recording_->graph.frames.size());
    // Its caller is suspended in the call, and goes on behind it.
    const int32_t call = k ? chain[k - 1]->next() - 1 : -1;
    const int32_t generator = cpython::belongs_to_generator(frame.frame()) ? kOuterGenerator : -1;
    const Borrowed function = cpython::original_function(cpython::function_of(frame.frame()));
    recording_->graph.frames.push_back({frame.code().code.get(), graph_frame - 1, call, is_torchs(function), ends_of_torch(frame)});
    recording_->start.push_back({Ref::borrow(function), &frame.code(), base, graph_frame, graph_frame, -1, frame.next(), depth});
    recording_->guards.require_function(function);
    frames_.push_back({&frame.code(), base, graph_frame, graph_frame, base + frame_size(frame.code()), 0, generator});
    // What exec() runs in a dict has another one in each run.
    const bool in_dict = k && !(frame.code().code.as<PyCodeObject>()->co_flags & CO_OPTIMIZED) && cpython::locals_dict_of(frame.frame()).get() == cpython::globals_of(frame.frame()).get();
    if (in_dict) frames_.back().globals = constant(Py_None);
    if (k && chain[k - 1]->keeps_rest()) {
      frames_.back().rest = std::make_shared<Rest>();
      frames_.back().rest->from_outside = true;
    }
    labels_.resize(base + frame_size(frame.code()));
    std::vector<uint32_t> slots(depth);
    for (int i = 0; i < depth; i++) {
      if (!frame.slot(i)) continue;
      guards::Source at{guards::Reach::kSlot};
      at.frame = static_cast<int32_t>(k);
      at.index = i;
      slots[i] = source(std::move(at));
      labels_[base + i] = slots[i];
      watch(frame.slot(i), slots[i]);
      if (tells_of_its_end(frame.slot(i))) telling_.emplace_back(base + i, slots[i]);
    }
    if (k == 0) {
      PyObject* names = frame.code().code.as<PyCodeObject>()->co_localsplusnames;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) recording_->guards.slot_names.emplace_back(utf8(PyTuple_GET_ITEM(names, i)));
    }
    recording_->initial.push_back(std::move(slots));
    base += frame_size(frame.code());
  }
  const Activation& inner = *chain.back();
  if (inner.next() > 0 && inner.code().instructions[inner.next() - 1].op == bytecode::Op::FOR_ITER) {
    turn_ = recording_->guards.path(value_at(inner.depth() - 1).a);
    turn_iterator_ = value_at(inner.depth() - 2).a;
  }
}

// What stores are put off behind runs no code of the program's, which could see that. Numbers of Python's own neither warn nor tell.
void Recorder::guard_stores() {
  using graph::Kind;
  const auto may_tell = [](const graph::Node& node) { return node.meta.kind != Kind::kInt && node.meta.kind != Kind::kFloat && node.meta.kind != Kind::kBool; };
  if (recording_->names.empty() || std::none_of(recording_->graph.nodes.begin(), recording_->graph.nodes.end(), may_tell)) return;
  guards().states.push_back({Ref::borrow(asks_tells_program()), Ref::borrow(Py_False), "no function of the program's is told of warnings and floating-point conditions"});
}

// The classes of this run, and what they have, aren't held.
std::unique_ptr<Recording> Recorder::finish() {
  guard_stores();
  for (const MadeClass& made : recording_->classes) recording_->graph.constants[static_cast<size_t>(value(made.value).a)] = Ref::borrow(Py_None);
  recording_->marks.push_back(mark_);
  return std::move(recording_);
}

void Recorder::stop_in_front(Break why, std::string detail) {
  recording_->graph.nodes.resize(nodes_before_);
  recording_->marks.resize(nodes_before_);
  recording_->returns = false;
  stepped_past_ = true;
  stop(why, std::move(detail));
}

void Recorder::stop(Break why, std::string detail) {
  stopped_ = true;
  recording_->why = why;
  recording_->why_detail = std::move(detail);
}

// Whether it does without the globals that the frame has in this run.
static bool is_plain_in_made_globals(bytecode::Op op, const Plan& plan, bool names_known) {
  using enum bytecode::Op;
  if (!names_known && (op == LOAD_NAME || op == STORE_NAME || op == CALL || op == CALL_KW || op == CALL_FUNCTION_EX)) return false;
  for (const bytecode::Op other : {LOAD_GLOBAL, STORE_GLOBAL, DELETE_GLOBAL, DELETE_NAME, MAKE_FUNCTION, LOAD_BUILD_CLASS}) {
    if (op == other) return false;
  }
  // What warns there leaves a mark in them.
  return plan.kind != Plan::Kind::kNode;
}

bool Recorder::is_under_made_globals() const {
  return std::any_of(frames_.begin(), frames_.end(), [](const Live& frame) { return frame.globals; });
}

void Recorder::keep_locals(uint32_t dict) {
  recording_->needs_frames = true;
  if (dict == frames_.back().locals) return;
  frames_.back().locals = dict;
  recording_->journal.push_back({Change::Kind::kNames, 0, dict});
}

void Recorder::begin(const Activation& frame) {
  built_.clear();
  only_pushed_ = false;
  recording_->bytecodes++;
  if (recording_->graph.nodes.size() != nodes_before_) bytecodes_at_node_ = recording_->bytecodes;
  nodes_before_ = recording_->graph.nodes.size();
  mark_ = {static_cast<uint32_t>(recording_->journal.size()), frame.next(), frame.depth()};
  guards().asked_at = {frames_.back().graph_frame, mark_.instruction};
  if (frame.at_boundary()) whole_mark_ = mark_, nodes_before_whole_ = nodes_before_;
}

// Where `before` had nothing to ask but the rule.
const Plan* Recorder::quick_plan(const Activation& frame) {
  const Rule& present = rule(frame.instruction().op);
  if (!present.moves && !present.operates) return nullptr;
  if (nodes_before_ >= kMaxNodes || held_) return nullptr;
  const Site site{*this, frame, frame.instruction(), mark_.depth};
  // What moves isn't looked into: under which label it is known is asked where it is.
  if (present.moves) return present.moves(site) ? &kMoves : nullptr;
  const bool is_known_once = outers_.empty() && appended_.empty();
  return is_known_once && !bodies_.any() && !globals() && present.operates(site, operation_) ? &operation_ : nullptr;
}

Plan Recorder::before(const Activation& frame) {
  // 3.13: no state is left between the halves of a fused instruction.
  const int32_t index = frame.next();
  const bool boundary = index == 0 || !(frame.code().instructions[index - 1].flags & bytecode::Instruction::kFusedWithNext);
  if (boundary && static_cast<int32_t>(recording_->graph.nodes.size()) >= kMaxNodes) return plan_break(Break::kTooLong);
  const bytecode::Instruction& instruction = frame.instruction();
  const bool back = instruction.target >= 0 && instruction.target <= frame.next();
  if (back && !is_hidden(frames_.size() - 1) && ++back_jumps_ > (purpose_.fixes_numbers ? kMaxJumpsOfTorch : kMaxBackJumps)) return plan_break(Break::kLoop);
  if (!resolve_operands(frame, instruction)) return plan_break(Break::kStore, "a list that may have grown, or a dict that is an object's or module's, too");
  return plan_for({*this, frame, instruction, mark_.depth});
}

// Whether what the plan would do is seen by nobody but the function of a body that runs.
bool Recorder::is_of_body_alone(const Site& site, const Plan& plan) {
  using enum bytecode::Op;
  const bytecode::Op op = site.instruction.op;
  const Bodies::Begin& begin = bodies_.innermost();
  const auto is_outer = [&](uint32_t label) { return label && label < begin.values; };
  if (plan.extended || plan.acts || is_outer(plan.changed) || is_outer(plan.consumed) || is_outer(plan.replayed) || (plan.stored_name && (!plan.stored_owner || is_outer(plan.stored_owner)))) return false;
  if (op == STORE_GLOBAL || op == DELETE_GLOBAL || ((op == STORE_DEREF || op == DELETE_DEREF) && is_outer(label(site.instruction.arg)))) return false;
  if (plan.kind != Plan::Kind::kNode) return true;
  graph::Graph& graph = recording_->graph;
  const size_t operands = graph.operands.size(), constants = graph.constants.size();
  graph::Node node{.form = plan.form, .code = plan.code, .keywords = plan.keywords, .operands = static_cast<uint32_t>(operands), .count = static_cast<uint32_t>(plan.operands.size())};
  node.callable = static_cast<int32_t>(constants), node.keyword_names = static_cast<int32_t>(constants + 1);
  node.meta.kind = Kind::kTensor;
  graph.operands.insert(graph.operands.end(), plan.operands.begin(), plan.operands.end());
  graph.constants.push_back(Ref::borrow(plan.callable ? plan.callable.get() : Py_None));
  graph.constants.push_back(Ref::borrow(plan.keyword_names ? plan.keyword_names.get() : Py_None));
  const bool may_hold = purpose_.bodies && purpose_.bodies->may_hold(graph, node, begin.nodes);
  graph.operands.resize(operands);
  graph.constants.resize(constants);
  return may_hold;
}

// Made where the caller has it: plans are large.
Plan Recorder::plan_for(const Site& site) {
  AsContents operands(site);
  Plan plan = rule(site.instruction.op).before(site);
  operands.finish(plan);
  if (globals() && !is_plain_in_made_globals(site.instruction.op, plan, names())) {
    plan = plan_break(Break::kInstruction, "in a dict of globals");
  } else if (plan.kind == Plan::Kind::kRaise && is_in_class_body()) {
    plan = plan_break(Break::kException, "in a class body");
  } else if (held_ && reads_under_lock(site, plan)) {
    plan = plan_break(Break::kUnknownObject, "what others may change, under a lock");
  } else if (plan.kind != Plan::Kind::kBreak && is_in_body() && !is_of_body_alone(site, plan)) {
    plan = plan_break(Break::kOperator, "one changes what is around it, or draws random numbers" + (plan.callable ? ": " + callable_name(plan.callable.get()) : std::string()));
  }
  return plan;
}

void Recorder::after(const Activation& frame, const Plan& plan, int32_t index, int depth_before) {
  const bytecode::Instruction& instruction = frame.code().instructions[index];
  const Site site{*this, frame, instruction, depth_before};
  const Rule& present = rule(instruction.op);
  const bool is_second_half = index > 0 && (frame.code().instructions[index - 1].flags & bytecode::Instruction::kFusedWithNext);
  only_pushed_ = &plan == &kMoves && frame.depth() > depth_before && !is_second_half;  // what the first half has let go is yet to be looked at
  if (&plan == &kMoves || &plan == &operation_) return present.after ? present.after(site, plan) : relabel_result(site, plan);
  if (plan.changed || plan.consumed || plan.extended || plan.reread || plan.acts || plan.stored_name) apply(plan);
  if (plan.call) append(value(plan.replayed), plan.call), outdate(plan.replayed);
  if (plan.locals) keep_locals(plan.locals);
  for (const Plan::Contents& one : plan.as_contents) exchange_label(one.slot, one.contents);
  present.after ? present.after(site, plan) : relabel_result(site, plan);
  for (const Plan::Contents& one : plan.as_contents) {
    if (label(one.slot) == one.contents && one.slot < frame.depth()) exchange_label(one.slot, one.label);
  }
  watch_results(site);
}

// The usual case: operands are popped, one result is pushed (or none).
void Recorder::relabel_result(const Site& site, const Plan& plan) {
  const int depth = site.frame.depth();
  const bool pushes = !plan.no_result && plan.kind != Plan::Kind::kLabels;
  uint32_t result = 0;
  PyObject* object = pushes ? site.frame.slot(depth - 1) : nullptr;
  int32_t node = -1;
  switch (plan.kind) {
    case Plan::Kind::kNode:
      node = add_node(plan, object ? Borrowed(object) : Borrowed(Py_None));
      if (pushes) result = node_value(node, plan.of_shapes, plan.of_numbers);
      break;
    case Plan::Kind::kConstant: result = constant(object); break;
    case Plan::Kind::kValue: result = plan.label; break;
    case Plan::Kind::kLabels:
    case Plan::Kind::kBreak:
    case Plan::Kind::kRaise:
    case Plan::Kind::kInline:
    case Plan::Kind::kResume: break;
  }
  for (int i = depth; i < site.depth; i++) set_label(i, 0);
  if (pushes) set_label(depth - 1, result);
  if (plan.check_result && node >= 0) check_result(site.frame, node);
}

void Recorder::check_result(const Activation& frame, int32_t node) {
  const Mark here = mark_;
  mark_ = {static_cast<uint32_t>(recording_->journal.size()), frame.next(), frame.depth()};
  const graph::Meta meta = recording_->graph.nodes[node].meta;
  if (meta.kind == Kind::kObject) {
    check_type(Operand::node(node), frame.slot(frame.depth() - 1));
  } else {
    const int32_t check = add_plain_node(Form::kCheckMeta, 0, nullptr, {Operand::node(node)}, Py_None);
    recording_->graph.nodes[check].meta = meta;
    if (is_called_in_turn()) recording_->ways.push_back(meta.kind == Kind::kNumpyScalar);
  }
  mark_ = here;
}

// What a parameter has that wasn't given. The dict of those that are keywords may be stored into.
uint32_t Recorder::default_of(Borrowed function, const PyCodeObject& code, int parameter, PyObject* value) {
  if (parameter < code.co_argcount) return fixed(value);
  Borrowed defaults = function.as<PyFunctionObject>()->func_kwdefaults, name = PyTuple_GET_ITEM(code.co_localsplusnames, parameter);
  if (!defaults) return fixed(value);
  if (guards::is_data(value) && name_varies(defaults, name)) return name_source(defaults, name);
  guards().require_name(defaults, name, value);
  return fixed(value);
}

uint32_t Recorder::value_of_key(const Value& dict, PyObject* name) const {
  if (dict.kind != Value::Kind::kDict) return 0;
  const std::span<const uint32_t> parts = elements(dict);
  for (size_t i = 0; i < parts.size(); i += 2) {
    PyObject* const key = constant_of(parts[i]);
    if (key && PyUnicode_CheckExact(key) && PyUnicode_Compare(key, name) == 0) return parts[i + 1];
  }
  return 0;
}

void Recorder::handler_passes_on(const bytecode::Code& code, int32_t instruction) {
  const bytecode::ExceptionRegion* const region = code.handler(instruction);
  if (region) pass_on(code, *region, recording_->graph.frames[static_cast<size_t>(frames_.back().graph_frame)].passing);
}

void Recorder::pushed(const Activation& caller, const Activation& callee, const Plan& plan,
                      const std::vector<uint32_t>& given, int caller_depth) {
  const Borrowed function = plan.function;
  const Live& outer = frames_.back();
  const int32_t base = next_base();
  const auto graph_frame = static_cast<int32_t>(recording_->graph.frames.size());
  recording_->graph.frames.push_back({callee.code().code.get(), outer.graph_frame, caller.next() - 1, is_torchs(function)});
  if (labels_.size() < static_cast<size_t>(base + frame_size(callee.code()))) labels_.resize(base + frame_size(callee.code()));
  const Value made = value(called_);
  const std::vector<uint32_t> parts = made.kind == Value::Kind::kFunction ? copied_elements(made) : std::vector<uint32_t>{};
  // A function made by the recorded code is another one each time: its frames are made for a stand-in without a closure,
  // which nobody misses behind COPY_FREE_VARS.
  const bool another = !parts.empty() || plan.globals;
  Ref stand_in = !another ? Ref::borrow(function) : Ref::steal(PyFunction_New(callee.code().code.get(), cpython::globals_of(plan.globals ? caller.frame() : callee.frame()).get()));
  recording_->pushes.push_back({std::move(stand_in), &callee.code(), base, graph_frame, graph_frame, -1, caller.next(), caller_depth, plan.names, plan.globals});
  std::vector<uint32_t> labels;
  const auto* code = callee.code().code.as<PyCodeObject>();
  for (size_t i = 0; i < given.size(); i++) {
    PyObject* const object = callee.slot(static_cast<int>(i));
    const bool of_keyword = given[i] == kDefault && static_cast<int>(i) >= code->co_argcount && !parts.empty() && parts[5];
    const uint32_t keyword_default = of_keyword ? value_of_key(value(parts[5]), PyTuple_GET_ITEM(code->co_localsplusnames, i)) : 0;
    if (given[i] != kDefault) {
      labels.push_back(given[i]);
    } else if (object && static_cast<int>(i) < code->co_argcount && !parts.empty() && parts[2] && value(parts[2]).kind == Value::Kind::kTuple) {
      const std::span<const uint32_t> defaults = elements(value(parts[2]));
      labels.push_back(defaults[i + defaults.size() - static_cast<size_t>(code->co_argcount)]);
    } else if (object && keyword_default) {
      labels.push_back(keyword_default);
    } else {
      labels.push_back(object ? default_of(function, *code, static_cast<int>(i), object) : 0);
    }
  }
  for (int i = caller_depth; i < mark_.depth; i++) set_label(i, 0);
  recording_->journal.push_back({Change::Kind::kPush, static_cast<int32_t>(recording_->pushes.size()) - 1, 0});
  frames_.push_back({&callee.code(), base, graph_frame, graph_frame, base + frame_size(callee.code()), parts.empty() ? 0 : parts[3], -1,
                     static_cast<int32_t>(recording_->pushes.size()) - 1, plan.rest});
  frames_.back().names = plan.names;
  frames_.back().globals = plan.globals;
  for (int i = 0; i < locals_count(callee.code()); i++) set_label(i, i < static_cast<int>(labels.size()) ? labels[i] : 0);
  recording_->deepest = std::max(recording_->deepest, static_cast<int>(frames_.size()));
}

void Recorder::returned(const Activation& callee, bool outermost) {
  if (outermost) {
    recording_->returns = true;
    stopped_ = true;
    return;
  }
  if (leaves_generator(callee)) return;
  if (traced_.count(frames_.back().identity)) end_frame(callee);
  if (const int32_t of = frames_.back().generator; of >= 0) generators_[of] = {Ref(), 0, true, false, true};
  const bool gives_result = cpython::layout::kCloseGivesResult && frames_.back().resumes == evaluator::Resumes::kClose;
  if (frames_.back().when_ended && !gives_result) recording_->result = frames_.back().when_ended;
  recording_->journal.push_back({Change::Kind::kPop, 0, 0});
  frames_.pop_back();
}

void Recorder::resumed(const Activation& caller, bool takes_result) {
  const int depth = caller.depth();
  if (std::exchange(concludes_, false)) {
    const int first = depth - static_cast<int>(results_.size());
    set_label(depth, 0);
    for (int i = first; i < depth; i++) set_label(i, results_[i - first] ? results_[i - first] : fixed_result(caller.slot(i)));
    if (const uint32_t iterator = std::exchange(exhausted_, 0)) {
      give(iterator, steps_to_end(iterator));
      drop(iterator);
    }
    return;
  }
  set_label(depth, 0);
  if (!takes_result) return;
  const bool method = caller.code().instructions[caller.next() - 1].op == bytecode::Op::LOAD_METHOD;
  const int slot = method && cpython::layout::kSelfAfterCallable ? depth - 2 : depth - 1;
  if (method) set_label(depth - 1, 0), set_label(depth - 2, 0);
  set_label(slot, recording_->result);
}

uint32_t Recorder::fixed_result(PyObject* object) { return object ? fixed(object) : 0; }

int32_t Recorder::add_plain_node(Form form, uint8_t code, Borrowed name, std::vector<Operand> operands, Borrowed result) {
  Plan plan;
  plan.form = form;
  plan.code = code;
  plan.callable = name;
  plan.operands = std::move(operands);
  return add_node(plan, result);
}

int32_t Recorder::add_node(const Plan& plan, Borrowed result) {
  graph::Graph& graph = recording_->graph;
  auto keep = [&](Borrowed object) {
    graph.constants.push_back(Ref::borrow(object));
    return static_cast<int32_t>(graph.constants.size()) - 1;
  };
  graph::Node node{plan.form};
  node.code = plan.code;
  node.keywords = plan.keywords;
  node.operands = static_cast<uint32_t>(graph.operands.size());
  node.count = static_cast<uint32_t>(plan.operands.size());
  if (plan.callable) node.callable = keep(plan.callable);
  if (plan.keyword_names) node.keyword_names = keep(plan.keyword_names);
  node.origin = {frames_.back().graph_frame, mark_.instruction};
  node.meta = graph::meta_of(result, graph.sizes);
  graph.operands.insert(graph.operands.end(), plan.operands.begin(), plan.operands.end());
  graph.nodes.push_back(node);
  recording_->marks.push_back(mark_);
  return static_cast<int32_t>(graph.nodes.size()) - 1;
}

uint32_t Recorder::node_value(int32_t node, bool of_shapes, bool of_numbers) {
  return add_value({Value::Kind::kNode, of_shapes, node, 0, of_numbers});
}

}  // namespace evalframe::recorder
