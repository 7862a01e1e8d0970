// Finds torch's functions in the places where torch keeps them, once.
#include "frontends/torch/calls.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/object_text.h"
#include "frontends/torch/bodies.h"
#include "frontends/torch/checkpoints.h"
#include "frontends/torch/modules.h"
#include "frontends/torch/tensors.h"

namespace evalframe::torch {

namespace {

struct Row {
  const char* name;
  CallKind kind;
};
constexpr Row kFunctions[] = {
#define EVALFRAME_TORCH_FUNCTION(name, kind) {name, CallKind::kind},
#define EVALFRAME_TORCH_ATTRIBUTE(name, kind)
#include "frontends/torch/functions.def"
#undef EVALFRAME_TORCH_FUNCTION
#undef EVALFRAME_TORCH_ATTRIBUTE
};
constexpr Row kAttributes[] = {
#define EVALFRAME_TORCH_FUNCTION(name, kind)
#define EVALFRAME_TORCH_ATTRIBUTE(name, kind) {name, CallKind::kind},
#include "frontends/torch/functions.def"
#undef EVALFRAME_TORCH_FUNCTION
#undef EVALFRAME_TORCH_ATTRIBUTE
};

// Whatever has no row is an operation, where torch keeps operations, and unknown elsewhere.
CallKind kind_by_name(std::string_view name, CallKind otherwise) {
  for (const Row& row : kFunctions) {
    if (name == row.name) return row.kind;
  }
  return otherwise;
}

struct Callable {
  Ref object;
  CallKind kind;
  bool has_effect = false, draws = false;
  bool is_in_place = false;
  bool is_recurrent = false;
  bool is_of_attention = false;
};

bool has_any(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

bool is_in_place_by_name(std::string_view name) {
  if (name.ends_with("_") && !name.ends_with("__")) return true;
  return name.starts_with("__i") && name != "__invert__" && name != "__index__" && name != "__int__";
}

bool draws_by_name(std::string_view name) {
  return has_any(name, {"rand", "dropout", "normal", "uniform", "exponential", "bernoulli", "multinomial", "poisson", "gumbel", "binomial", "standard_gamma", "dirichlet", "attention"});
}

// Layers, which are more than operations; their cells are such.
bool is_recurrent_by_name(std::string_view name) { return name == "lstm" || name == "gru" || name == "rnn_tanh" || name == "rnn_relu"; }

// They change what they are given, or draw numbers.
bool acts_by_name(std::string_view name) {
  return is_in_place_by_name(name) || draws_by_name(name) || is_recurrent_by_name(name) || has_any(name, {"rrelu", "batch_norm", "instance_norm", "_set_grad", "embedding"});
}

bool is_of_attention_by_name(std::string_view name) {
  return name.find("attention") != std::string_view::npos || name.find("_sdp_") != std::string_view::npos || name == "_transformer_encoder_layer_fwd";
}

using Callables = std::unordered_map<PyObject*, Callable>;

void add(Callables& all, PyObject* object, std::string_view name, CallKind otherwise) {
  if (!PyCallable_Check(object) || PyType_Check(object)) return;
  all.try_emplace(object, Callable{Ref::borrow(object), kind_by_name(name, otherwise), acts_by_name(name), draws_by_name(name), is_in_place_by_name(name), is_recurrent_by_name(name), is_of_attention_by_name(name)});
}

// Of an object that keeps operations: a module in C, or torch._C._VariableFunctions.
void add_operations(Callables& all, PyObject* holder, bool private_ones) {
  const Ref names = Ref::steal(PyObject_Dir(holder));
  for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names.get()); i++) {
    const std::string_view name = utf8(PyList_GET_ITEM(names.get(), i));
    const bool is_private = name.starts_with("_") && !name.starts_with("_foreach_");
    const bool is_left_out = is_private && !private_ones && kind_by_name(name, CallKind::kUnknown) == CallKind::kUnknown;
    const Ref found = is_left_out ? Ref() : Ref::steal(PyObject_GetAttr(holder, PyList_GET_ITEM(names.get(), i)));
    if (!found) PyErr_Clear();
    if (found && PyCFunction_Check(found.get())) add(all, found.get(), name, CallKind::kOperation);
  }
}

bool is_of_module(PyObject* function, std::string_view name) {
  const Ref from = PyFunction_Check(function) ? Ref::steal(PyObject_GetAttrString(function, "__module__")) : Ref();
  if (!from) PyErr_Clear();
  return from && PyUnicode_Check(from.get()) && utf8(from.get()) == name;
}

// The functions of Python's that stand in a graph as they are: what the module itself defines.
void add_functions(Callables& all, PyObject* module, std::string_view name_of_module) {
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(PyModule_GetDict(module), &at, &name, &value);) {
    if (!utf8(name).starts_with("_") && is_of_module(value, name_of_module)) add(all, value, utf8(name), CallKind::kOperation);
  }
}

