// Short texts of values as a frame holds them, and marks that tell without a text whether one can have changed.
#pragma once

#include <cstdint>
#include <string>

#include "core/ref.h"

namespace evalframe::inspect {

// One line of text: numbers, the beginnings of strings and containers, arrays by element type and shape, names of functions and
// classes, and of all else the type. Runs none of the program's code, and makes no object that the collector follows.
std::string value_text(Borrowed value);

// The value's own repr, cut to one line's length: runs the program's code. No exception is left behind.
std::string own_repr(Borrowed value);
// Whether that could say more than value_text does.
bool has_repr_of_its_own(Borrowed value);

// What a value's text depends on, in eight bytes. While the same object has the same mark, it has the same text.
struct Mark {
  uint64_t bits;
  bool tells;        // false: only the text itself tells (large integers, cells with such)
  bool by_contents;  // any two values of one type with this mark have the same text
};
Mark mark_of(Borrowed value);

}  // namespace evalframe::inspect
