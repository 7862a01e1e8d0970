// Tells the log what became of a recording.
#pragma once

#include "runtime/capture.h"

namespace evalframe::runtime {

// `earlier`: recordings that start at the same place and didn't serve.
void log_compilation(const Compilation& compilation, const std::vector<Held<Compilation>>& earlier);
// A break that was met for the first time.
void log_break(const BreakNote& note);

// There is no room for one more recording at a place.
void log_limit(const LimitNote& note);

// A loop that was made into native code, from where it stood; or what is in the way.
void log_region(const regions::State& state, const LoopRegion& region);
void log_no_region(const bytecode::Code& code, const regions::State& state, const std::vector<regions::Obstacle>& obstacles);

// Why a recording didn't serve last.
std::string failure_of(const Compilation& compilation);

}  // namespace evalframe::runtime
