// Rules for iterators that ask others when they are asked, and may call a function: map, filter, and those of itertools. A step of theirs
// is a call that is followed.
#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>

#include "core/builtins.h"
#include "core/c_function.h"
#include "core/made_once.h"
#include "cpython/iterators.h"
#include "frontends/numpy/calls.h"
#include "recorder/rules/rules.h"
#include "recorder/stand_ins.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

// Their parameters: f: a function, i: gone through, I: that and all behind it, v: a value. comes_to: it may keep something from step to step.
// rarely: only over what has steps that are followed; else rules/iterables.cpp or rules/itertools.cpp know all that it gives.
struct Lazy {
  const char *name, *parameters;
  int required;
  bool comes_to;
  const char* step;  // the stand-in
  bool rarely = false;
  PyObject* type = nullptr;
};

std::vector<Lazy>& lazies() {
  static MadeOnce<std::vector<Lazy>*> table;
  return *table.get([] {
    auto* const rows = new std::vector<Lazy>{
        {"map", "fii", 2, false, "map_next"},
        {"filter", "fi", 2, false, "filter_next"},
        {"filterfalse", "fi", 2, false, "filterfalse_next"},
        {"starmap", "fi", 2, false, "starmap_next"},
        {"compress", "ii", 2, false, "compress_next"},
        {"takewhile", "fi", 2, true, "takewhile_next"},
        {"dropwhile", "fi", 2, true, "dropwhile_next"},
        {"accumulate", "ifv", 1, true, "accumulate_next"},
        {"zip", "I", 1, true, "zip_next_", true},
        {"enumerate", "i", 1, true, "enumerate_next", true},
        {"groupby", "if", 1, true, "groupby_next"},
        {"_grouper", "vvv", 3, true, "group_next"},
        {"islice", "i", 2, true, "islice_next", true},
        {"chain", "I", 1, true, "chain_next", true},
        {"iterator", "v", 1, true, "sequence_next", true, reinterpret_cast<PyObject*>(&PySeqIter_Type)},
        {"callable_iterator", "fv", 2, true, "called_next", false, reinterpret_cast<PyObject*>(&PyCallIter_Type)},
        {"reversed", "v", 1, true, "", true, reinterpret_cast<PyObject*>(&PyReversed_Type)},
    };
    const Ref module = Ref::steal(PyImport_ImportModule("itertools"));
    for (Lazy& row : *rows) {
      if (row.type) continue;
      row.type = module ? PyObject_GetAttrString(module.get(), row.name) : nullptr;  // lives as long as the process
      if (!row.type) row.type = builtin(row.name).get();
      PyErr_Clear();
    }
    return rows;
  });
}

const Lazy* lazy_of(PyObject* type) {
  for (const Lazy& row : lazies()) {
    if (type && row.type == type) return &row;
  }
  return nullptr;
}

// What asks for items by their numbers.
bool goes_by_number(const Lazy& row) { return row.type == reinterpret_cast<PyObject*>(&PySeqIter_Type) || row.type == reinterpret_cast<PyObject*>(&PyReversed_Type); }

// An iterator of this type that has come as far as the last argument, a list, says: what an exit makes.
PyObject* make_again(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  const bool accumulates = lazy_of(arguments[0])->parameters == std::string_view("ifv");
  static PyObject *const names = Py_BuildValue("(s)", "initial"), *const chains = PyUnicode_InternFromString("from_iterable");
  const bool is_chain = PyObject_HasAttr(arguments[0], chains);
  Ref callable = is_chain ? Ref::steal(PyObject_GetAttr(arguments[0], chains)) : Ref::borrow(arguments[0]);
  // islice wants to be told where to stop.
  PyObject* const of_slice[] = {arguments[1], Py_None};
  const bool slices = lazy_of(arguments[0])->step == std::string_view("islice_next");
  const bool by_iter = arguments[0] == reinterpret_cast<PyObject*>(&PySeqIter_Type) || arguments[0] == reinterpret_cast<PyObject*>(&PyCallIter_Type);
  if (by_iter) callable = Ref::borrow(builtin<"iter">());
  Ref made = Ref::steal(slices ? PyObject_Vectorcall(callable.get(), of_slice, 2, nullptr)
                               : PyObject_Vectorcall(callable.get(), arguments + 1, accumulates ? 2 : static_cast<size_t>(count) - 2, accumulates ? names : nullptr));
  PyObject* const progress = arguments[count - 1];
  if (made && PyList_GET_SIZE(progress) > 0) cpython::come_to(made.get(), PyList_GET_ITEM(progress, 0));
  return made.release();
}

