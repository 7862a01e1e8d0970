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
  // What becomes of each code object that is made, before it's used; null with an exception.
  using Finish = std::function<Ref(Ref code)>;
  ResumeFunctions(Bind bind, Finish finish) : bind_(std::move(bind)), finish_(std::move(finish)) {}
  // Throws Limit; null with an exception.
  const ResumeFunction* at(Borrowed function, ResumePlace place);
  Ref finished(Ref code) const { return code ? finish_(std::move(code)) : Ref(); }

 private:
  Bind bind_;
  Finish finish_;
  std::deque<ResumeFunction> all_;
};

}  // namespace evalframe::codegen
