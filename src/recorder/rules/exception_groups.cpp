// Rules for groups of exceptions that the recorded code makes: their construction, their division, and except*.
#include <functional>
#include <set>

#include "core/builtins.h"
#include "cpython/exceptions.h"
#include "cpython/layout.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

PyTypeObject* base_group() { return reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup); }
bool is_group(PyObject* object) { return PyObject_TypeCheck(object, base_group()); }

// What an exception is, if there is one (label 0: none). That of a new group has no object yet.
struct Part {
  uint32_t label = 0;
  PyTypeObject* type = nullptr;
};
struct Division {
  Part match, rest;
};
using Matcher = std::function<bool(PyObject*)>;

uint32_t none_or(Recorder& recorder, const Part& part) { return part.label ? part.label : recorder.constant(Py_None); }

// The class that the call makes a group of, where that runs no code of the program's.
bool makes_plainly(Recorder& recorder, PyTypeObject* type) {
  if (!cpython::makes_exception_plainly(type, 2) || cpython::exception_initializer(type)) return false;
  return !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || recorder.fix_class(reinterpret_cast<PyObject*>(type));
}

// A new group of the members. given: these, as the call's argument; 0: they are in a new list.
uint32_t new_group(Recorder& recorder, PyTypeObject* type, uint32_t message, const std::vector<uint32_t>& members, uint32_t given = 0) {
  if (!given) given = recorder.container(Value::Kind::kList, members);
  const bool is_tuple = recorder.value(given).kind == Value::Kind::kTuple;
  const uint32_t exceptions = is_tuple ? given : recorder.container(Value::Kind::kTuple, members);
  const uint32_t arguments = recorder.container(Value::Kind::kTuple, {message, given});
  return recorder.exception(reinterpret_cast<PyObject*>(type), arguments, {{"message", message}, {"exceptions", exceptions}});
}

// BaseExceptionGroup(message, parts). Label 0: it isn't known what that does.
Part plain_group(Recorder& recorder, uint32_t message, const std::vector<Part>& parts, uint32_t given = 0) {
  const auto is_exception = [](const Part& part) { return PyType_IsSubtype(part.type, reinterpret_cast<PyTypeObject*>(PyExc_Exception)); };
  const bool all = std::all_of(parts.begin(), parts.end(), is_exception);
  auto* const type = all ? reinterpret_cast<PyTypeObject*>(builtin("ExceptionGroup").get()) : base_group();
  if (!makes_plainly(recorder, type) || !makes_plainly(recorder, base_group())) return {};
  std::vector<uint32_t> members;
  for (const Part& part : parts) members.push_back(part.label);
  return {new_group(recorder, type, message, members, given), type};
}

bool has_method_of_groups(Recorder& recorder, const Operated& group, const char* name) {
  const Ref key = Ref::steal(PyUnicode_InternFromString(name));
  PyObject* const found = _PyType_Lookup(Py_TYPE(group.object), key.get());
  const bool plain = found && Py_IS_TYPE(found, &PyMethodDescr_Type) && PyDescr_TYPE(found) == base_group();
  return plain && Py_TYPE(group.object)->tp_getattro == PyObject_GenericGetAttr && !recorder.attribute_of(recorder.value(group.label), key.get());
}

// As `derive` and what follows it in a division: a group of some of its parts, with what else the group has. none: there are none.
std::optional<Part> subset(Recorder& recorder, const Operated& group, const std::vector<Part>& parts) {
  if (parts.empty()) return Part{};
  const Value value = recorder.value(group.label);
  static PyObject* const notes_name = PyUnicode_InternFromString("__notes__");
  const uint32_t notes = recorder.attribute_of(value, notes_name);
  if (!has_method_of_groups(recorder, group, "derive") || _PyType_Lookup(Py_TYPE(group.object), notes_name)) return std::nullopt;
  if (notes && recorder.value(notes).kind != Value::Kind::kList) return std::nullopt;
  const Part made = plain_group(recorder, recorder.attribute_of(value, "message"), parts);
  if (!made.label) return std::nullopt;
  // Setting the cause, though there is none, says that the context isn't shown.
  const uint32_t cause = recorder.attribute_of(value, "__cause__");
  std::vector<std::pair<const char*, uint32_t>> more{{"__cause__", cause ? cause : recorder.constant(Py_None)}};
  for (const char* const name : {"__context__", "__traceback__"}) {
    if (const uint32_t known = recorder.attribute_of(value, name)) more.emplace_back(name, known);
  }
  if (notes) more.emplace_back("__notes__", recorder.container(Value::Kind::kList, recorder.copied_elements(recorder.value(notes))));
  recorder.begin_with(made.label, more);
  return made;
}