// Methods in C are operations; of those in Python these.
void add_methods(Callables& all, PyTypeObject* type) {
  static constexpr std::string_view kOfPython[] = {"norm", "split", "stft", "istft", "unflatten", "__rsub__", "__rdiv__", "__rtruediv__", "__pow__", "__ipow__",
                                                   "__rmod__", "__rpow__", "__floordiv__", "__rfloordiv__", "__rlshift__", "__rrshift__", "__rmatmul__"};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
    auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (base == &PyBaseObject_Type) continue;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(base->tp_dict, &at, &key, &value);) {
      const std::string_view name = utf8(key);
      if (Py_IS_TYPE(value, &PyMethodDescr_Type) || Py_IS_TYPE(value, &PyWrapperDescr_Type)) {
        const bool is_private = name.starts_with("_") && !name.ends_with("__");
        add(all, value, name, is_private || Py_IS_TYPE(value, &PyWrapperDescr_Type) ? CallKind::kUnknown : CallKind::kOperation);
      } else if (PyFunction_Check(value)) {
        const bool operation = std::find(std::begin(kOfPython), std::end(kOfPython), name) != std::end(kOfPython);
        add(all, value, name, operation ? CallKind::kOperation : CallKind::kUnknown);
      }
    }
  }
}

Ref module_named(const char* name) {
  Ref module = Ref::steal(PyImport_ImportModule(name));
  if (!module) PyErr_Clear();
  return module;
}

PyObject* inference_mode() {
  static const auto* const found = new Ref([] {
    const Ref c = module_named("torch._C");
    Ref type = c ? Ref::steal(PyObject_GetAttrString(c.get(), "_InferenceMode")) : Ref();
    if (!type) PyErr_Clear();
    return type && PyType_Check(type.get()) ? std::move(type) : Ref();
  }());
  return found->get();
}

// pybind11 has functions of C's for methods, in an object that binds them.
PyObject* method_of_pybind(PyTypeObject* type, PyObject* name) {
  PyObject* const found = _PyType_Lookup(type, name);
  PyObject* const function = found && PyInstanceMethod_Check(found) ? PyInstanceMethod_GET_FUNCTION(found) : nullptr;
  return function && PyCFunction_Check(function) ? function : nullptr;
}

void add_inference_mode(Callables& all) {
  for (const char* const name : {"__enter__", "__exit__"}) {
    const Ref text = Ref::steal(PyUnicode_InternFromString(name));
    PyObject* const method = inference_mode() ? method_of_pybind(reinterpret_cast<PyTypeObject*>(inference_mode()), text.get()) : nullptr;
    if (method) add(all, method, name, CallKind::kUnknown);
  }
}