PyObject* maker() {
  return c_function<make_again>("make_again");
}

// A group of groupby's, of this number, where the last argument, a list, says which one is given now.
PyObject* make_group_again(PyObject*, PyObject* const* arguments, Py_ssize_t) {
  PyObject* const now = PyTuple_GET_ITEM(PyList_GET_ITEM(arguments[4], 0), 0);
  const int is_given_now = PyObject_RichCompareBool(now, arguments[3], Py_EQ);
  return cpython::group_of(arguments[1], arguments[2], is_given_now == 1).release();
}

PyObject* maker_of_groups() {
  return c_function<make_group_again>("make_group_again");
}

PyObject* make_group(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return count == 2 ? cpython::group_of(arguments[0], arguments[1], true).release() : PyErr_Format(PyExc_TypeError, "a groupby and a key are wanted");
}

PyObject* ask_or_tell(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count == 2) return cpython::come_to(arguments[0], arguments[1]), Py_NewRef(Py_None);
  if (count != 1) return PyErr_Format(PyExc_TypeError, "an iterator is wanted, and what it has come to");
  const Ref found = cpython::has_come_to(arguments[0]);
  return found ? PyTuple_Pack(1, found.get()) : PyTuple_New(0);
}

// What such an iterator is made of.
struct Parts {
  const Lazy* row = nullptr;
  std::vector<uint32_t> labels;
  uint32_t progress = 0;  // a list of one element, or none
};
Parts parts_of_lazy(const Recorder& recorder, uint32_t label) {
  const Value value = recorder.value(label);
  if (value.kind != Value::Kind::kMade) return {};
  std::vector<uint32_t> labels = recorder.copied_elements(value);
  PyObject* const callable = recorder.constant_of(labels[0]);
  const bool again = callable == maker() || callable == maker_of_groups();
  const Lazy* const row = lazy_of(recorder.constant_of(labels[again ? 2 : 0]));
  if (!row || row->comes_to != again) return {};
  const uint32_t progress = again ? labels.back() : 0;
  if (again) labels.pop_back();
  labels.erase(labels.begin(), labels.begin() + (again ? 3 : 2));
  return {row, std::move(labels), progress};
}

// What it makes of an argument; 0: that isn't known.
uint32_t iterator_over(Recorder& recorder, uint32_t label, PyObject* object) {
  const Value value = recorder.value(label);
  if (value.kind == Value::Kind::kGenerator) return PyGen_CheckExact(object) ? label : 0;
  if (recorder.is_iterator(label) || is_lazy(recorder, label)) return label;
  if (const uint32_t by_number = iterator_by_number(recorder, {label, object})) return by_number;
  // An instance of a class that inherits a tuple's __iter__.
  static PyObject* const name = PyUnicode_InternFromString("__iter__");
  const uint32_t contents = PyTuple_Check(object) && _PyType_Lookup(Py_TYPE(object), name) == _PyType_Lookup(&PyTuple_Type, name) ? recorder.contents(label) : 0;
  std::optional<std::vector<uint32_t>> parts = contents ? recorder.copied_elements(recorder.value(contents)) : parts_of(recorder, label, object);
  return parts ? recorder.iterator(builtin<"iter">(), nullptr, {label}, *std::move(parts)) : 0;
}

// The number of the parameter; -1: there is none of this name, or it isn't given so.
int parameter_named(const Lazy& row, PyObject* name) {
  if (std::string_view(row.name) == "groupby") return is_named(name, "key") ? 1 : -1;
  if (std::string_view(row.name) != "accumulate") return -1;
  return is_named(name, "func") ? 1 : is_named(name, "initial") ? 2 : -1;
}

