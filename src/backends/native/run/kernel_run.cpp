// Runs compiled kernels: chooses the version for a layout, tiles reductions, and splits the work over threads.
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>

#include "backends/native/code/emitter.h"
#include "backends/native/code/kernel.h"
#include "backends/native/code/kernel_codegen.h"
#include "backends/native/lower/space.h"
#include "backends/native/machine/machine.h"
#include "backends/native/reduce/reductions.h"
#include "backends/native/run/thread_pool.h"
#include "core/check.h"

namespace evalframe::native {
namespace {

constexpr int64_t kTile = 512;        // elements computed before they are folded: stays in the first-level cache
constexpr int64_t kDirectTile = 1 << 14;  // elements that are folded where they stand
constexpr int64_t kStrip = 2048;      // states that stay in the first-level cache while rows are folded into them
constexpr int kElement = 16;          // bytes of the largest element and partial sum
constexpr double kPieceSeconds = 20e-6;
constexpr int kMaxRowOperands = 32;
constexpr int kPiecesPerThread = 4;   // so that a thread that was held up doesn't hold up the others

// x86's floating-point status: one instruction each, where fenv.h also touches the x87 unit.
constexpr unsigned kStatusBits = 0x3f;
void clear_flags() { _mm_setcsr(_mm_getcsr() & ~kStatusBits); }
FloatFlags raised_flags() {
  const unsigned status = _mm_getcsr();
  return (status >> 2 & 1) | (status >> 3 & 1) << 1 | (status >> 4 & 1) << 2 | (status & 1) << 3;
}

bool is_arg(ReduceOp op) { return op == ReduceOp::kArgMin || op == ReduceOp::kArgMax; }

// A reducing output: where it stands and how it is folded.
struct Fold {
  int operand;
  int element_size;
  Reducer reducer;
};

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
#undef EVALFRAME_MATH1
#undef EVALFRAME_MATH2
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
  void be_quiet() const override { quiet_ = true; }
  double seconds(const int64_t* extents) const override {
    double seconds = seconds_per_element_;
    for (int d = 0; d < kernel_.rank; ++d) seconds *= static_cast<double>(extents[d]);
    return seconds;
  }
  const std::vector<Fold>& folds() const { return folds_; }
  int operands() const { return static_cast<int>(kernel_.inputs.size() + kernel_.outputs.size()); }
  bool splits_sums() const { return splits_sums_; }
  int per_element() const { return per_element_; }

 private:
  KernelFunction version(const std::string& access, bool quiet) const;
  int64_t row_length(const int64_t* extents, const KernelOperand* operands) const;
  FloatFlags run_once(const int64_t* extents, const KernelOperand* operands, bool quiet) const;
  FloatFlags run_row(int64_t length, const KernelOperand* operands, bool quiet) const;
  FloatFlags run_space(const Space& space, bool quiet) const;
  bool writes_an_input(const KernelOperand* operands) const;
  int pieces_for(int64_t elements) const;
  FloatFlags run_map(const Space& space, KernelFunction function) const;
  FloatFlags run_reduction(const Space& space, KernelFunction function) const;

