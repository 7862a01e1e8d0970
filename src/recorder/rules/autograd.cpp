// Rules for torch.autograd.Function: a class's forward is followed (python/evalframe/torch/stand_ins.py); what goes backward is its own, and what that
// reads beside its arguments is guarded.
#include <algorithm>
#include <unordered_set>

#include "cpython/codec.h"
#include "frontends/torch/autograd.h"
#include "frontends/torch/calls.h"
#include "frontends/torch/tensors.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using bytecode::Op;
using evaluator::Activation;

PyObject* name_at(PyObject* code, const bytecode::Instruction& instruction) {
  return PyTuple_GET_ITEM(reinterpret_cast<PyCodeObject*>(code)->co_names, instruction.arg);
}

bool loads_attribute(const bytecode::Instruction& instruction) { return instruction.op == Op::LOAD_ATTR || instruction.op == Op::LOAD_METHOD; }

// The context is asked for what any object would give, or what was set before, and for nothing else. Gives the names that are set; null: it isn't.
Ref names_set(PyObject* type, PyObject* function) {
  PyObject* const of = reinterpret_cast<PyFunctionObject*>(function)->func_code;
  const auto* const code = reinterpret_cast<PyCodeObject*>(of);
  const bytecode::Code* const decoded = code->co_argcount > 0 && (code->co_flags & CO_OPTIMIZED) ? cpython::decoded(of) : nullptr;
  if (!decoded) return PyErr_Clear(), Ref();
  std::vector<PyObject*> stored;
  const auto is_stored = [&stored](PyObject* name) { return std::find(stored.begin(), stored.end(), name) != stored.end(); };
  const std::vector<bytecode::Instruction>& all = decoded->instructions;
  for (size_t i = 0; i < all.size(); i++) {
    const bytecode::Instruction& instruction = all[i];
    const bool of_context = bytecode::argument_kind(instruction.op) == bytecode::Argument::local && instruction.arg == 0;
    if (!of_context) continue;
    if (instruction.op != Op::LOAD_FAST || i + 1 == all.size()) return Ref();
    const bytecode::Instruction& next = all[i + 1];
    const bool loads = loads_attribute(next);
    if (!loads && next.op != Op::STORE_ATTR) return Ref();
    PyObject* const name = name_at(of, next);
    if (!loads && !is_stored(name)) stored.push_back(name);
    if (!torch::is_of_any_context(type, name, !loads) && !(loads && is_stored(name))) return Ref();
  }
  Ref names = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(stored.size())));
  for (size_t i = 0; names && i < stored.size(); i++) PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Py_NewRef(stored[i]));
  return names;
}

// Makes guards of what a function reads beside its arguments. A backend looks at it when it compiles a graph, in a frame that isn't recorded.
class Reads {
 public:
  explicit Reads(Recorder& recorder) : recorder_(recorder) {}

  // Whether all that the function reads can be guarded, and it changes nothing but what it makes.
  bool are_guarded(PyObject* function) {
    if (!seen_.insert(function).second) return true;
    recorder_.guards().require_function(function);
    const auto* const made = reinterpret_cast<PyFunctionObject*>(function);
    if (made->func_kwdefaults || (made->func_defaults && !is_immutable(made->func_defaults))) return false;
    if (torch::is_of_autograd(made->func_code)) return cells_are_guarded(made->func_closure);  // once_differentiable
    return !made->func_closure && are_guarded(made->func_code, made->func_globals, made->func_builtins);
  }