// The arguments by parameter, what is gone through as an iterator; empty: they aren't known.
std::vector<uint32_t> arguments_of(const Site& site, const Activation::CallSite& call, const Lazy& row) {
  Recorder& recorder = site.recorder;
  const std::string_view parameters(row.parameters);
  const int positional = call.count - call.keywords(), most = parameters == "I" ? 4 : static_cast<int>(parameters.size()) - (parameters.back() == 'v' ? 1 : 0);
  if (positional < row.required || positional > most) return {};
  const bool all = parameters.back() == 'v' || parameters == "if";
  std::vector<uint32_t> labels(all ? parameters.size() : static_cast<size_t>(positional));
  for (int i = 0; i < call.count; i++) {
    const int number = i < positional ? i : parameter_named(row, PyTuple_GET_ITEM(call.keyword_names.get(), i - positional)), slot = call.first + i;
    if (number < 0) return {};
    const char kind = parameters[std::min(static_cast<size_t>(number), parameters.size() - 1)];
    uint32_t& label = labels[static_cast<size_t>(number)];
    label = kind == 'i' || kind == 'I' ? iterator_over(recorder, recorder.label(slot), site.frame.slot(slot)) : recorder.label(slot);
    if (!label) return {};
  }
  for (uint32_t& label : labels) {
    if (!label) label = recorder.constant(Py_None);
  }
  return labels;
}

bool has_steps(Recorder& recorder, uint32_t label, PyObject* object) {
  return recorder.value(label).kind == Value::Kind::kGenerator || is_lazy(recorder, label) || is_asked_by_number(recorder, {label, object});
}

std::optional<Plan> made_lazily(Recorder& recorder, const Lazy& row, std::vector<uint32_t> labels, std::vector<uint32_t> progress = {}) {
  if (!row.comes_to) return plan_value(recorder.made(row.type, nullptr, labels));
  labels.insert(labels.begin(), recorder.constant(row.type));
  labels.push_back(recorder.container(Value::Kind::kList, std::move(progress)));
  return plan_value(recorder.made(maker(), nullptr, labels));
}

// enumerate(iterable, start)
std::optional<Plan> making_enumerate(const Site& site, const Activation::CallSite& call, const Lazy& row) {
  Recorder& recorder = site.recorder;
  if (call.count < 1 || call.count > 2 || call.keywords() == call.count || !has_steps(recorder, recorder.label(call.first), site.frame.slot(call.first))) return std::nullopt;
  if (call.keyword_names && !is_named(PyTuple_GET_ITEM(call.keyword_names.get(), 0), "start")) return std::nullopt;
  PyObject* const start = call.count == 2 ? site.frame.slot(call.first + 1) : nullptr;
  if (start && (!PyLong_CheckExact(start) || recorder.is_input_number(recorder.label(call.first + 1), start) || !recorder.known(recorder.label(call.first + 1), start))) return std::nullopt;
  int overflows = 0;
  const long number = start ? PyLong_AsLongAndOverflow(start, &overflows) : 0;
  if (overflows || number > PY_SSIZE_T_MAX / 2) return std::nullopt;
  const uint32_t through = iterator_over(recorder, recorder.label(call.first), site.frame.slot(call.first));
  return through ? made_lazily(recorder, row, {through}, {recorder.constant(Ref::steal(PyLong_FromLong(number)).get())}) : std::nullopt;
}

// The number of the group that is given now, and the other parts of what groupby has come to.
uint32_t state_of_groups(Recorder& recorder, long number, const std::vector<uint32_t>& before) {
  std::vector<uint32_t> parts{recorder.constant(Ref::steal(PyLong_FromLong(number)).get())};
  for (size_t i = 1; i < 4; i++) parts.push_back(before.empty() ? recorder.container(Value::Kind::kTuple, {}) : before[i]);
  return recorder.container(Value::Kind::kTuple, std::move(parts));
}

// A new group, asked for by a stand-in. Each has a number of its own.
Plan group_call(Recorder& recorder, const Activation::CallSite& call) {
  const uint32_t groups = recorder.label(call.first);
  const Parts parts = parts_of_lazy(recorder, groups);
  if (!parts.progress || call.count != 2) return plan_break(Break::kUnknownCall, "group");
  const auto number = static_cast<long>(recorder.recording().values.size());
  const Lazy* const row = &*std::find_if(lazies().begin(), lazies().end(), [](const Lazy& one) { return std::string_view(one.name) == "_grouper"; });
  const std::vector<uint32_t> state = recorder.copied_elements(recorder.value(recorder.elements(recorder.value(parts.progress))[0]));
  const uint32_t of_number = recorder.constant(Ref::steal(PyLong_FromLong(number)).get());
  Plan plan = plan_value(recorder.made(maker_of_groups(), nullptr, {recorder.constant(row->type), groups, recorder.label(call.first + 1), of_number, parts.progress}));
  plan.changed = parts.progress;
  plan.contents = {state_of_groups(recorder, number, state)};
  return plan;
}

