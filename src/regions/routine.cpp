#include "regions/routine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "backends/native/code/kernel_codegen.h"
#include "backends/native/lower/axis_order.h"
#include "backends/native/machine/machine.h"
#include "backends/native/reduce/reductions.h"
#include "backends/native/run/float_flags.h"
#include "core/ref.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "regions/axis_fold.h"
#include "regions/contraction.h"
#include "regions/expression.h"
#include "regions/gather.h"
#include "regions/masks.h"
#include "regions/object_routine.h"
#include "regions/rows.h"

namespace evalframe::regions {

using native::Access, native::Kernel;

namespace {

class KernelRoutine : public LoadedRoutine {
 public:
  explicit KernelRoutine(std::shared_ptr<const Kernel> kernel) : kernel_(std::move(kernel)) {
    for (const native::KernelInput& input : kernel_->inputs) {
      sizes_.push_back(graph::size_of(input.dtype));
      row_ += static_cast<char>(input.scalar ? Access::kScalar : Access::kUnit);
    }
    sizes_.push_back(graph::size_of(kernel_->outputs[0].dtype));
    row_ += static_cast<char>(Access::kUnit);
    missing_ = kRowsOfNeighbours;
    make_missing();
  }

  void make_missing() override {
    if (!missing_) return;
    const uint64_t walks = *std::exchange(missing_, std::nullopt);
    last_.clear();
    versions_.push_back({walks, native::code_at_first(ir_of(walks))});
  }

  std::vector<native::Effort> efforts() const override {
    std::vector<native::Effort> efforts;
    for (const Version& version : versions_) efforts.push_back(version.code.effort);
    return efforts;
  }

  void improve(native::Effort effort) override {
    const native::CompilesNow now;
    last_.clear();
    for (Version& version : versions_) {
      if (version.code.effort >= effort) continue;
      try {
        version.code = {native::machine_code(ir_of(version.walks), effort), effort};
      } catch (const std::runtime_error&) {
        PyErr_Clear();
        version.code.effort = native::Effort::kFull;  // it has to do
      }
    }
  }

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    return static_cast<KernelRoutine*>(self)->run(data, outer, inner, rows, columns);
  }

  native::KernelFunction for_neighbours() const { return versions_[0].function(); }

  int32_t run(char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    if (are_many(rows, columns)) return kRefused;
    if (last_.empty() || !std::equal(last_.begin(), last_.end(), inner)) find_version(inner);
    return last_function_ ? last_function_(data, outer, inner, rows, columns) : kRefused;
  }

 protected:
  static constexpr int32_t kRefused = -1;
  static bool are_many(int64_t rows, int64_t columns) { return rows > kManyElements || columns > kManyElements || rows * columns > kManyElements; }
  size_t inputs() const { return sizes_.size() - 1; }

 private:
  // How the rows of all operands are walked: a digit for each, of which the last operand has the lowest one.
  static constexpr Access kWalks[] = {Access::kUnit, Access::kBroadcast, Access::kStrided, Access::kSecond, Access::kBackwards};
  static constexpr uint64_t kRowsOfNeighbours = 0;
  static_assert(std::size(kWalks) == 5 && kMostOperands <= 27);  // 5^27 is less than 2^64
  struct Version {
    uint64_t walks;
    native::Code code;
    native::KernelFunction function() const { return reinterpret_cast<native::KernelFunction>(code.function); }
  };
  std::string ir_of(uint64_t walks) const { return native::generate(*kernel_, access_of(walks), true, native::Rows::kShort).ir; }

  // Most calls have the strides of the last one.
  void find_version(const int64_t* inner) {
    uint64_t walks = 0;
    for (size_t i = 0; i < sizes_.size(); i++) {
      walks = walks * std::size(kWalks) + walk_of(i, inner[i]);
    }
    // A few of them, of which the first is the most frequent.
    const auto version = std::find_if(versions_.begin(), versions_.end(), [&](const Version& other) { return other.walks == walks; });
    if (version == versions_.end()) missing_ = walks;
    last_function_ = version == versions_.end() ? nullptr : version->function();
    last_.assign(inner, inner + sizes_.size());
  }

  uint64_t walk_of(size_t operand, int64_t stride) const {
    if (stride == sizes_[operand] || row_[operand] == static_cast<char>(Access::kScalar)) return 0;
    const Access access = stride == 0 ? Access::kBroadcast : native::access_for(stride, sizes_[operand]);
    return static_cast<uint64_t>(std::find(std::begin(kWalks), std::end(kWalks), access) - std::begin(kWalks));
  }