 private:
  bool cells_are_guarded(PyObject* closure) {
    for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); i++) {
      const Ref content = Ref::steal(PyCell_Get(PyTuple_GET_ITEM(closure, i)));
      if (!content || !is_guarded(content.get())) return false;
    }
    return true;
  }

  bool are_guarded(PyObject* code, PyObject* globals, PyObject* builtins) {
    const bytecode::Code* const decoded = cpython::decoded(code);
    if (!decoded || !PyDict_CheckExact(globals) || !PyDict_CheckExact(builtins)) return PyErr_Clear(), false;
    const std::vector<bytecode::Instruction>& all = decoded->instructions;
    for (size_t i = 0; i < all.size(); i++) {
      if (acts(all[i].op)) return false;
      if (all[i].op != Op::LOAD_GLOBAL) continue;
      PyObject* value = global(globals, builtins, name_at(code, all[i]));
      while (value && PyModule_Check(value)) {
        value = i + 1 < all.size() && loads_attribute(all[i + 1]) ? named(PyModule_GetDict(value), name_at(code, all[i + 1])) : nullptr;
        i++;
      }
      if (!value || !is_guarded(value)) return false;
    }
    PyObject* const constants = reinterpret_cast<PyCodeObject*>(code)->co_consts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); i++) {  // comprehensions
      PyObject* const inner = PyTuple_GET_ITEM(constants, i);
      if (PyCode_Check(inner) && !are_guarded(inner, globals, builtins)) return false;
    }
    return true;
  }

  static bool acts(Op op) {
    using enum Op;
    return op == STORE_GLOBAL || op == DELETE_GLOBAL || op == IMPORT_NAME || op == LOAD_NAME || op == STORE_ATTR || op == DELETE_ATTR || op == LOAD_BUILD_CLASS;
  }

  PyObject* global(PyObject* globals, PyObject* builtins, PyObject* name) {
    if (recorder_.stored(globals, name)) return nullptr;
    if (PyObject* const found = named(globals, name)) return found;
    recorder_.guards().require_name(globals, name, nullptr);
    return named(builtins, name);
  }

  PyObject* named(PyObject* dict, PyObject* name) {
    PyObject* const found = PyDict_GetItemWithError(dict, name);
    if (!found) return PyErr_Clear(), nullptr;
    recorder_.guards().require_name(dict, name, found);
    return found;
  }

  bool is_guarded(PyObject* value) {
    if (value == torch::tensor_type() || is_immutable(value) || torch::is_torchs(value) || looks_at_arguments_alone(value)) return true;
    return PyFunction_Check(value) && are_guarded(value);
  }

  Recorder& recorder_;
  std::unordered_set<PyObject*> seen_;
};

bool goes_backward_plainly(Recorder& recorder, PyObject* type) {
  const Ref backward = torch::backward_of_function(type);
  return backward && recorder.fix_class(type) && Reads(recorder).are_guarded(backward.get());
}

}  // namespace

std::optional<Plan> apply_of_function(const Site& site, uint32_t type, PyObject* callable, const Given& given) {
  if (!torch::is_apply_of_function(callable) || given.keyword_names) return std::nullopt;
  Recorder& recorder = site.recorder;
  PyObject* const of = PyCFunction_GET_SELF(callable);
  const Ref told = torch::told_context(of), names = told ? names_set(of, told.get()) : Ref();
  const bool goes_backward = torch::records_gradients();
  if (!names || (goes_backward && !goes_backward_plainly(recorder, of))) return std::nullopt;
  const Ref finish = goes_backward ? torch::finish_of_function(of) : Ref::borrow(Py_None);
  if (!finish) return std::nullopt;
  recorder.depends_on_torch();
  std::optional<Plan> plan = stand_in_call(site, "autograd_apply");
  if (plan) give(*plan, {type, of});
  for (PyObject* const told : {finish.get(), goes_backward ? names.get() : Py_None}) {
    if (plan) give(*plan, {recorder.constant(told), told});
  }
  for (size_t i = 0; plan && i < given.labels.size(); i++) give(*plan, {given.labels[i], given.objects[i]});
  return plan;
}

// What the stand-in asks of a result: an operation has made it in each run, from the same inputs.
std::optional<Plan> step_of_autograd(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (callable != torch::is_new_result() || call.count != 2) return std::nullopt;
  Recorder& recorder = site.recorder;
  PyObject* const result = site.frame.slot(call.first);
  const bool made = is_made_in_each_run(recorder, {recorder.label(call.first), result});
  const bool is_new = torch::is_tensor(result) ? made && torch::is_new(result, site.frame.slot(call.first + 1)) : recorder.known(recorder.label(call.first), result);
  return is_new ? plan_constant() : plan_break(Break::kUnknownCall, "torch.autograd.Function that gives what it was given");
}

}  // namespace evalframe::recorder
