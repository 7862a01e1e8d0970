// Rules for what classes of the program's say of their instances: operators, comparisons, truth, length, items, calls. The method is
// followed as any function; what the instruction does with its result is a rest (evaluator/rest.h) that waits on the caller's stack.
#include <algorithm>

#include "bytecode/operators.h"
#include "bytecode/stack.h"
#include "core/builtins.h"
#include "core/kept_name.h"
#include "cpython/attributes.h"
#include "cpython/objects.h"
#include "evaluator/rest.h"
#include "frontends/numpy/calls.h"
#include "frontends/torch/tensors.h"
#include "recorder/rules/rules.h"
#include "recorder/stand_ins.h"

namespace evalframe::recorder {

std::pair<Ref, uint32_t> made_rest(Recorder& recorder, const std::vector<Ref>& parts, std::vector<uint32_t> labels) {
  const Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
  for (size_t i = 0; tuple && i < parts.size(); i++) PyTuple_SET_ITEM(tuple.get(), i, Ref::borrow(parts[i].get()).release());
  Ref object = tuple ? evaluator::make_rest(tuple.get()) : Ref();
  if (!object) PyErr_Clear();
  return {std::move(object), recorder.made(evaluator::rest_type(), nullptr, {recorder.container(Value::Kind::kTuple, std::move(labels))})};
}

bool ends_here(Recorder& recorder, PyObject* object) { return object && tells_of_its_end(object) && recorder.is_last_reference(object); }

namespace {

using evaluator::Activation;
using Candidate = Rest::Candidate;

Ref interned(const char* text) { return Ref::steal(PyUnicode_InternFromString(text)); }

bool is_of_python(PyTypeObject* type) { return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE); }

// An object whose class may have methods of Python's, which stays as it is.
bool is_instance(Recorder& recorder, const Operated& operand) {
  const Value value = recorder.value(operand.label);
  // A class, whose metaclass has the methods.
  if (PyType_Check(operand.object)) {
    return is_of_python(Py_TYPE(operand.object)) && fixes_object(recorder, operand.label, operand.object) && fixes_metaclass(recorder, operand.object);
  }
  const bool computed = value.kind == Value::Kind::kNode && torch::is_tensor(operand.object);
  if (computed) return static_cast<bool>(recorder.operand(operand.label, operand.object)) && recorder.fix_class(reinterpret_cast<PyObject*>(Py_TYPE(operand.object)));
  return is_of_python(Py_TYPE(operand.object)) && is_object(value) && fixes_class(recorder, value, operand.object);
}

// The class's method of this name, where it is a function of Python's that can be followed; null: another one, or none.
PyObject* method_of(PyTypeObject* type, PyObject* name) {
  PyObject* const found = _PyType_Lookup(type, name);
  return found && is_plain_function(found) && numpy::call_kind(found) == numpy::CallKind::kUnknown ? found : nullptr;
}

int operands_of(const bytecode::Instruction& instruction) {
  if (instruction.op == bytecode::Op::CALL) return instruction.arg + 2;
  if (instruction.op == bytecode::Op::CALL_KW) return instruction.arg + 3;
  return bytecode::stack_effect(instruction).takes;
}

// A call of the method `name` of the operand in `slot`, whose result the instruction goes on with: it leaves `results`.
Plan call_for_operand(const Site& site, PyObject* function, const char* name, int slot, const std::vector<Operated>& more, std::vector<uint32_t> results) {
  Recorder& recorder = site.recorder;
  const int first = site.depth - operands_of(site.instruction);
  std::vector<Ref> parts;
  parts.push_back(interned(name));
  parts.push_back(Ref::steal(PyLong_FromLong(slot - first)));
  std::vector<uint32_t> labels{recorder.constant(parts[0].get()), recorder.constant(parts[1].get())};
  for (int i = first; i < site.depth; i++) {
    PyObject* const object = site.frame.slot(i);
    // A generator that the recorded code made is looked after where it is let go.
    const bool is_looked_after = recorder.value(recorder.label(i)).kind == Value::Kind::kGenerator;
    if (!is_looked_after && ends_here(recorder, object)) return plan_break(Break::kUnknownObject, "an operand whose end is told");
    parts.push_back(Ref::borrow(object ? object : evaluator::rest_type()));
    labels.push_back(object ? recorder.label(i) : recorder.constant(evaluator::rest_type()));
  }
  auto rest = std::make_shared<Rest>();
  rest->name = interned(name);
  rest->results = std::move(results);
  Plan plan = inlined_call(site, recorder.constant(function), function, nullptr);
  plan.contents = {recorder.label(slot)};
  plan.arguments = {site.frame.slot(slot)};
  for (const Operated& argument : more) give(plan, argument);
  plan.kept.push_back(made_rest(recorder, parts, std::move(labels)));
  plan.rest = std::move(rest);
  return plan.kept[0].first ? std::move(plan) : plan_break(Break::kUnknownObject, type_name(site.frame.slot(slot)));
}

// A call whose result is what the instruction leaves.
Plan plain_call(const Site& site, PyObject* function, const std::vector<Operated>& arguments) {
  for (const Operated& argument : arguments) {
    if (ends_here(site.recorder, argument.object)) return plan_break(Break::kUnknownObject, "an operand whose end is told");
  }
  Plan plan = inlined_call(site, site.recorder.constant(function), function, nullptr);
  for (const Operated& argument : arguments) give(plan, argument);
  return plan;
}

// --- operators -------------------------------------------------------------------------------------------------------

// A class of the program's whose instances builtin operators take for numbers or containers of their own.
bool extends_builtin(PyTypeObject* type) {
  constexpr unsigned long kBuiltin = Py_TPFLAGS_LONG_SUBCLASS | Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS | Py_TPFLAGS_BYTES_SUBCLASS |
                                     Py_TPFLAGS_UNICODE_SUBCLASS | Py_TPFLAGS_DICT_SUBCLASS;
  return (type->tp_flags & kBuiltin) || PyType_IsSubtype(type, &PyFloat_Type) || PyType_IsSubtype(type, &PyComplex_Type);
}

// A builtin object whose own operators have nothing to say of `other`, an instance of a class of the program's.
bool knows_no_instances(PyObject* object, PyObject* other) {
  if (extends_builtin(Py_TYPE(other))) return false;
  PyTypeObject* const type = Py_TYPE(object);
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyComplex_Type || type == &PyUnicode_Type || type == &PyTuple_Type ||
         type == &PyList_Type || type == &PyDict_Type || type == &PyBytes_Type || object == Py_None;
}

// `a + b` and `a * n` of sequences come behind the methods.
bool is_sequence(PyObject* object) {
  const PySequenceMethods* const methods = Py_TYPE(object)->tp_as_sequence;
  return methods && (methods->sq_concat || methods->sq_repeat);
}

class Candidates {
 public:
  Candidates(Recorder& recorder, const Operated& left, const Operated& right) : recorder_(recorder), operands_{left, right} {}

