// The resume functions of one captured function, each bound to what its callers call.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "codegen/resume.h"

namespace evalframe::codegen {

inline Ref function_type() { return Ref::borrow(reinterpret_cast<PyObject*>(&PyFunction_Type)); }

inline bool has_own_cells(const bytecode::Code& code) { return code.code.as<PyCodeObject>()->co_ncellvars > 0; }

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

}  // namespace evalframe::codegen
