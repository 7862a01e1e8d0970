// The vector library for AVX2 and FMA; compiled for them, called only where the processor has them.
#include "backends/native/math/vector_exports.h"

namespace evalframe::native {

Library avx2_library() { return kLibrary; }

}  // namespace evalframe::native
