// Chooses the folds of rows for this processor.
#include "backends/native/reduce/reductions.h"

#include <stdexcept>
#include <string>

#include "backends/native/machine/processor.h"
#include "backends/native/reduce/product_sum_rows.h"
#include "backends/native/reduce/reduction_rows.h"

namespace evalframe::native {

Reducer reducer(ReduceOp op, DType dtype) {
  const int bytes = vector_bytes();
  const Reducer found = bytes == 64 ? avx512_reducer(op, dtype) : bytes == 32 ? avx2_reducer(op, dtype) : find_reducer(op, dtype);
  if (!found.start) throw std::runtime_error(std::string("no native reduction ") + name(op) + " of " + graph::name(dtype));
  return found;
}

ProductSums product_sums(DType dtype) {
  const int bytes = vector_bytes();
  return bytes == 64 ? avx512_product_sums(dtype) : bytes == 32 ? avx2_product_sums(dtype) : find_product_sums(dtype);
}

}  // namespace evalframe::native
