// Folds rows of computed elements into a reduction's result, in NumPy's order; compiled once for each kind of vectors. Calls no
// function of the C++ library: an inline one, compiled here, could be the one that the linker keeps.
#pragma once

#include <cstring>
#include <limits>
#include <type_traits>

#include "backends/native/reduce/reductions.h"

namespace evalframe::native {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

struct Complex64 { float real, imag; };
struct Complex128 { double real, imag; };

template <class T> constexpr bool kComplex = std::is_same_v<T, Complex64> || std::is_same_v<T, Complex128>;
// float16 elements are folded as float and rounded by the compiler's own type.
using Half = _Float16;
template <class T> constexpr bool kFloating = std::is_floating_point_v<T> || std::is_same_v<T, Half>;

template <class T> bool is_nan(T x) {
  if constexpr (kComplex<T>) return __builtin_isnan(x.real) || __builtin_isnan(x.imag);
  else if constexpr (std::is_same_v<T, Half>) return __builtin_isnan(static_cast<float>(x));
  else if constexpr (kFloating<T>) return __builtin_isnan(x);
  else return false;
}

template <class T> bool less(T a, T b) {
  if constexpr (kComplex<T>) return __builtin_isless(a.real, b.real) || (a.real == b.real && __builtin_isless(a.imag, b.imag));
  else if constexpr (std::is_same_v<T, Half>) return __builtin_isless(static_cast<float>(a), static_cast<float>(b));
  else if constexpr (kFloating<T>) return __builtin_isless(a, b);
  else return a < b;
}

template <class T> T read(const char* at) { T value; std::memcpy(&value, at, sizeof value); return value; }
template <class T> void write(char* at, T value) { std::memcpy(at, &value, sizeof value); }

template <class T> struct Wrapping { using type = T; };
template <class T> requires std::is_integral_v<T> && (!std::is_same_v<T, bool>)
struct Wrapping<T> { using type = std::make_unsigned_t<T>; };

struct Add {
  template <class T> static T identity() { return T{}; }
  template <class T> static T combine(T a, T b) {
    if constexpr (kComplex<T>) return T{a.real + b.real, a.imag + b.imag};
    else if constexpr (std::is_same_v<T, bool>) return a || b;
    else if constexpr (std::is_same_v<T, Half>) return static_cast<Half>(static_cast<float>(a) + static_cast<float>(b));
    else return static_cast<T>(static_cast<typename Wrapping<T>::type>(a) + static_cast<typename Wrapping<T>::type>(b));
  }
};
struct Multiply {
  template <class T> static T identity() {
    if constexpr (kComplex<T>) return T{1, 0};
    else return static_cast<T>(1);
  }
  template <class T> static T combine(T a, T b) {
    if constexpr (kComplex<T>) return T{a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
    else if constexpr (std::is_same_v<T, bool>) return a && b;
    else if constexpr (std::is_same_v<T, Half>) return static_cast<Half>(static_cast<float>(a) * static_cast<float>(b));
    // Through 64 bits: a product of two promoted 16-bit numbers may overflow int.
    else if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else return a * b;
  }
};
template <bool smallest> struct Extreme {
  template <class T> static T identity() {
    constexpr auto infinity = [](auto one) { return smallest ? __builtin_inf() : -__builtin_inf() + 0 * one; };
    if constexpr (kComplex<T>) return T{static_cast<decltype(T::real)>(infinity(1)), static_cast<decltype(T::real)>(infinity(1))};
    else if constexpr (kFloating<T>) return static_cast<T>(infinity(1));
    else return smallest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest();
  }
  template <class T> static T combine(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      // Selects the loop vectoriser can widen: a NaN in a stays, one in b wins.
      const bool take_b = (smallest ? b < a : b > a) | (b != b);
      return (take_b & !(a != a)) ? b : a;
    } else {
      if (is_nan(a)) return a;
      if (is_nan(b)) return b;
      return (smallest ? less(b, a) : less(a, b)) ? b : a;
    }
  }
};
struct Any {
  template <class T> static T identity() { return false; }
  template <class T> static T combine(T a, T b) { return a || b; }
};
struct All {
  template <class T> static T identity() { return true; }
  template <class T> static T combine(T a, T b) { return a && b; }
};

// Types of which the compiler has vectors.
template <class T> constexpr bool kVectors = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
template <class T> struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));
  typedef T Eight __attribute__((vector_size(8 * sizeof(T))));
  static constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));
};
template <class V> inline __attribute__((always_inline)) V load(const void* from) {
  V value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class V> inline __attribute__((always_inline)) void store(void* to, V value) { std::memcpy(to, &value, sizeof value); }

// The better of two in each lane; a NaN wins, the one in a before the one in b.
template <bool smallest, class V> inline __attribute__((always_inline)) V extreme(V a, V b) {
  // Written so that a NaN in b is taken by the same comparison.
  const V better = smallest ? (b >= a ? a : b) : (b <= a ? a : b);
  if constexpr (std::is_floating_point_v<std::remove_reference_t<decltype(a[0])>>) return a != a ? a : better;
  else return better;
}

template <class Op, class T> void start(char* state) { write(state, Op::template identity<T>()); }

// Rows of a few elements take less time than two calls by address.
template <void (*begin)(char*), void (*fold)(char*, const char*, int64_t, int64_t)>
void fold_rows(char* state, int64_t state_step, const char* row, int64_t row_step, int64_t rows, int64_t count) {
  for (int64_t r = 0; r < rows; ++r) {
    begin(state + r * state_step);
    fold(state + r * state_step, row + r * row_step, count, 0);
  }
}

template <class Op, class T> void fold_in_order(char* state, const char* row, int64_t count, int64_t) {
  const T* elements = reinterpret_cast<const T*>(row);
  T total = read<T>(state);
  for (int64_t i = 0; i < count; ++i) total = Op::combine(total, elements[i]);
  write(state, total);
}

// Exact in any order: several accumulators, so that the additions don't wait for each other.
template <class Op, class T> void fold_any_order(char* state, const char* row, int64_t count, int64_t first) {
  constexpr int kLanes = 64 / sizeof(T) < 1 ? 1 : 64 / sizeof(T);
  if (count < kLanes) return fold_in_order<Op, T>(state, row, count, first);
  const T* elements = reinterpret_cast<const T*>(row);
  T lanes[kLanes];
  for (T& lane : lanes) lane = Op::template identity<T>();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) lanes[k] = Op::combine(lanes[k], elements[i + k]);
  }
  T total = read<T>(state);
  for (; i < count; ++i) total = Op::combine(total, elements[i]);
  for (const T& lane : lanes) total = Op::combine(total, lane);
  write(state, total);
}