Callables& callables() {
  static auto* const made = [] {
    auto* const all = new Callables;  // lives as long as the process
    add_methods(*all, reinterpret_cast<PyTypeObject*>(tensor_type()));
    const Ref c = module_named("torch._C"), torch = module_named("torch");
    for (const char* const name : {"_VariableFunctions", "_nn", "_fft", "_linalg", "_special"}) {
      const Ref holder = c ? Ref::steal(PyObject_GetAttrString(c.get(), name)) : Ref();
      if (!holder) PyErr_Clear();
      if (holder) add_operations(*all, holder.get(), std::string_view(name) == "_nn");
    }
    for (const char* const name : {"torch.nn.functional", "torch.functional"}) {
      if (const Ref module = module_named(name)) add_functions(*all, module.get(), name);
    }
    add_inference_mode(*all);
    const Ref size = torch ? Ref::steal(PyObject_GetAttrString(torch.get(), "Size")) : Ref(), product = size ? Ref::steal(PyObject_GetAttrString(size.get(), "numel")) : Ref();
    if (product) add(*all, product.get(), "numel", CallKind::kSize);
    PyErr_Clear();
    for (PyObject* const mark : {begin_checkpoint(), end_checkpoint(), follows_checkpoint(), begin_body(), end_body(), body_input(), take_bodies(), call_operator(), follows_body()}) all->try_emplace(mark, Callable{Ref::borrow(mark), CallKind::kMark});
    all->try_emplace(has_tied_tensors(), Callable{Ref::borrow(has_tied_tensors()), CallKind::kAsked});
    // What torch._C itself has is known by its row alone.
    const Ref functorch = module_named("torch._C._functorch"), autograd = module_named("torch._C._autograd"), transforms = module_named("torch._functorch.eager_transforms");
    for (PyObject* const module : {c.get(), torch.get(), functorch.get(), autograd.get(), transforms.get()}) {
      for (const Row& row : kFunctions) {
        const Ref found = module ? Ref::steal(PyObject_GetAttrString(module, row.name)) : Ref();
        if (!found) PyErr_Clear();
        if (found && (module == transforms.get() ? is_of_module(found.get(), "torch._functorch.eager_transforms") : PyCFunction_Check(found.get()))) add(*all, found.get(), row.name, CallKind::kUnknown);
      }
    }
    return all;
  }();
  return *made;
}

// What evalframe/torch/operators.py has told.
struct Operators {
  Ref types, kind_of, follow;
};
Operators& operators() {
  static auto* const made = new Operators;  // lives as long as the process
  return *made;
}

bool is_operator(PyObject* callable) {
  PyObject* const types = operators().types.get();
  for (Py_ssize_t i = 0; types && i < PyTuple_GET_SIZE(types); i++) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(callable)) == PyTuple_GET_ITEM(types, i)) return true;
  }
  return false;
}

CallKind kind_told(std::string_view name) {
  if (name == "operation") return CallKind::kOperation;
  if (name == "described") return CallKind::kDescribed;
  if (name == "noted") return CallKind::kNoted;
  return name == "value" ? CallKind::kValue : CallKind::kUnknown;
}

// Asked once. One of which nothing is told may do anything.
const Callable& add_operator(Callables& all, PyObject* callable) {
  const Ref told = Ref::steal(PyObject_CallOneArg(operators().kind_of.get(), callable));
  const char* kind = "unknown";
  int acts = 1;
  if (!told || !PyArg_ParseTuple(told.get(), "sp", &kind, &acts)) PyErr_Clear();
  const Ref name = Ref::steal(PyObject_Str(callable));
  if (!name) PyErr_Clear();
  return all.try_emplace(callable, Callable{.object = Ref::borrow(callable), .kind = kind_told(kind), .has_effect = acts != 0, .is_of_attention = name && is_of_attention_by_name(utf8(name.get()))}).first->second;
}

const Callable* find(PyObject* callable) {
  if (!is_watched()) return nullptr;
  Callables& all = callables();
  const auto found = all.find(callable);
  if (found != all.end()) return &found->second;
  return is_operator(callable) ? &add_operator(all, callable) : nullptr;
}

}  // namespace

