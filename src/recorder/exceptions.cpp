// What the recorder knows of exceptions: which one is handled, where one came from, and the frames that it has left.
#include <algorithm>
#include <set>

#include "cpython/hidden_code.h"
#include "cpython/layout.h"
#include "cpython/objects.h"
#include "recorder/recorder.h"

namespace evalframe::recorder {

using evaluator::Activation;

namespace {

size_t traceback_length(PyObject* exception) {
  const Ref first = cpython::first_entry(exception);
  size_t length = 0;
  for (auto* entry = first.as<PyTracebackObject>(); entry; entry = entry->tb_next) length++;
  return length;
}

}  // namespace

uint32_t Recorder::attribute_of(const Value& instance, const char* name) const {
  return attribute_of(instance, Ref::steal(PyUnicode_InternFromString(name)).get());
}

uint32_t Recorder::exception(Borrowed type, uint32_t arguments, const NamedValues& attributes) {
  recording_->handles = true;
  const uint32_t name = constant(Ref::steal(PyUnicode_InternFromString("args")).get());
  const uint32_t made = container(Value::Kind::kException, {name, arguments});
  recording_->values[made].b = recording_->values[constant(type)].a;
  begin_with(made, attributes);
  return made;
}

void Recorder::begin_with(uint32_t exception, const NamedValues& attributes) {
  std::vector<uint32_t> parts = copied_elements(recording_->values[exception]);
  for (const auto& [name, value] : attributes) parts.insert(parts.end(), {constant(Ref::steal(PyUnicode_InternFromString(name)).get()), value});
  Container& container = recording_->containers[recording_->values[exception].a];
  container.initial.length = container.present.length = static_cast<uint32_t>(parts.size());
  container.elements = std::move(parts);
}

void Recorder::set_attribute(uint32_t exception, const char* name, uint32_t value) {
  std::vector<uint32_t> parts = copied_elements(recording_->values[exception]);
  const Ref key = Ref::steal(PyUnicode_InternFromString(name));
  size_t i = 0;
  while (i < parts.size() && constant_of(parts[i]) != key.get()) i += 2;
  if (i < parts.size()) {
    parts[i + 1] = value;
  } else {
    parts.insert(parts.end(), {constant(key.get()), value});
  }
  replace(recording_->values[exception], parts);
}

int32_t Recorder::handling_level() const {
  for (size_t k = frames_.size(); k > 0; k--) {
    if (const int32_t of = frames_[k - 1].generator; of != -1) return of == kOuterGenerator ? -1 : of;
  }
  return -1;
}

uint32_t Recorder::handled() const {
  for (size_t k = frames_.size(); k > 0; k--) {
    const int32_t of = frames_[k - 1].generator;
    if (of >= 0 && generators_[of].handled) return generators_[of].handled;
  }
  return handled_;
}

uint32_t Recorder::handled_by_frame() {
  const int32_t level = handling_level();
  const uint32_t own = level < 0 ? handled_ : generators_[level].handled;
  return own ? own : level < 0 ? outer_exception(true) : constant(Py_None);
}

void Recorder::handle(uint32_t value) {
  recording_->handles = true;
  const int32_t level = handling_level();
  const bool none = level < 0 ? value == outer_[1] : constant_of(value) == Py_None;
  uint32_t& own = level < 0 ? handled_ : generators_[level].handled;
  own = none ? 0 : value;
  recording_->journal.push_back({Change::Kind::kHandled, level, own});
}

uint32_t Recorder::outer_exception(bool own) {
  uint32_t& known = outer_[own];
  if (!known) known = add_value({Value::Kind::kOuterException, false, -1, own ? 0 : 1});
  return known;
}

// One that CPython made of what the guards fix.
uint32_t Recorder::exception_made(PyObject* object, uint32_t about) {
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  PyObject* const plain[] = {PyExc_KeyError,      PyExc_IndexError,    PyExc_ZeroDivisionError, PyExc_ValueError,     PyExc_TypeError,
                             PyExc_OverflowError, PyExc_StopIteration, PyExc_NameError,         PyExc_AttributeError, PyExc_UnboundLocalError, PyExc_RuntimeError};
  const bool known = std::find(std::begin(plain), std::end(plain), type) != std::end(plain);
  PyObject* const arguments = reinterpret_cast<PyBaseExceptionObject*>(object)->args;
  if (!known || !arguments || !is_immutable(arguments)) return 0;
  // What another thread has raised in this one is a class alone, as CPython's own errors are not.
  if (PyTuple_GET_SIZE(arguments) == 0 && type != PyExc_StopIteration) return 0;
  const uint32_t made = exception(type, constant(arguments));
  const bool of_object = type == PyExc_AttributeError;
  if (!of_object && type != PyExc_NameError) return made;
  const Ref name = Ref::steal(PyObject_GetAttrString(object, "name"));  // members
  const Ref of = of_object ? Ref::steal(PyObject_GetAttrString(object, "obj")) : Ref();
  if (!name || !is_immutable(name.get())) return PyErr_Clear(), 0;
  set_attribute(made, "name", constant(name.get()));
  // The operand: its slot is as it was in front of the instruction.
  if (of_object) set_attribute(made, "obj", of.get() == Py_None ? constant(Py_None) : about ? about : label(mark_.depth - 1));
  return made;
}

// As _PyErr_SetObject does: what is being handled is the context, and no chain of contexts is a ring. False: not known.
bool Recorder::set_context(uint32_t exception, PyObject* object) {
  const uint32_t before = attribute_of(recording_->values[exception], "__context__");
  const uint32_t handling = handled();
  if (!handling) {
    const uint32_t outer = outer_exception(false);
    // Where nothing is handled around, it would keep the one it has.
    if (before && before != outer) return false;
    if (!before) set_attribute(exception, "__context__", outer);
    return true;
  }
  if (handling == exception) return true;
  if (!is_exception(handling)) {
    if (before) return false;
    set_attribute(exception, "__context__", handling);
    return true;
  }
  // A program may have made a ring.
  std::set<uint32_t> seen;
  for (uint32_t of = handling; is_exception(of) && seen.insert(of).second;) {
    const uint32_t context = attribute_of(recording_->values[of], "__context__");
    if (!context) break;
    if (recording_->values[context].kind == Value::Kind::kMade) return false;  // it leads to those that were handled before
    if (context == exception) {
      set_attribute(of, "__context__", constant(Py_None));
      break;
    }
    of = context;
  }
  if (before != handling) set_attribute(exception, "__context__", handling);
  const Ref context = Ref::steal(PyException_GetContext(object));
  return static_cast<bool>(context);
}

size_t Recorder::entries_known(uint32_t traceback) const {
  size_t known = 0;
  for (; recording_->values[traceback].kind == Value::Kind::kTraceback; traceback = elements(recording_->values[traceback])[0]) known++;
  const Value& last = recording_->values[traceback];
  if (last.kind != Value::Kind::kMade) return known;
  return known + static_cast<size_t>(recording_->containers[recording_->values[elements(last)[2]].a].raised.entries);
}

// The innermost frame may have been added to it.
bool Recorder::note_traceback(PyObject* exception) {
  const uint32_t before = attribute_of(recording_->values[raised_], "__traceback__");
  const size_t known = entries_known(before), length = traceback_length(exception);
  if (length == known) return true;
  if (length != known + 1) return false;
  const Ref added = cpython::first_entry(exception);
  const auto* entry = added.as<PyTracebackObject>();
  recording_->trace_points.push_back({frames_.back().identity, entry->tb_lasti, entry->tb_lineno});
  const uint32_t traceback = container(Value::Kind::kTraceback, {known ? before : 0});
  recording_->values[traceback].b = static_cast<int32_t>(recording_->trace_points.size()) - 1;
  set_attribute(raised_, "__traceback__", traceback);
  for (const Live& live : frames_) traced_.insert(live.identity);
  return true;
}

bool Recorder::raised(const Activation&, const Plan& plan, PyObject* exception) {
  // A call that was to change something has been given the wrong arguments.
  const bool changes = plan.changed || plan.consumed || plan.extended || plan.stored_name;
  const bool is_fact = plan.kind == Plan::Kind::kRaise || (plan.kind == Plan::Kind::kConstant && !changes);
  if (is_in_class_body() || (!is_fact && !fixes_shapes(plan, exception))) return false;
  const bool by_library = is_fact && plan.callable && PyFunction_Check(plan.callable.get());
  raised_ = plan.kind == Plan::Kind::kRaise && plan.label ? plan.label : by_library ? 0 : exception_made(exception, plan.about);
  if (!raised_) raised_ = exception_of_call(plan, exception);
  if (!raised_ || recording_->graph.constants[recording_->values[raised_].b].get() != reinterpret_cast<PyObject*>(Py_TYPE(exception))) return false;
  apply(plan);
  if (plan.call && plan.kind == Plan::Kind::kRaise) append(value(plan.replayed), plan.call), outdate(plan.replayed);
  if (plan.cause) {
    set_attribute(raised_, "__cause__", plan.cause);
    if (attribute_of(recording_->values[raised_], "__suppress_context__")) set_attribute(raised_, "__suppress_context__", constant(Py_True));
  }
  const bool has_context = recording_->containers[recording_->values[raised_].a].raised.call && plan.callable;
  if (!plan.reraises && !has_context && !set_context(raised_, exception)) return false;
  return note_traceback(exception);
}

bool Recorder::passed(PyObject* exception) { return note_traceback(exception); }

void Recorder::caught(const Activation& frame, int32_t instruction, int depth_before) {
  const bytecode::ExceptionRegion* const region = frame.code().handler(instruction);
  int slot = locals_count(frame.code()) + region->depth;
  for (int i = slot; i < depth_before; i++) set_label(i, 0);
  if (region->push_lasti) {
    set_label(slot, constant(frame.slot(slot)));
    slot++;
  }
  set_label(slot, raised_);
  // CPython 3.11 keeps None for one that comes without a traceback, which tells it from another.
  const bool keeps_none = reinterpret_cast<PyBaseExceptionObject*>(frame.slot(slot))->traceback == Py_None;
  if (keeps_none && is_exception(raised_) && !attribute_of(value(raised_), "__traceback__")) set_attribute(raised_, "__traceback__", constant(Py_None));
}

bool Recorder::is_hidden(size_t frame) const { return cpython::is_hidden(frames_[frame].code->code); }

bool Recorder::knows_what_frame_keeps() const {
  const auto of = static_cast<size_t>(frames_.back().identity);
  const bool began_here = of >= recording_->start.size() || recording_->start[of].next == 0;
  return began_here && frames_.back().generator == -1 && !is_hidden_frame();
}

int32_t Recorder::visible_caller(size_t frame) const {
  while (frame > 0 && is_hidden(frame - 1)) frame--;
  return frame > 0 ? static_cast<int32_t>(frame) - 1 : -1;
}

uint32_t Recorder::frame_above(size_t up) {
  if (is_in_class_body()) return 0;
  int32_t frame = visible_caller(frames_.size());
  while (frame >= 0 && up-- > 0) frame = visible_caller(static_cast<size_t>(frame));
  return frame >= 0 ? frame_value(frames_[static_cast<size_t>(frame)].identity) : 0;
}

uint32_t Recorder::caller_of(int32_t identity) {
  for (size_t i = 1; i < frames_.size(); i++) {
    const int32_t caller = frames_[i].identity == identity ? visible_caller(i) : -1;
    if (caller >= 0) return frame_value(frames_[static_cast<size_t>(caller)].identity);
  }
  return 0;
}

uint32_t Recorder::frame_value(int32_t identity) {
  uint32_t& known = frame_values_[identity];
  if (known) return known;
  known = add_value({Value::Kind::kFrame, false, -1, identity});
  recording_->needs_frames = true;
  for (const Live& live : frames_) traced_.insert(live.identity);
  return known;
}

// A frame from outside that may have a dict of its names, which its frame object would go on having.
static bool may_keep_names(const Activation& frame) {
  if (!cpython::layout::kLocalsAreKept || !(frame.code().code.as<PyCodeObject>()->co_flags & CO_OPTIMIZED)) return false;
  if (cpython::locals_dict_of(frame.frame())) return true;
  PyObject* const names = frame.code().code.as<PyCodeObject>()->co_names;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
    for (const char* const asks : {"locals", "vars", "dir", "eval", "exec", "f_locals"}) {
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), asks) == 0) return true;
    }
  }
  return false;
}

