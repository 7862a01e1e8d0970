// Binds the arguments of a call that a recording follows: the objects, and what is known of each.
#pragma once

#include "recorder/recorder.h"

namespace evalframe::runtime {

// What the variables of the callee get, in the order of its parameters.
struct Bound {
  std::vector<Ref> objects;
  std::vector<uint32_t> labels;
};

// As CPython binds them. False: the arguments don't fit, which CPython must say.
bool bind_followed(recorder::Recorder& recorder, const recorder::Plan& plan, Bound& bound);

}  // namespace evalframe::runtime