// A member's value, and that it is an exception of this type, by the guards.
bool is_member(Recorder& recorder, const Operated& member) {
  if (!PyExceptionInstance_Check(member.object)) return false;
  return recorder.is_exception(member.label) || (recorder.value(member.label).kind == Value::Kind::kSource && fixes_type(recorder, member.label, member.object));
}

std::vector<Operated> members_of(Recorder& recorder, const Operated& group) {
  PyObject* const exceptions = reinterpret_cast<PyBaseExceptionGroupObject*>(group.object)->excs;
  std::vector<Operated> members;
  for (const uint32_t label : recorder.copied_elements(recorder.value(recorder.attribute_of(recorder.value(group.label), "exceptions")))) {
    members.push_back({label, PyTuple_GET_ITEM(exceptions, static_cast<Py_ssize_t>(members.size()))});
  }
  return members;
}

// As exceptiongroup_split_recursive does. none: it can't be known.
std::optional<Division> divide(Recorder& recorder, const Operated& exception, const Matcher& matches, bool wants_rest) {
  const Part whole{exception.label, Py_TYPE(exception.object)};
  if (matches(exception.object)) return Division{whole, {}};
  if (!is_group(exception.object)) return Division{{}, wants_rest ? whole : Part{}};
  if (!recorder.is_exception(exception.label)) return std::nullopt;
  std::vector<Part> matching, others;
  for (const Operated& member : members_of(recorder, exception)) {
    const std::optional<Division> parts = divide(recorder, member, matches, wants_rest);
    if (!parts) return std::nullopt;
    if (parts->match.label) matching.push_back(parts->match);
    if (parts->rest.label) others.push_back(parts->rest);
  }
  const std::optional<Part> match = subset(recorder, exception, matching), rest = subset(recorder, exception, others);
  return match && rest ? std::optional(Division{*match, *rest}) : std::nullopt;
}

Plan plan_parts(Recorder& recorder, const Division& division) {
  Plan plan;
  plan.contents = {none_or(recorder, division.rest), none_or(recorder, division.match)};
  return plan;
}

// What CPython has an error for, in front of all else.
bool can_be_caught_in_part(PyObject* classes) {
  const bool several = PyTuple_Check(classes);
  for (Py_ssize_t i = 0; i < (several ? PyTuple_GET_SIZE(classes) : 1); i++) {
    PyObject* const one = several ? PyTuple_GET_ITEM(classes, i) : classes;
    if (!PyExceptionClass_Check(one) || PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(one), base_group())) return false;
  }
  return true;
}

// [exception, classes] -> [rest, match]
Plan check_group_match(const Site& site) {
  Recorder& recorder = site.recorder;
  const Operated exception{recorder.label(site.depth - 2), site.frame.slot(site.depth - 2)};
  PyObject* const classes = site.frame.slot(site.depth - 1);
  const auto unknown = [&] { return plan_break(Break::kException, "except* of " + type_name(exception.object)); };
  const bool nothing_left = recorder.constant_of(exception.label) == Py_None;
  if ((!nothing_left && !recorder.is_exception(exception.label)) || !fixes_classes(recorder, recorder.label(site.depth - 1), classes)) return unknown();
  if (!can_be_caught_in_part(classes)) return plan_constant();
  if (nothing_left) return plan_parts(recorder, {});
  const Part whole{exception.label, Py_TYPE(exception.object)};
  const bool matches = PyErr_GivenExceptionMatches(exception.object, classes) != 0, group = is_group(exception.object);
  if (matches && group) return plan_parts(recorder, {whole, {}});
  if (!group && !matches) return plan_parts(recorder, {{}, whole});
  if (!group) {
    const uint32_t alone = recorder.container(Value::Kind::kTuple, {exception.label});
    const Part wrapped = plain_group(recorder, recorder.constant(Ref::steal(PyUnicode_InternFromString("")).get()), {whole}, alone);
    return wrapped.label ? plan_parts(recorder, {wrapped, {}}) : unknown();
  }
  if (!has_method_of_groups(recorder, exception, "split")) return unknown();
  std::optional<Division> division = divide(recorder, exception, [&](PyObject* object) { return PyErr_GivenExceptionMatches(object, classes) != 0; }, true);
  if (!division) return unknown();
  if (!division->match.label && cpython::layout::kUnmatchedGroupStays) division->rest = whole;
  return plan_parts(recorder, *division);
}
void check_group_match_after(const Site& site, const Plan& plan) {
  Recorder& recorder = site.recorder;
  for (int i = 0; i < 2; i++) recorder.set_label(site.depth - 2 + i, plan.contents[static_cast<size_t>(i)]);
  if (recorder.is_exception(plan.contents[1])) recorder.handle(plan.contents[1]);
}

