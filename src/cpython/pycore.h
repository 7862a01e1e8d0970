// The one place that includes CPython's internal headers for frames; only for .cpp files of cpython/.
#pragma once

#ifndef Py_BUILD_CORE
#error "define Py_BUILD_CORE before the first include"
#endif
#include <Python.h>
#undef HAVE_STD_ATOMIC  // pycore_atomic.h would use C11's <stdatomic.h>, which C++20 doesn't have
#ifndef _Bool
#define _Bool bool
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wpedantic"
extern "C" {
#include "internal/pycore_frame.h"
#include "internal/pycore_code.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_interp.h"
#if PY_VERSION_HEX < 0x030D0000
#include "internal/pycore_ceval.h"
#endif
}
#pragma GCC diagnostic pop
