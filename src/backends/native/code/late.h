// Functions that are calls, with forms for vectors, up to and in LLVM's vectoriser, which puts no loop into vectors that has other branches than those it can do both sides
// of. Their code is a module of its own, behind the other in its text, and takes the place of the calls when the loops are vectors.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "backends/native/code/emitter.h"

namespace evalframe::native {

// a / b of doubles, with its bits and flags, where b is the same in all turns of a loop: in vectors three to five times as many multiplications take half of the time of a
// division. b may be a number that is known.
Term quotient_by_fixed(const Term& a, const Term& b);

// The module with the code of the functions above that it calls.
std::string with_late_functions(std::string ir);
// The module without that code, and the module of that code, empty where there is none.
std::pair<std::string_view, std::string_view> parts_of(std::string_view ir);

}  // namespace evalframe::native
