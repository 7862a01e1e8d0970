// Looking ahead in the iterators of ranges, lists and tuples, which CPython only lets advance.
#pragma once

#include "core/ref.h"

namespace evalframe::cpython {

// What the iterator will give after `turns` more. Null: it isn't of these types, or will be exhausted; no exception is set
// but for memory.
Ref ahead(Borrowed iterator, Py_ssize_t turns);
// As if it had given so many items; `ahead` has said that they are there.
void advance(Borrowed iterator, Py_ssize_t turns);

// Whether a count of itertools counts in a C integer: nobody's sum is asked for the next number.
bool counts_with_ints(Borrowed count);

}  // namespace evalframe::cpython