bool Recorder::unwound(const Activation& callee, PyObject* exception) {
  const int32_t of = frames_.back().generator;
  // What the generator makes of a StopIteration is another exception.
  if (of == kOuterGenerator || (of >= 0 && PyErr_GivenExceptionMatches(exception, PyExc_StopIteration))) return false;
  const Live& live = frames_.back();
  const auto place = static_cast<size_t>(live.identity);
  if (place < recording_->start.size() && recording_->start[place].next > 0 && may_keep_names(callee)) return false;
  const bool exits = PyErr_GivenExceptionMatches(exception, PyExc_GeneratorExit) != 0;
  // Others are only told of, as nobody waits for them.
  if (live.resumes == evaluator::Resumes::kLetGo && !exits) return false;
  if (exits && live.when_ended) recording_->result = live.when_ended;
  end_frame(callee);
  if (of >= 0) generators_[of] = {Ref(), 0, true, false, true};
  recording_->journal.push_back({Change::Kind::kPop, 0, 0});
  frames_.pop_back();
  return true;
}

void Recorder::end_frame(const Activation& frame) {
  const Live& live = frames_.back();
  const auto first = labels_.begin() + live.base;
  const bool knows_caller = cpython::layout::kEndedGeneratorKnowsCaller || live.generator < 0;
  const int32_t caller = knows_caller ? visible_caller(frames_.size() - 1) : -1;
  const int32_t back = caller >= 0 ? frames_[static_cast<size_t>(caller)].identity : -1;
  recording_->ended[live.identity] = {cpython::running_cell(frame.frame()).unit(), back, {first, first + locals_count(frame.code())}, live.locals};
}