  Kernel kernel_;
  std::string ir_;
  std::vector<Fold> folds_;
  bool has_arg_ = false;
  bool splits_sums_ = false;  // some output is summed in NumPy's pairwise order
  int per_element_ = 1;
  double seconds_per_element_ = 0;
  // Of operands that are one row in memory: how they are walked, and how many bytes it is to the next element.
  std::string row_access_;
  std::vector<int64_t> row_steps_;
  // Comparisons are of the kind that may signal until a NaN is met: few arrays hold any.
  bool may_signal_ = false;
  mutable std::atomic<bool> quiet_ = false;
  mutable std::atomic<KernelFunction> row_[2] = {nullptr, nullptr};  // for quiet: false, true
  mutable std::shared_mutex mutex_;
  mutable std::map<std::string, KernelFunction> versions_;
};

Native::Native(const Kernel& kernel) : kernel_(kernel) {
  int operand = static_cast<int>(kernel.inputs.size());
  for (const KernelOutput& output : kernel.outputs) {
    if (output.reduce != ReduceOp::kNone) {
      const DType stored = stored_dtype(kernel, output);
      folds_.push_back({operand, graph::size_of(stored), reducer(output.reduce, stored)});
      const Reducer& made = folds_.back().reducer;
      if (made.partial_size && splits_sums_ && made.per_element != per_element_) {
        throw std::runtime_error("kernel: real and complex sums need kernels of their own");
      }
      if (made.partial_size) per_element_ = made.per_element;
      splits_sums_ |= made.partial_size > 0;
      has_arg_ |= is_arg(output.reduce);
    }
    ++operand;
  }
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
  {
    const std::shared_lock lock(mutex_);
    const auto found = versions_.find(key);
    if (found != versions_.end()) return found->second;
  }
  // Not under the lock: compiling takes the GIL, which a thread that waits for the lock may hold.
  const KernelFunction made = machine_code(generate(kernel_, access, quiet).ir);
  const std::unique_lock lock(mutex_);
  return versions_.emplace(key, made).first->second;
}

int64_t size_of(const Space& space) {
  int64_t size = 1;
  for (const Dimension& d : space.dimensions) size *= d.extent;
  return size;
}

int Native::pieces_for(int64_t elements) const {
  const int threads = threads_here();
  if (threads == 1) return 1;
  const double pieces = static_cast<double>(elements) * seconds_per_element_ / kPieceSeconds;
  return pieces < 2 ? 1 : static_cast<int>(std::min<double>(pieces, threads * kPiecesPerThread));
}

// The part [begin, end) of dimension d.
Space part_of(const Space& space, size_t d, int64_t begin, int64_t end) {
  Space part = space;
  part.dimensions[d].extent = end - begin;
  for (size_t i = 0; i < part.data.size(); ++i) part.data[i] += begin * space.dimensions[d].strides[i];
  return part;
}

// The kept dimension to split over threads: the outermost that has enough for all pieces, else the longest.
size_t dimension_to_split(const Space& space, int pieces) {
  size_t longest = space.dimensions.size();
  for (size_t d = 0; d < space.dimensions.size(); ++d) {
    if (space.dimensions[d].reduced) continue;
    if (space.dimensions[d].extent >= 4 * pieces) return d;
    if (longest == space.dimensions.size() || space.dimensions[d].extent > space.dimensions[longest].extent) longest = d;
  }
  return longest;
}

// Steps through the dimensions outside the innermost two; calls visit(data, position of the plane's first reduced element).
template <class Visit>
void for_each_plane(const Space& space, Visit visit) {
  const size_t outer = space.dimensions.size() - 2;
  std::vector<char*> data = space.data;
  if (outer == 0) return visit(data, 0);
  std::vector<int64_t> index(outer, 0);
  int64_t position = 0;
  while (true) {
    visit(data, position);
    size_t d = outer;
    while (d > 0) {
      const Dimension& dimension = space.dimensions[--d];
      const bool more = ++index[d] < dimension.extent;
      const int64_t steps = more ? 1 : 1 - dimension.extent;
      for (size_t i = 0; i < data.size(); ++i) data[i] += steps * dimension.strides[i];
      position += steps * dimension.weight;
      if (more) break;
      index[d] = 0;
      if (d == 0) return;
    }
  }
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

// Splits indices 0 .. extent - 1 over the threads; task(begin, end) returns flags.
template <class Task>
FloatFlags split(int64_t extent, int pieces, Task task) {
  if (pieces <= 1) return task(0, extent);
  std::atomic<FloatFlags> flags = 0;
  // Whole cache lines for each thread where the pieces are large.
  const int64_t lines = extent >= 64 * pieces ? ~int64_t{63} : ~int64_t{0};
  const auto border = [&](int piece) { return piece == pieces ? extent : extent * piece / pieces & lines; };
  parallel_for(pieces, [&](int piece) { flags |= task(border(piece), border(piece + 1)); });
  return flags;
}

// Splits a kept dimension over the threads; task(part) returns flags.
template <class Task>
FloatFlags split_over_threads(const Space& space, int pieces, Task task) {
  const size_t d = pieces > 1 ? dimension_to_split(space, pieces) : 0;
  if (pieces <= 1 || d == space.dimensions.size()) return task(space);
  const int64_t extent = space.dimensions[d].extent;
  if (extent <= 1) return task(space);
  return split(extent, static_cast<int>(std::min<int64_t>(pieces, extent)),
               [&](int64_t begin, int64_t end) { return task(part_of(space, d, begin, end)); });
}

FloatFlags Native::run_map(const Space& space, KernelFunction function) const {
  return split_over_threads(space, pieces_for(size_of(space)), [&](const Space& part) { return map_part(part, function); });
}

// One thread's reduction: computes tiles of elements into buffers of its own and folds them.
class Reduction {
 public:
  Reduction(const Native& native, KernelFunction function, const Space& space)
      : native_(native), function_(function), space_(space), rows_(space.dimensions[space.dimensions.size() - 2]),
        columns_(space.dimensions.back()), buffers_(new char[native.folds().size() * kTile * kElement]) {
    data_.resize(space.data.size());
    tile_rows_ = rows_.strides;
    direct_ = folds_input();
    if (direct_) tile_ = kDirectTile;
  }

  // Sets every state of the part to its start.
  void start() {
    Space kept = space_;
    for (Dimension& d : kept.dimensions) {
      if (d.reduced) d.extent = 1;
    }
    const Dimension& rows = kept.dimensions[kept.dimensions.size() - 2];
    const Dimension& columns = kept.dimensions.back();
    for_each_plane(kept, [&](const std::vector<char*>& data, int64_t) {
      for (const Fold& fold : native_.folds()) {
        for (int64_t r = 0; r < rows.extent; ++r) {
          for (int64_t c = 0; c < columns.extent; ++c) {
            fold.reducer.start(data[fold.operand] + r * rows.strides[fold.operand] + c * columns.strides[fold.operand]);
          }
        }
      }
    });
  }

  FloatFlags run() {
    clear_flags();
    for_each_plane(space_, [&](const std::vector<char*>& data, int64_t position) {
      plane_ = &data;
      position_ = position;
      columns_.reduced ? fold_columns() : accumulate_columns();
    });
    return reported_ | raised_flags();
  }

  // The pairwise sums of elements [first, first + count) of the only row; other reductions are folded into their states.
  FloatFlags run_subtree(int64_t first, int64_t count, char* partials) {
    clear_flags();
    plane_ = &space_.data;
    position_ = 0;
    sum_tree(0, first, count, partials);
    return reported_ | raised_flags();
  }

 private:
  char* buffer(size_t fold) { return buffers_.get() + fold * kTile * kElement; }
  // The elements of the computed tile's row `r`.
  const char* tile_row(size_t f, int64_t r, int64_t width) {
    const Fold& fold = native_.folds()[f];
    if (!direct_) return buffer(f) + r * width * fold.element_size;
    const Kernel& kernel = native_.kernel();
    const int32_t input = kernel.outputs[static_cast<size_t>(fold.operand) - kernel.inputs.size()].value;
    return data_[static_cast<size_t>(input)] + r * rows_.strides[static_cast<size_t>(input)];
  }
  char* state(const Fold& fold, int64_t row, int64_t column) const {
    return (*plane_)[fold.operand] + row * rows_.strides[fold.operand] + column * columns_.strides[fold.operand];
  }

  // Whether what is folded is an input as it stands, with neighbours in memory: then there is nothing to compute.
  bool folds_input() const {
    const Kernel& kernel = native_.kernel();
    if (!kernel.ops.empty() || native_.folds().size() != kernel.outputs.size()) return false;
    return std::all_of(native_.folds().begin(), native_.folds().end(), [&](const Fold& fold) {
      const KernelOutput& output = kernel.outputs[static_cast<size_t>(fold.operand) - kernel.inputs.size()];
      const size_t input = static_cast<size_t>(output.value);
      const DType dtype = kernel.inputs[input].dtype;
      return dtype != DType::bool_ && dtype == stored_dtype(kernel, output) && columns_.strides[input] == graph::size_of(dtype) &&
             reinterpret_cast<uintptr_t>(space_.data[input]) % static_cast<uintptr_t>(graph::size_of(dtype)) == 0;
    });
  }

  // Computes rows x columns elements from (row, column) on; what is folded goes into the buffers, row after row.
  void compute(int64_t row, int64_t column, int64_t rows, int64_t columns) {
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = (*plane_)[i] + row * rows_.strides[i] + column * columns_.strides[i];
    if (direct_) return;
    for (size_t f = 0; f < native_.folds().size(); ++f) {
      const Fold& fold = native_.folds()[f];
      data_[fold.operand] = buffer(f);
      tile_rows_[fold.operand] = columns * fold.element_size;
    }
    reported_ |= function_(data_.data(), tile_rows_.data(), columns_.strides.data(), rows, columns);
  }

  template <class Folding>
  static void fold_quietly(const Fold& fold, Folding folding) {
    if (!fold.reducer.quiet) return folding();
    const unsigned before = _mm_getcsr();
    folding();
    _mm_setcsr(before);
  }

  void fold_columns() {
    if (columns_.extent > tile_) {
      for (int64_t row = 0; row < rows_.extent; ++row) native_.splits_sums() ? fold_long_sum(row) : fold_long_row(row);
      return;
    }
    const int64_t rows = tile_ / std::max<int64_t>(columns_.extent, 1);
    for (int64_t row = 0; row < rows_.extent; row += rows) {
      const int64_t count = std::min(rows, rows_.extent - row);
      compute(row, 0, count, columns_.extent);
      for (size_t f = 0; f < native_.folds().size(); ++f) fold_tile(f, row, count);
    }
  }

  void fold_tile(size_t f, int64_t row, int64_t rows) {
    const Fold& fold = native_.folds()[f];
    fold_quietly(fold, [&] {
      for (int64_t r = 0; r < rows; ++r) {
        fold.reducer.fold(state(fold, row + r, 0), tile_row(f, r, columns_.extent), columns_.extent,
                          position_ + (row + r) * rows_.weight);
      }
    });
  }

  void fold_long_row(int64_t row) {
    for (int64_t column = 0; column < columns_.extent; column += tile_) fold_piece(row, column, std::min(tile_, columns_.extent - column), nullptr);
  }

  // One tile of a row; sums go to `partials` where given.
  void fold_piece(int64_t row, int64_t column, int64_t count, char* partials) {
    compute(row, column, 1, count);
    for (size_t f = 0; f < native_.folds().size(); ++f) {
      const Fold& fold = native_.folds()[f];
      if (partials && fold.reducer.partial_size) {
        fold.reducer.sum(partials + f * kElement, tile_row(f, 0, count), count);
        continue;
      }
      fold_quietly(fold, [&] {
        fold.reducer.fold(state(fold, row, 0), tile_row(f, 0, count), count, position_ + row * rows_.weight + column * columns_.weight);
      });
    }
  }

  void fold_long_sum(int64_t row) {
    std::vector<char> partials(native_.folds().size() * kElement);
    sum_tree(row, 0, columns_.extent, partials.data());
    for (size_t f = 0; f < native_.folds().size(); ++f) {
      const Fold& fold = native_.folds()[f];
      if (fold.reducer.partial_size) fold.reducer.finish(state(fold, row, 0), partials.data() + f * kElement);
    }
  }

  void sum_tree(int64_t row, int64_t column, int64_t count, char* partials) {
    if (count <= tile_) return fold_piece(row, column, count, partials);
    const int64_t half = pairwise_split(count, native_.per_element());
    sum_tree(row, column, half, partials);
    std::vector<char> right(native_.folds().size() * kElement);
    sum_tree(row, column + half, count - half, right.data());
    for (size_t f = 0; f < native_.folds().size(); ++f) {
      const Fold& fold = native_.folds()[f];
      if (fold.reducer.partial_size) fold.reducer.add(partials + f * kElement, right.data() + f * kElement);
    }
  }

  void accumulate_columns() {
    const int64_t strip = std::min(tile_, kStrip);
    for (int64_t column = 0; column < columns_.extent; column += strip) {
      const int64_t width = std::min(strip, columns_.extent - column);
      const int64_t rows = tile_ / width;
      for (int64_t row = 0; row < rows_.extent; row += rows) {
        const int64_t count = std::min(rows, rows_.extent - row);
        compute(row, column, count, width);
        for (size_t f = 0; f < native_.folds().size(); ++f) accumulate_tile(f, row, column, count, width);
      }
    }
  }

  void accumulate_tile(size_t f, int64_t row, int64_t column, int64_t rows, int64_t width) {
    const Fold& fold = native_.folds()[f];
    fold_quietly(fold, [&] {
      for (int64_t r = 0; r < rows; ++r) {
        fold.reducer.accumulate(state(fold, row + r, column), columns_.strides[fold.operand], tile_row(f, r, width),
                                width, position_ + (row + r) * rows_.weight);
      }
    });
  }

  const Native& native_;
  KernelFunction function_;
  const Space& space_;
  const Dimension& rows_;
  const Dimension& columns_;
  std::unique_ptr<char[]> buffers_;
  std::vector<char*> data_;
  std::vector<int64_t> tile_rows_;
  const std::vector<char*>* plane_ = nullptr;
  bool direct_ = false;  // elements are folded where they stand in an input
  int64_t tile_ = kTile;
  int64_t position_ = 0;
  FloatFlags reported_ = 0;
};

FloatFlags reduce_part(const Native& native, KernelFunction function, const Space& space) {
  Reduction reduction(native, function, space);
  reduction.start();
  return size_of(space) ? reduction.run() : 0;
}

// A piece of a full reduction over one long row: a subtree of the pairwise sum, or any stretch where the order is free.
struct Piece {
  int64_t first, count;
  std::vector<char> results;  // states or partial sums, kElement bytes each
};

void list_pieces(int64_t first, int64_t count, int depth, int per_element, std::vector<Piece>& pieces) {
  const int64_t half = depth > 0 && count > kTile ? pairwise_split(count, per_element) : 0;
  if (!half) return pieces.push_back({first, count, {}});
  list_pieces(first, half, depth - 1, per_element, pieces);
  list_pieces(first + half, count - half, depth - 1, per_element, pieces);
}

// Adds the partial sums of the pieces below one node of the tree, in the tree's order; returns the first one's results.
std::vector<char>& gather(std::vector<Piece>& pieces, size_t& next, int64_t count, int depth, const Native& native) {
  const int64_t half = depth > 0 && count > kTile ? pairwise_split(count, native.per_element()) : 0;
  if (!half) return pieces[next++].results;
  std::vector<char>& left = gather(pieces, next, half, depth - 1, native);
  const std::vector<char>& right = gather(pieces, next, count - half, depth - 1, native);
  for (size_t f = 0; f < native.folds().size(); ++f) {
    const Fold& fold = native.folds()[f];
    if (fold.reducer.partial_size) fold.reducer.add(left.data() + f * kElement, right.data() + f * kElement);
    else fold.reducer.accumulate(left.data() + f * kElement, 0, right.data() + f * kElement, 1, 0);
  }
  return left;
}

FloatFlags reduce_long_row(const Native& native, KernelFunction function, const Space& space, int wanted) {
  int depth = 0;
  while (1 << depth < wanted) ++depth;
  const int64_t count = space.dimensions.back().extent;
  std::vector<Piece> pieces;
  list_pieces(0, count, depth, native.per_element(), pieces);
  std::atomic<FloatFlags> flags = 0;
  parallel_for(static_cast<int>(pieces.size()), [&](int p) {
    Piece& piece = pieces[static_cast<size_t>(p)];
    piece.results.resize(native.folds().size() * kElement);
    Space own = space;
    for (size_t f = 0; f < native.folds().size(); ++f) {
      const Fold& fold = native.folds()[f];
      own.data[fold.operand] = piece.results.data() + f * kElement;
      if (!fold.reducer.partial_size) fold.reducer.start(own.data[fold.operand]);
    }
    flags |= Reduction(native, function, own).run_subtree(piece.first, piece.count, piece.results.data());
  });
  clear_flags();
  size_t next = 0;
  const std::vector<char>& results = gather(pieces, next, count, depth, native);
  for (size_t f = 0; f < native.folds().size(); ++f) {
    const Fold& fold = native.folds()[f];
    char* state = space.data[fold.operand];
    fold.reducer.start(state);
    if (fold.reducer.partial_size) fold.reducer.finish(state, results.data() + f * kElement);
    else fold.reducer.accumulate(state, 0, results.data() + f * kElement, 1, 0);
  }
  const bool quiet = std::all_of(native.folds().begin(), native.folds().end(), [](const Fold& f) { return f.reducer.quiet; });
  return flags | (quiet ? 0 : raised_flags());
}

FloatFlags Native::run_reduction(const Space& space, KernelFunction function) const {
  const int pieces = size_of(space) ? pieces_for(size_of(space)) : 1;
  const bool one_row = space.dimensions.size() == 2 && space.dimensions[0].extent == 1 && space.dimensions[1].reduced;
  const bool free = std::all_of(folds_.begin(), folds_.end(), [](const Fold& f) { return f.reducer.any_order || f.reducer.partial_size; });
  if (one_row && free && pieces > 1) return reduce_long_row(*this, function, space, pieces);
  return split_over_threads(space, pieces, [&](const Space& part) { return reduce_part(*this, function, part); });
}

// The states of arg reductions, which are larger than their outputs: made beside, then written over as indices.
class ArgStates {
 public:
  ArgStates(const Native& native, const int64_t* extents, std::vector<KernelOperand>& operands) : native_(native), extents_(extents) {
    const Kernel& kernel = native.kernel();
    for (const Fold& fold : native.folds()) {
      if (!is_arg(kernel.outputs[fold.operand - kernel.inputs.size()].reduce)) continue;
      std::vector<int64_t> strides(static_cast<size_t>(kernel.rank), 0);
      int64_t size = fold.reducer.state_size;
      for (int d = kernel.rank - 1; d >= 0; --d) {
        if (kernel.reduced >> d & 1) continue;
        strides[static_cast<size_t>(d)] = size;
        size *= extents[d];
      }
      States& made = states_.emplace_back(States{operands[static_cast<size_t>(fold.operand)], std::move(strides), std::vector<char>(static_cast<size_t>(size))});
      operands[static_cast<size_t>(fold.operand)].data = made.memory.data();
    }
    size_t next = 0;
    for (const Fold& fold : native.folds()) {
      if (!is_arg(kernel.outputs[fold.operand - kernel.inputs.size()].reduce)) continue;
      operands[static_cast<size_t>(fold.operand)].strides = states_[next++].strides.data();
    }
  }

  void write() const {
    for (const States& states : states_) write_indices(states, 0, states.memory.data(), states.output.data);
  }

 private:
  struct States {
    KernelOperand output;
    std::vector<int64_t> strides;
    std::vector<char> memory;
  };

  void write_indices(const States& states, int d, const char* from, char* to) const {
    if (d == native_.kernel().rank) {
      std::memcpy(to, from, sizeof(int64_t));  // the index stands first in the state
      return;
    }
    const int64_t extent = native_.kernel().reduced >> d & 1 ? 1 : extents_[d];
    for (int64_t i = 0; i < extent; ++i) {
      write_indices(states, d + 1, from + i * states.strides[static_cast<size_t>(d)], to + i * states.output.strides[d]);
    }
  }

  const Native& native_;
  const int64_t* extents_;
  std::vector<States> states_;
};

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
  return folds_.empty() ? run_map(space, function) : run_reduction(space, function);
}

void Native::make_ready(const int64_t* extents, const KernelOperand* operands) const {
  const Space space = space_of(kernel_, extents, operands, has_arg_);
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
  if (folds_.empty()) {
    if (const int64_t length = row_length(extents, operands)) return run_row(length, operands, quiet);
    const Space space = space_of(kernel_, extents, operands, false);
    return size_of(space) ? run_space(space, quiet) : 0;
  }
  if (!has_arg_) {
    const Space space = space_of(kernel_, extents, operands, false);
    return run_space(space, quiet);
  }
  std::vector<KernelOperand> own(operands, operands + this->operands());
  const ArgStates states(*this, extents, own);
  const Space space = space_of(kernel_, extents, own.data(), true);
  const FloatFlags flags = run_space(space, quiet);
  states.write();
  return flags;
}

}  // namespace

const CompiledKernel& compile(const Kernel& kernel) {
  static std::map<std::string, std::unique_ptr<Native>> compiled;  // guarded by the GIL
  const std::string text = print(kernel);
  const auto found = compiled.find(text);
  if (found != compiled.end()) return *found->second;
  // Made before it is entered: compiling runs Python code, which may let another thread in.
  auto made = std::make_unique<Native>(kernel);
  return *compiled.emplace(text, std::move(made)).first->second;
}

}  // namespace evalframe::native
