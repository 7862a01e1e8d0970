// Text of kernels, for people, tests and as the key of the table of compiled kernels.
#include "backends/native/code/kernel.h"

namespace evalframe::native {

const char* name(ScalarOp op) {
  switch (op) {
#define EVALFRAME_SCALAR_OP(name, arity, numbers, flags) \
  case ScalarOp::name:                   \
    return #name;
#include "backends/native/code/scalar_ops.def"
#undef EVALFRAME_SCALAR_OP
  }
  return "?";
}

Flags flags_of(ScalarOp op) {
  constexpr Flags kFlags[] = {
#define EVALFRAME_SCALAR_OP(name, arity, numbers, flags) Flags::flags,
#include "backends/native/code/scalar_ops.def"
#undef EVALFRAME_SCALAR_OP
  };
  return kFlags[static_cast<int>(op)];
}

const char* name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kNone: return "store";
    case ReduceOp::kAdd: return "sum";
    case ReduceOp::kMultiply: return "prod";
    case ReduceOp::kMinimum: return "min";
    case ReduceOp::kMaximum: return "max";
    case ReduceOp::kAny: return "any";
    case ReduceOp::kAll: return "all";
    case ReduceOp::kArgMin: return "argmin";
    case ReduceOp::kArgMax: return "argmax";
  }
  return "?";
}

Kernel repeated(const Kernel& kernel, size_t input, int times) {
  Kernel all = kernel;
  all.inputs = {kernel.inputs[input]};
  all.ops.clear();
  const size_t inputs = kernel.inputs.size();
  for (int time = 0; time < times; time++) {
    for (size_t i = 0; i < inputs; i++) {
      if (i != input) all.inputs.push_back(kernel.inputs[i]);
    }
  }
  int32_t before = 0;
  for (int time = 0; time < times; time++) {
    std::vector<int32_t> values;  // by those of the kernel
    int32_t next = 1 + time * (static_cast<int32_t>(inputs) - 1);
    for (size_t i = 0; i < inputs; i++) values.push_back(i == input ? before : next++);
    for (KernelOp op : kernel.ops) {
      for (int32_t* const operand : {&op.a, &op.b, &op.c}) {
        if (*operand >= 0) *operand = values[static_cast<size_t>(*operand)];
      }
      all.ops.push_back(op);
      values.push_back(static_cast<int32_t>(all.inputs.size() + all.ops.size()) - 1);
    }
    before = values[static_cast<size_t>(kernel.outputs[0].value)];
  }
  all.outputs[0].value = before;
  return all;
}

std::string print(const Kernel& kernel) {
  std::string text = "kernel rank " + std::to_string(kernel.rank);
  if (kernel.reduced) {
    text += " reduce";
    for (int d = 0; d < kernel.rank; ++d) {
      if (kernel.reduced >> d & 1) text += " " + std::to_string(d);
    }
    if (!kernel.exact_sum_order) text += " any order";
    if (kernel.in_memory_order) text += " in memory's order";
  }
  text += "\n";
  int next = 0;
  for (const KernelInput& input : kernel.inputs) {
    text += "  %" + std::to_string(next++) + " = " + (input.scalar ? "scalar " : "load ") + graph::name(input.dtype) + "\n";
  }
  for (const KernelOp& op : kernel.ops) {
    text += "  %" + std::to_string(next++) + " = " + name(op.op) + " " + graph::name(op.dtype);
    for (int32_t operand : {op.a, op.b, op.c}) {
      if (operand >= 0) text += " %" + std::to_string(operand);
    }
    text += "\n";
  }
  for (const KernelOutput& output : kernel.outputs) {
    text += std::string("  ") + name(output.reduce) + " " + graph::name(output.dtype) + " %" + std::to_string(output.value) + "\n";
  }
  return text;
}

}  // namespace evalframe::native