void add_leaves(PyObject* exception, std::set<PyObject*>& leaves) {
  if (!is_group(exception)) {
    leaves.insert(exception);
    return;
  }
  PyObject* const members = reinterpret_cast<PyBaseExceptionGroupObject*>(exception)->excs;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members); i++) add_leaves(PyTuple_GET_ITEM(members, i), leaves);
}

// Two from outside may be one and the same in another run.
int leaves_from_outside(Recorder& recorder, const Operated& exception) {
  if (!recorder.is_exception(exception.label)) return 1;
  if (!is_group(exception.object)) return 0;
  int count = 0;
  for (const Operated& member : members_of(recorder, exception)) count += leaves_from_outside(recorder, member);
  return count;
}

// Whether a handler has raised what was given to it, as is_same_exception_metadata looks at it. none: that may be otherwise in another run.
std::optional<bool> is_raised_again(Recorder& recorder, const Operated& left, const Operated& right) {
  const auto* const one = reinterpret_cast<PyBaseExceptionObject*>(left.object);
  const auto* const other = reinterpret_cast<PyBaseExceptionObject*>(right.object);
  const auto known = [&](const Operated& of, const char* name) {
    const uint32_t label = recorder.attribute_of(recorder.value(of.label), name);
    const bool kept = std::string_view(name) == "__traceback__" && label;
    return recorder.constant_of(label) == Py_None ? (kept ? UINT32_MAX : 0) : label;
  };
  const auto agree = [&](const char* name, bool same) { return (known(left, name) == known(right, name)) == same; };
  const bool traceback = one->traceback == other->traceback, context = one->context == other->context, cause = one->cause == other->cause;
  if (!agree("__traceback__", traceback) || !agree("__context__", context) || !agree("__cause__", cause)) return std::nullopt;
  return one->notes == other->notes && traceback && context && cause;
}

// As _PyExc_PrepReraiseStar does: of what handlers have raised, and what they were given and let through, which comes as it was in the group. none: not known.
std::optional<Part> raised_by_handlers(Recorder& recorder, const Operated& original, const std::vector<Operated>& exceptions) {
  std::vector<Part> raised;
  std::set<PyObject*> let_through;
  for (const Operated& one : exceptions) {
    if (one.object == Py_None) continue;
    const std::optional<bool> again = is_raised_again(recorder, one, original);
    if (!again) return std::nullopt;
    if (*again) add_leaves(one.object, let_through);
    if (!*again) raised.push_back({one.label, Py_TYPE(one.object)});
  }
  const auto matches = [&](PyObject* object) { return let_through.contains(object); };
  if (leaves_from_outside(recorder, original) > 1 && !let_through.empty()) return std::nullopt;
  const std::optional<Division> projected = divide(recorder, original, matches, false);
  if (!projected) return std::nullopt;
  if (raised.empty()) return projected->match;
  if (projected->match.label) raised.push_back(projected->match);
  if (raised.size() == 1) return raised[0];
  const Part made = plain_group(recorder, recorder.constant(Ref::steal(PyUnicode_InternFromString("")).get()), raised);
  return made.label ? std::optional(made) : std::nullopt;
}

// [exception, list of what handlers raised and left] -> the exception to raise, or None
Plan prepare_reraise(const Site& site) {
  Recorder& recorder = site.recorder;
  const Operated original{recorder.label(site.depth - 2), site.frame.slot(site.depth - 2)};
  PyObject* const list = site.frame.slot(site.depth - 1);
  const auto unknown = [&] { return plan_break(Break::kException, "what except* has left of " + type_name(original.object)); };
  if (!recorder.is_exception(original.label) || recorder.value_at(site.depth - 1).kind != Value::Kind::kList) return unknown();
  std::vector<Operated> exceptions;
  for (const uint32_t label : recorder.copied_elements(recorder.value_at(site.depth - 1))) {
    exceptions.push_back({label, PyList_GET_ITEM(list, static_cast<Py_ssize_t>(exceptions.size()))});
    if (!recorder.is_exception(label) && recorder.constant_of(label) != Py_None) return unknown();
  }
  // At most one clause has run.
  if (!is_group(original.object)) return exceptions.empty() ? unknown() : plan_value(exceptions[0].label);
  const std::optional<Part> left = raised_by_handlers(recorder, original, exceptions);
  return left ? plan_value(none_or(recorder, *left)) : unknown();
}

Plan binary_intrinsic(const Site& site) {
  constexpr int kPrepareReraise = 1;
  return site.instruction.arg == kPrepareReraise ? prepare_reraise(site) : plan_break(Break::kInstruction, bytecode::name(site.instruction.op));
}

Operated operand(const Site& site, const Activation::CallSite& call, int i) {
  return {site.recorder.label(call.first + i), site.frame.slot(call.first + i)};
}

