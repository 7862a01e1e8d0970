// Rules for torch.autograd.Function: where no gradients are recorded, a class's forward is followed (python/evalframe/torch/stand_ins.py).
#include <algorithm>
#include <unordered_set>

#include "cpython/codec.h"
#include "frontends/torch/autograd.h"
#include "frontends/torch/tensors.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using bytecode::Op;
using evaluator::Activation;

// The context is asked for what any object would give, or what was set before, and for nothing else.
bool uses_context_plainly(PyObject* type, PyObject* forward) {
  PyObject* const of = reinterpret_cast<PyFunctionObject*>(forward)->func_code;
  const auto* const code = reinterpret_cast<PyCodeObject*>(of);
  const bytecode::Code* const decoded = code->co_argcount > 0 && (code->co_flags & CO_OPTIMIZED) ? cpython::decoded(of) : nullptr;
  if (!decoded) return PyErr_Clear(), false;
  std::unordered_set<PyObject*> stored;
  const std::vector<bytecode::Instruction>& all = decoded->instructions;
  for (size_t i = 0; i < all.size(); i++) {
    const bytecode::Instruction& instruction = all[i];
    const bool of_context = bytecode::argument_kind(instruction.op) == bytecode::Argument::local && instruction.arg == 0;
    if (!of_context) continue;
    if (instruction.op != Op::LOAD_FAST || i + 1 == all.size()) return false;
    const bytecode::Instruction& next = all[i + 1];
    const bool loads = next.op == Op::LOAD_ATTR || next.op == Op::LOAD_METHOD;
    if (!loads && next.op != Op::STORE_ATTR) return false;
    PyObject* const name = PyTuple_GET_ITEM(code->co_names, next.arg);
    if (!loads) stored.insert(name);
    if (!torch::is_of_any_context(type, name, !loads) && !(loads && stored.contains(name))) return false;
  }
  return true;
}

}  // namespace

std::optional<Plan> apply_of_function(const Site& site, uint32_t type, PyObject* callable, const Given& given) {
  if (!torch::is_apply_of_function(callable) || given.keyword_names || torch::records_gradients()) return std::nullopt;
  PyObject* const of = PyCFunction_GET_SELF(callable);
  const Ref forward = torch::forward_of_function(of);
  if (!forward || !uses_context_plainly(of, forward.get())) return std::nullopt;
  site.recorder.depends_on_torch();
  std::optional<Plan> plan = stand_in_call(site, "autograd_apply");
  if (plan) give(*plan, {type, of});
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