  std::string access_of(uint64_t walks) const {
    std::string access = row_;
    for (size_t i = access.size(); i-- > 0; walks /= std::size(kWalks)) {
      if (const uint64_t walk = walks % std::size(kWalks)) access[i] = static_cast<char>(kWalks[walk]);
    }
    return access;
  }

  const std::shared_ptr<const Kernel> kernel_;
  std::vector<int64_t> sizes_;  // of the operands' elements
  std::string row_;             // how operands are walked that are rows of neighbours
  std::vector<Version> versions_;
  std::optional<uint64_t> missing_;  // what a call would have needed
  std::vector<int64_t> last_;        // bytes from element to element in the last call, of all operands
  native::KernelFunction last_function_ = nullptr;
};

// Operands that are rolled are read where their elements were: in parts of the rows and columns in which these stand one behind the other.
class RolledRoutine final : public KernelRoutine {
 public:
  using KernelRoutine::KernelRoutine;

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    return static_cast<RolledRoutine*>(self)->run_parts(data, outer, inner, rows, columns);
  }

 private:
  int32_t run_parts(char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    if (are_many(rows, columns)) return kRefused;
    const int64_t *const down = outer + inputs() + 1, *const along = inner + inputs() + 1;
    find_borders(down, rows, row_borders_);
    find_borders(along, columns, column_borders_);
    for (size_t r = 0; r + 1 < row_borders_.size(); r++) {
      for (size_t c = 0; c + 1 < column_borders_.size(); c++) {
        const int64_t row = row_borders_[r], column = column_borders_[c];
        char* part[kMostOperands];
        for (size_t i = 0; i < inputs(); i++) part[i] = data[i] + before(row, down[i], rows) * outer[i] + before(column, along[i], columns) * inner[i];
        part[inputs()] = data[inputs()] + row * outer[inputs()] + column * inner[inputs()];
        if (const int32_t met = run(part, outer, inner, row_borders_[r + 1] - row, column_borders_[c + 1] - column)) return met;
      }
    }
    return 0;
  }

  // Where what stands at a place was before it was moved.
  static int64_t before(int64_t place, int64_t moved, int64_t size) { return place < moved ? place - moved + size : place - moved; }

  void find_borders(const int64_t* moved, int64_t size, std::vector<int64_t>& borders) const {
    borders.assign(moved, moved + inputs());
    borders.insert(borders.end(), {0, size});
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  }

  std::vector<int64_t> row_borders_, column_borders_;
};

// Of a kSkipping: what the mask leaves out far and wide isn't computed.
class SkippingRoutine final : public KernelRoutine {
 public:
  explicit SkippingRoutine(const std::shared_ptr<const Kernel>& kernel) : KernelRoutine(kernel), mask_(static_cast<size_t>(kernel->ops.back().a)) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    return static_cast<SkippingRoutine*>(self)->run_parts(data, outer, inner, rows, columns);
  }

 private:
  int32_t run_parts(char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    join_rows(outer, inner, inputs() + 1, rows, columns);
    return for_each_kept_part(data[mask_], outer[mask_], inner[mask_], rows, columns, [&](int64_t row, int64_t column, int64_t some_rows, int64_t some_columns) {
      char* part[kMostOperands];
      for (size_t i = 0; i <= inputs(); i++) part[i] = data[i] + row * outer[i] + column * inner[i];
      return run(part, outer, inner, some_rows, some_columns);
    });
  }

  const size_t mask_;
};

// Turns of a loop that change the same rows: each row is read and written once for several turns.
class TurnsRoutine final : public LoadedRoutine {
 public:
  explicit TurnsRoutine(const Routine& routine) : kernel_(routine.kernel), changed_(static_cast<size_t>(routine.input)), inputs_(kernel_->inputs.size()), has_rows_(routine.rank == 2), one_(kernel_) {
    for (const int turns : {8, 4, 2}) {
      if (fits(turns)) several_.push_back({turns});
    }
  }