// The call of a class of groups, or of `derive`, with what is known element by element.
std::optional<Plan> construction_of_group(Recorder& recorder, PyTypeObject* called, const Operated& message, const Operated& exceptions) {
  const Value given = recorder.value(exceptions.label);
  const bool known = (given.kind == Value::Kind::kTuple && PyTuple_CheckExact(exceptions.object)) || (given.kind == Value::Kind::kList && PyList_CheckExact(exceptions.object));
  if (!known || !makes_plainly(recorder, called) || !fixes_type(recorder, message.label, message.object)) return std::nullopt;
  const std::vector<uint32_t> members = recorder.copied_elements(given);
  bool fixed = true, all = true;
  for (size_t i = 0; i < members.size(); i++) {
    const Operated member{members[i], PySequence_Fast_GET_ITEM(exceptions.object, static_cast<Py_ssize_t>(i))};
    all = all && is_member(recorder, member);
    fixed = fixed && (is_member(recorder, member) || fixes_type(recorder, member.label, member.object));
  }
  if (!fixed) return std::nullopt;
  const Ref arguments = Ref::steal(PyTuple_Pack(2, message.object, exceptions.object));
  const Ref trial = arguments ? cpython::make_exception(called, arguments.get()) : Ref();
  if (!trial) return PyErr_Clear(), plan_constant();
  PyTypeObject* const type = Py_TYPE(trial.get());
  if (!all || (type != called && !makes_plainly(recorder, type))) return std::nullopt;
  return plan_value(new_group(recorder, type, message.label, members, exceptions.label));
}

}  // namespace

std::optional<Plan> group_construction(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (!PyType_Check(callable) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(callable), base_group())) return std::nullopt;
  auto* const type = reinterpret_cast<PyTypeObject*>(callable);
  if (call.count != 2 || call.keyword_names) return plan_break(Break::kUnknownCall, type->tp_name);
  std::optional<Plan> plan = construction_of_group(site.recorder, type, operand(site, call, 0), operand(site, call, 1));
  return plan ? std::move(plan) : plan_break(Break::kUnknownCall, type->tp_name);
}

std::optional<Plan> group_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const bool of_groups = Py_IS_TYPE(callable, &PyMethodDescr_Type) && PyDescr_TYPE(callable) == base_group();
  if (!of_groups || call.count != 2 || call.keyword_names || !site.recorder.is_exception(site.recorder.label(call.first))) return std::nullopt;
  Recorder& recorder = site.recorder;
  const Operated group = operand(site, call, 0), argument = operand(site, call, 1);
  const std::string_view name = PyUnicode_AsUTF8(PyDescr_NAME(callable));
  if (!is_group(group.object)) return std::nullopt;
  if (name == "derive") {
    const uint32_t message = recorder.attribute_of(recorder.value(group.label), "message");
    return construction_of_group(recorder, base_group(), {message, reinterpret_cast<PyBaseExceptionGroupObject*>(group.object)->msg}, argument);
  }
  if (name != "split" && name != "subgroup") return std::nullopt;
  bool classes = PyExceptionClass_Check(argument.object) || PyTuple_CheckExact(argument.object);
  for (Py_ssize_t i = 0; PyTuple_CheckExact(argument.object) && i < PyTuple_GET_SIZE(argument.object); i++) {
    classes = classes && PyExceptionClass_Check(PyTuple_GET_ITEM(argument.object, i));
  }
  if (!classes || !fixes_classes(recorder, argument.label, argument.object)) return std::nullopt;
  const auto matches = [&](PyObject* object) { return PyErr_GivenExceptionMatches(object, argument.object) != 0; };
  const std::optional<Division> division = divide(recorder, group, matches, name == "split");
  if (!division) return std::nullopt;
  const uint32_t match = none_or(recorder, division->match);
  if (name == "subgroup") return plan_value(match);
  return plan_value(recorder.container(Value::Kind::kTuple, {match, none_or(recorder, division->rest)}));
}

bool has_text_of_groups(Recorder& recorder, const Operated& exception) {
  if (Py_TYPE(exception.object)->tp_str != base_group()->tp_str) return false;
  PyObject* const message = is_group(exception.object) ? reinterpret_cast<PyBaseExceptionGroupObject*>(exception.object)->msg : nullptr;
  return message && PyUnicode_CheckExact(message) && recorder.known(recorder.attribute_of(recorder.value(exception.label), "message"), message);
}

void add_exception_group_rules(RuleTable& table) {
  using enum bytecode::Op;
  table[static_cast<size_t>(CHECK_EG_MATCH)] = {check_group_match, check_group_match_after};
  table[static_cast<size_t>(PREP_RERAISE_STAR)] = {prepare_reraise, nullptr};
  table[static_cast<size_t>(CALL_INTRINSIC_2)] = {binary_intrinsic, nullptr};
}

}  // namespace evalframe::recorder