  // False: it can't be told what asking the operand's method comes to.
  bool add(bool of_right, PyObject* name) {
    PyObject* const self = operands_[of_right].object;
    if (knows_no_instances(self, operands_[!of_right].object)) return true;
    PyObject* const found = _PyType_Lookup(Py_TYPE(self), name);
    if (!found) return true;
    if (!method_of(Py_TYPE(self), name)) return false;
    list_.push_back({Ref::borrow(found), Ref::borrow(name), of_right, false});
    return true;
  }

  // ... for a comparison, where object has methods of its own.
  bool add_comparison(bool of_right, PyObject* name, int number) {
    PyTypeObject* const type = Py_TYPE(operands_[of_right].object);
    if (knows_no_instances(operands_[of_right].object, operands_[!of_right].object)) return true;
    PyObject* const found = _PyType_Lookup(type, name);
    if (found && found != _PyType_Lookup(&PyBaseObject_Type, name)) return add(of_right, name);
    if (number != Py_EQ && number != Py_NE) return true;
    static const Ref* const equal = new Ref(interned("__eq__"));
    const bool inherits = _PyType_Lookup(type, equal->get()) == _PyType_Lookup(&PyBaseObject_Type, equal->get());
    // Equal where it is the same object, which comes to the same in the end, if no other method is asked before.
    if (inherits) return operands_[0].object != operands_[1].object;
    if (number != Py_NE || !add(of_right, equal->get()) || list_.empty()) return false;
    list_.back().name = Ref::borrow(name);
    list_.back().inverted = true;
    return true;
  }

  std::vector<Candidate>& list() { return list_; }

 private:
  Recorder& recorder_;
  const Operated operands_[2];
  std::vector<Candidate> list_;
};

bool takes_two(PyObject* function) {
  const auto* const code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code);
  return code->co_argcount == 2 && code->co_kwonlyargcount == 0 && !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
}

// Asks the first candidate; the others are the rest.
std::optional<Plan> ask(Recorder& recorder, Rest rest, Plan plan) {
  const Candidate asked{Ref::borrow(rest.candidates[0].function.get()), Ref::borrow(rest.candidates[0].name.get()), rest.candidates[0].of_right, rest.candidates[0].inverted};
  rest.candidates.erase(rest.candidates.begin());
  rest.inverted = asked.inverted;
  if (!takes_two(asked.function.get())) return std::nullopt;
  const Ref others = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(rest.candidates.size())));
  for (size_t i = 0; others && i < rest.candidates.size(); i++) {
    PyObject* const pair = PyTuple_Pack(2, rest.candidates[i].of_right ? Py_True : Py_False, rest.candidates[i].name.get());
    if (!pair) return PyErr_Clear(), std::nullopt;
    PyTuple_SET_ITEM(others.get(), i, pair);
  }
  if (!others) return PyErr_Clear(), std::nullopt;
  std::vector<Ref> parts;
  for (PyObject* const part : {rest.inverted ? Py_True : Py_False, others.get(), rest.objects[0].get(), rest.objects[1].get()}) parts.push_back(Ref::borrow(part));
  plan.kept.push_back(made_rest(recorder, parts, {recorder.constant(parts[0].get()), recorder.constant(others.get()), rest.operands[0], rest.operands[1]}));
  if (!plan.kept[0].first) return std::nullopt;
  plan.kind = Plan::Kind::kInline;
  plan.function = asked.function.get();
  recorder.require_function(asked.function.get());
  recorder.calls(recorder.constant(asked.function.get()));
  for (const bool of_right : {asked.of_right, !asked.of_right}) give(plan, {rest.operands[of_right], rest.objects[of_right].get()});
  plan.rest = std::make_shared<Rest>(std::move(rest));
  return plan;
}

