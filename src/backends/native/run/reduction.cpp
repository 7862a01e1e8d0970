// Computes tiles of elements and folds them, in NumPy's order where the order counts.
#include "backends/native/run/reduction.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>

#include "backends/native/code/kernel_codegen.h"
#include "backends/native/run/float_flags.h"
#include "backends/native/run/parts.h"

namespace evalframe::native {
namespace {

constexpr int64_t kTile = 512;        // elements computed before they are folded: stays in the first-level cache
constexpr int64_t kDirectTile = 1 << 14;  // elements that are folded where they stand
constexpr int64_t kStrip = 2048;      // states that stay in the first-level cache while rows are folded into them
constexpr int64_t kFarAway = 1 << 18;  // elements that no cache has: from there they come sooner where they are asked for before
constexpr int64_t kCacheLine = 64;
constexpr int kElement = 16;          // bytes of the largest element and partial sum

// One thread's reduction: computes tiles of elements into buffers of its own and folds them.
class Reduction {
 public:
  Reduction(const Kernel& kernel, const Folding& folding, KernelFunction function, const Space& space)
      : kernel_(kernel), folding_(folding), function_(function), space_(space), rows_(space.dimensions[space.dimensions.size() - 2]),
        columns_(space.dimensions.back()), buffers_(new char[folding.folds.size() * kTile * kElement]) {
    data_.resize(space.data.size());
    tile_rows_ = rows_.strides;
    direct_ = folds_input();
    if (direct_) tile_ = kDirectTile;
    fetches_ = !direct_ && size_of(space) > kFarAway;
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
      for (const Fold& fold : folding_.folds) {
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
    const Fold& fold = folding_.folds[f];
    if (!direct_) return buffer(f) + r * width * fold.element_size;
    const int32_t input = kernel_.outputs[static_cast<size_t>(fold.operand) - kernel_.inputs.size()].value;
    return data_[static_cast<size_t>(input)] + r * rows_.strides[static_cast<size_t>(input)];
  }
  char* state(const Fold& fold, int64_t row, int64_t column) const {
    return (*plane_)[fold.operand] + row * rows_.strides[fold.operand] + column * columns_.strides[fold.operand];
  }

  // Whether what is folded is an input as it stands, with neighbours in memory: then there is nothing to compute.
  bool folds_input() const {
    if (!kernel_.ops.empty() || folding_.folds.size() != kernel_.outputs.size()) return false;
    return std::all_of(folding_.folds.begin(), folding_.folds.end(), [&](const Fold& fold) {
      const KernelOutput& output = kernel_.outputs[static_cast<size_t>(fold.operand) - kernel_.inputs.size()];
      const size_t input = static_cast<size_t>(output.value);
      const DType dtype = kernel_.inputs[input].dtype;
      return dtype != DType::bool_ && dtype == stored_dtype(kernel_, output) && columns_.strides[input] == graph::size_of(dtype) &&
             reinterpret_cast<uintptr_t>(space_.data[input]) % static_cast<uintptr_t>(graph::size_of(dtype)) == 0;
    });
  }

  // Computes rows x columns elements from (row, column) on; what is folded goes into the buffers, row after row.
  void compute(int64_t row, int64_t column, int64_t rows, int64_t columns) {
    for (size_t i = 0; i < data_.size(); ++i) data_[i] = (*plane_)[i] + row * rows_.strides[i] + column * columns_.strides[i];
    if (direct_) return;
    for (size_t f = 0; f < folding_.folds.size(); ++f) {
      const Fold& fold = folding_.folds[f];
      data_[fold.operand] = buffer(f);
      tile_rows_[fold.operand] = columns * fold.element_size;
    }
    reported_ |= function_(data_.data(), tile_rows_.data(), columns_.strides.data(), rows, columns);
  }

  // What the next tile is computed of comes while this one is folded.
  void fetch_tile_behind(int64_t rows, int64_t columns, bool is_below) const {
    for (size_t i = 0; fetches_ && i < kernel_.inputs.size(); i++) {
      const int64_t step = columns_.strides[i], bytes = columns * step;
      if (step != graph::size_of(kernel_.inputs[i].dtype)) continue;
      const char* const next = data_[i] + (is_below ? rows * rows_.strides[i] : bytes);
      for (int64_t row = 0; row < rows; row++) {
        for (int64_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(next + row * rows_.strides[i] + at, 0, 2);
      }
    }
  }

  template <class Work>
  static void fold_quietly(const Fold& fold, Work work) { fold.reducer.quiet ? without_flags(work) : work(); }

  void fold_columns() {
    if (columns_.extent > tile_) {
      for (int64_t row = 0; row < rows_.extent; ++row) folding_.splits_sums ? fold_long_sum(row) : fold_long_row(row);
      return;
    }
    const int64_t rows = tile_ / std::max<int64_t>(columns_.extent, 1);
    for (int64_t row = 0; row < rows_.extent; row += rows) {
      const int64_t count = std::min(rows, rows_.extent - row);
      compute(row, 0, count, columns_.extent);
      fetch_tile_behind(count, columns_.extent, true);
      for (size_t f = 0; f < folding_.folds.size(); ++f) fold_tile(f, row, count);
    }
  }

  void fold_tile(size_t f, int64_t row, int64_t rows) {
    const Fold& fold = folding_.folds[f];
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
    fetch_tile_behind(1, count, false);
    for (size_t f = 0; f < folding_.folds.size(); ++f) {
      const Fold& fold = folding_.folds[f];
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
    std::vector<char> partials(folding_.folds.size() * kElement);
    sum_tree(row, 0, columns_.extent, partials.data());
    for (size_t f = 0; f < folding_.folds.size(); ++f) {
      const Fold& fold = folding_.folds[f];
      if (fold.reducer.partial_size) fold.reducer.finish(state(fold, row, 0), partials.data() + f * kElement);
    }
  }

  void sum_tree(int64_t row, int64_t column, int64_t count, char* partials) {
    if (count <= tile_) return fold_piece(row, column, count, partials);
    const int64_t half = pairwise_split(count, folding_.per_element);
    sum_tree(row, column, half, partials);
    std::vector<char> right(folding_.folds.size() * kElement);
    sum_tree(row, column + half, count - half, right.data());
    for (size_t f = 0; f < folding_.folds.size(); ++f) {
      const Fold& fold = folding_.folds[f];
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
        fetch_tile_behind(count, width, true);
        for (size_t f = 0; f < folding_.folds.size(); ++f) accumulate_tile(f, row, column, count, width);
      }
    }
  }

  void accumulate_tile(size_t f, int64_t row, int64_t column, int64_t rows, int64_t width) {
    const Fold& fold = folding_.folds[f];
    fold_quietly(fold, [&] {
      for (int64_t r = 0; r < rows; ++r) {
        fold.reducer.accumulate(state(fold, row + r, column), columns_.strides[fold.operand], tile_row(f, r, width),
                                width, position_ + (row + r) * rows_.weight);
      }
    });
  }

  const Kernel& kernel_;
  const Folding& folding_;
  KernelFunction function_;
  const Space& space_;
  const Dimension& rows_;
  const Dimension& columns_;
  std::unique_ptr<char[]> buffers_;
  std::vector<char*> data_;
  std::vector<int64_t> tile_rows_;
  const std::vector<char*>* plane_ = nullptr;
  bool direct_ = false;  // elements are folded where they stand in an input
  bool fetches_ = false;
  int64_t tile_ = kTile;
  int64_t position_ = 0;
  FloatFlags reported_ = 0;
};

FloatFlags reduce_part(const Kernel& kernel, const Folding& folding, KernelFunction function, const Space& space) {
  Reduction reduction(kernel, folding, function, space);
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
std::vector<char>& gather(std::vector<Piece>& pieces, size_t& next, int64_t count, int depth, const Folding& folding) {
  const int64_t half = depth > 0 && count > kTile ? pairwise_split(count, folding.per_element) : 0;
  if (!half) return pieces[next++].results;
  std::vector<char>& left = gather(pieces, next, half, depth - 1, folding);
  const std::vector<char>& right = gather(pieces, next, count - half, depth - 1, folding);
  for (size_t f = 0; f < folding.folds.size(); ++f) {
    const Fold& fold = folding.folds[f];
    if (fold.reducer.partial_size) fold.reducer.add(left.data() + f * kElement, right.data() + f * kElement);
    else fold.reducer.accumulate(left.data() + f * kElement, 0, right.data() + f * kElement, 1, 0);
  }
  return left;
}

FloatFlags reduce_long_row(const Kernel& kernel, const Folding& folding, KernelFunction function, const Space& space, int wanted) {
  int depth = 0;
  while (1 << depth < wanted) ++depth;
  const int64_t count = space.dimensions.back().extent;
  std::vector<Piece> pieces;
  list_pieces(0, count, depth, folding.per_element, pieces);
  std::atomic<FloatFlags> flags = 0;
  parallel_for(static_cast<int>(pieces.size()), [&](int p) {
    Piece& piece = pieces[static_cast<size_t>(p)];
    piece.results.resize(folding.folds.size() * kElement);
    Space own = space;
    for (size_t f = 0; f < folding.folds.size(); ++f) {
      const Fold& fold = folding.folds[f];
      own.data[fold.operand] = piece.results.data() + f * kElement;
      if (!fold.reducer.partial_size) fold.reducer.start(own.data[fold.operand]);
    }
    flags |= Reduction(kernel, folding, function, own).run_subtree(piece.first, piece.count, piece.results.data());
  });
  clear_flags();
  size_t next = 0;
  const std::vector<char>& results = gather(pieces, next, count, depth, folding);
  for (size_t f = 0; f < folding.folds.size(); ++f) {
    const Fold& fold = folding.folds[f];
    char* state = space.data[fold.operand];
    fold.reducer.start(state);
    if (fold.reducer.partial_size) fold.reducer.finish(state, results.data() + f * kElement);
    else fold.reducer.accumulate(state, 0, results.data() + f * kElement, 1, 0);
  }
  const bool quiet = std::all_of(folding.folds.begin(), folding.folds.end(), [](const Fold& f) { return f.reducer.quiet; });
  return flags | (quiet ? 0 : raised_flags());
}

}  // namespace

Folding::Folding(const Kernel& kernel) {
  int operand = static_cast<int>(kernel.inputs.size());
  for (const KernelOutput& output : kernel.outputs) {
    if (output.reduce != ReduceOp::kNone) {
      const DType stored = stored_dtype(kernel, output);
      folds.push_back({operand, graph::size_of(stored), reducer(output.reduce, stored)});
      const Reducer& made = folds.back().reducer;
      if (made.partial_size && splits_sums && made.per_element != per_element) {
        throw std::runtime_error("kernel: real and complex sums need kernels of their own");
      }
      if (made.partial_size) per_element = made.per_element;
      splits_sums |= made.partial_size > 0;
      has_arg |= is_arg(output.reduce);
    }
    ++operand;
  }
}

FloatFlags reduce(const Kernel& kernel, const Folding& folding, KernelFunction function, const Space& space, int pieces) {
  const bool one_row = space.dimensions.size() == 2 && space.dimensions[0].extent == 1 && space.dimensions[1].reduced;
  const bool free = std::all_of(folding.folds.begin(), folding.folds.end(),
                                [](const Fold& f) { return f.reducer.any_order || f.reducer.partial_size; });
  if (one_row && free && pieces > 1) return reduce_long_row(kernel, folding, function, space, pieces);
  return split_over_threads(space, pieces, [&](const Space& part) { return reduce_part(kernel, folding, function, part); });
}

}  // namespace evalframe::native