// islice(iterable, stop), islice(iterable, start, stop[, step])
std::optional<Plan> making_slice(const Site& site, const Activation::CallSite& call, const Lazy& row) {
  Recorder& recorder = site.recorder;
  if (call.count < 2 || call.count > 4 || call.keyword_names || !has_steps(recorder, recorder.label(call.first), site.frame.slot(call.first))) return std::nullopt;
  long numbers[] = {0, -1, 1};
  for (int i = 1; i < call.count; i++) {
    PyObject* const number = site.frame.slot(call.first + i);
    const uint32_t label = recorder.label(call.first + i);
    const bool fits = (number == Py_None || PyLong_CheckExact(number)) && !recorder.is_input_number(label, number) && recorder.known(label, number);
    if (!fits) return std::nullopt;
    long& to = numbers[call.count == 2 ? 1 : i - 1];
    int overflows = 0;
    if (number != Py_None) to = PyLong_AsLongAndOverflow(number, &overflows);
    // What is wrong, or may overflow, is CPython's affair.
    if (overflows || (number != Py_None && (to < (i == 3 ? 1 : 0) || to > INT32_MAX))) return std::nullopt;
  }
  std::vector<uint32_t> progress;
  for (const long number : {0L, numbers[0], numbers[1], numbers[2]}) progress.push_back(recorder.constant(Ref::steal(PyLong_FromLong(number)).get()));
  const uint32_t through = iterator_over(recorder, recorder.label(call.first), site.frame.slot(call.first));
  return through ? made_lazily(recorder, row, {through}, {recorder.container(Value::Kind::kTuple, std::move(progress))}) : std::nullopt;
}

// reversed(array)
std::optional<Plan> making_reversed(const Site& site, const Activation::CallSite& call) {
  const Operated of{site.recorder.label(call.first), site.frame.slot(call.first)};
  if (call.count != 1 || call.keyword_names || !fixes_rows(site.recorder, of, kMaxParts)) return std::nullopt;
  return plan_value(made_by_number(site.recorder, &PyReversed_Type, of.label, PyObject_Size(of.object) - 1));
}

std::optional<Plan> making(const Site& site, const Activation::CallSite& call, const Lazy& row) {
  Recorder& recorder = site.recorder;
  const std::string_view name(row.name);
  if (name == "enumerate") return making_enumerate(site, call, row);
  if (name == "islice") return making_slice(site, call, row);
  if (name == "reversed") return making_reversed(site, call);
  if (name == "iterator" || name == "callable_iterator") return std::nullopt;
  bool any_steps = false;
  for (int i = call.first; row.rarely && i < call.first + call.count; i++) {
    // What is held elsewhere may go on in between.
    const bool shared = name == "chain" && recorder.is_iterator(recorder.label(i)) && Py_REFCNT(site.frame.slot(i)) > 1;
    any_steps = any_steps || shared || has_steps(recorder, recorder.label(i), site.frame.slot(i));
  }
  if (row.rarely && !any_steps) return std::nullopt;
  if (name == "chain") {
    std::vector<uint32_t> sources;
    for (int i = call.first; i < call.first + call.count; i++) sources.push_back(recorder.label(i));
    const uint32_t tuple = recorder.container(Value::Kind::kTuple, sources);
    return call.keyword_names ? std::nullopt : made_lazily(recorder, row, {recorder.iterator(builtin<"iter">(), nullptr, {tuple}, std::move(sources))});
  }
  std::vector<uint32_t> labels = arguments_of(site, call, row);
  if (name == "_grouper") return std::nullopt;
  if (name == "groupby" && !labels.empty()) return made_lazily(recorder, row, std::move(labels), {state_of_groups(recorder, 0, {})});
  return labels.empty() ? std::nullopt : made_lazily(recorder, row, std::move(labels));
}

