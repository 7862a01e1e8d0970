// The transformed code object of a captured frame: loads the graph's inputs, calls the compiled graph, makes the state at
// the recording's end from its outputs, and returns, or runs the instruction that broke and calls a resume function.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "codegen/resume.h"
#include "recorder/recording.h"

namespace evalframe::codegen {

// A resume function, named and bound to its globals.
struct ResumeFunction {
  Borrowed function;  // whose frames it takes up
  ResumePlace place;
  std::string name;
  Resume resume;
  Ref callable;       // what transformed code calls; null where a function is made for each call, as its cells are its own
};

// All resume functions of one captured function, each place once.
class ResumeFunctions {
 public:
  // What transformed code calls in the place of a resume function (`repeats`: in a loop).
  using Bind = std::function<Ref(Ref function, bool repeats)>;
  explicit ResumeFunctions(Bind bind) : bind_(std::move(bind)) {}
  // Throws Limit; null with an exception.
  const ResumeFunction* at(Borrowed function, ResumePlace place);

 private:
  Bind bind_;
  std::deque<ResumeFunction> all_;
};

// What the code calls.
struct Callables {
  Ref compiled;  // (inputs...) -> tuple of the values at the recording's end; raises where the graph is left before it
  Ref leave;     // (what compiled raised, objects of `left_with`...) -> the result of the frame
};

struct Transformed {
  Ref code;
  std::vector<const ResumeFunction*> resumes;
  std::vector<int32_t> left_with;  // the sources whose objects `leave` is given
};

// Throws Limit; `code` is null with an exception set.
Transformed transform(const recorder::Recording& recording, const Callables& callables, ResumeFunctions& resumes);

}  // namespace evalframe::codegen