std::optional<Plan> asked(const Site& site, const Operated& left, const Operated& right, std::vector<Candidate> candidates, bool compares) {
  Rest rest;
  rest.candidates = std::move(candidates);
  rest.operands = {left.label, right.label};
  rest.objects.push_back(Ref::borrow(left.object));
  rest.objects.push_back(Ref::borrow(right.object));
  rest.compares = compares;
  rest.number = site.instruction.arg;
  rest.as_bool = compares && site.instruction.arg2 > 0 && (site.instruction.arg2 & 16);
  return ask(site.recorder, std::move(rest), {});
}

// The operands' types are fixed, and one of them may have methods of Python's. Arrays have operators of their own.
bool may_ask(Recorder& recorder, const Operated& left, const Operated& right) {
  const auto fits = [&](const Operated& operand) {
    if (recorder.value(operand.label).kind == Value::Kind::kNull) return false;
    return is_of_python(Py_TYPE(operand.object)) ? is_instance(recorder, operand) : fixes_type(recorder, operand.label, operand.object);
  };
  if (!is_of_python(Py_TYPE(left.object)) && !is_of_python(Py_TYPE(right.object))) return false;
  if (ends_here(recorder, left.object) || ends_here(recorder, right.object)) return false;
  return fits(left) && fits(right);
}

struct OperatorNames {
  Ref plain, reflected, in_place;
};
const OperatorNames& names_of_operator(int number) {
  static const auto* const names = [] {
    auto* const made = new std::vector<OperatorNames>();
    const auto add = [&](std::string name) {
      if (name.back() == '_') name.pop_back();  // and_, or_
      made->push_back({interned(("__" + name + "__").c_str()), interned(("__r" + name + "__").c_str()), interned(("__i" + name + "__").c_str())});
    };
#define EVALFRAME_BINARY(number, name, symbol, function, ufunc) add(function);
#include "bytecode/operators.def"
    return made;
  }();
  return (*names)[static_cast<size_t>(bytecode::binary_op(number))];
}

bool is_strict_subtype(PyObject* object, PyObject* of) { return Py_TYPE(object) != Py_TYPE(of) && PyType_IsSubtype(Py_TYPE(object), Py_TYPE(of)); }

// --- results of followed methods ---------------------------------------------------------------------------------------------

// Known, and no other in the next call.
bool is_fixed(Recorder& recorder, uint32_t label, PyObject* object) { return !recorder.is_input_number(label, object) && recorder.known(label, object); }

// Whether it is what a method of this name has to give, so that nothing but its value matters.
bool is_result_of(PyObject* name, PyObject* object) {
  const auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
  if (is("__bool__")) return PyBool_Check(object);
  int overflows = 0;
  if (is("__len__")) return PyLong_CheckExact(object) && PyLong_AsLongLongAndOverflow(object, &overflows) >= 0 && !overflows;
  if (is("__hash__") || is("__index__") || is("__int__")) return PyLong_CheckExact(object);
  if (is("__float__")) return PyFloat_CheckExact(object);
  if (is("__repr__") || is("__str__") || is("__format__")) return PyUnicode_CheckExact(object);
  return is("__contains__");
}

Plan unknown_result(PyObject* object) { return plan_break(Break::kResult, type_name(object)); }

// The elements of what __iter__ gave, for who unpacks it.
std::optional<Plan> unpack_result(Recorder& recorder, const Rest& rest, uint32_t label, PyObject* object) {
  std::vector<uint32_t> results = rest.results;
  const std::optional<std::vector<uint32_t>> items = recorder.is_iterator(label) ? parts_of(recorder, label, object) : std::nullopt;
  if (!items || items->size() != results.size()) return unknown_result(object);
  std::reverse_copy(items->begin(), items->end(), results.begin());
  recorder.conclude(std::move(results), label);
  return std::nullopt;
}

