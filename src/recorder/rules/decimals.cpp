// Rules for decimal.Decimal, whose results depend on the thread's context, too, and may leave a flag there. What leaves none is a constant,
// with a check in the graph that the context is as it was.
#include <cstring>
#include <string_view>

#include "bytecode/operators.h"
#include "core/builtins.h"
#include "core/c_function.h"
#include "core/made_once.h"
#include "cpython/hook.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using enum bytecode::Op;
using evaluator::Activation;

// Of the module in C; a program may have the one in Python, whose code is followed.
bool is_decimal_type(PyTypeObject* type) { return std::strcmp(type->tp_name, "decimal.Decimal") == 0 && is_written_in_c(type); }
bool is_decimal(PyObject* object) { return object && is_decimal_type(Py_TYPE(object)); }

struct DecimalFunctions {
  PyObject *get = nullptr, *set = nullptr;
};
const DecimalFunctions& functions() {
  static MadeOnce<DecimalFunctions> found;
  return found.get([] {
    const cpython::HooksSuspended unseen;
    const Ref module = Ref::steal(PyImport_ImportModule("_decimal"));
    DecimalFunctions made;
    if (module) made = {PyObject_GetAttrString(module.get(), "getcontext"), PyObject_GetAttrString(module.get(), "setcontext")};  // live as long as the process
    PyErr_Clear();
    return made;
  });
}

// What of the thread's context results depend on, where no flag is left in it.
PyObject* facts_of_context(PyObject*, PyObject*) {
  const Ref context = Ref::steal(PyObject_CallNoArgs(functions().get));
  const Ref facts = Ref::steal(PyTuple_New(6));
  Py_ssize_t i = 0;
  for (const char* const name : {"prec", "rounding", "Emin", "Emax", "capitals", "clamp"}) {
    PyObject* const fact = context && facts ? PyObject_GetAttrString(context.get(), name) : nullptr;
    if (!fact) return nullptr;
    PyTuple_SET_ITEM(facts.get(), i++, fact);
  }
  return Py_NewRef(facts.get());
}

// While this lives, the thread has a copy of its context, without flags.
class OwnContext {
 public:
  OwnContext() {
    if (!functions().get || !functions().set) return;
    context_ = Ref::steal(PyObject_CallNoArgs(functions().get));
    copy_ = context_ ? Ref::steal(PyObject_CallMethod(context_.get(), "copy", nullptr)) : Ref();
    const Ref cleared = copy_ ? Ref::steal(PyObject_CallMethod(copy_.get(), "clear_flags", nullptr)) : Ref();
    set_ = cleared && Ref::steal(PyObject_CallOneArg(functions().set, copy_.get()));
    PyErr_Clear();
  }
  ~OwnContext() {
    if (set_ && !Ref::steal(PyObject_CallOneArg(functions().set, context_.get()))) PyErr_Clear();
  }
  OwnContext(const OwnContext&) = delete;
  OwnContext& operator=(const OwnContext&) = delete;
  explicit operator bool() const { return set_; }
  bool has_flags() const {
    const Ref flags = Ref::steal(PyObject_GetAttrString(copy_.get(), "flags"));
    const Ref without = Ref::steal(PyObject_CallMethod(copy_.get(), "copy", nullptr));
    const Ref cleared = without ? Ref::steal(PyObject_CallMethod(without.get(), "clear_flags", nullptr)) : Ref();
    const Ref none = cleared ? Ref::steal(PyObject_GetAttrString(without.get(), "flags")) : Ref();
    const bool same = flags && none && PyObject_RichCompareBool(flags.get(), none.get(), Py_EQ) == 1;
    if (PyErr_Occurred()) PyErr_Clear();
    return !same;
  }

 private:
  Ref context_, copy_;
  bool set_ = false;
};

// A decimal that is one object in all runs, or data that is known. One from an argument is another in each call, most likely.
bool is_operand(Recorder& recorder, uint32_t label, PyObject* object) {
  if (is_decimal(object)) {
    const Value value = recorder.value(label);
    const bool one_object = value.kind == Value::Kind::kSource && recorder.guards().sources[static_cast<size_t>(value.a)].reach == guards::Reach::kObject;
    return value.kind == Value::Kind::kConstant || one_object;
  }
  return object && is_immutable(object) && !recorder.is_input_number(label, object) && recorder.known(label, object);
}