  // Of as many turns as calls have had; others have none of this kernel.
  void make_missing() override {
    one_.make_missing();
    for (Several& some : several_) {
      if (some.kernel) some.kernel->make_missing();
      else if (some.is_wanted) some.kernel = std::make_unique<KernelRoutine>(std::make_shared<const Kernel>(native::repeated(*kernel_, changed_, some.turns)));
    }
  }
  std::vector<native::Effort> efforts() const override {
    std::vector<native::Effort> all = one_.efforts();
    for (const Several& some : several_) {
      if (!some.kernel) continue;
      const std::vector<native::Effort> more = some.kernel->efforts();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
  void improve(native::Effort effort) override {
    one_.improve(effort);
    for (const Several& some : several_) {
      if (some.kernel) some.kernel->improve(effort);
    }
  }

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t* inner, int64_t turns, int64_t columns) {
    auto* const routine = static_cast<TurnsRoutine*>(self);
    const size_t operands = routine->inputs_ + 1;
    if (!routine->has_rows_) return routine->change_row(data, outer, inner, turns, columns);
    char* row[kMostOperands];
    for (int64_t r = 0; r < inner[operands]; r++) {
      for (size_t i = 0; i < operands; i++) row[i] = data[i] + r * outer[operands + i];
      if (const int32_t met = routine->change_row(row, outer, inner, turns, columns)) return met;
    }
    return 0;
  }

 private:
  struct Several {
    int turns;
    std::unique_ptr<KernelRoutine> kernel = {};
    bool is_wanted = false;
  };
  // With more operations there are too few registers.
  static constexpr size_t kMostOperations = 32;
  bool fits(int turns) const {
    const auto count = static_cast<size_t>(turns);
    return count * (inputs_ - 1) + 2 <= kMostOperands && count * kernel_->ops.size() <= kMostOperations;
  }

  int32_t change_row(char* const* data, const int64_t* outer, const int64_t* inner, int64_t turns, int64_t columns) {
    int64_t turn = 0;
    for (Several& some : several_) {
      if (turns - turn < some.turns) continue;
      some.is_wanted = true;
      for (; some.kernel && turns - turn >= some.turns; turn += some.turns) {
        if (const int32_t met = change_by(*some.kernel, some.turns, data, outer, inner, turn, columns)) return met;
      }
    }
    for (; turn < turns; turn++) {
      if (const int32_t met = change_by(one_, 1, data, outer, inner, turn, columns)) return met;
    }
    return 0;
  }

  // So many turns, as native::repeated has its inputs; one is the kernel as it is.
  int32_t change_by(KernelRoutine& kernel, int64_t turns, char* const* data, const int64_t* outer, const int64_t* inner, int64_t first, int64_t columns) const {
    static constexpr int64_t kNone[kMostOperands] = {};
    char* places[kMostOperands];
    int64_t steps[kMostOperands];
    size_t at = 0;
    const auto add = [&](size_t operand, int64_t turn) {
      places[at] = data[operand] + turn * outer[operand];
      steps[at++] = inner[operand];
    };
    if (turns > 1) add(changed_, 0);
    for (int64_t turn = first; turn < first + turns; turn++) {
      for (size_t i = 0; i < inputs_; i++) {
        if (turns == 1 || i != changed_) add(i, turn);
      }
    }
    add(inputs_, 0);
    return kernel.run(places, kNone, steps, 1, columns);
  }

  const std::shared_ptr<const Kernel> kernel_;
  const size_t changed_, inputs_;
  const bool has_rows_;
  KernelRoutine one_;
  std::vector<Several> several_;  // more turns first
};

class SpaceRoutine final : public LoadedRoutine {
 public:
  SpaceRoutine(const Kernel& kernel, const Held& held) : compiled_(native::compile(kernel)), held_(held) {
    if (AxisFold::is_one(kernel)) fold_.emplace(kernel);
  }

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t*, int64_t count, int64_t) {
    return static_cast<SpaceRoutine*>(self)->run(data, outer, count);
  }

 private:
  static constexpr int32_t kRefused = -1;

  int32_t run(char* const* data, const int64_t* extents, int64_t elements) {
    const Kernel& kernel = compiled_.kernel();
    if (fold_ && elements <= kManyElements && fold_->fits(extents)) return reported(fold_->run(data[0], data[1]));
    if (!kernel.reduced && elements > kManyElements) return kRefused;
    native::KernelOperand operands[kMostOperands];
    const int64_t* strides = extents + kernel.rank;
    for (size_t i = 0; i <= kernel.inputs.size(); i++, strides += kernel.rank) operands[i] = {data[i], strides};
    if (kernel.reduced && adds_floats() && native::sums_in_pieces(operands[0].strides, extents, kernel.rank, kernel.reduced)) return kRefused;
    // It tells its conditions, and forgets those that were there.
    int32_t met = 0;
    try {
      native::without_flags([&] { met = compiled_.run(extents, operands); });
    } catch (const std::runtime_error&) {
      PyErr_Clear();
      return kRefused;
    }
    return reported(met);
  }