template <class Op, class T> void accumulate(char* state, int64_t stride, const char* row, int64_t count, int64_t first);

template <bool smallest, class T> void fold_extreme(char* state, const char* row, int64_t count, int64_t first) {
  using V = typename VectorOf<T>::Type;
  constexpr int kLanes = VectorOf<T>::kLanes;
  constexpr int kStep = 4 * kLanes;
  if (count < kStep) return fold_any_order<Extreme<smallest>, T>(state, row, count, first);
  const T* elements = reinterpret_cast<const T*>(row);
  V best[4];
  for (int k = 0; k < 4; ++k) best[k] = load<V>(elements + k * kLanes);
  auto nan = best[0] != best[0];
  for (int k = 1; k < 4; ++k) nan |= best[k] != best[k];
  const auto take = [&](const T* from) __attribute__((always_inline)) {
    for (int k = 0; k < 4; ++k) {
      const V next = load<V>(from + k * kLanes);
      best[k] = smallest ? (next < best[k] ? next : best[k]) : (next > best[k] ? next : best[k]);
      if constexpr (std::is_floating_point_v<T>) nan |= next != next;
    }
  };
  int64_t i = kStep;
  for (; i + kStep <= count; i += kStep) take(elements + i);
  take(elements + count - kStep);  // elements that were met before change nothing
  const auto merge = [](V& a, V b) __attribute__((always_inline)) { a = smallest ? (b < a ? b : a) : (b > a ? b : a); };
  merge(best[0], best[2]);
  merge(best[1], best[3]);
  merge(best[0], best[1]);
  for (int apart = kLanes / 2; apart > 0; apart /= 2) {
    decltype(nan) other{};
    for (int lane = 0; lane < kLanes; ++lane) other[lane] = lane ^ apart;
    merge(best[0], __builtin_shuffle(best[0], other));
    nan |= __builtin_shuffle(nan, other);
  }
  const T found = nan[0] ? static_cast<T>(__builtin_nan("")) : best[0][0];
  write(state, Extreme<smallest>::combine(read<T>(state), found));
}

template <bool smallest, class T> void accumulate_extreme(char* state, int64_t stride, const char* row, int64_t count, int64_t first) {
  using V = typename VectorOf<T>::Type;
  constexpr int kLanes = VectorOf<T>::kLanes;
  int64_t i = 0;
  if (stride == sizeof(T)) {
    for (; i + kLanes <= count; i += kLanes) {
      char* const at = state + i * stride;
      store(at, extreme<smallest>(load<V>(at), load<V>(row + i * stride)));
    }
  }
  accumulate<Extreme<smallest>, T>(state + i * stride, stride, row + i * static_cast<int64_t>(sizeof(T)), count - i, first);
}