bool Recorder::reaches_traceback(uint32_t index, std::vector<bool>& seen) const {
  const Value& of = recording_->values[index];
  if (seen[index]) return false;
  seen[index] = true;
  switch (of.kind) {
    case Value::Kind::kTraceback:
    case Value::Kind::kFrame: return true;
    case Value::Kind::kTruth:
    case Value::Kind::kIterator: return reaches_traceback(static_cast<uint32_t>(of.a), seen);
    case Value::Kind::kNull:
    case Value::Kind::kSource:
    case Value::Kind::kNode:
    case Value::Kind::kConstant:
    case Value::Kind::kOuterException: return false;
    case Value::Kind::kGenerator: {
      const Generator& generator = recording_->generators[of.a];
      const auto first = labels_.begin() + generator.base;
      const auto end = first + frame_size(*generator.code);
      return std::any_of(first, end, [&](uint32_t part) { return reaches_traceback(part, seen); });
    }
    case Value::Kind::kTuple:
    case Value::Kind::kList:
    case Value::Kind::kSlice:
    case Value::Kind::kDict:
    case Value::Kind::kMapping:
    case Value::Kind::kDeque:
    case Value::Kind::kMade:
    case Value::Kind::kReplayed:
    case Value::Kind::kCell:
    case Value::Kind::kFunction:
    case Value::Kind::kInstance:
    case Value::Kind::kException: break;
  }
  const auto parts = elements(of);
  return std::any_of(parts.begin(), parts.end(), [&](uint32_t part) { return reaches_traceback(part, seen); });
}

bool Recorder::lets_traceback_out(uint32_t value) const {
  if (frames_.size() > 1 || (recording_->trace_points.empty() && !recording_->needs_frames)) return false;
  std::vector<bool> seen(recording_->values.size());
  const auto reaches = [&](uint32_t of) { return reaches_traceback(of, seen); };
  return reaches(value) || reaches(handled_) || std::any_of(stored_.begin(), stored_.end(), [&](const Stored& stored) { return reaches(stored.value); }) ||
         std::any_of(recording_->names.begin(), recording_->names.end(), [&](const Name& name) { return reaches(name.owner); });
}

}  // namespace evalframe::recorder
