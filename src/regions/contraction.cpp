#include "regions/contraction.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "backends/native/code/kernel.h"
#include "backends/native/reduce/product_sums.h"
#include "backends/native/run/float_flags.h"

namespace evalframe::regions {

using native::Kernel, native::KernelOperand, native::ReduceOp, native::ScalarOp;

namespace {

constexpr int32_t kRefused = -1;
// Products beside one another that are made where they can't be summed at once, and places of one sum.
constexpr int64_t kMostProducts = 1 << 16;

Kernel products_of(const Kernel& contraction) {
  Kernel kernel = contraction;
  kernel.reduced = 0;
  kernel.outputs[0].reduce = ReduceOp::kNone;
  return kernel;
}

Kernel sums_of(const Kernel& contraction) {
  Kernel kernel = contraction;
  kernel.inputs.resize(1);
  kernel.ops.clear();
  kernel.outputs[0].value = 0;
  return kernel;
}

// NumPy walks the products in C order. Where the last axis is kept, it adds row to row, which is each sum in order: many of them are
// added up at once, with nothing between. Elsewhere, and where elements don't stand close, it is done in two steps.
class ContractionRoutine final : public LoadedRoutine {
 public:
  ContractionRoutine(const Kernel& kernel, const Held& held) : kernel_(kernel), held_(held), sum_(native::product_sums(kernel.outputs[0].dtype)), size_(graph::size_of(kernel.outputs[0].dtype)) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t*, int64_t, int64_t) {
    return static_cast<ContractionRoutine*>(self)->run(data, outer);
  }

 private:
  struct Axis {
    int64_t size, a, b, to;
  };

  int32_t run(char* const* data, const int64_t* extents) {
    // Mostly the same as before, but for where the arrays begin.
    const size_t words = static_cast<size_t>(kernel_.rank) * 4;
    if (seen_.size() != words || !std::equal(seen_.begin(), seen_.end(), extents)) {
      seen_.assign(extents, extents + words);
      is_close_ = find_axes(extents);
    }
    return is_close_ ? sum(data) : sum_in_two_steps(data, extents);
  }

  // False: it can't be summed at once.
  bool find_axes(const int64_t* extents) {
    std::vector<Axis> gone;
    kept_.clear();
    for (int i = 0; i < kernel_.rank; i++) {
      if (extents[i] == 1) continue;
      const int64_t* const strides = extents + kernel_.rank + i;
      ((kernel_.reduced >> i & 1) ? gone : kept_).push_back({extents[i], strides[0], strides[kernel_.rank], strides[2 * kernel_.rank]});
    }
    const bool ends_kept = [&] {
      for (int i = kernel_.rank; i-- > 0;) {
        if (extents[i] != 1) return !(kernel_.reduced >> i & 1);
      }
      return false;
    }();
    if (!ends_kept) return false;
    columns_ = kept_.back();
    kept_.pop_back();
    rows_ = kept_.empty() ? Axis{1, 0, 0, 0} : kept_.back();
    if (!kept_.empty()) kept_.pop_back();
    swaps_ = columns_.b == 0;
    if (swaps_) {
      for (std::vector<Axis>* const axes : {&kept_, &gone}) {
        for (Axis& axis : *axes) std::swap(axis.a, axis.b);
      }
      std::swap(columns_.a, columns_.b);
      std::swap(rows_.a, rows_.b);
    }
    if (columns_.b != size_ || columns_.to != size_ || (columns_.a != 0 && columns_.a != size_)) return false;
    return find_places(gone);
  }

  // Of the products of one sum, in order.
  bool find_places(const std::vector<Axis>& gone) {
    a_places_.assign(1, 0);
    b_places_.assign(1, 0);
    for (const Axis& axis : gone) {
      if (static_cast<int64_t>(a_places_.size()) * axis.size > kMostProducts) return false;
      a_places_ = spread(a_places_, axis.size, axis.a);
      b_places_ = spread(b_places_, axis.size, axis.b);
    }
    return true;
  }

  static std::vector<int64_t> spread(const std::vector<int64_t>& places, int64_t size, int64_t step) {
    std::vector<int64_t> all;
    for (const int64_t place : places) {
      for (int64_t i = 0; i < size; i++) all.push_back(place + i * step);
    }
    return all;
  }

