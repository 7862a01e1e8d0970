// Folds of rows for AVX-512; compiled for it, called only where the processor has it.
#include "backends/native/reduce/product_sum_rows.h"
#include "backends/native/reduce/reduction_rows.h"

namespace evalframe::native {

Reducer avx512_reducer(ReduceOp op, DType dtype) { return find_reducer(op, dtype); }
ProductSums avx512_product_sums(DType dtype) { return find_product_sums(dtype); }

}  // namespace evalframe::native
