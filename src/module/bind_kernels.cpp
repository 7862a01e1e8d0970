// Binds kernels for tests and tools: builds one from Python lists and runs it on arrays.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "backends/native/code/kernel.h"
#include "backends/native/machine/machine.h"
#include "module/bindings.h"

namespace nb = nanobind;

namespace evalframe {
namespace {

using native::Kernel;

graph::DType dtype_named(const std::string& name) {
#define EVALFRAME_DTYPE(dtype, number, size, kind, llvm) \
  if (name == #dtype || name + "_" == #dtype) return graph::DType::dtype;
#include "graph/dtypes.def"
#undef EVALFRAME_DTYPE
  throw std::invalid_argument("no such dtype: " + name);
}

native::ScalarOp op_named(const std::string& name) {
#define EVALFRAME_SCALAR_OP(op, arity, numbers, flags) \
  if (name == #op) return native::ScalarOp::op;
#include "backends/native/code/scalar_ops.def"
#undef EVALFRAME_SCALAR_OP
  throw std::invalid_argument("no such operation: " + name);
}

native::ReduceOp reduce_named(const std::string& name) {
  for (int op = 0; op <= static_cast<int>(native::ReduceOp::kArgMax); ++op) {
    if (name == native::name(static_cast<native::ReduceOp>(op))) return static_cast<native::ReduceOp>(op);
  }
  throw std::invalid_argument("no such reduction: " + name);
}

using Ops = std::vector<std::tuple<std::string, std::string, std::vector<int>>>;
using Outputs = std::vector<std::tuple<int, std::string, std::string>>;

const native::CompiledKernel* compile(int rank, uint32_t reduced, const std::vector<std::tuple<std::string, bool>>& inputs, const Ops& ops,
                                      const Outputs& outputs) {
  Kernel kernel;
  kernel.rank = rank;
  kernel.reduced = reduced;
  for (const auto& [dtype, scalar] : inputs) kernel.inputs.push_back({dtype_named(dtype), scalar});
  for (const auto& [name, dtype, operands] : ops) {
    native::KernelOp op{op_named(name), dtype_named(dtype)};
    int32_t* slots[] = {&op.a, &op.b, &op.c};
    for (size_t i = 0; i < operands.size() && i < 3; ++i) *slots[i] = operands[i];
    kernel.ops.push_back(op);
  }
  for (const auto& [value, dtype, reduce] : outputs) kernel.outputs.push_back({value, dtype_named(dtype), reduce_named(reduce)});
  return &native::compile(kernel);
}

int run(const native::CompiledKernel& kernel, const std::vector<int64_t>& extents, const std::vector<uintptr_t>& data,
        const std::vector<std::vector<int64_t>>& strides) {
  std::vector<native::KernelOperand> operands;
  for (size_t i = 0; i < data.size(); ++i) operands.push_back({reinterpret_cast<char*>(data[i]), strides[i].data()});
  const nb::gil_scoped_release release;
  return kernel.run(extents.data(), operands.data());
}

}  // namespace

void bind_kernels(nb::module_& module) {
  nb::class_<native::CompiledKernel>(module, "CompiledKernel").def("ir", &native::CompiledKernel::ir);
  module.def("kernel_compile", compile, nb::rv_policy::reference, nb::arg("rank"), nb::arg("reduced"), nb::arg("inputs"), nb::arg("ops"),
             nb::arg("outputs"));
  module.def("llvm_is_loaded", native::llvm_is_loaded, "Whether this process has compiled anything.");
  module.def("kernel_run", run, nb::arg("kernel"), nb::arg("extents"), nb::arg("data"), nb::arg("strides"));
}

}  // namespace evalframe