template <class Op, class T> void accumulate(char* state, int64_t stride, const char* row, int64_t count, int64_t) {
  const T* elements = reinterpret_cast<const T*>(row);
  if (stride == sizeof(T)) {
    T* states = reinterpret_cast<T*>(state);
    for (int64_t i = 0; i < count; ++i) states[i] = Op::combine(states[i], elements[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) write(state + i * stride, Op::combine(read<T>(state + i * stride), elements[i]));
}

// NumPy's pairwise sum of scalars: blocks of at most 128 with eight accumulators. A = type of the partial sums.
template <class T, class A> A pairwise(const T* x, int64_t count) {
  if (count < 8) {
    A total = static_cast<A>(-0.0);
    for (int64_t i = 0; i < count; ++i) total += static_cast<A>(x[i]);
    return total;
  }
  if (count <= 128) {
    using Input = typename VectorOf<T>::Eight;
    using V = typename VectorOf<A>::Eight;
    const auto eight = [&](int64_t i) __attribute__((always_inline)) {
      if constexpr (std::is_same_v<T, A>) return load<V>(x + i);
      else return __builtin_convertvector(load<Input>(x + i), V);
    };
    V r = eight(0);
    int64_t i = 8;
    for (; i < count - count % 8; i += 8) r += eight(i);
    A total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < count; ++i) total += static_cast<A>(x[i]);
    return total;
  }
  const int64_t half = pairwise_split(count, 1);
  return pairwise<T, A>(x, half) + pairwise<T, A>(x + half, count - half);
}

template <class T> struct PairwiseReal {
  using Partial = std::conditional_t<std::is_same_v<T, Half>, float, T>;
  static Partial sum(const T* x, int64_t count) { return pairwise<T, Partial>(x, count); }
  static Partial add(Partial a, Partial b) { return a + b; }
  static T finish(T state, Partial partial) { return static_cast<T>(static_cast<Partial>(state) + partial); }
};

template <class T> struct PairwiseComplex {
  using Partial = T;
  using Scalar = decltype(T::real);
  // As NumPy: real and imaginary parts take turns in the accumulators; counts are of scalars.
  static T scalars(const Scalar* x, int64_t count) {
    if (count < 8) {
      T total{static_cast<Scalar>(-0.0), static_cast<Scalar>(-0.0)};
      for (int64_t i = 0; i < count; i += 2) total = Add::combine(total, T{x[i], x[i + 1]});
      return total;
    }
    if (count <= 128) {
      Scalar r[8];
      for (int k = 0; k < 8; ++k) r[k] = x[k];
      int64_t i = 8;
      for (; i < count - count % 8; i += 8) {
        for (int k = 0; k < 8; ++k) r[k] += x[i + k];
      }
      T total{(r[0] + r[2]) + (r[4] + r[6]), (r[1] + r[3]) + (r[5] + r[7])};
      for (; i < count; i += 2) total = Add::combine(total, T{x[i], x[i + 1]});
      return total;
    }
    int64_t half = count / 2;
    half -= half % 8;
    return Add::combine(scalars(x, half), scalars(x + half, count - half));
  }
  static T sum(const T* x, int64_t count) { return scalars(reinterpret_cast<const Scalar*>(x), 2 * count); }
  static T add(T a, T b) { return Add::combine(a, b); }
  static T finish(T state, T partial) { return Add::combine(state, partial); }
};

template <class P, class T> void fold_pairwise(char* state, const char* row, int64_t count, int64_t) {
  write(state, P::finish(read<T>(state), P::sum(reinterpret_cast<const T*>(row), count)));
}
template <class P, class T> void sum_pairwise(char* partial, const char* row, int64_t count) {
  write(partial, P::sum(reinterpret_cast<const T*>(row), count));
}
template <class P, class T> void add_partials(char* partial, const char* right) {
  using A = typename P::Partial;
  write(partial, P::add(read<A>(partial), read<A>(right)));
}
template <class P, class T> void finish_partial(char* state, const char* partial) {
  write(state, P::finish(read<T>(state), read<typename P::Partial>(partial)));
}

// State of an arg reduction: the index found so far, then the element there; index -1 before the first element.
template <class T> struct Found { int64_t index; T best; };

template <bool smallest, class T> void consider(char* state, T element, int64_t position) {
  Found<T> found = read<Found<T>>(state);
  const bool better = found.index < 0 || (!is_nan(found.best) && (is_nan(element) || (smallest ? less(element, found.best) : less(found.best, element))));
  if (better) write(state, Found<T>{position, element});
}
template <class T> void start_arg(char* state) { write(state, Found<T>{-1, T{}}); }
template <bool smallest, class T> void fold_arg(char* state, const char* row, int64_t count, int64_t first) {
  for (int64_t i = 0; i < count; ++i) consider<smallest>(state, read<T>(row + i * sizeof(T)), first + i);
}
template <bool smallest, class T> void accumulate_arg(char* state, int64_t stride, const char* row, int64_t count, int64_t first) {
  for (int64_t i = 0; i < count; ++i) consider<smallest>(state + i * stride, read<T>(row + i * sizeof(T)), first);
}

template <class Op, class T> Reducer any_order() {
  return {start<Op, T>, fold_any_order<Op, T>, accumulate<Op, T>, sizeof(T), 0, nullptr, nullptr, nullptr, true, 1, false, fold_rows<start<Op, T>, fold_any_order<Op, T>>};
}

Reducer quiet(Reducer reducer) {
  reducer.quiet = true;
  return reducer;
}

template <bool smallest, class T> Reducer extreme_of() {
  Reducer made = quiet(any_order<Extreme<smallest>, T>());
  if constexpr (kVectors<T>) {
    made.fold = fold_extreme<smallest, T>;
    made.fold_rows = fold_rows<start<Extreme<smallest>, T>, fold_extreme<smallest, T>>;
    made.accumulate = accumulate_extreme<smallest, T>;
  }
  return made;
}

template <class T> Reducer sum_of() {
  if constexpr (std::is_integral_v<T>) {
    return any_order<Add, T>();
  } else {
    using P = std::conditional_t<kComplex<T>, PairwiseComplex<std::conditional_t<kComplex<T>, T, Complex64>>,
                                 PairwiseReal<std::conditional_t<kComplex<T>, float, T>>>;
    return {start<Add, T>, fold_pairwise<P, T>, accumulate<Add, T>, sizeof(T), sizeof(typename P::Partial), sum_pairwise<P, T>,
            add_partials<P, T>, finish_partial<P, T>, false, kComplex<T> ? 2 : 1, false, fold_rows<start<Add, T>, fold_pairwise<P, T>>};
  }
}

template <bool smallest, class T> Reducer arg() {
  return {start_arg<T>, fold_arg<smallest, T>, accumulate_arg<smallest, T>, sizeof(Found<T>), 0, nullptr, nullptr, nullptr, false, 1, true};
}

template <class T> Reducer reducer_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAdd: return sum_of<T>();
    case ReduceOp::kMultiply:
      if constexpr (std::is_integral_v<T>) return any_order<Multiply, T>();
      return {start<Multiply, T>, fold_in_order<Multiply, T>, accumulate<Multiply, T>, sizeof(T), 0, nullptr, nullptr, nullptr, false, 1, false, fold_rows<start<Multiply, T>, fold_in_order<Multiply, T>>};
    case ReduceOp::kMinimum: return extreme_of<true, T>();
    case ReduceOp::kMaximum: return extreme_of<false, T>();
    case ReduceOp::kAny:
      if constexpr (std::is_same_v<T, bool>) return any_order<Any, T>();
      break;
    case ReduceOp::kAll:
      if constexpr (std::is_same_v<T, bool>) return any_order<All, T>();
      break;
    case ReduceOp::kArgMin: return arg<true, T>();
    case ReduceOp::kArgMax: return arg<false, T>();
    case ReduceOp::kNone: break;
  }
  return {};
}

// Without functions where there is none.
Reducer find_reducer(ReduceOp op, DType dtype) {
  switch (dtype) {
    case DType::bool_: return reducer_of<bool>(op);
    case DType::int8: return reducer_of<int8_t>(op);
    case DType::int16: return reducer_of<int16_t>(op);
    case DType::int32: return reducer_of<int32_t>(op);
    case DType::int64: return reducer_of<int64_t>(op);
    case DType::uint8: return reducer_of<uint8_t>(op);
    case DType::uint16: return reducer_of<uint16_t>(op);
    case DType::uint32: return reducer_of<uint32_t>(op);
    case DType::uint64: return reducer_of<uint64_t>(op);
    case DType::float16: return reducer_of<Half>(op);
    case DType::float32: return reducer_of<float>(op);
    case DType::float64: return reducer_of<double>(op);
    case DType::complex64: return reducer_of<Complex64>(op);
    case DType::complex128: return reducer_of<Complex128>(op);
    case DType::kNone: break;
  }
  return {};
}

}  // namespace
}  // namespace evalframe::native
