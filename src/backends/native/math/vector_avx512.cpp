// The vector library for AVX-512; compiled for it, called only where the processor has it.
#include "backends/native/math/vector_exports.h"

namespace evalframe::native {

Library avx512_library() { return kLibrary; }

}  // namespace evalframe::native
