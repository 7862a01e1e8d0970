// Keeps labels beside slots, and turns plans into nodes.
#include "recorder/recorder.h"

#include <algorithm>

#include "core/builtins.h"
#include "bytecode/stack.h"
#include "core/object_text.h"
#include "cpython/layout.h"
#include "core/check.h"
#include "cpython/codec.h"
#include "cpython/generator_functions.h"
#include "cpython/generators.h"
#include "cpython/iterators.h"
#include "cpython/objects.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

using evaluator::Activation;
using graph::Form;
using graph::Kind;
using graph::Operand;

namespace {

int locals_count(const bytecode::Code& code) { return code.code.as<PyCodeObject>()->co_nlocalsplus; }
int frame_size(const bytecode::Code& code) { return locals_count(code) + code.code.as<PyCodeObject>()->co_stacksize + 1; }

// Types that are written in C, and NumPy's element types: there is one object of each.
bool is_singular(PyObject* object) {
  if (PyType_Check(object)) return Py_TYPE(object) == &PyType_Type && !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(object), Py_TPFLAGS_HEAPTYPE);
  return numpy::is_plain_dtype(object);
}

bool is_python_number(PyObject* object) {
  return PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyComplex_CheckExact(object);
}

}  // namespace

bool has_immutable_elements(PyObject* set) {
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &element, &hash);) {
    if (!is_immutable(element)) return false;
  }
  return true;
}

bool is_immutable(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type || object == Py_None) return true;
  if (is_singular(object)) return true;
  if (type == &PyFrozenSet_Type) return has_immutable_elements(object);
  if (type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
      if (!is_immutable(PyTuple_GET_ITEM(object, i))) return false;
    }
    return true;
  }
  return type == &PyBytes_Type || type == &PyRange_Type || type == &PyComplex_Type || object == Py_Ellipsis || has_pure_type(object);
}

// Whether objects that are equal, and of the same types, are the same to a program: frozensets may have other orders.
static bool equality_says_all(PyObject* object) {
  if (PyFrozenSet_CheckExact(object) || (has_pure_type(object) && !PyBytes_CheckExact(object))) return false;
  for (Py_ssize_t i = 0; PyTuple_CheckExact(object) && i < PyTuple_GET_SIZE(object); i++) {
    if (!equality_says_all(PyTuple_GET_ITEM(object, i))) return false;
  }
  return true;
}

bool tells_of_its_end(PyObject* object) {
  const PyTypeObject* const type = Py_TYPE(object);
  return type->tp_finalize || type->tp_del || (type->tp_weaklistoffset && *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + type->tp_weaklistoffset));
}