  int32_t reported(int32_t met) const { return met & (held_.reported | native::kByPlace); }

  bool adds_floats() const {
    const native::KernelOutput& output = compiled_.kernel().outputs[0];
    return (output.reduce == native::ReduceOp::kAdd || output.reduce == native::ReduceOp::kMultiply) && (native::is_float(output.dtype) || native::is_complex(output.dtype));
  }

  const native::CompiledKernel& compiled_;
  const Held& held_;
  std::optional<AxisFold> fold_;
};

void copy_elements(int64_t size, const char* from, int64_t step, char* to, int64_t to_step, int64_t count) {
  switch (size) {
    case 1: return copy_elements_of<1>(from, step, to, to_step, count);
    case 2: return copy_elements_of<2>(from, step, to, to_step, count);
    case 4: return copy_elements_of<4>(from, step, to, to_step, count);
    case 8: return copy_elements_of<8>(from, step, to, to_step, count);
    default: return copy_elements_of<16>(from, step, to, to_step, count);
  }
}

void copy_row(int64_t size, const char* from, int64_t step, char* to, int64_t to_step, int64_t count) {
  if (step != size || to_step != size) return copy_elements(size, from, step, to, to_step, count);
  std::memmove(to, from, static_cast<size_t>(count * size));
}

// As PyArray_AssignArray does (NumPy's array_assign_array.c), which shows where arrays overlap each other, or themselves.
class MoveRoutine final : public LoadedRoutine {
 public:
  MoveRoutine(graph::DType dtype, bool is_row) : size_(graph::size_of(dtype)), is_row_(is_row) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    if (data[0] == data[1] && inner[0] == inner[1] && (rows == 1 || outer[0] == outer[1])) return 0;
    static_cast<MoveRoutine*>(self)->run({data[0], outer[0], inner[0]}, {data[1], outer[1], inner[1]}, rows, columns);
    return 0;
  }

 private:
  struct Side {
    char* data;
    int64_t outer, inner;
  };
  Extent extent(const Side& side, int64_t rows, int64_t columns) const { return Extent(side.data, size_).along(rows, side.outer).along(columns, side.inner); }

  void run(const Side& from, const Side& to, int64_t rows, int64_t columns) {
    const bool overlaps = extent(from, rows, columns).meets(extent(to, rows, columns));
    // What goes the same way is copied in an order that is right for equal strides.
    if (!overlaps || (is_row_ && from.inner * to.inner >= 0)) return copy(from, to, rows, columns);
    between_.resize(static_cast<size_t>(rows * columns * size_));
    const Side between{between_.data(), columns * size_, size_};
    copy(from, between, rows, columns);
    copy(between, to, rows, columns);
  }

  // Along the target's memory.
  void copy(Side from, Side to, int64_t rows, int64_t columns) const {
    if (!is_row_ && std::abs(to.inner) > std::abs(to.outer)) {
      std::swap(from.outer, from.inner);
      std::swap(to.outer, to.inner);
      std::swap(rows, columns);
    }
    if (to.outer < 0) turn(from, to, &Side::outer, rows);
    if (to.inner < 0) turn(from, to, &Side::inner, columns);
    if (is_row_ && from.data < to.data && from.data + columns * from.inner > to.data) turn(from, to, &Side::inner, columns);
    for (int64_t r = 0; r < rows; r++, from.data += from.outer, to.data += to.outer) copy_row(size_, from.data, from.inner, to.data, to.inner, columns);
  }

  static void turn(Side& from, Side& to, int64_t Side::*step, int64_t count) {
    for (Side* const side : {&from, &to}) {
      side->data += (count - 1) * (side->*step);
      side->*step = -(side->*step);
    }
  }

  const int64_t size_;
  const bool is_row_;
  std::vector<char> between_;
};