CallKind call_kind(PyObject* callable) {
  const Callable* const known = find(callable);
  return known ? known->kind : CallKind::kUnknown;
}

void watch_operators(Borrowed types, Borrowed kind_of, Borrowed follow) {
  operators() = {Ref::borrow(types), Ref::borrow(kind_of), Ref::borrow(follow)};
}

bool results_follow(PyObject* callable, std::span<PyObject* const> arguments, PyObject* keyword_names) {
  const Py_ssize_t keywords = keyword_names ? PyTuple_GET_SIZE(keyword_names) : 0, positional = static_cast<Py_ssize_t>(arguments.size()) - keywords;
  const Ref given = Ref::steal(PyTuple_New(positional)), named = Ref::steal(PyDict_New());
  for (Py_ssize_t i = 0; given && i < positional; i++) PyTuple_SET_ITEM(given.get(), i, Py_NewRef(arguments[static_cast<size_t>(i)]));
  for (Py_ssize_t i = 0; named && i < keywords; i++) PyDict_SetItem(named.get(), PyTuple_GET_ITEM(keyword_names, i), arguments[static_cast<size_t>(positional + i)]);
  const Ref answer = given && named ? Ref::steal(PyObject_CallFunctionObjArgs(operators().follow.get(), callable, given.get(), named.get(), nullptr)) : Ref();
  PyErr_Clear();
  return answer.get() == Py_True;
}

bool is_builtin_operation(PyObject* callable) {
  if (!PyCFunction_CheckExact(callable)) return false;
  const auto* const function = reinterpret_cast<PyCFunctionObject*>(callable);
  const bool named = function->m_module && PyUnicode_Check(function->m_module);
  const std::string_view module = named ? utf8(function->m_module) : std::string_view(), name = function->m_ml->ml_name;
  if (module == "_operator") return true;
  return module == "builtins" && (name == "abs" || name == "round" || name == "pow" || name == "divmod" || name == "sum");
}

bool is_torchs(PyObject* callable) { return find(callable) != nullptr; }

CallKind attribute_kind(Borrowed name) {
  for (const Row& row : kAttributes) {
    if (PyUnicode_CompareWithASCIIString(name.get(), row.name) == 0) return row.kind;
  }
  return CallKind::kUnknown;
}

bool has_effect(PyObject* callable) {
  const Callable* const known = find(callable);
  return !known || known->has_effect;
}

bool is_in_place(PyObject* callable) {
  const Callable* const known = find(callable);
  return known && known->is_in_place;
}

bool draws(PyObject* callable) {
  const Callable* const known = find(callable);
  return known && known->draws;
}

bool is_recurrent(PyObject* callable) {
  const Callable* const known = find(callable);
  return known && known->is_recurrent;
}

bool is_of_attention(PyObject* callable) {
  const Callable* const known = find(callable);
  return known && known->is_of_attention;
}

bool is_inference_mode(PyObject* type) { return is_watched() && type == inference_mode(); }

PyObject* method_of_inference_mode(PyObject* object, PyObject* name) {
  return is_inference_mode(reinterpret_cast<PyObject*>(Py_TYPE(object))) ? method_of_pybind(Py_TYPE(object), name) : nullptr;
}

int enters_inference_mode(PyObject* method) {
  if (call_kind(method) != CallKind::kMode || !PyCFunction_Check(method)) return 0;
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(method)->m_ml->ml_name;
  return name == "__enter__" ? 1 : name == "__exit__" ? -1 : 0;
}

bool changes_gradient_mode(PyObject* callable) { return call_kind(callable) == CallKind::kState; }

int nesting_of(PyObject* callable) {
  if (call_kind(callable) != CallKind::kNesting) return 0;
  return std::string_view(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name).find("increment") != std::string_view::npos ? 1 : -1;
}

bool changes_mode(PyObject* callable) {
  const CallKind kind = call_kind(callable);
  return kind == CallKind::kMode || kind == CallKind::kNesting;
}

}  // namespace evalframe::torch
