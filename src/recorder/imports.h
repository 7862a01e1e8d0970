// Modules that recorded code imports.
#pragma once

#include "core/ref.h"

namespace evalframe::recorder {

bool is_loaded(PyObject* name);

}  // namespace evalframe::recorder
