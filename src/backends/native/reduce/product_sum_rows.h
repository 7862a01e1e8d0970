// Sums of products of rows, in NumPy's order; compiled once for each kind of vectors. Products and sums are rounded apart, as NumPy does.
#pragma once

#include "backends/native/reduce/product_sums.h"
#include "backends/native/reduce/reduction_rows.h"

namespace evalframe::native {
namespace {

template <class T, int lanes> struct Lanes { typedef T Type __attribute__((vector_size(lanes * sizeof(T)))); };
template <class T> struct Lanes<T, 1> { using Type = T; };

// So many rows and vectors of columns at a time, whose sums are in registers: additions don't wait for one another. More than one row are
// those for which b is the same. step: columns from one vector to the next.
template <class T, int lanes, int rows, int vectors, bool is_broadcast>
void sum_tile(const ProductSum& sums, int64_t row, int64_t column, int64_t step) {
  using V = typename Lanes<T, lanes>::Type;
  constexpr int64_t kSize = sizeof(T);
  const int64_t vector = step * kSize;
  V totals[rows][vectors] = {};
  const char* const a = sums.a + row * sums.a_row + (is_broadcast ? 0 : column * kSize);
  const char* const b = sums.b + row * sums.b_row + column * kSize;
  for (int64_t i = 0; i < sums.count; ++i) {
    const char *const a_at = a + sums.a_places[i], *const b_at = b + sums.b_places[i];
    V factors[vectors];
    for (int v = 0; v < vectors; ++v) factors[v] = load<V>(b_at + v * vector);
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) {
        if constexpr (is_broadcast) totals[r][v] += read<T>(a_at + r * sums.a_row) * factors[v];
        else totals[r][v] += load<V>(a_at + r * sums.a_row + v * vector) * factors[v];
      }
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) store(sums.to + (row + r) * sums.to_row + column * kSize + v * vector, totals[r][v]);
  }
}

// The last vector of a row has some columns once more.
template <class T, int lanes, int rows, bool is_broadcast>
void sum_columns(const ProductSum& sums, int64_t row) {
  int64_t column = 0;
  for (; column + 2 * lanes <= sums.columns; column += 2 * lanes) sum_tile<T, lanes, rows, 2, is_broadcast>(sums, row, column, lanes);
  const int64_t left = sums.columns - column;
  if (left > lanes) sum_tile<T, lanes, rows, 2, is_broadcast>(sums, row, column, left - lanes);
  else if (left > 0) sum_tile<T, lanes, rows, 1, is_broadcast>(sums, row, sums.columns - lanes, 0);
}

template <class T, int lanes, bool is_broadcast>
void sum_rows(const ProductSum& sums) {
  int64_t row = 0;
  for (; sums.b_row == 0 && row + 4 <= sums.rows; row += 4) sum_columns<T, lanes, 4, is_broadcast>(sums, row);
  for (; sums.b_row == 0 && row + 2 <= sums.rows; row += 2) sum_columns<T, lanes, 2, is_broadcast>(sums, row);
  for (; row < sums.rows; ++row) sum_columns<T, lanes, 1, is_broadcast>(sums, row);
}

// With the widest vectors of which a row has one.
template <class T, bool is_broadcast, int lanes = VectorOf<T>::kLanes>
void sum_with(const ProductSum& sums) {
  if constexpr (lanes > 1) {
    if (sums.columns < lanes) return sum_with<T, is_broadcast, lanes / 2>(sums);
  }
  sum_rows<T, lanes, is_broadcast>(sums);
}

template <class T> void sum_products(const ProductSum& sums) { sums.is_broadcast ? sum_with<T, true>(sums) : sum_with<T, false>(sums); }

[[maybe_unused]] ProductSums find_product_sums(DType dtype) {
  if (dtype == DType::float32) return sum_products<float>;
  return dtype == DType::float64 ? sum_products<double> : nullptr;
}

}  // namespace
}  // namespace evalframe::native