// An instance whose __iter__ is a function of Python's, or a tensor, and which isn't an iterator itself.
bool is_asked_for_iterator(Recorder& recorder, const Operated& operand) {
  return !PyIter_Check(operand.object) && !is_lazy(recorder, operand.label) && !recorder.is_iterator(operand.label) && has_method(recorder, operand, "__iter__");
}

// zip(instance, ...), map(f, instance), islice(instance, 2): the instances are asked before the call.
std::optional<Plan> over_instances(const Site& site, const Activation::CallSite& call, const Lazy& row) {
  Recorder& recorder = site.recorder;
  const std::string_view parameters(row.parameters);
  if (call.keyword_names || std::string_view(row.name) == "chain") return std::nullopt;
  const Ref asks = Ref::steal(PyTuple_New(call.count));
  bool any = false;
  for (int i = 0; i < call.count; i++) {
    const char kind = parameters[std::min(static_cast<size_t>(i), parameters.size() - 1)];
    const bool is_gone_through = kind == 'I' || (kind == 'i' && static_cast<size_t>(i) < parameters.size());
    const bool asked = is_gone_through && is_asked_for_iterator(recorder, {recorder.label(call.first + i), site.frame.slot(call.first + i)});
    PyTuple_SET_ITEM(asks.get(), i, Py_NewRef(asked ? Py_True : Py_False));
    any = any || asked;
  }
  std::optional<Plan> plan = any ? stand_in_call(site, ("over_iterators_" + std::to_string(call.count)).c_str()) : std::nullopt;
  if (!plan) return std::nullopt;
  give(*plan, {recorder.constant(row.type), row.type});
  give(*plan, {recorder.constant(asks.get()), recorder.constant_of(recorder.constant(asks.get()))});
  for (int i = 0; i < call.count; i++) give(*plan, {recorder.label(call.first + i), site.frame.slot(call.first + i)});
  return plan;
}

// chain.from_iterable(...), which is a new object each time that it is looked up.
std::optional<Plan> making_chain(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const Lazy* const row = PyCFunction_CheckExact(callable) && PyCFunction_GET_SELF(callable) ? lazy_of(PyCFunction_GET_SELF(callable)) : nullptr;
  if (!row || std::string_view(row->name) != "chain" || call.count != 1 || call.keyword_names) return std::nullopt;
  if (std::string_view(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) != "from_iterable") return std::nullopt;
  const uint32_t source = iterator_over(site.recorder, site.recorder.label(call.first), site.frame.slot(call.first));
  return source ? made_lazily(site.recorder, *row, {source}) : std::nullopt;
}

// An iterator of C's, which gives itself.
bool is_asked_once(Recorder& recorder, const Operated& iterator) {
  const bool generator = recorder.value(iterator.label).kind == Value::Kind::kGenerator && PyGen_CheckExact(iterator.object);
  return generator || is_lazy(recorder, iterator.label) || recorder.is_iterator(iterator.label);
}

// iter(...) of what is an iterator, or is asked for items by number, or of a function and what ends it.
std::optional<Plan> iter_of_iterator(const Site& site, const Activation::CallSite& call) {
  const uint32_t label = site.recorder.label(call.first);
  if (call.count == 2 && !call.keyword_names && PyCallable_Check(site.frame.slot(call.first)) && fixes_type(site.recorder, label, site.frame.slot(call.first))) {
    const Lazy* const row = lazy_of(reinterpret_cast<PyObject*>(&PyCallIter_Type));
    return made_lazily(site.recorder, *row, {label, site.recorder.label(call.first + 1)});
  }
  const uint32_t by_number = call.count == 1 && !call.keyword_names ? iterator_by_number(site.recorder, {label, site.frame.slot(call.first)}) : 0;
  if (by_number) return plan_value(by_number);
  const bool fits = call.count == 1 && !call.keyword_names && is_asked_once(site.recorder, {label, site.frame.slot(call.first)});
  return fits ? std::optional<Plan>(plan_value(label)) : std::nullopt;
}

