#include "regions/routine.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>

#include "backends/native/code/kernel_codegen.h"
#include "backends/native/machine/machine.h"
#include "backends/native/reduce/reductions.h"
#include "backends/native/run/float_flags.h"
#include "core/ref.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "regions/object_routine.h"

namespace evalframe::regions {

using native::Access, native::Kernel;

namespace {

// Elements from which on a graph's kernels do better: with threads, and what belongs together in one.
constexpr int64_t kManyElements = 1 << 16;

class KernelRoutine final : public LoadedRoutine {
 public:
  explicit KernelRoutine(std::shared_ptr<const Kernel> kernel) : kernel_(std::move(kernel)) {
    for (const native::KernelInput& input : kernel_->inputs) {
      sizes_.push_back(graph::size_of(input.dtype));
      row_ += static_cast<char>(input.scalar ? Access::kScalar : Access::kUnit);
    }
    sizes_.push_back(graph::size_of(kernel_->outputs[0].dtype));
    row_ += static_cast<char>(Access::kUnit);
    missing_ = row_;
    make_missing();
    unit_ = versions_.at(row_);
  }

  void make_missing() override {
    if (missing_.empty()) return;
    const std::string access = std::exchange(missing_, {});
    versions_[access] = reinterpret_cast<native::KernelFunction>(native::machine_code(native::generate(*kernel_, access, true).ir));
  }

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    return static_cast<KernelRoutine*>(self)->run(data, outer, inner, rows, columns);
  }

 private:
  int32_t run(char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    constexpr int32_t kRefused = -1;
    if (rows > kManyElements || columns > kManyElements || rows * columns > kManyElements) return kRefused;
    bool unit = true;
    for (size_t i = 0; i < sizes_.size(); i++) unit &= inner[i] == sizes_[i] || row_[i] == static_cast<char>(Access::kScalar);
    if (unit) return unit_(data, outer, inner, rows, columns);
    std::string access = row_;
    for (size_t i = 0; i < sizes_.size(); i++) {
      if (row_[i] == static_cast<char>(Access::kScalar) || inner[i] == sizes_[i]) continue;
      access[i] = static_cast<char>(inner[i] == 0 ? Access::kBroadcast : Access::kStrided);
    }
    const auto found = versions_.find(access);
    if (found != versions_.end()) return found->second(data, outer, inner, rows, columns);
    missing_ = access;
    return kRefused;
  }

  const std::shared_ptr<const Kernel> kernel_;
  std::vector<int64_t> sizes_;  // of the operands' elements
  std::string row_;             // how operands are walked that are rows of neighbours
  native::KernelFunction unit_ = nullptr;
  std::map<std::string, native::KernelFunction> versions_;
  std::string missing_;  // what a call would have needed
};

class ReduceRoutine final : public LoadedRoutine {
 public:
  explicit ReduceRoutine(const Kernel& kernel) : compiled_(native::compile(kernel)) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) {
    return static_cast<ReduceRoutine*>(self)->run(data, outer, inner, rows, columns);
  }

 private:
  int32_t run(char* const* data, const int64_t* outer, const int64_t* inner, int64_t rows, int64_t columns) const {
    const size_t count = compiled_.kernel().inputs.size() + 1;
    int64_t strides[kMostOperands][2];
    native::KernelOperand operands[kMostOperands];
    for (size_t i = 0; i < count; i++) {
      strides[i][0] = outer[i], strides[i][1] = inner[i];
      operands[i] = {data[i], strides[i]};
    }
    const int64_t extents[] = {rows, columns};
    // It tells its conditions, and forgets those that were there.
    int32_t met = 0;
    try {
      native::without_flags([&] { met = compiled_.run(extents, operands); });
    } catch (const std::runtime_error&) {
      PyErr_Clear();
      return -1;
    }
    return met & (1 | 2 | 8);
  }

  const native::CompiledKernel& compiled_;
};