// iter(instance) and enumerate(instance), of whose iterator nobody else can take anything.
std::optional<Plan> iterator_returned(Recorder& recorder, const Rest& rest, uint32_t label, PyObject* object) {
  const bool has_steps = recorder.value(label).kind == Value::Kind::kGenerator && PyGen_CheckExact(object);
  if (!has_steps && !recorder.is_iterator(label)) return unknown_result(object);
  if (rest.goes_through.get() == builtin<"iter">().get()) return recorder.conclude({label}), std::nullopt;
  if (Py_REFCNT(object) != 1) return unknown_result(object);
  const std::optional<uint32_t> made = has_steps ? enumeration_by_steps(recorder, label) : enumeration_of(recorder, label, object);
  return made ? (recorder.conclude({*made}), std::nullopt) : std::optional(unknown_result(object));
}

// What the asynchronous methods give is as good as the instructions want it to be.
bool suits_awaiting(Recorder& recorder, PyObject* name, uint32_t label, PyObject* object) {
  const auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
  const bool generator = recorder.value(label).kind == Value::Kind::kGenerator;
  if (is("__anext__")) return generator && PyCoro_CheckExact(object);
  const int flags = generator ? recorder.recording().generators[recorder.value(label).a].code->code.as<PyCodeObject>()->co_flags : 0;
  if (is("__await__")) return generator && PyGen_CheckExact(object) && !(flags & CO_ITERABLE_COROUTINE);
  static const Ref* const next = new Ref(interned("__anext__"));
  return is("__aiter__") && is_instance(recorder, {label, object}) && method_of(Py_TYPE(object), next->get());
}

std::optional<Plan> operand_returned(Recorder& recorder, const Rest& rest, uint32_t label, PyObject* object) {
  if (suits_awaiting(recorder, rest.name.get(), label, object)) {
    std::vector<uint32_t> results = rest.results;
    results.back() = label;
    recorder.conclude(std::move(results));
    return std::nullopt;
  }
  if (rest.goes_through) return iterator_returned(recorder, rest, label, object);
  if (PyUnicode_CompareWithASCIIString(rest.name.get(), "__iter__") == 0) return unpack_result(recorder, rest, label, object);
  const auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(rest.name.get(), text) == 0; };
  if (!is_result_of(rest.name.get(), object)) return PyErr_Clear(), unknown_result(object);
  // int() and float() give what these give.
  if ((is("__int__") || is("__float__")) && recorder.is_number(label, object)) return recorder.conclude({label}), std::nullopt;
  const bool asks_truth = is("__bool__") || is("__contains__");
  const bool fixed = is_fixed(recorder, label, object) || (asks_truth && recorder.check_truth(label, object));
  if (PyErr_Occurred()) PyErr_Clear();
  if (!fixed) return unknown_result(object);
  recorder.conclude(rest.results);
  return std::nullopt;
}

Rest copy_of(const Rest& rest) {
  Rest copy;
  for (const Candidate& candidate : rest.candidates) copy.candidates.push_back({Ref::borrow(candidate.function.get()), Ref::borrow(candidate.name.get()), candidate.of_right, candidate.inverted});
  copy.operands = rest.operands;
  for (const Ref& object : rest.objects) copy.objects.push_back(Ref::borrow(object.get()));
  copy.as_bool = rest.as_bool, copy.compares = rest.compares, copy.number = rest.number;
  return copy;
}

std::optional<Plan> operator_returned(Recorder& recorder, const Rest& rest, uint32_t label, PyObject* object) {
  if (object != Py_NotImplemented) {
    if (rest.inverted || rest.as_bool) {
      if (!is_fixed(recorder, label, object) && !recorder.check_truth(label, object)) return unknown_result(object);
      recorder.conclude({0});
      return std::nullopt;
    }
    const Value value = recorder.value(label);
    if (value.kind != Value::Kind::kConstant && !fixes_type(recorder, label, object)) return unknown_result(object);
    recorder.conclude({label});
    return std::nullopt;
  }
  if (!fixes_object(recorder, label, object)) return unknown_result(object);
  if (!rest.candidates.empty()) {
    std::optional<Plan> plan = ask(recorder, copy_of(rest), {});
    if (!plan) return unknown_result(object);
    recorder.follow_up(*std::move(plan));
    return std::nullopt;
  }
  const bool of_equality = rest.compares && (rest.number == Py_EQ || rest.number == Py_NE);
  if (!of_equality || !fixes_identity(recorder, {rest.operands[0], rest.objects[0].get()}, {rest.operands[1], rest.objects[1].get()})) return unknown_result(object);
  recorder.conclude({0});
  return std::nullopt;
}

}  // namespace

std::optional<Plan> return_to_rest(Recorder& recorder, uint32_t label, PyObject* object) {
  const Rest& rest = *recorder.rest();
  if (rest.from_outside) return plan_break(Break::kResult, "an operator that was called before");
  if (rest.constructs) return return_to_construction(recorder, label, object);
  if (rest.gives_none) return recorder.conclude({0}), std::nullopt;
  return rest.name ? operand_returned(recorder, rest, label, object) : operator_returned(recorder, rest, label, object);
}

