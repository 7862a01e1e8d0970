// The extension module evalframe._core.
#include <nanobind/nanobind.h>

#include "module/bindings.h"

NB_MODULE(_core, module) {
  (void)module;
#define EVALFRAME_AREA(name) evalframe::bind_##name(module);
#include "module/areas.def"
#undef EVALFRAME_AREA
}
