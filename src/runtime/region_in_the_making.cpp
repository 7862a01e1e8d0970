#include "runtime/region_in_the_making.h"

#include <stdexcept>
#include <utility>

#include "cpython/codec.h"
#include "runtime/measure.h"

namespace evalframe::runtime {

void RegionInTheMaking::make() {
  const Stopwatch watch;
  try {
    made = Held<LoopRegion>(new LoopRegion(*std::exchange(region, std::nullopt), *cpython::decoded(code_object.get())));
    made->recordings = recordings;
    made->instruction = state.instruction;
    made->compile_seconds = watch.seconds();
  } catch (const std::runtime_error& failure) {
    PyErr_Clear();
    error = failure.what();
  }
  is_done = true;
}

}  // namespace evalframe::runtime