std::optional<Plan> operator_call(const Site& site, const Operated& left, const Operated& right) {
  if (!may_ask(site.recorder, left, right)) return std::nullopt;
  const int number = site.instruction.arg;
  const auto op = bytecode::binary_op(number);
  const bool in_place = number >= bytecode::kBinaryOps;
  if (in_place && op == bytecode::BinaryOp::kOr && PyDict_CheckExact(left.object)) return std::nullopt;  // it takes any mapping, and is asked first
  const OperatorNames& names = names_of_operator(number);
  // Sequences are joined as the left operand's type says, and repeated as either's does.
  const bool adds = op == bytecode::BinaryOp::kAdd, repeats = op == bytecode::BinaryOp::kMultiply;
  const bool sequences = ((adds || repeats) && is_sequence(left.object)) || (repeats && is_sequence(right.object));
  const bool formats = op == bytecode::BinaryOp::kRemainder && (PyUnicode_Check(left.object) || PyBytes_Check(left.object));
  if (sequences || formats) return std::nullopt;
  Candidates candidates(site.recorder, left, right);
  bool known = !in_place || candidates.add(false, names.in_place.get());
  const bool one_type = Py_TYPE(left.object) == Py_TYPE(right.object);
  PyObject* const of_right = _PyType_Lookup(Py_TYPE(right.object), names.reflected.get());
  const bool overrides = of_right && of_right != _PyType_Lookup(Py_TYPE(left.object), names.reflected.get());
  const bool right_first = is_strict_subtype(right.object, left.object) && (overrides || !is_of_python(Py_TYPE(left.object)));
  if (right_first) known = known && candidates.add(true, names.reflected.get());
  known = known && candidates.add(false, names.plain.get());
  if (!right_first && !one_type) known = known && candidates.add(true, names.reflected.get());
  if (!known || candidates.list().empty()) return std::nullopt;
  return asked(site, left, right, std::move(candidates.list()), false);
}

std::optional<Plan> comparison_call(const Site& site, const Operated& left, const Operated& right) {
  if (!may_ask(site.recorder, left, right)) return std::nullopt;
  static const Ref* const names = new Ref[6]{interned("__lt__"), interned("__le__"), interned("__eq__"), interned("__ne__"), interned("__gt__"), interned("__ge__")};
  static constexpr int kSwapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  const int number = site.instruction.arg, swapped = kSwapped[number];
  Candidates candidates(site.recorder, left, right);
  const bool right_first = is_strict_subtype(right.object, left.object);
  bool known = !right_first || candidates.add_comparison(true, names[swapped].get(), swapped);
  known = known && candidates.add_comparison(false, names[number].get(), number);
  known = known && (right_first || candidates.add_comparison(true, names[swapped].get(), swapped));
  if (known && !candidates.list().empty()) return asked(site, left, right, std::move(candidates.list()), true);
  // Nobody but object has a say in it. The same object's is asked of CPython: object's own methods alone know it.
  const bool of_equality = number == Py_EQ || number == Py_NE;
  const bool plain = candidates.list().empty() && (known || (left.object == right.object && compares_by_identity(Py_TYPE(left.object))));
  if (!of_equality || !plain || !fixes_identity(site.recorder, left, right)) return std::nullopt;
  return plan_constant();
}

namespace {

bool is_row(PyObject* object) { return PyList_CheckExact(object) || PyTuple_CheckExact(object); }

constexpr int kDeepestRow = 2;

// Whether rows like this one have elements with a method of Python's to compare them, or rows of such ones. Rows may be elements of their own.
bool asks_elements(PyObject* row, int depth = 0) {
  constexpr Py_ssize_t kMost = 32;
  if (!is_row(row) || PySequence_Fast_GET_SIZE(row) > kMost || depth > kDeepestRow) return false;
  PyObject* const* const elements = PySequence_Fast_ITEMS(row);
  return std::any_of(elements, elements + PySequence_Fast_GET_SIZE(row), [&](PyObject* element) { return method_of(Py_TYPE(element), interned("__eq__").get()) || asks_elements(element, depth + 1); });
}

// Whether the others of its elements are known.
bool knows_other_elements(Recorder& recorder, const Operated& row, int depth = 0) {
  if (depth > kDeepestRow) return false;
  const std::optional<std::vector<uint32_t>> parts = parts_of(recorder, row.label, row.object);
  for (size_t i = 0; parts && i < parts->size(); i++) {
    const Operated part{(*parts)[i], PySequence_Fast_GET_ITEM(row.object, static_cast<Py_ssize_t>(i))};
    const bool known = has_method(recorder, part, "__eq__") || (asks_elements(part.object) ? knows_other_elements(recorder, part, depth + 1) : is_known_through(recorder, part.label, part.object));
    if (!known) return false;
  }
  return parts.has_value();
}

}  // namespace