// The same of more dimensions.
class MoveSpaceRoutine final : public LoadedRoutine {
 public:
  MoveSpaceRoutine(graph::DType dtype, int rank) : size_(graph::size_of(dtype)), rank_(rank) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t*, int64_t count, int64_t) {
    return static_cast<MoveSpaceRoutine*>(self)->run(data, outer, count), 0;
  }

 private:
  struct Axis {
    int64_t size, from, to;
  };
  using Axes = std::vector<Axis>;

  void run(char* const* data, const int64_t* sizes, int64_t count) {
    const int64_t *const from = sizes + rank_, *const to = from + rank_;
    if (data[0] == data[1] && std::equal(from, from + rank_, to)) return;
    axes_.clear();
    for (int i = 0; i < rank_; i++) axes_.push_back({sizes[i], from[i], to[i]});
    if (!overlap(data)) return copy(data[0], data[1], axes_);
    between_.resize(static_cast<size_t>(count * size_));
    Axes there = axes_, back = axes_;
    int64_t step = size_;
    for (size_t i = axes_.size(); i-- > 0; step *= axes_[i].size) there[i].to = back[i].from = step;
    copy(data[0], between_.data(), there);
    copy(between_.data(), data[1], back);
  }

  // Whether the memory between the first and the last bytes of the two does.
  bool overlap(char* const* data) const {
    const auto extent = [&](const char* begin, int64_t Axis::*step) {
      Extent all(begin, size_);
      for (const Axis& axis : axes_) all = all.along(axis.size, axis.*step);
      return all;
    };
    return extent(data[0], &Axis::from).meets(extent(data[1], &Axis::to));
  }

  // Along the target's memory, upwards.
  void copy(const char* from, char* to, Axes axes) const {
    std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return std::abs(a.to) > std::abs(b.to); });
    for (Axis& axis : axes) {
      if (axis.to >= 0) continue;
      from += (axis.size - 1) * axis.from, to += (axis.size - 1) * axis.to;
      axis.from = -axis.from, axis.to = -axis.to;
    }
    copy_from(axes, 0, from, to);
  }

  void copy_from(const Axes& axes, size_t first, const char* from, char* to) const {
    const Axis& axis = axes[first];
    if (first + 1 == axes.size()) return copy_row(size_, from, axis.from, to, axis.to, axis.size);
    for (int64_t i = 0; i < axis.size; i++) copy_from(axes, first + 1, from + i * axis.from, to + i * axis.to);
  }

  const int64_t size_;
  const int rank_;
  Axes axes_;
  std::vector<char> between_;
};

class FoldRoutine final : public LoadedRoutine {
 public:
  FoldRoutine(native::ReduceOp op, graph::DType dtype) : reducer_(native::reducer(op, dtype)), is_position_(op == native::ReduceOp::kArgMin || op == native::ReduceOp::kArgMax), size_(graph::size_of(is_position_ ? graph::DType::int64 : dtype)) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t*, const int64_t*, int64_t, int64_t columns) {
    static_cast<FoldRoutine*>(self)->run(data, columns);
    return 0;
  }

 private:
  void run(char* const* data, int64_t count) const {
    alignas(16) char state[kBytesOfNumber];
    const auto fold = [&] {
      reducer_.start(state);
      if (count) reducer_.fold(state, data[0], count, 0);
    };
    reducer_.quiet ? native::without_flags(fold) : fold();
    // A position stands before the element.
    std::memcpy(data[1], state, static_cast<size_t>(size_));
  }

  const native::Reducer reducer_;
  const bool is_position_;
  const int size_;
};

// NumPy's own loop for matrices of these elements; null where there is none.
struct ProductLoop {
  PyUFuncGenericFunction function = nullptr;
  void* data = nullptr;
};
ProductLoop product_loop(graph::DType dtype) {
  const Ref object = numpy::own_attribute("matmul");
  if (!object || Py_TYPE(object.get()) != &PyUFunc_Type) return {};
  const auto* const ufunc = object.as<PyUFuncObject>();
  const int number = numpy::type_number(dtype);
  for (int i = 0; i < ufunc->ntypes; i++) {
    const char* const types = ufunc->types + 3 * i;
    if (types[0] == number && types[1] == number && types[2] == number) return {ufunc->functions[i], ufunc->data ? const_cast<void*>(ufunc->data[i]) : nullptr};
  }
  return {};
}

class ProductRoutine final : public LoadedRoutine {
 public:
  explicit ProductRoutine(graph::DType dtype) : loop_(product_loop(dtype)) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    const ProductLoop& loop = static_cast<ProductRoutine*>(self)->loop_;
    char* operands[] = {data[0], data[1], data[2]};
    const npy_intp sizes[] = {1, rows, outer[3], columns};
    const npy_intp steps[] = {0, 0, 0, outer[0], inner[0], outer[1], inner[1], outer[2], inner[2]};
    loop.function(operands, sizes, steps, loop.data);
    return 0;
  }

 private:
  const ProductLoop loop_;
};

