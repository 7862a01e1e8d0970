// The elementary functions that generated code calls, compiled with the core: by name, for each width of vectors.
#pragma once

namespace evalframe::native {

struct LibraryFunction {
  const char* name;  // evalframe_<operation>_<f64 or f32>, with x<lanes> behind it for vectors
  void* address;
};
struct Library {
  const LibraryFunction* functions;
  int count;
};

// For processors that have these instructions. A scalar function gives what each lane of its vector forms gives.
Library avx512_library();
Library avx2_library();
// The C library's functions, without vector forms.
Library scalar_library();

}  // namespace evalframe::native
