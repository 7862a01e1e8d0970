// Loads NumPy's C API, once for the whole core.
#define EVALFRAME_IMPORT_NUMPY
#include "frontends/numpy/numpy_api.h"

namespace evalframe::numpy {

bool load_api() {
  static bool loaded = false;
  if (loaded) return true;
  if (_import_array() < 0 || _import_umath() < 0) return false;
  loaded = true;
  return true;
}

}  // namespace evalframe::numpy
