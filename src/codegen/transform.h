// The transformed code object of a captured frame: loads the graph's inputs, calls the compiled graph, makes the state at
// the recording's end from its outputs, and returns, or runs the instruction that broke and calls a resume function.
#pragma once

#include <vector>

#include "codegen/resume_functions.h"
#include "recorder/recording.h"

namespace evalframe::codegen {

// What the code calls.
struct Callables {
  Ref compiled;  // (inputs...) -> tuple of the values at the recording's end; raises where the graph is left before it
  Ref leave;     // (what compiled raised, objects of `left_with`...) -> the result of the frame
  Ref rebuild;   // (what compiled gave, objects of `rebuilt_from`...) -> tuple of the objects of `rebuilt`
};

struct Transformed {
  Ref code;
  std::vector<const ResumeFunction*> resumes;
  std::vector<int32_t> left_with;     // the sources whose objects `leave` is given
  std::vector<int32_t> rebuilt_from;  // those for `rebuild`
  std::vector<uint32_t> rebuilt;      // the values that it makes
};

// Throws Limit; `code` is null with an exception set.
Transformed transform(const recorder::Recording& recording, const Callables& callables, ResumeFunctions& resumes);

}  // namespace evalframe::codegen