// asked(...), see stand_ins.h: of what is asked once for all, the iterator itself.
Plan asked_call(const Site& site, const Activation::CallSite& call) {
  const Operated iterator{site.recorder.label(call.first), site.frame.slot(call.first)};
  return is_asked_once(site.recorder, iterator) ? plan_value(iterator.label) : plan_break(Break::kUnknownCall, "asked");
}

// The step's stand-in, and which of the parts it is given behind the iterator itself.
struct Step {
  std::string name;
  std::vector<size_t> given;
  bool of_itself = true;
};
Step step_of(const Parts& parts, bool begun, bool has_initial) {
  const std::string_view name(parts.row->name);
  if (name == "takewhile" && begun) return {"ended", {}, false};
  if (name == "dropwhile" && begun) return {"step", {1}, false};
  if (name == "accumulate") return !begun && has_initial ? Step{"accumulate_initial", {2}} : Step{parts.row->step, {1, 0}};
  std::vector<size_t> all(parts.labels.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const bool by_number = name == "zip" || (name == "map" && all.size() == 3);
  const std::string number = name == "zip" ? std::to_string(all.size()) : by_number ? "_2" : "";
  return {parts.row->step + number, std::move(all), parts.row->comes_to && name != "zip"};
}

std::optional<Plan> step(const Site& site, const Operated& iterator) {
  Recorder& recorder = site.recorder;
  Parts parts = parts_of_lazy(recorder, iterator.label);
  if (!parts.row) return std::nullopt;
  std::vector<Ref> objects = cpython::asked_by(iterator.object);
  if (objects.size() != parts.labels.size()) return std::nullopt;
  if (std::string_view(parts.row->name) == "_grouper") {
    // It goes on with what its groupby goes through.
    const Parts groups = parts_of_lazy(recorder, parts.labels[0]);
    std::vector<Ref> more = cpython::asked_by(objects[0].get());
    if (!groups.row || more.size() != 2) return std::nullopt;
    parts.labels.pop_back(), objects.pop_back();
    for (size_t i = 0; i < 2; i++) parts.labels.push_back(groups.labels[i]), objects.push_back(std::move(more[i]));
  }
  const bool of_array = goes_by_number(*parts.row) && (numpy::is_exact_array(objects[0].get()) || objects[0].get() == Py_None);
  if (of_array) return item_of_array(site, iterator.object, parts.progress, {parts.labels[0], objects[0].get()});
  const bool begun = parts.progress && !recorder.elements(recorder.value(parts.progress)).empty();
  const Step step = step_of(parts, begun, objects.back().get() != Py_None);
  std::optional<Plan> plan = stand_in_call(site, step.name.c_str());
  if (!plan) return std::nullopt;
  if (step.of_itself) give(*plan, iterator);
  for (const size_t i : step.given) give(*plan, {parts.labels[i], objects[i].get()});
  plan->held = std::move(objects);
  return plan;
}

// What a generator returns is the value of the StopIteration, which nobody sees but who asks for the next one.
bool ends_with_a_value(const Recorder& recorder, uint32_t label) {
  const Parts parts = parts_of_lazy(recorder, label);
  for (size_t i = 0; parts.row && i < parts.labels.size(); i++) {
    const bool gone_through = parts.row->parameters[0] == 'I' || parts.row->parameters[i] == 'i';
    if (gone_through && !recorder.is_iterator(parts.labels[i]) && (!is_lazy(recorder, parts.labels[i]) || ends_with_a_value(recorder, parts.labels[i]))) return true;
  }
  return false;
}

std::optional<Plan> next_of_lazy(const Site& site, const Activation::CallSite& call) {
  Recorder& recorder = site.recorder;
  const Operated iterator{recorder.label(call.first), site.frame.slot(call.first)};
  if (call.keyword_names || call.count > 2 || !is_lazy(recorder, iterator.label)) return std::nullopt;
  if (call.count == 1) return ends_with_a_value(recorder, iterator.label) ? std::nullopt : step(site, iterator);
  std::optional<Plan> plan = stand_in_call(site, "step_or");
  for (int slot = call.first; plan && slot < call.first + 2; slot++) give(*plan, {recorder.label(slot), site.frame.slot(slot)});
  return plan;
}

// Asked or told by a stand-in.
Plan progress_call(Recorder& recorder, const Site& site, const Activation::CallSite& call) {
  const Parts parts = parts_of_lazy(recorder, recorder.label(call.first));
  if (!parts.progress) return plan_break(Break::kUnknownCall, "progress");
  const std::vector<uint32_t> known = recorder.copied_elements(recorder.value(parts.progress));
  if (std::string_view(parts.row->name) == "_grouper") {
    const uint32_t now = recorder.elements(recorder.value(known[0]))[0];
    const bool is_given = PyObject_RichCompareBool(recorder.constant_of(now), recorder.constant_of(parts.labels[2]), Py_EQ) == 1;
    return plan_value(recorder.container(Value::Kind::kTuple, is_given ? std::vector<uint32_t>{recorder.constant(Py_True)} : std::vector<uint32_t>{}));
  }
  if (call.count == 1) return known.empty() ? plan_constant() : plan_value(recorder.container(Value::Kind::kTuple, {known[0]}));
  Plan plan = plan_constant();
  plan.changed = parts.progress;
  plan.contents = {recorder.label(call.first + 1)};
  return site.frame.slot(call.first + 1) ? std::move(plan) : plan_break(Break::kUnknownCall, "progress");
}

}  // namespace

