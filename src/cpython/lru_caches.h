// Looking into the caches of functools.lru_cache, which CPython only lets call.
#pragma once

#include "core/ref.h"

namespace evalframe::cpython {

bool is_lru_cache(Borrowed object);
// What it calls where a key is missing.
PyObject* function_of_cache(Borrowed cache);
// The key of a call with a tuple and a dict (or null) of arguments, which hash and compare without code of a program's.
Ref key_of_call(Borrowed cache, Borrowed arguments, PyObject* keywords);
// What it has under the key; null: nothing.
PyObject* cached_under(Borrowed cache, Borrowed key);
PyObject* dict_of_cache(Borrowed cache);
// Whether one more result lets another go.
bool is_full(Borrowed cache);
void count_miss(Borrowed cache);
// The result of such a call, whose miss has been counted. False with an exception.
bool keep_result(Borrowed cache, Borrowed arguments, PyObject* keywords, Borrowed result);

}  // namespace evalframe::cpython