// What the operation gives, if it is a decimal or data and no flag is left by it; none: not so.
template <class Operation> std::optional<Plan> constant_of(Recorder& recorder, Operation operation) {
  Ref result;
  {
    const cpython::HooksSuspended unseen;
    const OwnContext own;
    if (!own) return std::nullopt;
    result = operation();
    if (!result) PyErr_Clear();
    if (!result || own.has_flags()) return std::nullopt;
  }
  if (!is_decimal(result.get()) && !is_immutable(result.get())) return std::nullopt;
  const Ref facts = Ref::steal(facts_of_context(nullptr, nullptr));
  if (!facts) return PyErr_Clear(), std::nullopt;
  Plan node;
  node.callable = c_function<facts_of_context, METH_NOARGS>("facts_of_context");
  recorder.check_constant(recorder.node_value(recorder.add_node(node, facts.get()), false), facts.get());
  return plan_value(recorder.constant(result.get()));
}

bool are_operands(const Site& site, int count) {
  bool any = false;
  for (int slot = site.depth - count; slot < site.depth; slot++) any = any || is_decimal(site.frame.slot(slot));
  for (int slot = site.depth - count; any && slot < site.depth; slot++) {
    if (!is_operand(site.recorder, site.recorder.label(slot), site.frame.slot(slot))) return false;
  }
  return any;
}

bool asks_for_locale(PyObject* spec) { return !PyUnicode_CheckExact(spec) || PyUnicode_FindChar(spec, 'n', 0, PyUnicode_GET_LENGTH(spec), 1) >= 0; }

// DecimalFunctions that ask nothing but their arguments.
bool is_function_of_numbers(PyObject* callable) {
  for (const char* const name : {"float", "int", "str", "repr", "abs", "round", "hash", "bool", "divmod", "pow", "format"}) {
    if (builtin(name).get() == callable) return true;
  }
  return false;
}

}  // namespace

bool is_known_decimal(Recorder& recorder, uint32_t label, PyObject* object) { return is_decimal(object) && recorder.value(label).kind == Value::Kind::kConstant; }

std::optional<Plan> decimal_unary(const Site& site, int number) {
  if (!are_operands(site, 1)) return std::nullopt;
  PyObject* const operand = site.frame.slot(site.depth - 1);
  return constant_of(site.recorder, [&] { return Ref::steal(bytecode::kUnaryFunctions[number](operand)); });
}

std::optional<Plan> decimal_operator(const Site& site) {
  if (!are_operands(site, 2)) return std::nullopt;
  PyObject *const left = site.frame.slot(site.depth - 2), *const right = site.frame.slot(site.depth - 1);
  const int number = site.instruction.arg;
  if (site.instruction.op == COMPARE_OP) return constant_of(site.recorder, [&] { return Ref::steal(PyObject_RichCompare(left, right, number)); });
  return constant_of(site.recorder, [&] { return Ref::steal(bytecode::kBinaryFunctions[number](left, right)); });
}

std::optional<Plan> decimal_text(const Site& site, int slot, const char* how, PyObject* spec) {
  PyObject* const object = site.frame.slot(slot);
  if (!is_decimal(object) || !is_operand(site.recorder, site.recorder.label(slot), object) || (spec && asks_for_locale(spec))) return std::nullopt;
  return constant_of(site.recorder, [&] { return Ref::steal(how[0] == 's' ? PyObject_Str(object) : how[0] == 'r' ? PyObject_Repr(object) : PyObject_Format(object, spec)); });
}

std::optional<Plan> decimal_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const bool makes = PyType_Check(callable) && is_decimal_type(reinterpret_cast<PyTypeObject*>(callable));
  const bool method = Py_IS_TYPE(callable, &PyMethodDescr_Type) && is_decimal_type(PyDescr_TYPE(callable));
  bool any = makes || method;
  for (int slot = call.first; slot < call.first + call.count; slot++) any = any || is_decimal(site.frame.slot(slot));
  if (!any || (!makes && !method && !is_function_of_numbers(callable))) return std::nullopt;
  for (int slot = call.first; slot < call.first + call.count; slot++) {
    if (!is_operand(site.recorder, site.recorder.label(slot), site.frame.slot(slot))) return std::nullopt;
  }
  const bool formats = callable == builtin<"format">().get() || (method && std::string_view(name_in_type(callable)).ends_with(".__format__"));
  if (formats && call.count == 2 && asks_for_locale(site.frame.slot(call.first + 1))) return std::nullopt;
  const size_t named = call.keywords();
  std::vector<PyObject*> given;
  for (int slot = call.first; slot < call.first + call.count; slot++) given.push_back(site.frame.slot(slot));
  return constant_of(site.recorder, [&] { return Ref::steal(PyObject_Vectorcall(callable, given.data(), given.size() - named, call.keyword_names.get())); });
}

}  // namespace evalframe::recorder
