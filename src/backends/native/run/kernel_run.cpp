// Runs compiled kernels: chooses the version for a layout, and splits the work over threads.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "backends/native/code/emitter.h"
#include "backends/native/code/kernel.h"
#include "backends/native/code/kernel_codegen.h"
#include "backends/native/machine/machine.h"
#include "backends/native/run/arg_states.h"
#include "backends/native/run/float_flags.h"
#include "backends/native/run/parts.h"

namespace evalframe::native {
namespace {

constexpr double kPieceSeconds = 20e-6;
// From which on it can be noticed that code was made quickly.
constexpr double kNoticedSeconds = 0.3e-6;
std::atomic<uint64_t> runs_that_took_longer = 0;
constexpr int kMaxRowOperands = 32;
constexpr int kPiecesPerThread = 4;   // so that a thread that was held up doesn't hold up the others

// Seconds for an element, about.
double cost_of(const KernelOp& op) {
  const double width = op.dtype == DType::float32 ? 0.5 : 1.0;
  switch (op.op) {
    case ScalarOp::divide:
    case ScalarOp::sqrt:
    case ScalarOp::reciprocal: return 0.4e-9 * width;
    case ScalarOp::floor_divide:
    case ScalarOp::remainder:
    case ScalarOp::integer_power: return 4e-9;
#define EVALFRAME_MATH1(name, c_name) case ScalarOp::name: return 1.3e-9 * width;
#define EVALFRAME_MATH2(name, c_name) case ScalarOp::name: return 2.5e-9 * width;
#include "backends/native/math/vector_math.def"
    default: return 0.1e-9;
  }
}

class Native final : public CompiledKernel {
 public:
  explicit Native(const Kernel& kernel);

  FloatFlags run(const int64_t* extents, const KernelOperand* operands) const override;
  void make_ready(const int64_t* extents, const KernelOperand* operands) const override;
  const std::string& ir() const override { return ir_; }

  const Kernel& kernel() const override { return kernel_; }
  bool improve() const override { return improve_to(Effort::kFull); }
  void be_quiet() const override { quiet_ = true; }
  void count_run(const int64_t* extents) const override {
    if (effort_.load(std::memory_order_relaxed) != Effort::kFull) count_what_takes_longer(extents);
  }
  double seconds(const int64_t* extents) const override {
    double seconds = seconds_per_element_;
    for (int d = 0; d < kernel_.rank; ++d) seconds *= static_cast<double>(extents[d]);
    return seconds;
  }
  void forget_code() {
    const std::unique_lock lock(mutex_);
    versions_.clear();
    improve_to(Effort::kQuick);
    seconds_longer_ = 0;
  }
  int operands() const { return static_cast<int>(kernel_.inputs.size() + kernel_.outputs.size()); }

 private:
  KernelFunction version(const std::string& access, bool quiet) const;
  void count_what_takes_longer(const int64_t* extents) const;
  bool improve_to(Effort effort) const;
  int64_t row_length(const int64_t* extents, const KernelOperand* operands) const;
  FloatFlags run_once(const int64_t* extents, const KernelOperand* operands, bool quiet) const;
  FloatFlags run_row(int64_t length, const KernelOperand* operands, bool quiet) const;
  FloatFlags run_space(const Space& space, bool quiet) const;
  bool writes_an_input(const KernelOperand* operands) const;
  int pieces_for(int64_t elements) const;
  FloatFlags run_map(const Space& space, KernelFunction function) const;