  int32_t sum(char* const* data) const {
    int32_t met = 0;
    native::without_flags([&] {
      native::clear_flags();
      sum_from(0, data[swaps_ ? 1 : 0], data[swaps_ ? 0 : 1], data[2]);
      met = native::raised_flags();
    });
    return met & held_.reported;
  }

  void sum_from(size_t first, const char* a, const char* b, char* to) const {
    if (first < kept_.size()) {
      const Axis& axis = kept_[first];
      for (int64_t i = 0; i < axis.size; i++) sum_from(first + 1, a + i * axis.a, b + i * axis.b, to + i * axis.to);
      return;
    }
    sum_({.to = to, .a = a, .b = b, .to_row = rows_.to, .a_row = rows_.a, .b_row = rows_.b, .rows = rows_.size, .columns = columns_.size, .is_broadcast = columns_.a == 0,
          .a_places = a_places_.data(), .b_places = b_places_.data(), .count = static_cast<int64_t>(a_places_.size())});
  }

  int32_t sum_in_two_steps(char* const* data, const int64_t* extents) {
    const int rank = kernel_.rank;
    std::vector<int64_t> strides(static_cast<size_t>(rank));
    int64_t count = 1;
    for (int i = rank; i-- > 0; count *= extents[i]) strides[static_cast<size_t>(i)] = count * size_;
    if (count > kMostProducts) return kRefused;
    products_.resize(static_cast<size_t>(count * size_));
    const KernelOperand between{products_.data(), strides.data()};
    const KernelOperand factors[] = {{data[0], extents + rank}, {data[1], extents + 2 * rank}, between};
    const KernelOperand summed[] = {between, {data[2], extents + 3 * rank}};
    int32_t met = 0;
    try {
      native::without_flags([&] { met = native::compile(products_of(kernel_)).run(extents, factors) | native::compile(sums_of(kernel_)).run(extents, summed); });
    } catch (const std::runtime_error&) {
      PyErr_Clear();
      return kRefused;
    }
    return met & held_.reported;
  }

  const Kernel kernel_;
  const Held& held_;
  const native::ProductSums sum_;
  const int64_t size_;
  // For sizes and strides like the last ones:
  std::vector<int64_t> seen_;
  bool is_close_ = false, swaps_ = false;
  std::vector<Axis> kept_;  // but for the last two
  Axis rows_{}, columns_{};
  std::vector<int64_t> a_places_, b_places_;
  std::vector<char> products_;
};

}  // namespace

bool is_product(const Expression& expression) {
  const auto is_array = [&](const ExpressionRef& operand) { return operand->is_leaf() && operand->array && operand->dtype == expression.dtype; };
  const bool multiplies = !expression.made && !expression.is_leaf() && expression.op == ScalarOp::multiply;
  return multiplies && native::product_sums(expression.dtype) && expression.operands[0] != expression.operands[1] && std::all_of(expression.operands.begin(), expression.operands.end(), is_array);
}

void contract(Block& block, Expression& product, uint32_t axes, Block::Place to) {
  Kernel kernel{.rank = static_cast<int>(product.sizes.size()), .reduced = axes};
  std::vector<Block::Place> places;
  for (const ExpressionRef& operand : product.operands) {
    kernel.inputs.push_back({product.dtype});
    places.push_back({operand->array->data, strides_within(block, *operand, product.sizes)});
  }
  kernel.ops.push_back({ScalarOp::multiply, product.dtype, 0, 1});
  kernel.outputs.push_back({2, product.dtype, ReduceOp::kAdd});
  places.push_back(std::move(to));
  // Unless somebody else needs the products.
  product.is_computed = true;
  block.call_over({.kind = Routine::Kind::kContract, .kernel = std::make_shared<const Kernel>(kernel), .text = native::print(kernel)}, product.sizes, places);
}

RoutineEntry contraction_entry(const Routine& routine, const Held& held, std::vector<std::unique_ptr<LoadedRoutine>>& owners) {
  owners.push_back(std::make_unique<ContractionRoutine>(*routine.kernel, held));
  return {&ContractionRoutine::call, owners.back().get()};
}

}  // namespace evalframe::regions
