// The extension module evalframe._core.
#include <nanobind/nanobind.h>

#include "core/builtins.h"
#include "module/bindings.h"

NB_MODULE(_core, module) {
  // What a program keeps until the interpreter ends is its own affair; its output is not ours to add to.
  nanobind::set_leak_warnings(false);
  evalframe::remember_builtins();
#define EVALFRAME_AREA(name) evalframe::bind_##name(module);
#include "module/areas.def"
#undef EVALFRAME_AREA
}
