// Runs kernels one after another, in slices of the outermost dimension where that changes nothing but the time.
#include "backends/native/run/kernel_slices.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <vector>

#include "backends/native/run/arena.h"
#include "backends/native/run/thread_pool.h"

namespace evalframe::native {
namespace {

constexpr int64_t kSliceBytes = 256 << 10;   // what all operands of a slice may take: part of a second-level cache
constexpr int64_t kLargestRow = 1 << 20;     // rows beyond this don't stay in the cache anyway
constexpr int64_t kSlicesPerThread = 4;
constexpr double kSliceSeconds = 20e-6;      // that are worth another thread

// What an operand touches for one index of the outermost dimension, relative to its address there.
struct Row {
  char* data;
  int64_t step;          // from row to row
  int64_t begin, end;    // bytes touched
  int64_t bytes;         // of its elements
  bool written;
  int scratch;
};

struct Call {
  const KernelCall* call;
  std::vector<Row> rows;
};

// The operands' rows; none if slices of this call wouldn't lie together in memory, or there are none.
std::vector<Row> rows_of(const KernelCall& call) {
  const Kernel& kernel = call.kernel->kernel();
  if (kernel.rank == 0 || kernel.reduced & 1) return {};
  std::vector<Row> rows;
  for (size_t i = 0; i < kernel.inputs.size() + kernel.outputs.size(); ++i) {
    const bool input = i < kernel.inputs.size();
    const DType dtype = input ? kernel.inputs[i].dtype : kernel.outputs[i - kernel.inputs.size()].dtype;
    const KernelOperand& operand = call.operands[i];
    Row row{operand.data, 0, 0, graph::size_of(dtype), 0, !input, call.scratch[i]};
    if (!input || !kernel.inputs[i].scalar) {
      row.step = operand.strides[0];
      row.bytes = row.step ? graph::size_of(dtype) : 0;
      for (int d = 1; d < kernel.rank; ++d) {
        const int64_t stride = operand.strides[d];
        if (call.extents[d] > 1 && row.step && std::abs(stride) > std::abs(row.step)) return {};
        (stride < 0 ? row.begin : row.end) += (call.extents[d] - 1) * stride;
        if (stride) row.bytes *= call.extents[d];
      }
    }
    rows.push_back(row);
  }
  return rows;
}

// Whether a row of one touches the other's memory only in the same row.
bool keep_apart(const Row& a, const Row& b, int64_t count) {
  if (!a.written && !b.written) return true;
  const auto reach = [count](const Row& row) {
    const int64_t last = (count - 1) * row.step;
    return std::pair{row.data + row.begin + std::min<int64_t>(last, 0), row.data + row.end + std::max<int64_t>(last, 0)};
  };
  const auto in_a = reach(a), in_b = reach(b);
  if (in_a.second <= in_b.first || in_b.second <= in_a.first) return true;
  const int64_t shift = b.data - a.data;
  const int64_t width = std::max(a.end, shift + b.end) - std::min(a.begin, shift + b.begin);
  return a.step == b.step && width <= std::abs(a.step);
}

bool fits(const std::vector<Call>& group, const Call& next) {
  if (next.rows.empty()) return false;
  if (group.empty() || group.front().rows.empty()) return group.empty();
  const int64_t count = group.front().call->extents[0];
  if (next.call->extents[0] != count) return false;
  return std::all_of(group.begin(), group.end(), [&](const Call& earlier) {
    return std::all_of(earlier.rows.begin(), earlier.rows.end(), [&](const Row& a) {
      return std::all_of(next.rows.begin(), next.rows.end(), [&](const Row& b) { return keep_apart(a, b, count); });
    });
  });
}

// Scratch memory that is used in this group only, row by row: a slice has its own, which stays in the cache.
class SliceMemory {
 public:
  SliceMemory(const std::vector<Call>& group, std::span<const KernelCall> all, std::span<char* const> scratch)
      : scratch_(scratch), steps_(scratch.size(), 0) {
    for (const Call& call : group) {
      for (const Row& row : call.rows) use(row);
    }
    for (const KernelCall& call : all) {
      const bool inside = std::any_of(group.begin(), group.end(), [&](const Call& c) { return c.call == &call; });
      if (!inside) forbid(call);
    }
  }

  // Bytes for each row of a slice; 0: the memory stays where it is.
  int64_t step(size_t index) const { return std::max<int64_t>(steps_[index], 0); }
  char* base(size_t index) const { return scratch_[index]; }
  size_t size() const { return steps_.size(); }

 private:
  void use(const Row& row) {
    if (row.scratch < 0) return;
    int64_t& step = steps_[static_cast<size_t>(row.scratch)];
    const int64_t first = row.data - scratch_[static_cast<size_t>(row.scratch)];
    const bool fits = row.step > 0 && first + row.begin >= 0 && first + row.end <= row.step && (step == 0 || step == row.step);
    step = fits ? row.step : kNever;
  }
  void forbid(const KernelCall& call) {
    const Kernel& kernel = call.kernel->kernel();
    for (size_t i = 0; i < kernel.inputs.size() + kernel.outputs.size(); ++i) {
      if (call.scratch[i] >= 0) steps_[static_cast<size_t>(call.scratch[i])] = kNever;
    }
  }

  static constexpr int64_t kNever = -1;
  std::span<char* const> scratch_;
  std::vector<int64_t> steps_;
};

// One group, in slices of `rows` indices of the outermost dimension.
class Slices {
 public:
  Slices(const std::vector<Call>& group, const SliceMemory& memory, int64_t rows)
      : group_(group), memory_(memory), count_(group.front().call->extents[0]), rows_(rows) {}

