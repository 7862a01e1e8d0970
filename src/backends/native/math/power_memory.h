// pow() of whole exponents, which loops compute again and again of the same numbers.
#pragma once

namespace evalframe::native {

// What pow() gives. The GIL is held. Some hundred last results are kept: a tree of prices has few nodes of unlike value.
double pow_of_whole(double x, double exponent);

}  // namespace evalframe::native
