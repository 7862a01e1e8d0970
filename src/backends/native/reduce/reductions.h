// Folds rows of computed elements into a reduction's result, in NumPy's order.
#pragma once

#include <cstdint>

#include "backends/native/code/kernel.h"

namespace evalframe::native {

struct Reducer {
  // Sets the state before the first element. An arg reduction's state is {index, best element}.
  void (*start)(char* state);
  // state = state op fold(row); `first`: position of row[0] among the reduced elements.
  void (*fold)(char* state, const char* row, int64_t count, int64_t first);
  // state[i] = state[i] op row[i], all at position `first`.
  void (*accumulate)(char* state, int64_t stride, const char* row, int64_t count, int64_t first);
  int state_size;
  int partial_size;  // of a pairwise partial sum; 0: not a pairwise sum
  void (*sum)(char* partial, const char* row, int64_t count);
  void (*add)(char* partial, const char* right);        // partial += right
  void (*finish)(char* state, const char* partial);     // state += partial
  bool any_order;                                       // pieces may be folded apart and combined by accumulate
  int per_element;                                      // scalars that NumPy's pairwise sum counts for an element
  bool quiet;                                           // flags raised by folding are none of NumPy's
  // Starts and folds one row into each of several states, with steps of bytes between them. Null for arg reductions.
  void (*fold_rows)(char* state, int64_t state_step, const char* row, int64_t row_step, int64_t rows, int64_t count) = nullptr;
};

// Throws std::runtime_error where there is none. dtype: of the elements folded. Needs the GIL.
Reducer reducer(ReduceOp op, DType dtype);
// Those for processors with these instructions; without functions where there is none.
Reducer avx512_reducer(ReduceOp op, DType dtype);
Reducer avx2_reducer(ReduceOp op, DType dtype);

// Where NumPy's pairwise sum splits `count` elements; 0 where it doesn't split.
inline int64_t pairwise_split(int64_t count, int per_element) {
  const int64_t scalars = count * per_element;
  if (scalars <= 128) return 0;
  int64_t half = scalars / 2;
  half -= half % 8;
  return half / per_element;
}

}  // namespace evalframe::native