  FloatFlags run() const {
    const int64_t slices = (count_ + rows_ - 1) / rows_;
    // All but the last have one size: what these two need is compiled here, where it may be.
    for_slice(0, [](const CompiledKernel& kernel, const auto* extents, const auto* operands) { kernel.make_ready(extents, operands); });
    for_slice(slices - 1, [](const CompiledKernel& kernel, const auto* extents, const auto* operands) { kernel.make_ready(extents, operands); });
    std::atomic<FloatFlags> flags = 0;
    parallel_for(static_cast<int>(slices), [&](int slice) {
      for_slice(slice, [&](const CompiledKernel& kernel, const auto* extents, const auto* operands) { flags |= kernel.run(extents, operands); });
    });
    return flags;
  }

 private:
  template <class Visit>
  void for_slice(int64_t slice, Visit visit) const {
    Arena::Scope scope(Arena::current());
    const int64_t begin = slice * rows_;
    char** const own = scope.take<char*>(memory_.size());
    for (size_t i = 0; i < memory_.size(); ++i) {
      own[i] = memory_.step(i) ? scope.take<char>(static_cast<size_t>(rows_ * memory_.step(i))) : nullptr;
    }
    for (const Call& call : group_) {
      const int rank = call.call->kernel->kernel().rank;
      int64_t* const extents = scope.take<int64_t>(static_cast<size_t>(rank));
      std::copy_n(call.call->extents, rank, extents);
      extents[0] = std::min(rows_, count_ - begin);
      KernelOperand* const operands = scope.take<KernelOperand>(call.rows.size());
      for (size_t i = 0; i < call.rows.size(); ++i) {
        const Row& row = call.rows[i];
        const bool moved = row.scratch >= 0 && own[row.scratch];
        operands[i].data = moved ? own[row.scratch] + (row.data - memory_.base(static_cast<size_t>(row.scratch))) : row.data + begin * row.step;
        operands[i].strides = call.call->operands[i].strides;
      }
      visit(*call.call->kernel, extents, operands);
    }
  }

  const std::vector<Call>& group_;
  const SliceMemory& memory_;
  int64_t count_;
  int64_t rows_;
};

// How many indices of the outermost dimension a slice has; 0 where slices don't pay.
int64_t slice_rows(const std::vector<Call>& group) {
  if (group.size() < 2) return 0;
  const int64_t count = group.front().call->extents[0];
  int64_t bytes = 1;
  double seconds = 0;
  for (const Call& call : group) {
    for (const Row& row : call.rows) bytes += row.bytes;
    seconds += call.call->kernel->seconds(call.call->extents);
  }
  const int64_t threads = threads_here();
  const bool shared = threads > 1 && seconds >= 2 * kSliceSeconds;
  if (bytes > kLargestRow || bytes * count < 2 * kSliceBytes) return 0;
  if (shared && count < kSlicesPerThread * threads) return 0;
  const int64_t for_threads = shared ? std::min(static_cast<int64_t>(seconds / kSliceSeconds), kSlicesPerThread * threads) : 1;
  return std::min(std::max<int64_t>(kSliceBytes / bytes, 1), (count + for_threads - 1) / for_threads);
}

// Whether the group can't be run twice.
bool writes_what_was_read(const std::vector<Call>& group) {
  for (size_t later = 0; later < group.size(); ++later) {
    for (size_t earlier = 0; earlier <= later; ++earlier) {
      for (const Row& written : group[later].rows) {
        for (const Row& read : group[earlier].rows) {
          if (written.written && !read.written && written.data + written.begin < read.data + read.end && read.data + read.begin < written.data + written.end) return true;
        }
      }
    }
  }
  return false;
}

FloatFlags run_again(const std::vector<Call>& group, const Slices& slices) {
  for (const Call& call : group) call.call->kernel->be_quiet();
  return slices.run();
}

FloatFlags run_group(const std::vector<Call>& group, std::span<const KernelCall> all, std::span<char* const> scratch, int& done) {
  if (const int64_t rows = slice_rows(group)) {
    if (writes_what_was_read(group)) {
      for (const Call& call : group) call.call->kernel->be_quiet();
    }
    const SliceMemory memory(group, all, scratch);
    const Slices slices(group, memory, rows);
    FloatFlags flags = slices.run();
    if (flags & kAgain) flags = run_again(group, slices);
    if (threads_here() > 1) {
      for (const Call& call : group) call.call->kernel->count_run(call.call->extents);
    }
    done += static_cast<int>(group.size());
    return flags;
  }
  FloatFlags flags = 0;
  for (const Call& call : group) flags |= call.call->kernel->run(call.call->extents, call.call->operands), done++;
  return flags;
}

}  // namespace

bool may_run_in_slices(std::span<const KernelCall> calls) {
  double seconds = 0;
  for (const KernelCall& call : calls) seconds += call.kernel->seconds(call.extents);
  return calls.size() > 1 && seconds >= 2 * kSliceSeconds;
}

FloatFlags run_calls(std::span<const KernelCall> calls, std::span<char* const> scratch, int& done) {
  FloatFlags flags = 0;
  if (!may_run_in_slices(calls)) {
    for (const KernelCall& call : calls) flags |= call.kernel->run(call.extents, call.operands), done++;
    return flags;
  }
  std::vector<Call> group;
  const auto run = [&] {
    flags |= run_group(group, calls, scratch, done);
    group.clear();
  };
  for (const KernelCall& call : calls) {
    Call next{&call, rows_of(call)};
    if (!fits(group, next) && !group.empty()) run();
    group.push_back(std::move(next));
  }
  run();
  return flags;
}

}  // namespace evalframe::native