uint32_t enumeration_by_steps(Recorder& recorder, uint32_t generator) {
  const uint32_t zero = recorder.constant(Ref::steal(PyLong_FromLong(0)).get());
  return made_lazily(recorder, *lazy_of(reinterpret_cast<PyObject*>(&PyEnum_Type)), {generator}, {zero})->label;
}

PyObject* progress_of_lazies() {
  return c_function<ask_or_tell>("progress", "What an iterator has come to, as a tuple of one or none; or it comes to that.");
}

PyObject* group_of_lazies() {
  return c_function<make_group>("group", "A new group of groupby's.");
}

uint32_t made_by_number(Recorder& recorder, PyTypeObject* type, uint32_t label, Py_ssize_t first) {
  const uint32_t progress = recorder.container(Value::Kind::kList, {recorder.constant(Ref::steal(PyLong_FromSsize_t(first)).get())});
  return recorder.made(maker(), nullptr, {recorder.constant(type), label, progress});
}

// Of several that are gone through together, the first that ends.
std::optional<Py_ssize_t> turns_to_come(const Recorder& recorder, uint32_t label, PyObject* iterator) {
  if (recorder.is_iterator(label) && !recorder.is_endless(label)) return std::max(recorder.steps_to_end(label), 1U) - 1;  // it may have told of its end
  const Parts parts = parts_of_lazy(recorder, label);
  const std::vector<Ref> objects = cpython::asked_by(iterator);
  if (!parts.row || objects.size() != parts.labels.size()) return std::nullopt;
  if (goes_by_number(*parts.row)) return rows_to_come(recorder, parts.progress, objects[0].get(), Py_IS_TYPE(iterator, &PyReversed_Type));
  std::optional<Py_ssize_t> fewest;
  for (size_t i = 0; i < objects.size(); i++) {
    const std::optional<Py_ssize_t> turns = turns_to_come(recorder, parts.labels[i], objects[i].get());
    if (turns) fewest = std::min(fewest.value_or(*turns), *turns);
  }
  return fewest;
}

bool is_lazy(const Recorder& recorder, uint32_t label) { return parts_of_lazy(recorder, label).row != nullptr; }

std::optional<Plan> lazy_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (callable == progress_of_lazies() && call.count > 0) return progress_call(site.recorder, site, call);
  if (callable == asked_iterator() && call.count > 0) return asked_call(site, call);
  if (callable == group_of_lazies() && call.count > 0) return group_call(site.recorder, call);
  if (callable == builtin<"next">().get() && call.count > 0) return next_of_lazy(site, call);
  if (callable == builtin<"iter">().get() && call.count > 0) return iter_of_iterator(site, call);
  if (std::optional<Plan> plan = making_chain(site, call, callable)) return plan;
  const Lazy* const row = lazy_of(callable);
  if (!row) return std::nullopt;
  std::optional<Plan> plan = over_instances(site, call, *row);
  return plan ? std::move(plan) : making(site, call, *row);
}

std::optional<Plan> lazy_step(const Site& site) { return step(site, {site.recorder.label(site.depth - 1), site.frame.slot(site.depth - 1)}); }

}  // namespace evalframe::recorder