class DotRoutine final : public LoadedRoutine {
 public:
  DotRoutine(graph::DType dtype, bool is_of_matmul) : dot_(PyDataType_GetArrFuncs(numpy::dtype_object(dtype).as<PyArray_Descr>())->dotfunc), size_(graph::size_of(dtype)), is_of_matmul_(is_of_matmul) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t*, const int64_t* inner, int64_t, int64_t columns) {
    static_cast<DotRoutine*>(self)->run(data, inner, columns);
    return 0;
  }

 private:
  void run(char* const* data, const int64_t* inner, int64_t count) {
    char* rows[2] = {data[0], data[1]};
    int64_t steps[2] = {inner[0], inner[1]};
    for (int i = 0; i < 2; i++) {
      // What BLAS can't walk, numpy.dot copies (_bad_strides in NumPy's cblasfuncs.c): it is added up in another order. numpy.matmul has it added
      // up as it stands.
      if (is_of_matmul_ || count <= 1 || (steps[i] > 0 && steps[i] % size_ == 0)) continue;
      copies_[i].resize(static_cast<size_t>(count * size_));
      copy_elements(size_, rows[i], steps[i], copies_[i].data(), size_, count);
      rows[i] = copies_[i].data();
      steps[i] = size_;
    }
    dot_(rows[0], steps[0], rows[1], steps[1], data[2], count, nullptr);
  }

  PyArray_DotFunc* const dot_;
  const int64_t size_;
  const bool is_of_matmul_;
  std::vector<char> copies_[2];
};

class ObjectRoutine final : public LoadedRoutine {
 public:
  ObjectRoutine(std::shared_ptr<const ObjectCall> call, Held& held) : call_(std::move(call)), held_(held) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t*, const int64_t*, int64_t, int64_t) {
    const auto& routine = *static_cast<ObjectRoutine*>(self);
    constexpr int32_t kRefused = -1;
    return run_object_call(*routine.call_, routine.held_, reinterpret_cast<int64_t*>(data[0])) ? 0 : kRefused;
  }

 private:
  const std::shared_ptr<const ObjectCall> call_;
  Held& held_;
};

class ReleaseRoutine final : public LoadedRoutine {
 public:
  explicit ReleaseRoutine(Held& held) : held_(held) {}

  static int32_t call(LoadedRoutine* self, char* const*, const int64_t*, const int64_t*, int64_t, int64_t count) {
    static_cast<ReleaseRoutine*>(self)->held_.release(static_cast<size_t>(count));
    return 0;
  }

 private:
  Held& held_;
};

// Of NaNs NumPy takes what its way of sorting brings to the middle, and what sign a zero has that is the mean of negative ones is its way
// of adding: such are refused.
class MedianRoutine final : public LoadedRoutine {
 public:
  explicit MedianRoutine(graph::DType dtype) : is_wide_(dtype == graph::DType::float64) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t*, const int64_t*, int64_t, int64_t columns) {
    if (static_cast<MedianRoutine*>(self)->is_wide_) return run<double>(data, columns);
    return run<float>(data, columns);
  }

 private:
  template <class Number>
  static int32_t run(char* const* data, int64_t count) {
    auto* const begin = reinterpret_cast<Number*>(data[0]);
    auto *const end = begin + count, *const middle = begin + count / 2;
    bool any_nan = false;
    for (const Number* number = begin; number != end; number++) any_nan |= std::isnan(*number);
    if (any_nan) return 1;
    Number median = count == 9 ? median_of<9>(begin) : count == 25 ? median_of<25>(begin) : middle_of(begin, middle, end);
    if (count % 2 == 0) median = (*std::max_element(begin, middle) + median) / Number(2);
    const auto is_negative_zero = [](Number number) { return number == 0 && std::signbit(number); };
    if (std::isnan(median) || (median == 0 && std::any_of(begin, end, is_negative_zero))) return 1;
    std::memcpy(data[1], &median, sizeof median);
    return 0;
  }

  template <class Number>
  static Number middle_of(Number* begin, Number* middle, Number* end) {
    std::nth_element(begin, middle, end);
    return *middle;
  }

  // Of windows of images: sorted by Batcher's network, of which the compiler keeps what leads to the middle. Nothing is jumped over, as each
  // jump would be one that no processor foresees.
  template <int count, class Number>
  static Number median_of(const Number* from) {
    Number numbers[count];
    std::copy_n(from, count, numbers);
    [&]<size_t... i>(std::index_sequence<i...>) {
      (put_in_order(numbers[kNetwork<count>.pairs[i].first], numbers[kNetwork<count>.pairs[i].second]), ...);
    }(std::make_index_sequence<kNetwork<count>.size>());
    return numbers[count / 2];
  }

  template <class Number>
  static void put_in_order(Number& low, Number& high) {
    const Number least = low < high ? low : high, most = low < high ? high : low;
    low = least;
    high = most;
  }

  struct Pair {
    int first = 0, second = 0;
  };
  template <int count> struct Network {
    Pair pairs[count * count] = {};
    size_t size = 0;
    constexpr Network() {
      for (int sorted = 1; sorted < count; sorted *= 2) {
        for (int apart = sorted; apart >= 1; apart /= 2) {
          for (int j = apart % sorted; j + apart < count; j += 2 * apart) {
            for (int i = j; i < j + apart && i + apart < count; i++) {
              if (i / (2 * sorted) == (i + apart) / (2 * sorted)) pairs[size++] = {i, i + apart};
            }
          }
        }
      }
    }
  };
  template <int count> static constexpr Network<count> kNetwork = {};

  const bool is_wide_;
};

