// A kernel: one fused loop nest over an iteration space, as data. kernel_codegen turns it into LLVM IR.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace evalframe::native {

using graph::DType;

inline bool is_float(DType dtype) { return graph::kind_of(dtype) == 'f'; }
inline bool is_complex(DType dtype) { return graph::kind_of(dtype) == 'c'; }
inline bool is_signed(DType dtype) { return graph::kind_of(dtype) == 'i'; }
inline bool is_integer(DType dtype) { return is_signed(dtype) || graph::kind_of(dtype) == 'u'; }

// Scalar operations on elements: one table, one LLVM lowering each.
enum class ScalarOp : uint8_t {
#define EVALFRAME_SCALAR_OP(name, arity, numbers, flags) name,
#include "backends/native/code/scalar_ops.def"
#undef EVALFRAME_SCALAR_OP
};
const char* name(ScalarOp op);

// What has to be known of hardware flags; see scalar_ops.def.
enum class Flags : uint8_t { none, passes, picks, raises };
Flags flags_of(ScalarOp op);

// One SSA value of the body. `dtype` is the type of the result; operands are indices of earlier values.
struct KernelOp {
  ScalarOp op;
  DType dtype;
  int32_t a = -1, b = -1, c = -1;
};

// An array or scalar read by the kernel. Values 0 .. inputs-1 of the body are the inputs, the ops follow.
struct KernelInput {
  DType dtype;
  bool scalar = false;  // one element for the whole space (a Python number converted to dtype, or an array of rank 0)
};

enum class ReduceOp : uint8_t { kNone, kAdd, kMultiply, kMinimum, kMaximum, kAny, kAll, kArgMin, kArgMax };
const char* name(ReduceOp op);

struct KernelOutput {
  int32_t value;
  DType dtype;
  ReduceOp reduce = ReduceOp::kNone;
};

// The space has `rank` dimensions (outermost first). Where `reduced` has a dimension's bit, outputs with a reduce op are
// reduced over it (their stride there is 0). All reducing outputs of a kernel reduce over the same dimensions.
struct Kernel {
  int rank = 1;
  uint32_t reduced = 0;
  std::vector<KernelInput> inputs;
  std::vector<KernelOp> ops;
  std::vector<KernelOutput> outputs;
  bool exact_sum_order = true;  // sums in NumPy's pairwise order
  bool in_memory_order = false;  // of its one array input, as NumPy's iterator walks it; else sums of floats are in C order
};
std::string print(const Kernel& kernel);
// What comes of a kernel of one output where that is its `input` the next time, so many times: that input comes first, and behind it the others of each time.
Kernel repeated(const Kernel& kernel, size_t input, int times);

// One operand at run time: base address and a byte stride for each dimension of the space. An output may overlap another
// operand only where both are the same elements at the same points of the space (in place).
struct KernelOperand {
  char* data;
  const int64_t* strides;
};

// Floating-point conditions met, as NumPy's NPY_FPE_* bits: 1 divide by zero, 2 overflow, 4 underflow, 8 invalid.
using FloatFlags = int;
// Instead of flags: "invalid" may only be a NaN that was compared. What was written is to be computed again, which is then quiet.
inline constexpr FloatFlags kAgain = 1 << 8;
// Beside flags: what NumPy makes of an element depends on where in the array it stands, so that its calls have to.
inline constexpr FloatFlags kByPlace = 1 << 9;

// A kernel that can be run, made once per kernel text and kept for the process.
class CompiledKernel {
 public:
  virtual ~CompiledKernel() = default;
  // Runs over the whole space; extents: `rank` sizes (any may be 0 for maps). operands: inputs, then outputs. Chooses the
  // contiguous or strided version, splits over threads where the work pays, and returns the flags raised by any thread.
  // Doesn't touch Python objects; the caller may release the GIL around it. Returns kAgain only inside a task of parallel_for.
  virtual FloatFlags run(const int64_t* extents, const KernelOperand* operands) const = 0;
  // Makes the code that run needs for these operands, so that run can't fail; else a layout first met in run is compiled there.
  virtual void make_ready(const int64_t* extents, const KernelOperand* operands) const = 0;
  // From here on code is made in full, where it is next met. False: it was.
  virtual bool improve() const = 0;
  // Tells it of a run whose parts tasks have done, in which nothing is compiled: such runs, too, may be worth code that is made with more effort.
  virtual void count_run(const int64_t* extents) const = 0;
  // From here on a run never asks to be done again.
  virtual void be_quiet() const = 0;
  // Seconds that one thread takes, about.
  virtual double seconds(const int64_t* extents) const = 0;
  virtual const Kernel& kernel() const = 0;
  virtual const std::string& ir() const = 0;
};

// How often kernels have run that were made quickly, and took notably longer for it, in all of the process.
uint64_t slow_runs();

// Made once in the process. Needs the GIL. Throws std::runtime_error where an operation has no lowering or LLVM isn't there.
// Machine code is made, or found on disk, for each layout that is met: run and make_ready take the GIL for it, and throw
// std::runtime_error with LLVM's message. It is made quickly, and with more effort once the runs have taken as much longer as that takes.
const CompiledKernel& compile(const Kernel& kernel);
// For tests: what has been compiled is compiled again where it is next run.
void forget_code_of_kernels();

}  // namespace evalframe::native