Recorder::Recorder(const std::vector<const Activation*>& chain, const guards::Paths& varying, bool keep_inputs, int turns)
    : recording_(std::make_unique<Recording>()), varying_(varying), turns_(turns), keep_inputs_(keep_inputs) {
  int32_t base = 0;
  for (size_t k = 0; k < chain.size(); k++) {
    const Activation& frame = *chain[k];
    const int depth = frame.depth();
    const auto graph_frame = static_cast<int32_t>(recording_->graph.frames.size());
    // Its caller is suspended in the call, and goes on behind it.
    const int32_t call = k ? chain[k - 1]->next() - 1 : -1;
    recording_->graph.frames.push_back({frame.code().code.get(), graph_frame - 1, call});
    const int32_t generator = cpython::belongs_to_generator(frame.frame()) ? kOuterGenerator : -1;
    const Borrowed function = cpython::original_function(cpython::function_of(frame.frame()));
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

// The classes of this run, and what they have, aren't held.
std::unique_ptr<Recording> Recorder::finish() {
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
  nodes_before_ = recording_->graph.nodes.size();
  mark_ = {static_cast<uint32_t>(recording_->journal.size()), frame.next(), frame.depth()};
  if (frame.at_boundary()) whole_mark_ = mark_, nodes_before_whole_ = nodes_before_;
}

// Where `before` had nothing to ask but the rule.
const Plan* Recorder::quick_plan(const Activation& frame) {
  const Rule& present = rule(frame.instruction().op);
  if (!present.moves && !present.operates) return nullptr;
  if (nodes_before_ >= kMaxNodes || !outers_.empty() || !appended_.empty() || held_) return nullptr;
  const Site site{*this, frame, frame.instruction(), mark_.depth};
  if (present.moves) return present.moves(site) ? &kMoves : nullptr;
  return !globals() && present.operates(site, operation_) ? &operation_ : nullptr;
}

Plan Recorder::before(const Activation& frame) {
  // 3.13: no state is left between the halves of a fused instruction.
  const int32_t index = frame.next();
  const bool boundary = index == 0 || !(frame.code().instructions[index - 1].flags & bytecode::Instruction::kFusedWithNext);
  if (boundary && static_cast<int32_t>(recording_->graph.nodes.size()) >= kMaxNodes) return plan_break(Break::kTooLong);
  const bytecode::Instruction& instruction = frame.instruction();
  const bool back = instruction.target >= 0 && instruction.target <= frame.next();
  if (back && !is_hidden(frames_.size() - 1) && ++back_jumps_ > kMaxBackJumps) return plan_break(Break::kLoop);
  if (!resolve_operands(frame, instruction)) return plan_break(Break::kStore, "a list that may have grown, or a dict that is an object's or module's, too");
  return plan_for({*this, frame, instruction, mark_.depth});
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
  if (plan.changed || plan.consumed || plan.extended || plan.reread || plan.stored_name) apply(plan);
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

void Recorder::pushed(const Activation& caller, const Activation& callee, const Plan& plan,
                      const std::vector<uint32_t>& given, int caller_depth) {
  const Borrowed function = plan.function;
  const Live& outer = frames_.back();
  const int32_t base = next_base();
  const auto graph_frame = static_cast<int32_t>(recording_->graph.frames.size());
  recording_->graph.frames.push_back({callee.code().code.get(), outer.graph_frame, caller.next() - 1});
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

// They come first, without a name.
uint32_t Recorder::instance(Borrowed type, uint32_t contents) {
  const uint32_t made = container(Value::Kind::kInstance, contents ? std::vector<uint32_t>{0, contents} : std::vector<uint32_t>{});
  const Value of = contents ? recording_->values[contents] : Value{};
  if (of.kind == Value::Kind::kList || of.kind == Value::Kind::kDict) recording_->containers[of.a].owner = made;
  recording_->values[made].b = recording_->values[constant(type)].a;
  return made;
}

uint32_t Recorder::contents(uint32_t instance) const {
  const Value& of = recording_->values[instance];
  if (of.kind != Value::Kind::kInstance) return 0;
  const std::span<const uint32_t> parts = elements(of);
  return parts.size() >= 2 && parts[0] == 0 ? parts[1] : 0;
}

uint32_t Recorder::dict_of_instance(uint32_t instance) {
  const int32_t at = recording_->values[instance].a;
  if (!recording_->containers[at].attributes) {
    const uint32_t dict = add_value({Value::Kind::kDict, false, at});
    recording_->containers[at].attributes = dict;
    recording_->containers[at].instance = instance;
  }
  return recording_->containers[at].attributes;
}

PyTypeObject* Recorder::class_of_attributes(uint32_t dict) const {
  const Value& of = recording_->values[dict];
  const uint32_t instance = of.kind == Value::Kind::kDict ? recording_->containers[of.a].instance : 0;
  return instance ? recording_->graph.constants[recording_->values[instance].b].as<PyTypeObject>() : nullptr;
}

uint32_t Recorder::attribute_of(const Value& instance, Borrowed name) const {
  if (instance.kind == Value::Kind::kMapping) return 0;  // none has been stored
  const std::span<const uint32_t> parts = elements(instance);
  for (size_t i = 0; i < parts.size(); i += 2) {
    if (constant_of(parts[i]) == name.get()) return parts[i + 1];
  }
  return 0;
}

PyObject* Recorder::constant_of(uint32_t index) const {
  const Value& of = recording_->values[index];
  return of.kind == Value::Kind::kConstant ? recording_->graph.constants[of.a].get() : nullptr;
}

bool Recorder::is_super(uint32_t index) const {
  const Value& of = recording_->values[index];
  return of.kind == Value::Kind::kMade && constant_of(elements(of)[0]) == reinterpret_cast<PyObject*>(&PySuper_Type);
}

bool Recorder::fix_class(Borrowed type) {
  if (made_class(type.get())) return true;  // its bases were asked for when it was made
  guards::Source at{guards::Reach::kObject};
  at.object = Ref::borrow(type);
  return guards().require_class_version(value(source(std::move(at))).a, type);
}

uint32_t Recorder::add_value(Value value) {
  recording_->values.push_back(value);
  return static_cast<uint32_t>(recording_->values.size()) - 1;
}

// A tuple of what is another object in each run.
bool Recorder::holds_adopted(PyObject* object) const {
  if (adopted_.empty() || !PyTuple_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
    PyObject* const part = PyTuple_GET_ITEM(object, i);
    if (is_adopted(part) || holds_adopted(part)) return true;
  }
  return false;
}

uint32_t Recorder::constant(Borrowed object) {
  if (is_adopted(object.get())) return adopted_.at(object.get());
  if (holds_adopted(object.get())) {
    std::vector<uint32_t> parts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object.get()); i++) parts.push_back(constant(PyTuple_GET_ITEM(object.get(), i)));
    return container(Value::Kind::kTuple, std::move(parts));
  }
  recording_->graph.constants.push_back(Ref::borrow(object));
  return add_value({Value::Kind::kConstant, false, static_cast<int32_t>(recording_->graph.constants.size()) - 1});
}

uint32_t Recorder::fixed(Borrowed borrowed) {
  PyObject* object = borrowed.get();
  if (is_adopted(object) || holds_adopted(object)) return constant(borrowed);
  const bool callable = PyFunction_Check(object) || PyCFunction_Check(object) || Py_TYPE(object) == &PyMethodDescr_Type || Py_TYPE(object) == &PyWrapperDescr_Type;
  if (is_immutable(object) || PyType_Check(object) || PyModule_CheckExact(object) || callable ||
      numpy::call_kind(borrowed) != numpy::CallKind::kUnknown || PyArray_DescrCheck(object)) {
    return constant(borrowed);
  }
  guards::Source at{guards::Reach::kObject};
  at.object = Ref::borrow(borrowed);
  return source(std::move(at));
}

uint32_t Recorder::container(Value::Kind kind, std::vector<uint32_t> elements) {
  Container made;
  if (kind != Value::Kind::kMade) made.initial.length = static_cast<uint32_t>(elements.size());
  made.present = made.initial;
  made.elements = std::move(elements);
  recording_->containers.push_back(std::move(made));
  return add_value({kind, false, static_cast<int32_t>(recording_->containers.size()) - 1});
}

std::span<const uint32_t> Recorder::elements(const Value& value) const {
  const Container& container = recording_->containers[value.a];
  if (value.kind == Value::Kind::kMade) return container.elements;
  return {container.elements.data() + container.present.begin, container.present.length};
}

std::vector<uint32_t> Recorder::copied_elements(const Value& value) const {
  const auto present = elements(value);
  return {present.begin(), present.end()};
}

uint32_t Recorder::source(guards::Source wanted) {
  const int32_t index = recording_->guards.add(std::move(wanted));
  if (static_cast<size_t>(index) >= source_values_.size()) source_values_.resize(index + 1);
  uint32_t& value = source_values_[index];
  if (!value) value = add_value({Value::Kind::kSource, false, index});
  return value;
}

void Recorder::append(const Value& list, uint32_t element) {
  Container& container = recording_->containers[list.a];
  DCHECK(container.present.begin + container.present.length == container.elements.size());
  container.elements.push_back(element);
  container.present.length++;
  recording_->journal.push_back({Change::Kind::kAppend, list.a, element});
  if (container.outer) note_change(list.a, {});
}

void Recorder::replace(const Value& value, const std::vector<uint32_t>& elements) {
  Container& container = recording_->containers[value.a];
  const int32_t at = value.a;
  const std::vector<uint32_t> before = container.outer ? copied_elements(value) : std::vector<uint32_t>{};
  container.present = {static_cast<uint32_t>(container.elements.size()), static_cast<uint32_t>(elements.size())};
  container.elements.insert(container.elements.end(), elements.begin(), elements.end());
  move_window(at);
  if (recording_->containers[at].outer) note_change(at, before);
}

uint32_t Recorder::made(Borrowed callable, Borrowed keyword_names, const std::vector<uint32_t>& arguments) {
  std::vector<uint32_t> parts{constant(callable), keyword_names ? constant(keyword_names) : 0};
  parts.insert(parts.end(), arguments.begin(), arguments.end());
  return container(Value::Kind::kMade, std::move(parts));
}

uint32_t Recorder::iterator(Borrowed callable, Borrowed keyword_names, const std::vector<uint32_t>& arguments, std::vector<uint32_t> items, bool endless) {
  const uint32_t made_here = made(callable, keyword_names, arguments);
  for (const uint32_t argument : arguments) claim(argument, true);
  Iterator& iterator = iterators_[recording_->values[made_here].a];
  iterator.over = arguments;
  iterator.items = std::move(items);
  iterator.endless = endless;
  static PyObject* const iter = builtin("iter").get();
  const Value of = arguments.size() == 1 ? recording_->values[arguments[0]] : Value{};
  if (callable.get() == iter && (of.kind == Value::Kind::kReplayed || of.kind == Value::Kind::kDeque)) {
    Container& over = recording_->containers[of.a];
    over.begun.push_back({made_here, over.present});
  }
  return made_here;
}

bool Recorder::tells_iterators(uint32_t container) const {
  const Value& of = recording_->values[container];
  const Container& over = recording_->containers[of.a];
  const auto lives = [&](const Begun& begun) {
    const Iterator& iterator = iterators_.at(recording_->values[begun.iterator].a);
    return !iterator.dropped && !iterator.owned;
  };
  return !over.outer && static_cast<size_t>(std::count_if(over.begun.begin(), over.begun.end(), lives)) == iterated_.count(of.a);
}

bool Recorder::is_stale(uint32_t index) const {
  const Value& value = recording_->values[index];
  const auto found = value.kind == Value::Kind::kMade ? iterators_.find(value.a) : iterators_.end();
  return found != iterators_.end() && found->second.stale;
}

void Recorder::outdate(uint32_t container) {
  for (const Begun& begun : recording_->containers[recording_->values[container].a].begun) {
    Iterator& iterator = iterators_.at(recording_->values[begun.iterator].a);
    iterator.stale = !iterator.dropped;
  }
}

// What an iterator is over: other iterators, lists, dicts and their views.
void Recorder::claim(uint32_t index, bool claimed) {
  const Value& value = recording_->values[index];
  const auto other = value.kind == Value::Kind::kMade ? iterators_.find(value.a) : iterators_.end();
  if (other != iterators_.end()) {
    other->second.owned = true;
  } else if (value.kind == Value::Kind::kMade) {
    const std::vector<uint32_t> arguments = copied_elements(value);
    for (size_t i = 2; i < arguments.size(); i++) claim(arguments[i], claimed);
  } else if (value.kind == Value::Kind::kList || value.kind == Value::Kind::kDict || value.kind == Value::Kind::kMapping || value.kind == Value::Kind::kDeque || value.kind == Value::Kind::kReplayed) {
    if (claimed) iterated_.insert(value.a);
    if (!claimed) iterated_.erase(iterated_.find(value.a));
  }
}

std::vector<uint32_t> Recorder::items_to_come(uint32_t iterator) const {
  const std::vector<uint32_t>& all = items(iterator);
  return {all.begin() + std::min<size_t>(given(iterator), all.size()), all.end()};
}

bool Recorder::is_iterator(uint32_t index) const {
  const Value& value = recording_->values[index];
  if (value.kind != Value::Kind::kMade) return false;
  const auto found = iterators_.find(value.a);
  return found != iterators_.end() && !found->second.owned && !found->second.stale;
}

void Recorder::give(uint32_t index, uint32_t count) {
  const int32_t container = recording_->values[index].a;
  Window& window = recording_->containers[container].present;
  window.begin += count;
  move_window(container);
}

uint32_t Recorder::steps_to_end(uint32_t iterator) const { return static_cast<uint32_t>(items(iterator).size()) + 1 - given(iterator); }

// One that is exhausted but still held keeps its claims: made again over a longer list it would have more to give.
void Recorder::drop(uint32_t index) {
  Iterator& iterator = iterators_.at(recording_->values[index].a);
  if (iterator.dropped) return;
  iterator.dropped = true;
  for (const uint32_t argument : iterator.over) claim(argument, false);
}

bool Recorder::holds(uint32_t item, uint32_t element) const {
  const Value& value = recording_->values[item];
  if (item == element || value.kind != Value::Kind::kTuple) return item == element;
  const auto parts = elements(value);
  return std::any_of(parts.begin(), parts.end(), [&](uint32_t part) { return holds(part, element); });
}

bool Recorder::is_to_come(uint32_t element) const {
  for (const auto& [container, iterator] : iterators_) {
    if (iterator.owned || iterator.dropped) continue;  // what is over it has the same items
    for (size_t i = recording_->containers[container].present.begin; i < iterator.items.size(); i++) {
      if (holds(iterator.items[i], element)) return true;
    }
  }
  return false;
}

void Recorder::reread(const Plan& plan) {
  PyObject* const list = plan.stored_into.get();
  std::vector<uint32_t> contents;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) contents.push_back(constant(PyList_GET_ITEM(list, i)));
  replace(recording_->values[plan.reread], contents);
}

void Recorder::apply(const Plan& plan) {
  if (plan.reread) reread(plan);
  if (plan.changed) replace(recording_->values[plan.changed], plan.contents), outdate(plan.changed);
  if (plan.consumed) give(plan.consumed, plan.steps);
  if (plan.dropped) drop(plan.consumed);
  if (plan.stored_name && PyModule_Check(plan.stored_into.get())) {
    store(PyModule_GetDict(plan.stored_into.get()), plan.stored_name.get(), plan.stored_value);
  } else if (plan.stored_name) {
    store_attribute(plan.stored_owner, plan.stored_into.get(), plan.stored_name.get(), plan.stored_value);
  }
  if (plan.extended) append_outside(plan.extended, plan.stored_into.get(), plan.contents);
}

void Recorder::move_window(int32_t container) {
  recording_->windows.push_back(recording_->containers[container].present);
  recording_->journal.push_back({Change::Kind::kWindow, container, static_cast<uint32_t>(recording_->windows.size()) - 1});
}

// What came last: a name that was deleted and stored again is at the end of its dict.
int32_t Recorder::place_of_name(Borrowed dict, Borrowed name) const {
  const std::vector<Name>& names = recording_->names;
  auto at = static_cast<int32_t>(names.size()) - 1;
  while (at >= 0 && !(names[at].dict.get() == dict.get() && names[at].name.get() == name.get())) at--;
  return at;
}

uint32_t Recorder::stored(Borrowed dict, Borrowed name) const {
  const int32_t at = place_of_name(dict, name);
  return at < 0 || recording_->names[at].kind == Name::Kind::kForget ? 0 : stored_[at].value;
}

bool Recorder::has_forgotten(Borrowed dict, Borrowed name) const {
  const int32_t at = place_of_name(dict, name);
  return at >= 0 && recording_->names[at].kind == Name::Kind::kForget;
}

void Recorder::store(Borrowed dict, Borrowed name, uint32_t value) {
  int32_t at = place_of_name(dict, name);
  if (at < 0 || recording_->names[at].kind == Name::Kind::kForget) at = add_name({Name::Kind::kName, Ref::borrow(dict), Ref::borrow(name)}, Borrowed());
  note_store(at, value);
}

void Recorder::forget(Borrowed dict, Borrowed name) {
  note_store(add_name({Name::Kind::kForget, Ref::borrow(dict), Ref::borrow(name)}, Borrowed()), constant(Py_None));
}

int32_t Recorder::add_name(Name name, Borrowed object) {
  recording_->names.push_back(std::move(name));
  stored_.push_back({0, object ? Ref::borrow(object) : Ref()});
  return static_cast<int32_t>(stored_.size()) - 1;
}

void Recorder::hold(int change) {
  if (held_ == 0 && change > 0) stores_before_lock_ = stores_;
  held_ = std::max(held_ + change, 0);
  if (held_ == 0) stores_before_lock_ = 0;
}

void Recorder::note_store(int32_t name, uint32_t value) {
  stores_++;
  stored_[name].value = value;
  recording_->journal.push_back({Change::Kind::kStore, name, value});
}

// Objects of two types are two objects, and the types are guarded.
int32_t Recorder::place_of_attribute(uint32_t owner, Borrowed object, Borrowed name) {
  const std::vector<Name>& names = recording_->names;
  int32_t found = -1;
  for (size_t i = 0; i < names.size(); i++) {
    if (names[i].kind != Name::Kind::kAttribute || names[i].name.get() != name.get()) continue;
    const bool same = stored_[i].owner.get() == object.get();
    if (same) found = static_cast<int32_t>(i);
    const Value known = value(names[i].owner), present = value(owner);
    if (names[i].owner == owner || Py_TYPE(stored_[i].owner.get()) != Py_TYPE(object.get())) continue;
    if (known.kind == Value::Kind::kSource && present.kind == Value::Kind::kSource) guards().require_same(known.a, present.a, same);
  }
  return found;
}

uint32_t Recorder::stored_attribute(uint32_t owner, Borrowed object, Borrowed name) {
  const int32_t at = place_of_attribute(owner, object, name);
  return at < 0 ? 0 : stored_[at].value;
}

void Recorder::store_attribute(uint32_t owner, Borrowed object, Borrowed name, uint32_t value) {
  int32_t at = place_of_attribute(owner, object, name);
  if (at < 0) at = add_name({Name::Kind::kAttribute, Ref(), Ref::borrow(name), owner}, object);
  note_store(at, value);
}

bool Recorder::has_stored_into(Borrowed object) const {
  return std::any_of(stored_.begin(), stored_.end(), [&](const Stored& one) { return one.owner.get() == object.get(); });
}

uint32_t Recorder::value_in_class(PyTypeObject* type, Borrowed name, Borrowed found) {
  for (size_t i = 0; i < stored_.size(); i++) {
    const Name& known = recording_->names[i];
    if (known.kind == Name::Kind::kAttribute && stored_[i].owner.get() == reinterpret_cast<PyObject*>(type) && known.name.get() == name.get()) return stored_[i].value;
  }
  if (const MadeClass* const made = made_class(reinterpret_cast<PyObject*>(type))) {
    const std::span<const uint32_t> changes = elements(value(made->changes));
    for (size_t i = changes.size(); i > 0; i -= 2) {
      if (constant_of(changes[i - 2]) == name.get()) return changes[i - 1];
    }
    const auto at = std::find_if(made->names.begin(), made->names.end(), [&](uint32_t key) { return constant_of(key) == name.get(); });
    return at == made->names.end() ? fixed(found) : made->contents[static_cast<size_t>(at - made->names.begin())];
  }
  if (guards::is_class_data(found) && name_varies(reinterpret_cast<PyObject*>(type), name)) return name_source(reinterpret_cast<PyObject*>(type), name);
  guards().fix_attribute(reinterpret_cast<PyObject*>(type), name);
  // Somebody is told when it is replaced: no recording holds it.
  return tells_if_dropped(found.get()) ? name_source(reinterpret_cast<PyObject*>(type), name) : fixed(found);
}

// One that a function holds is fixed; one in a frame's slot may be any.
int32_t Recorder::place_of_cell(uint32_t owner, Borrowed cell) {
  const auto source_of = [&](uint32_t of, PyObject* object) {
    if (value(of).kind == Value::Kind::kSource) return value(of).a;
    guards::Source at{guards::Reach::kObject};
    at.object = Ref::borrow(object);
    return value(source(std::move(at))).a;
  };
  int32_t found = -1;
  for (size_t i = 0; i < recording_->names.size(); i++) {
    const uint32_t known = recording_->names[i].owner;
    if (recording_->names[i].kind != Name::Kind::kCell) continue;
    const bool same = stored_[i].owner.get() == cell.get();
    if (same) found = static_cast<int32_t>(i);
    const bool fixed = value(known).kind == Value::Kind::kConstant && value(owner).kind == Value::Kind::kConstant;
    if (known != owner && !fixed) guards().require_same(source_of(known, stored_[i].owner.get()), source_of(owner, cell.get()), same);
  }
  return found;
}

uint32_t Recorder::stored_in_cell(uint32_t owner, Borrowed cell) {
  const int32_t at = place_of_cell(owner, cell);
  return at < 0 ? 0 : stored_[at].value;
}

void Recorder::store_in_cell(uint32_t owner, Borrowed cell, uint32_t value) {
  int32_t at = place_of_cell(owner, cell);
  if (at < 0) at = add_name({Name::Kind::kCell, Ref(), Ref(), owner}, cell);
  note_store(at, value);
}

bool Recorder::may_put_off() const {
  return std::all_of(telling_.begin(), telling_.end(), [&](const auto& slot) { return labels_[slot.first] == slot.second; });
}

bool Recorder::takes_turn(uint32_t iterator, Borrowed object) {
  const size_t nodes = recording_->graph.nodes.size();
  const bool fits = nodes + nodes / static_cast<size_t>(turns_taken_ + 1) <= kMaxTurnNodes;
  // What a list is about to give is read at the start.
  const auto is_list = [](const Outer& outer) { return PyList_CheckExact(outer.object.get()); };
  const bool lists_change = !appended_.empty() || std::any_of(outers_.begin(), outers_.end(), is_list);
  if (lists_change && !Py_IS_TYPE(object.get(), &PyRangeIter_Type)) return false;
  return recording_->values[iterator].a == turn_iterator_ && turns_taken_ + 1 < turns_ && fits && cpython::ahead(object, 0);
}

uint32_t Recorder::turn(const Value& iterator) {
  guards::Source at{guards::Reach::kTurn};
  at.parent = iterator.a;
  at.index = turns_taken_++;
  recording_->iterator = iterator.a;
  recording_->journal.push_back({Change::Kind::kAdvance, 0, 0});
  return source(std::move(at));
}

uint32_t Recorder::name_source(Borrowed dict, Borrowed name) {
  guards::Source of_dict{guards::Reach::kObject};
  of_dict.object = Ref::borrow(dict);
  guards::Source at{guards::Reach::kItem};
  at.parent = value(source(std::move(of_dict))).a;
  at.object = Ref::borrow(name);
  return source(std::move(at));
}

bool Recorder::name_varies(Borrowed dict, Borrowed name) const {
  return !varying_.empty() && varying_.count(guards::path_of_name(dict, name)) > 0;
}

void Recorder::require_equal(int32_t source, Borrowed object) {
  equality_says_all(object.get()) ? guards().require_equal(source, object) : guards().require_identity(source, object);
}

bool Recorder::known(uint32_t index, Borrowed object) {
  const Value value = recording_->values[index];
  switch (value.kind) {
    case Value::Kind::kConstant: return is_immutable(object.get());
    case Value::Kind::kSource:
      if (!is_immutable(object.get())) return false;
      if (is_singular(object.get())) return guards().require_identity(value.a, object), true;
      if ((PyLong_CheckExact(object.get()) || PyFloat_CheckExact(object.get())) && varies(value.a)) return false;
      require_equal(value.a, object);
      return true;
    case Value::Kind::kNode:
      if (!value.of_shapes || !is_immutable(object.get())) return false;
      check_constant(index, object);
      return true;
    case Value::Kind::kTuple: {
      if (!PyTuple_CheckExact(object.get())) return false;
      const std::vector<uint32_t> parts = copied_elements(value);
      for (size_t i = 0; i < parts.size(); i++) {
        if (!known(parts[i], PyTuple_GET_ITEM(object.get(), i))) return false;
      }
      return true;
    }
    case Value::Kind::kSlice: {
      auto* slice = reinterpret_cast<PySliceObject*>(object.get());
      const std::vector<uint32_t> parts = copied_elements(value);
      return known(parts[0], slice->start) && known(parts[1], slice->stop) && known(parts[2], slice->step);
    }
    case Value::Kind::kNull:
    case Value::Kind::kTruth:
    case Value::Kind::kOuterException:
    case Value::Kind::kException:
    case Value::Kind::kTraceback:
    case Value::Kind::kGenerator:
    case Value::Kind::kFrame:
    case Value::Kind::kList:
    case Value::Kind::kDict:
    case Value::Kind::kMapping:
    case Value::Kind::kDeque:
    case Value::Kind::kMade:
    case Value::Kind::kReplayed:
    case Value::Kind::kCell:
    case Value::Kind::kFunction:
    case Value::Kind::kInstance:
    case Value::Kind::kIterator: return false;
  }
  return false;
}

void Recorder::check_constant(uint32_t index, Borrowed object) {
  const int32_t node = recording_->values[index].a;
  if (!checked_.insert(node).second) return;
  recording_->graph.constants.push_back(Ref::borrow(object));
  const Operand wanted = Operand::constant(static_cast<int32_t>(recording_->graph.constants.size()) - 1);
  add_plain_node(Form::kCheck, 0, nullptr, {Operand::node(node), wanted}, Py_None);
}

void Recorder::check_call(Borrowed callable, Operand operand, Borrowed result) {
  Plan plan;
  plan.callable = callable;
  plan.operands = {operand};
  check_constant(node_value(add_node(plan, result), false), result);
}

void Recorder::fix_registrations() {
  if (std::exchange(fixes_registrations_, true)) return;
  const Ref module = Ref::steal(PyImport_ImportModule("_abc"));
  Plan plan;
  const Ref asks = module ? Ref::steal(PyObject_GetAttrString(module.get(), "get_cache_token")) : Ref();
  const Ref token = asks ? Ref::steal(PyObject_CallNoArgs(asks.get())) : Ref();
  CHECK(token);  // a module of C's, which abc has imported
  plan.callable = asks.get();
  check_constant(node_value(add_node(plan, token.get()), false), token.get());
}

void Recorder::check_length(Operand whole, Borrowed object) {
  check_call(builtin<"len">(), whole, Ref::steal(PyLong_FromSsize_t(PyObject_Size(object.get()))).get());
}

void Recorder::check_type(Operand whole, Borrowed object) { check_call(&PyType_Type, whole, Py_TYPE(object.get())); }

bool Recorder::check_truth(uint32_t index, Borrowed object) {
  if (!recording_->values[index].of_numbers && !is_input_number(index, object)) return false;
  if (PyBool_Check(object.get())) return check_constant(index, object), true;
  const Operand number = operand(index, object);
  const Borrowed truth = PyObject_IsTrue(object.get()) ? Py_True : Py_False;  // of an exact number: can't raise
  const int32_t node = add_plain_node(Form::kTruth, 0, nullptr, {number}, truth);
  check_constant(node_value(node, false, true), truth);
  return true;
}

bool Recorder::varies(int32_t source) const {
  if (turn_.empty() && varying_.empty()) return false;
  const std::string path = recording_->guards.path(source);
  return (!turn_.empty() && (path[0] == 'n' || path.compare(0, turn_.size(), turn_) == 0)) || varying_.count(path) > 0;
}

bool Recorder::is_input_number(uint32_t index, Borrowed object) const {
  const Value& value = recording_->values[index];
  if (value.kind != Value::Kind::kSource) return false;
  return PyFloat_CheckExact(object.get()) || (PyLong_CheckExact(object.get()) && varies(value.a));
}

bool Recorder::is_number(uint32_t index, Borrowed object) const {
  const Value& value = recording_->values[index];
  if (value.kind == Value::Kind::kNode) return value.of_numbers;
  const bool number = PyLong_CheckExact(object.get()) || PyFloat_CheckExact(object.get()) || PyBool_Check(object.get());
  return number && (value.kind == Value::Kind::kConstant || value.kind == Value::Kind::kSource);
}

bool Recorder::is_graph_value(uint32_t index, Borrowed object) const {
  return recording_->values[index].kind == Value::Kind::kNode || numpy::is_array(object.get());
}

Operand Recorder::operand(uint32_t index, Borrowed borrowed) {
  const Value value = recording_->values[index];
  PyObject* object = borrowed.get();
  switch (value.kind) {
    case Value::Kind::kNull:
    case Value::Kind::kTruth:
    case Value::Kind::kOuterException:
    case Value::Kind::kException:
    case Value::Kind::kTraceback:
    case Value::Kind::kGenerator:
    case Value::Kind::kFrame:
    case Value::Kind::kDict:
    case Value::Kind::kMapping:
    case Value::Kind::kDeque:
    case Value::Kind::kMade:
    case Value::Kind::kReplayed:
    case Value::Kind::kCell:
    case Value::Kind::kFunction:
    case Value::Kind::kInstance:
    case Value::Kind::kIterator: return {};
    case Value::Kind::kNode: return Operand::node(value.a);
    case Value::Kind::kConstant: return value.b ? Operand{} : Operand::constant(value.a);
    case Value::Kind::kTuple:
    case Value::Kind::kList:
    case Value::Kind::kSlice: return container_operand(index, borrowed);
    case Value::Kind::kSource: break;
  }
  if (numpy::is_exact_array(object)) {
    guards().require_array(value.a, borrowed);
  } else if (numpy::is_scalar(object) || is_python_number(object) || numpy::is_random_generator(object) || is_acted_on(object)) {
    guards().require_type(value.a, borrowed);
  } else if (PyType_Check(object) || PyArray_DescrCheck(object)) {
    guards().require_identity(value.a, borrowed);
    return Operand::constant(recording_->values[constant(borrowed)].a);
  } else if (is_immutable(object)) {
    require_equal(value.a, borrowed);
    return Operand::constant(recording_->values[constant(borrowed)].a);
  } else {
    return {};
  }
  if (source_inputs_.size() <= static_cast<size_t>(value.a)) source_inputs_.resize(value.a + 1, -1);
  int32_t& input = source_inputs_[value.a];
  if (input < 0) {
    input = static_cast<int32_t>(recording_->graph.inputs.size());
    recording_->graph.inputs.push_back({graph::meta_of(borrowed, recording_->graph.sizes), guards().source_name(value.a)});
    recording_->input_sources.push_back(value.a);
    if (keep_inputs_) recording_->examples.push_back(Ref::borrow(object));
  }
  return Operand::input(input);
}

// Elements of a container that is live as `object`.
static PyObject* element_of(PyObject* object, size_t i) {
  if (PyTuple_CheckExact(object)) return PyTuple_GET_ITEM(object, i);
  if (PyList_CheckExact(object)) return PyList_GET_ITEM(object, i);
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  return i == 0 ? slice->start : i == 1 ? slice->stop : slice->step;
}

Operand Recorder::container_operand(uint32_t index, Borrowed object) {
  for (const auto& [known_value, made] : built_) {
    if (known_value == index) return made;
  }
  // None for one that is inside of itself.
  const size_t place = built_.size();
  built_.emplace_back(index, Operand());
  const Value value = recording_->values[index];
  const std::vector<uint32_t> parts = copied_elements(value);
  std::vector<Operand> operands;
  bool constant_parts = value.kind != Value::Kind::kList;
  for (size_t i = 0; i < parts.size(); i++) {
    PyObject* part = element_of(object.get(), i);
    // Numbers that shape an index are facts of the recording; others stay inputs.
    if (value.kind == Value::Kind::kSlice || (value.kind == Value::Kind::kTuple && PyLong_CheckExact(part))) {
      if (recording_->values[parts[i]].kind == Value::Kind::kSource) {
        if (known(parts[i], part)) {
          operands.push_back(Operand::constant(recording_->values[constant(part)].a));
          continue;
        }
      }
    }
    operands.push_back(operand(parts[i], part));
    if (!operands.back()) return {};
    constant_parts = constant_parts && operands.back().space == Operand::Space::kConstant;
  }
  Operand made;
  if (constant_parts) {
    made = Operand::constant(recording_->values[constant(object)].a);
  } else {
    const Form form = value.kind == Value::Kind::kTuple ? Form::kTuple : value.kind == Value::Kind::kList ? Form::kList : Form::kSlice;
    made = Operand::node(add_plain_node(form, 0, nullptr, std::move(operands), object));
  }
  return built_[place].second = made;
}

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