class AppendRoutine final : public LoadedRoutine {
 public:
  explicit AppendRoutine(std::vector<Type> numbers) : numbers_(std::move(numbers)) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t*, const int64_t*, int64_t, int64_t) {
    return static_cast<AppendRoutine*>(self)->append(data[0]) ? 0 : 1;
  }

 private:
  bool append(const char* from) const {
    std::vector<Ref> objects;
    std::vector<PyObject*> lists;
    for (const Type& type : numbers_) {
      int64_t words[kBytesOfNumber / 8];
      std::memcpy(words, from, sizeof words);
      from += kBytesOfNumber;
      lists.push_back(std::bit_cast<PyObject*>(words[0]));
      objects.push_back(Boxes().box(type, words + 1));
      if (!objects.back()) return PyErr_Clear(), false;
    }
    for (size_t i = 0; i < lists.size(); i++) {
      if (PyList_Append(lists[i], objects[i].get()) == 0) continue;
      for (; i-- > 0;) PyList_SetSlice(lists[i], PyList_GET_SIZE(lists[i]) - 1, PyList_GET_SIZE(lists[i]), nullptr);
      return PyErr_Clear(), false;
    }
    return true;
  }

  const std::vector<Type> numbers_;
};

// Of lists and tuples.
class ListItemRoutine final : public LoadedRoutine {
 public:
  // text: "list " or "tuple ", and the letters of the numbers of items that are tuples.
  ListItemRoutine(graph::DType dtype, const std::string& text) : is_tuple_(text.starts_with("tuple")), number_(dtype == graph::DType::int64 ? 'i' : 'f'), numbers_(text.substr(text.find(' ') + 1)) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t*, const int64_t*, int64_t index, int64_t) {
    return static_cast<ListItemRoutine*>(self)->read(reinterpret_cast<PyObject*>(data[0]), index, data[1]);
  }

 private:
  static constexpr int32_t kOther = 1;

  int32_t read(PyObject* list, int64_t index, char* to) const {
    if (is_tuple_ ? !PyTuple_CheckExact(list) : !PyList_CheckExact(list)) return kOther;
    if (index >= PySequence_Fast_GET_SIZE(list)) return 0;
    PyObject* const item = PySequence_Fast_GET_ITEM(list, index);
    if (numbers_.empty()) return read_number(number_, item, to);
    if (!PyTuple_CheckExact(item) || PyTuple_GET_SIZE(item) != static_cast<Py_ssize_t>(numbers_.size())) return kOther;
    std::memcpy(to, &item, sizeof item);
    for (size_t i = 0; i < numbers_.size(); i++) {
      if (read_number(numbers_[i], PyTuple_GET_ITEM(item, static_cast<Py_ssize_t>(i)), to + 8 * (i + 1))) return kOther;
    }
    return 0;
  }

  static int32_t read_number(char kind, PyObject* item, char* to) { return kind == 'i' ? read_int(item, to) : read_float(item, to); }
  static int32_t read_int(PyObject* item, char* to) {
    if (!PyLong_CheckExact(item)) return kOther;
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(item, &overflow);
    std::memcpy(to, &number, sizeof number);
    return overflow != 0;
  }
  static int32_t read_float(PyObject* item, char* to) {
    if (!PyFloat_CheckExact(item)) return kOther;
    const double number = PyFloat_AS_DOUBLE(item);
    std::memcpy(to, &number, sizeof number);
    return 0;
  }

  const bool is_tuple_;
  const char number_;
  const std::string numbers_;
};