std::optional<Plan> comparison_of_elements(const Site& site, const Operated& left, const Operated& right) {
  const bool rows = is_row(left.object) && Py_TYPE(left.object) == Py_TYPE(right.object) && (asks_elements(left.object) || asks_elements(right.object));
  const bool known = rows && knows_other_elements(site.recorder, left) && knows_other_elements(site.recorder, right);
  std::optional<Plan> plan = known ? stand_in_call(site, "sequences_equal") : std::nullopt;
  if (!plan) return std::nullopt;
  for (const Operated& operand : {left, right}) give(*plan, operand);
  PyObject* const differ = site.instruction.arg == Py_NE ? Py_True : Py_False;
  give(*plan, {site.recorder.constant(differ), differ});
  return plan;
}

bool compares_by_identity(PyTypeObject* type) {
  static const Ref* const equal = new Ref(interned("__eq__"));
  static const Ref* const unequal = new Ref(interned("__ne__"));
  const auto inherits = [&](const Ref& name) { return _PyType_Lookup(type, name.get()) == _PyType_Lookup(&PyBaseObject_Type, name.get()); };
  return inherits(*equal) && inherits(*unequal);
}

std::optional<Plan> unary_call(const Site& site, const char* name) {
  const Operated operand = at(site, 1);
  PyObject* const function = is_instance(site.recorder, operand) ? method_of(Py_TYPE(operand.object), interned(name).get()) : nullptr;
  return function ? std::optional<Plan>(plain_call(site, function, {operand})) : std::nullopt;
}

// --- truth and length ------------------------------------------------------------------------------------------------

namespace {

std::optional<Plan> truth_call(const Site& site, int slot, std::vector<uint32_t> results) {
  Recorder& recorder = site.recorder;
  const Operated operand{recorder.label(slot), site.frame.slot(slot)};
  PyTypeObject* const type = Py_TYPE(operand.object);
  if (!is_instance(recorder, operand)) return std::nullopt;
  for (const char* const name : {"__bool__", "__len__"}) {
    if (!_PyType_Lookup(type, interned(name).get())) continue;
    PyObject* const function = method_of(type, interned(name).get());
    return function ? std::optional<Plan>(call_for_operand(site, function, name, slot, {}, std::move(results))) : std::nullopt;
  }
  return plan_constant();
}

}  // namespace

std::optional<Plan> truth_of_object(const Site& site) {
  using enum bytecode::Op;
  const bytecode::Op op = site.instruction.op;
  const bool gives = op == UNARY_NOT || op == TO_BOOL;
  if (!gives && op != POP_JUMP_IF_FALSE && op != POP_JUMP_IF_TRUE) return std::nullopt;
  std::optional<Plan> plan = truth_call(site, site.depth - 1, gives ? std::vector<uint32_t>{0} : std::vector<uint32_t>{});
  if (plan && !gives && plan->kind == Plan::Kind::kConstant) return Plan{};
  return plan;
}

std::optional<Plan> contains_call(const Site& site, const Operated& item, const Operated& container) {
  const StandIn* const keyed = PyDict_CheckExact(container.object) ? stand_in_named("keyed_contains") : nullptr;
  // It may end before it asks for the dict's keys: where the item's hash does.
  const bool fixed = keyed && is_key_of_class(site.recorder, item) && fixes_type(site.recorder, container.label, container.object);
  if (fixed) return call_for_operand(site, keyed->function.get(), "__contains__", site.depth - 1, {item}, {0});
  PyObject* const function = is_instance(site.recorder, container) ? method_of(Py_TYPE(container.object), interned("__contains__").get()) : nullptr;
  if (!function) return std::nullopt;
  return call_for_operand(site, function, "__contains__", site.depth - 1, {item}, {0});
}

std::optional<Plan> length_call_of(const Site& site) {
  const Operated subject = at(site, 1);
  PyObject* const function = is_instance(site.recorder, subject) ? method_of(Py_TYPE(subject.object), interned("__len__").get()) : nullptr;
  if (!function) return std::nullopt;
  return call_for_operand(site, function, "__len__", site.depth - 1, {}, {subject.label, 0});
}

// --- items -----------------------------------------------------------------------------------------------------------

std::optional<Plan> item_call(const Site& site, const char* name, const std::vector<Operated>& arguments) {
  if (!is_instance(site.recorder, arguments[0])) return std::nullopt;
  PyObject* const function = method_of(Py_TYPE(arguments[0].object), interned(name).get());
  return function ? std::optional<Plan>(plain_call(site, function, arguments)) : std::nullopt;
}

// (10, 20)[instance], of what is a constant. An int isn't asked for the one that it is.
std::optional<Plan> index_call(const Site& site, const Operated& container, const Operated& key) {
  if (PyLong_Check(key.object)) return std::nullopt;
  const bool fixed = PyTuple_CheckExact(container.object) || PyUnicode_CheckExact(container.object) || PyRange_Check(container.object);
  if (!fixed || !is_fixed(site.recorder, container.label, container.object) || !is_instance(site.recorder, key)) return std::nullopt;
  PyObject* const function = method_of(Py_TYPE(key.object), interned("__index__").get());
  return function ? std::optional<Plan>(call_for_operand(site, function, "__index__", site.depth - 1, {}, {0})) : std::nullopt;
}