template <size_t size>
void copy_elements_of(const char* from, int64_t step, char* to, int64_t to_step, int64_t count) {
  for (int64_t i = 0; i < count; i++) std::memmove(to + i * to_step, from + i * step, size);
}

// One after the other. A size that the compiler knows makes an instruction of each.
void copy_elements(int64_t size, const char* from, int64_t step, char* to, int64_t to_step, int64_t count) {
  switch (size) {
    case 1: return copy_elements_of<1>(from, step, to, to_step, count);
    case 2: return copy_elements_of<2>(from, step, to, to_step, count);
    case 4: return copy_elements_of<4>(from, step, to, to_step, count);
    case 8: return copy_elements_of<8>(from, step, to, to_step, count);
    default: return copy_elements_of<16>(from, step, to, to_step, count);
  }
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
  // The first byte, and one past the last.
  struct Extent {
    const char *begin, *end;
  };
  Extent extent(const Side& side, int64_t rows, int64_t columns) const {
    Extent all{side.data, side.data + size_};
    for (const int64_t move : {(rows - 1) * side.outer, (columns - 1) * side.inner}) (move < 0 ? all.begin : all.end) += move;
    return all;
  }

  void run(const Side& from, const Side& to, int64_t rows, int64_t columns) {
    const Extent one = extent(from, rows, columns), other = extent(to, rows, columns);
    const bool overlaps = one.end > other.begin && other.end > one.begin;
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
    for (int64_t r = 0; r < rows; r++, from.data += from.outer, to.data += to.outer) copy_row(from, to, columns);
  }

  static void turn(Side& from, Side& to, int64_t Side::*step, int64_t count) {
    for (Side* const side : {&from, &to}) {
      side->data += (count - 1) * (side->*step);
      side->*step = -(side->*step);
    }
  }

  void copy_row(const Side& from, const Side& to, int64_t count) const {
    if (from.inner == size_ && to.inner == size_) {
      std::memmove(to.data, from.data, static_cast<size_t>(count * size_));
      return;
    }
    copy_elements(size_, from.data, from.inner, to.data, to.inner, count);
  }

  const int64_t size_;
  const bool is_row_;
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
  const Ref numpy = Ref::steal(PyImport_ImportModule("numpy"));
  const Ref object = Ref::steal(numpy ? PyObject_GetAttrString(numpy.get(), "matmul") : nullptr);
  if (!object) return PyErr_Clear(), ProductLoop{};
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
  explicit DotRoutine(graph::DType dtype) : dot_(PyDataType_GetArrFuncs(numpy::dtype_object(dtype).as<PyArray_Descr>())->dotfunc), size_(graph::size_of(dtype)) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t*, const int64_t* inner, int64_t, int64_t columns) {
    static_cast<DotRoutine*>(self)->run(data, inner, columns);
    return 0;
  }

 private:
  void run(char* const* data, const int64_t* inner, int64_t count) {
    char* rows[2] = {data[0], data[1]};
    int64_t steps[2] = {inner[0], inner[1]};
    for (int i = 0; i < 2; i++) {
      // What BLAS can't walk, numpy.dot copies (_bad_strides in NumPy's cblasfuncs.c): it is added up in another order.
      if (count <= 1 || (steps[i] > 0 && steps[i] % size_ == 0)) continue;
      copies_[i].resize(static_cast<size_t>(count * size_));
      copy_elements(size_, rows[i], steps[i], copies_[i].data(), size_, count);
      rows[i] = copies_[i].data();
      steps[i] = size_;
    }
    dot_(rows[0], steps[0], rows[1], steps[1], data[2], count, nullptr);
  }

  PyArray_DotFunc* const dot_;
  const int64_t size_;
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
    if (std::any_of(begin, end, [](Number number) { return std::isnan(number); })) return 1;
    std::nth_element(begin, middle, end);
    Number median = *middle;
    if (count % 2 == 0) median = (*std::max_element(begin, middle) + median) / Number(2);
    const auto is_negative_zero = [](Number number) { return number == 0 && std::signbit(number); };
    if (std::isnan(median) || (median == 0 && std::any_of(begin, end, is_negative_zero))) return 1;
    std::memcpy(data[1], &median, sizeof median);
    return 0;
  }

  const bool is_wide_;
};