template <class Loaded, class... Arguments>
RoutineEntry loaded(std::vector<std::unique_ptr<LoadedRoutine>>& owners, Arguments&&... arguments) {
  owners.push_back(std::make_unique<Loaded>(std::forward<Arguments>(arguments)...));
  return {&Loaded::call, owners.back().get()};
}

RoutineEntry kernel_entry(const Routine& routine, std::vector<std::unique_ptr<LoadedRoutine>>& owners) {
  if (routine.text.starts_with(kRolled)) return loaded<RolledRoutine>(owners, routine.kernel);
  if (routine.text.starts_with(kSkipping)) return loaded<SkippingRoutine>(owners, routine.kernel);
  RoutineEntry entry = loaded<KernelRoutine>(owners, routine.kernel);
  entry.for_neighbours = static_cast<const KernelRoutine*>(entry.routine)->for_neighbours();
  return entry;
}

RoutineEntry load(const Routine& routine, Held& held, std::vector<std::unique_ptr<LoadedRoutine>>& owners) {
  switch (routine.kind) {
    case Routine::Kind::kKernel: return kernel_entry(routine, owners);
    case Routine::Kind::kTurns: return loaded<TurnsRoutine>(owners, routine);
    case Routine::Kind::kSpace: return loaded<SpaceRoutine>(owners, *routine.kernel, held);
    case Routine::Kind::kMoveSpace: return loaded<MoveSpaceRoutine>(owners, routine.dtype, routine.rank);
    case Routine::Kind::kMove:
    case Routine::Kind::kMoveRow: return loaded<MoveRoutine>(owners, routine.dtype, routine.kind == Routine::Kind::kMoveRow);
    case Routine::Kind::kFold: return loaded<FoldRoutine>(owners, routine.fold, routine.dtype);
    case Routine::Kind::kProduct: return loaded<ProductRoutine>(owners, routine.dtype);
    case Routine::Kind::kObject: return loaded<ObjectRoutine>(owners, routine.object, held);
    case Routine::Kind::kRelease: return loaded<ReleaseRoutine>(owners, held);
    case Routine::Kind::kMedian: return loaded<MedianRoutine>(owners, routine.dtype);
    case Routine::Kind::kListItem: return loaded<ListItemRoutine>(owners, routine.dtype, routine.text);
    case Routine::Kind::kAppend: return loaded<AppendRoutine>(owners, routine.numbers);
    case Routine::Kind::kDot:
    case Routine::Kind::kDotOfMatmul: return loaded<DotRoutine>(owners, routine.dtype, routine.kind == Routine::Kind::kDotOfMatmul);
    case Routine::Kind::kContract: return contraction_entry(routine, held, owners);
    case Routine::Kind::kGather:
    case Routine::Kind::kScatter: return gather_entry(routine, owners);
    case Routine::Kind::kKeep:
    case Routine::Kind::kPut:
    case Routine::Kind::kCount:
    case Routine::Kind::kPutKept: return mask_entry(routine, owners);
  }
  throw std::logic_error("a routine of no kind");
}

}  // namespace

bool Routine::has_kernel_of_neighbours() const { return kind == Kind::kKernel && !text.starts_with(kRolled) && !text.starts_with(kSkipping); }

int Routine::traverse(visitproc visit, void* arg) const {
  for (size_t i = 0; object && i < object->graph.constants.size(); i++) Py_VISIT(object->graph.constants[i].get());
  return 0;
}

bool has_product(graph::DType dtype) { return product_loop(dtype).function != nullptr; }

LoadedRoutines::LoadedRoutines(const std::vector<Routine>& routines) {
  for (const Routine& routine : routines) entries_.push_back(load(routine, held, routines_));
  look_at_efforts();
}

void LoadedRoutines::make_missing() {
  for (const auto& routine : routines_) routine->make_missing();
  look_at_efforts();
}

void LoadedRoutines::improve(native::Effort effort) {
  for (const auto& routine : routines_) routine->improve(effort);
  look_at_efforts();
  for (RoutineEntry& entry : entries_) {
    if (entry.for_neighbours) entry.for_neighbours = static_cast<const KernelRoutine*>(entry.routine)->for_neighbours();
  }
}

void LoadedRoutines::look_at_efforts() {
  std::vector<native::Effort> all;
  for (const auto& routine : routines_) {
    for (const native::Effort effort : routine->efforts()) all.push_back(effort);
  }
  effort_ = all.empty() ? native::Effort::kFull : *std::min_element(all.begin(), all.end());
  functions_ = static_cast<int>(std::count(all.begin(), all.end(), effort_));
}

}  // namespace evalframe::regions
