// Names of attributes as CPython has them, made once: a look for one that is known takes less than making the text anew.
#pragma once

#include <Python.h>

#include <string_view>

namespace evalframe {

// Interned. Borrowed, it lives as long as the process: for names that are written down here. Null without memory for it.
PyObject* kept_name(std::string_view name);

}  // namespace evalframe
