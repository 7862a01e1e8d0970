// What the processor can do, as far as generated code depends on it.
#pragma once

#include <string>

namespace evalframe::native {

// Two processors of one description run the same code.
std::string processor_description();
// Width of the vectors for which there are elementary functions; 0: only scalar ones.
int vector_bytes();

}  // namespace evalframe::native