std::optional<Plan> awaiting_call(const Site& site, const char* name, std::vector<uint32_t> results) {
  const Operated operand = at(site, 1);
  PyObject* const function = is_instance(site.recorder, operand) ? method_of(Py_TYPE(operand.object), interned(name).get()) : nullptr;
  return function ? std::optional<Plan>(call_for_operand(site, function, name, site.depth - 1, {}, std::move(results))) : std::nullopt;
}

std::optional<Plan> unpack_call(const Site& site) {
  const Operated operand = at(site, 1);
  PyObject* const function = is_instance(site.recorder, operand) ? method_of(Py_TYPE(operand.object), interned("__iter__").get()) : nullptr;
  if (!function) return std::nullopt;
  return call_for_operand(site, function, "__iter__", site.depth - 1, {}, std::vector<uint32_t>(static_cast<size_t>(site.instruction.arg)));
}

std::optional<Plan> iteration_call(const Site& site) {
  const Operated operand = at(site, 1);
  PyObject* const function = is_instance(site.recorder, operand) ? method_of(Py_TYPE(operand.object), interned("__iter__").get()) : nullptr;
  return function ? std::optional<Plan>(plain_call(site, function, {operand})) : std::nullopt;
}

std::optional<Plan> next_call(const Site& site) {
  const Operated operand = at(site, 1);
  PyObject* const function = is_instance(site.recorder, operand) ? method_of(Py_TYPE(operand.object), interned("__next__").get()) : nullptr;
  return function ? std::optional<Plan>(plain_call(site, function, {operand})) : std::nullopt;
}

bool has_method(Recorder& recorder, const Operated& instance, const char* name) {
  return is_instance(recorder, instance) && method_of(Py_TYPE(instance.object), interned(name).get());
}

// list() and the like ask for a length, too.
bool iterates_by_methods(Recorder& recorder, const Operated& operand) {
  const bool by_number = !numpy::is_exact_array(operand.object) && is_asked_by_number(recorder, operand);
  if (!by_number && !has_method(recorder, operand, "__iter__")) return false;
  return !_PyType_Lookup(Py_TYPE(operand.object), interned("__len__").get()) && !_PyType_Lookup(Py_TYPE(operand.object), interned("__length_hint__").get());
}

std::optional<Plan> unpacked_generator(const Site& site) {
  const uint32_t label = site.recorder.label(site.depth - 1);
  const StandIn* const stand_in = stand_in_named("unpacked");
  const Value value = site.recorder.value(label);
  const bool waits = value.kind == Value::Kind::kGenerator && site.recorder.waits(value);
  if ((!waits && !is_lazy(site.recorder, label)) || !stand_in) return std::nullopt;
  const Ref count = Ref::steal(PyLong_FromLong(site.instruction.arg));
  const Operated most{site.recorder.constant(count.get()), count.get()};
  Plan plan = call_for_operand(site, stand_in->function.get(), "__iter__", site.depth - 1, {most}, std::vector<uint32_t>(static_cast<size_t>(site.instruction.arg)));
  plan.held.push_back(Ref::borrow(count.get()));
  return plan;
}

std::optional<Plan> format_call(const Site& site, int slot, const Operated* spec) {
  const Operated operand{site.recorder.label(slot), site.frame.slot(slot)};
  static const Ref* const name = new Ref(interned("__format__"));
  if (!is_instance(site.recorder, operand)) return std::nullopt;
  if (PyObject* const function = method_of(Py_TYPE(operand.object), name->get())) {
    static const Ref* const empty = new Ref(interned(""));
    const Operated nothing{spec ? 0 : site.recorder.constant(empty->get()), empty->get()};
    return call_for_operand(site, function, "__format__", slot, {spec ? *spec : nothing}, {0});
  }
  // object's own is str(), where nothing is asked for.
  const bool plain = !spec && _PyType_Lookup(Py_TYPE(operand.object), name->get()) == _PyType_Lookup(&PyBaseObject_Type, name->get());
  return plain ? text_call(site, slot, "__str__") : std::nullopt;
}

std::optional<Plan> text_call(const Site& site, int slot, const char* name) {
  const Operated operand{site.recorder.label(slot), site.frame.slot(slot)};
  if (!is_instance(site.recorder, operand)) return std::nullopt;
  PyTypeObject* const type = Py_TYPE(operand.object);
  const bool inherits = PyUnicode_CompareWithASCIIString(interned("__str__").get(), name) == 0 &&
                        _PyType_Lookup(type, interned(name).get()) == _PyType_Lookup(&PyBaseObject_Type, interned(name).get());
  const char* const asked = inherits ? "__repr__" : name;
  PyObject* const function = method_of(type, interned(asked).get());
  return function ? std::optional<Plan>(call_for_operand(site, function, asked, slot, {}, {0})) : std::nullopt;
}

