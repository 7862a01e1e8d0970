// Sums of products of two arrays' elements, each in order: a sum over axes of a * b without the array of products.
#pragma once

#include <cstdint>

#include "backends/native/code/kernel.h"

namespace evalframe::native {

// to[r][c] = 0 + a[r][c or 0] * b[r][c] + ..., one product behind the other: those at so many places of the operands.
struct ProductSum {
  char* to;
  const char *a, *b;
  int64_t to_row, a_row, b_row;  // bytes
  int64_t rows, columns;         // columns stand one beside the other in `to` and `b`
  bool is_broadcast;             // a has one element for all columns, else as many as b
  const int64_t *a_places, *b_places;  // bytes
  int64_t count;
};
using ProductSums = void (*)(const ProductSum&);

// Null for other types than float32 and float64.
ProductSums product_sums(DType dtype);
// Those for processors with these instructions.
ProductSums avx512_product_sums(DType dtype);
ProductSums avx2_product_sums(DType dtype);

}  // namespace evalframe::native