  Kernel kernel_;
  std::string ir_;
  const Folding folding_;
  double seconds_per_element_ = 0;
  // Of operands that are one row in memory: how they are walked, and how many bytes it is to the next element.
  std::string row_access_;
  std::vector<int64_t> row_steps_;
  // Comparisons are of the kind that may signal until a NaN is met: few arrays hold any.
  bool may_signal_ = false;
  mutable std::atomic<bool> quiet_ = false;
  mutable std::atomic<KernelFunction> row_[2] = {nullptr, nullptr};  // for quiet: false, true
  mutable std::atomic<Effort> effort_ = Effort::kQuick;  // with which versions are made
  mutable std::atomic<double> seconds_longer_ = 0;       // that runs have taken for it
  mutable std::shared_mutex mutex_;
  mutable std::map<std::string, Code> versions_;
};

Native::Native(const Kernel& kernel) : kernel_(kernel), folding_(kernel) {
  seconds_per_element_ = 0.15e-9 * operands();
  for (const KernelOp& op : kernel.ops) seconds_per_element_ += cost_of(op);
  for (const KernelInput& input : kernel.inputs) {
    row_access_ += static_cast<char>(input.scalar ? Access::kScalar : Access::kUnit);
    row_steps_.push_back(input.scalar ? 0 : graph::size_of(input.dtype));
  }
  for (const KernelOutput& output : kernel.outputs) {
    row_access_ += static_cast<char>(Access::kUnit);
    row_steps_.push_back(graph::size_of(output.dtype));
  }
  target();  // so that a machine without LLVM is found out here
  // Shown to people; machine code is made for the layouts that are met.
  Generated shown = generate(kernel_, row_access_, false);
  ir_ = std::move(shown.ir);
  may_signal_ = shown.may_signal;
}

KernelFunction Native::version(const std::string& access, bool quiet) const {
  const std::string key = access + (quiet ? "quiet" : "");
  const Effort effort = effort_;
  Code code;
  {
    const std::shared_lock lock(mutex_);
    const auto found = versions_.find(key);
    if (found != versions_.end()) code = found->second;
  }
  // Nothing is compiled within a task, if it can be helped.
  if (code.function && (code.effort >= effort || inside_task())) return reinterpret_cast<KernelFunction>(code.function);
  // Not under the lock: compiling takes the GIL, which a thread that waits for the lock may hold.
  try {
    std::string ir = generate(kernel_, access, quiet).ir;
    if (effort == Effort::kQuick) {
      code = code_at_first(std::move(ir));
    } else {
      std::optional<CompilesNow> now;
      if (code.function) now.emplace();
      code = {machine_code(std::move(ir), effort), effort};
    }
  } catch (const std::runtime_error&) {
    if (!code.function) throw;
    code.effort = Effort::kFull;  // it has to do
  }
  if (code.effort > effort) effort_ = code.effort;
  const std::unique_lock lock(mutex_);
  versions_[key] = code;
  return reinterpret_cast<KernelFunction>(code.function);
}

// Once that is as much as compiling with more effort takes, all layouts have their code made anew when they are next met.
void Native::count_what_takes_longer(const int64_t* extents) const {
  if (inside_task()) return;
  const Effort effort = effort_, more = more_than(effort);
  const double longer = longer_by(effort) * seconds(extents), all = seconds_longer_ + longer;
  if (effort == Effort::kQuick && longer > kNoticedSeconds) runs_that_took_longer++;
  const bool pays = all >= seconds_of_kernel(more);
  seconds_longer_ = pays ? 0 : all;
  if (pays) improve_to(more);
}

bool Native::improve_to(Effort effort) const {
  const Effort before = effort_.exchange(effort);
  for (auto& row : row_) row = nullptr;
  return before < effort;
}

int Native::pieces_for(int64_t elements) const {
  const int threads = threads_here();
  if (threads == 1) return 1;
  const double pieces = static_cast<double>(elements) * seconds_per_element_ / kPieceSeconds;
  return pieces < 2 ? 1 : static_cast<int>(std::min<double>(pieces, threads * kPiecesPerThread));
}

FloatFlags map_part(const Space& space, KernelFunction function) {
  const Dimension& rows = space.dimensions[space.dimensions.size() - 2];
  const Dimension& columns = space.dimensions.back();
  clear_flags();
  FloatFlags reported = 0;
  for_each_plane(space, [&](const std::vector<char*>& data, int64_t) {
    reported |= function(data.data(), rows.strides.data(), columns.strides.data(), rows.extent, columns.extent);
  });
  return reported | raised_flags();
}

FloatFlags Native::run_map(const Space& space, KernelFunction function) const {
  return split_over_threads(space, pieces_for(size_of(space)), [&](const Space& part) { return map_part(part, function); });
}

// The elements of a map whose operands are each one row in memory, and not none; else 0.
int64_t Native::row_length(const int64_t* extents, const KernelOperand* operands) const {
  if (this->operands() > kMaxRowOperands) return 0;
  int64_t length = 1;
  for (int d = 0; d < kernel_.rank; ++d) length *= extents[d];
  for (size_t i = 0; i < row_steps_.size(); ++i) {
    int64_t stride = row_steps_[i];
    if (!stride) continue;
    for (int d = kernel_.rank - 1; d >= 0; --d) {
      if (extents[d] != 1 && operands[i].strides[d] != stride) return 0;
      stride *= extents[d];
    }
  }
  return length;
}

FloatFlags Native::run_row(int64_t length, const KernelOperand* operands, bool quiet) const {
  static constexpr int64_t kNoStrides[kMaxRowOperands] = {};
  std::atomic<KernelFunction>& row = row_[quiet];
  KernelFunction function = row.load(std::memory_order_acquire);
  if (!function) row.store(function = version(row_access_, quiet), std::memory_order_release);
  return split(length, pieces_for(length), [&](int64_t begin, int64_t end) {
    char* data[kMaxRowOperands];
    for (size_t i = 0; i < row_steps_.size(); ++i) data[i] = operands[i].data + begin * row_steps_[i];
    clear_flags();
    return function(data, kNoStrides, kNoStrides, 1, end - begin) | raised_flags();
  });
}

FloatFlags Native::run_space(const Space& space, bool quiet) const {
  const KernelFunction function = version(access_of(kernel_, space), quiet);
  if (folding_.folds.empty()) return run_map(space, function);
  const int pieces = size_of(space) ? pieces_for(size_of(space)) : 1;
  return reduce(kernel_, folding_, function, space, pieces);
}

void Native::make_ready(const int64_t* extents, const KernelOperand* operands) const {
  const Space space = space_of(kernel_, extents, operands, folding_.has_arg);
  if (size_of(space)) version(access_of(kernel_, space), may_signal_ && (quiet_ || writes_an_input(operands)));
}

bool Native::writes_an_input(const KernelOperand* operands) const {
  const size_t inputs = kernel_.inputs.size();
  for (size_t o = 0; o < kernel_.outputs.size(); ++o) {
    for (size_t i = 0; i < inputs; ++i) {
      if (operands[i].data == operands[inputs + o].data) return true;
    }
  }
  return false;
}

FloatFlags Native::run(const int64_t* extents, const KernelOperand* operands) const {
  count_run(extents);
  const bool quiet = may_signal_ && (quiet_ || writes_an_input(operands));
  const FloatFlags flags = run_once(extents, operands, quiet);
  constexpr FloatFlags kInvalid = 8;
  if (quiet || !may_signal_ || !(flags & kInvalid)) return flags;
  // Another version may have to be compiled, which is not for a task to do.
  if (inside_task()) return kAgain;
  quiet_ = true;
  return run_once(extents, operands, true);
}

FloatFlags Native::run_once(const int64_t* extents, const KernelOperand* operands, bool quiet) const {
  for (int d = 0; d < kernel_.rank; ++d) {
    if (extents[d] == 0 && !(kernel_.reduced >> d & 1)) return 0;
  }
  if (folding_.folds.empty()) {
    if (const int64_t length = row_length(extents, operands)) return run_row(length, operands, quiet);
    const Space space = space_of(kernel_, extents, operands, false);
    return size_of(space) ? run_space(space, quiet) : 0;
  }
  if (!folding_.has_arg) {
    const Space space = space_of(kernel_, extents, operands, false);
    return run_space(space, quiet);
  }
  std::vector<KernelOperand> own(operands, operands + this->operands());
  const ArgStates states(kernel_, folding_, extents, own);
  const Space space = space_of(kernel_, extents, own.data(), true);
  const FloatFlags flags = run_space(space, quiet);
  states.write();
  return flags;
}

}  // namespace

uint64_t slow_runs() { return runs_that_took_longer; }

// Guarded by the GIL.
static std::map<std::string, std::unique_ptr<Native>>& compiled_kernels() {
  static std::map<std::string, std::unique_ptr<Native>> compiled;
  return compiled;
}

void forget_code_of_kernels() {
  for (const auto& [text, kernel] : compiled_kernels()) kernel->forget_code();
}

const CompiledKernel& compile(const Kernel& kernel) {
  auto& compiled = compiled_kernels();
  const std::string text = print(kernel);
  const auto found = compiled.find(text);
  if (found != compiled.end()) return *found->second;
  // Made before it is entered: compiling runs Python code, which may let another thread in.
  auto made = std::make_unique<Native>(kernel);
  return *compiled.emplace(text, std::move(made)).first->second;
}

}  // namespace evalframe::native