class ListItemRoutine final : public LoadedRoutine {
 public:
  explicit ListItemRoutine(graph::DType dtype) : is_int_(dtype == graph::DType::int64) {}

  static int32_t call(LoadedRoutine* self, char* const* data, const int64_t*, const int64_t*, int64_t index, int64_t) {
    PyObject* const list = reinterpret_cast<PyObject*>(data[0]);
    if (index >= PyList_GET_SIZE(list)) return 0;
    PyObject* const item = PyList_GET_ITEM(list, index);
    return static_cast<ListItemRoutine*>(self)->is_int_ ? read_int(item, data[1]) : read_float(item, data[1]);
  }

 private:
  static int32_t read_int(PyObject* item, char* to) {
    if (!PyLong_CheckExact(item)) return 1;
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(item, &overflow);
    std::memcpy(to, &number, sizeof number);
    return overflow != 0;
  }
  static int32_t read_float(PyObject* item, char* to) {
    if (!PyFloat_CheckExact(item)) return 1;
    const double number = PyFloat_AS_DOUBLE(item);
    std::memcpy(to, &number, sizeof number);
    return 0;
  }

  const bool is_int_;
};

template <class Loaded, class... Arguments>
RoutineEntry loaded(std::vector<std::unique_ptr<LoadedRoutine>>& owners, Arguments&&... arguments) {
  owners.push_back(std::make_unique<Loaded>(std::forward<Arguments>(arguments)...));
  return {&Loaded::call, owners.back().get()};
}

RoutineEntry load(const Routine& routine, Held& held, std::vector<std::unique_ptr<LoadedRoutine>>& owners) {
  switch (routine.kind) {
    case Routine::Kind::kKernel: return loaded<KernelRoutine>(owners, routine.kernel);
    case Routine::Kind::kReduce: return loaded<ReduceRoutine>(owners, *routine.kernel);
    case Routine::Kind::kMove:
    case Routine::Kind::kMoveRow: return loaded<MoveRoutine>(owners, routine.dtype, routine.kind == Routine::Kind::kMoveRow);
    case Routine::Kind::kFold: return loaded<FoldRoutine>(owners, routine.fold, routine.dtype);
    case Routine::Kind::kProduct: return loaded<ProductRoutine>(owners, routine.dtype);
    case Routine::Kind::kObject: return loaded<ObjectRoutine>(owners, routine.object, held);
    case Routine::Kind::kRelease: return loaded<ReleaseRoutine>(owners, held);
    case Routine::Kind::kMedian: return loaded<MedianRoutine>(owners, routine.dtype);
    case Routine::Kind::kListItem: return loaded<ListItemRoutine>(owners, routine.dtype);
    case Routine::Kind::kDot: return loaded<DotRoutine>(owners, routine.dtype);
  }
  throw std::logic_error("a routine of no kind");
}

}  // namespace

int Routine::traverse(visitproc visit, void* arg) const {
  for (size_t i = 0; object && i < object->graph.constants.size(); i++) Py_VISIT(object->graph.constants[i].get());
  return 0;
}

bool has_product(graph::DType dtype) { return product_loop(dtype).function != nullptr; }

LoadedRoutines::LoadedRoutines(const std::vector<Routine>& routines) {
  for (const Routine& routine : routines) entries_.push_back(load(routine, held, routines_));
}

void LoadedRoutines::make_missing() {
  for (const auto& routine : routines_) routine->make_missing();
}

}  // namespace evalframe::regions