// --- calls -----------------------------------------------------------------------------------------------------------

namespace {

struct ProtocolFunction {
  const char* builtin;
  const char* method;
};
// Builtins that ask their only argument's class.
constexpr ProtocolFunction kFunctions[] = {{"len", "__len__"}, {"hash", "__hash__"}, {"int", "__int__"}, {"float", "__float__"}};

// str(Class): its module and its name, which may be changed.
std::optional<Plan> text_of_class(Recorder& recorder, const Operated& of) {
  const PyTypeObject* const metaclass = Py_TYPE(of.object);
  for (const char* const asked : {"__repr__", "__str__", "__getattribute__"}) {
    if (cpython::lookup(metaclass, asked) != cpython::lookup(&PyType_Type, asked)) return std::nullopt;
  }
  if (recorder.made_class(of.object) || !fixes_object(recorder, of.label, of.object) || !fixes_metaclass(recorder, of.object)) return std::nullopt;
  for (const char* const part : {"__module__", "__qualname__"}) {
    guards::Source at{guards::Reach::kObject};
    at.object = Ref::borrow(of.object);
    const uint32_t source = attribute_source(recorder, recorder.value(recorder.source(std::move(at))).a, part);
    const Ref value = Ref::steal(PyObject_GetAttrString(of.object, part));
    if (!value) return PyErr_Clear(), std::nullopt;
    if (!PyUnicode_CheckExact(value.get()) || !recorder.known(source, value.get())) return std::nullopt;
  }
  return plan_constant();
}

// iter(instance), enumerate(instance)
std::optional<Plan> iterator_over_instance(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const Operated operand{site.recorder.label(call.first), site.frame.slot(call.first)};
  PyObject* const function = is_instance(site.recorder, operand) ? method_of(Py_TYPE(operand.object), interned("__iter__").get()) : nullptr;
  if (!function) return std::nullopt;
  Plan plan = call_for_operand(site, function, "__iter__", call.first, {}, {0});
  if (plan.rest) plan.rest->goes_through = Ref::borrow(callable);
  return plan;
}

}  // namespace

std::optional<Plan> protocol_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (call.keyword_names || call.count < 1) return std::nullopt;
  const Operated first{site.recorder.label(call.first), site.frame.slot(call.first)};
  const bool asks_text = callable == builtin<"str">().get() || callable == builtin<"repr">().get();
  if (asks_text && call.count == 1 && PyType_Check(first.object)) return text_of_class(site.recorder, first);
  if (callable == builtin<"bool">().get() && call.count == 1 && is_made_container(site.recorder.value(first.label))) return plan_constant();
  if (!is_of_python(Py_TYPE(first.object))) return std::nullopt;
  if (callable == builtin<"format">().get() && call.count == 2) {
    const Operated spec{site.recorder.label(call.first + 1), site.frame.slot(call.first + 1)};
    return format_call(site, call.first, &spec);
  }
  if (call.count != 1) return std::nullopt;
  if (callable == builtin<"format">().get()) return format_call(site, call.first, nullptr);
  if (callable == builtin<"bool">().get()) return truth_call(site, call.first, {0});
  if (callable == builtin<"repr">().get()) return text_call(site, call.first, "__repr__");
  if (callable == builtin<"str">().get()) return text_call(site, call.first, "__str__");
  if (callable == builtin<"iter">().get() || callable == reinterpret_cast<PyObject*>(&PyEnum_Type)) return iterator_over_instance(site, call, callable);
  for (const ProtocolFunction& row : kFunctions) {
    if (builtin(row.builtin).get() != callable) continue;
    PyObject* const function = is_instance(site.recorder, first) ? method_of(Py_TYPE(first.object), interned(row.method).get()) : nullptr;
    return function ? std::optional<Plan>(call_for_operand(site, function, row.method, call.first, {}, {0})) : std::nullopt;
  }
  return std::nullopt;
}

// __call__ of the instance's class, a function of Python's; null: it has another one, or none.
PyObject* call_method_of(Recorder& recorder, const Operated& instance) {
  if (PyType_Check(instance.object) || !is_instance(recorder, instance)) return nullptr;
  return method_of(Py_TYPE(instance.object), kept_name("__call__"));
}

// instance(...).
std::optional<Plan> call_of_instance(const Site& site, const Activation::CallSite& call) {
  const Operated instance{site.recorder.label(call.callable), site.frame.slot(call.callable)};
  PyObject* const function = call_method_of(site.recorder, instance);
  if (!function) return std::nullopt;
  PyObject* const instead = stand_in_function(site, function);
  PyObject* const followed = instead ? instead : function;
  Plan plan = inlined_call(site, site.recorder.constant(followed), followed, call.keyword_names);
  give(plan, instance);
  for (int i = call.first; i < call.first + call.count; i++) give(plan, {site.recorder.label(i), site.frame.slot(i)});
  return plan;
}

}  // namespace evalframe::recorder
