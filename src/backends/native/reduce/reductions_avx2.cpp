// Folds of rows for AVX2; compiled for it, called only where the processor has it.
#include "backends/native/reduce/reduction_rows.h"

namespace evalframe::native {

Reducer avx2_reducer(ReduceOp op, DType dtype) { return find_reducer(op, dtype); }

}  // namespace evalframe::native
