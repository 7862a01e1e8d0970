// One bind function for each area of the core; module.cpp calls them in order.
#pragma once

#include <nanobind/nanobind.h>

namespace evalframe {

#define EVALFRAME_AREA(name) void bind_##name(nanobind::module_& module);
#include "module/areas.def"
#undef EVALFRAME_AREA

}  // namespace evalframe
