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
  bool is_called = false;
};

// All resume functions of one captured function, each place once.
class ResumeFunctions {
 public:
  // What transformed code calls in the place of a resume function (`repeats`: in a loop).
  using Bind = std::function<Ref(Ref function, bool repeats)>;
  // What becomes of each code object that is made, before it's used; null with an exception.
  using Finish = std::function<Ref(Ref code)>;
  ResumeFunctions(Bind bind, Finish finish) : bind_(std::move(bind)), finish_(std::move(finish)) {}
  // These throw Limit; null with an exception. `at`: for code that goes on there itself.
  const ResumeFunction* at(Borrowed function, ResumePlace place) { return made_at(function, std::move(place)); }
  // For code that calls it: finished, and bound.
  const ResumeFunction* called_at(Borrowed function, ResumePlace place);
  Ref finished(Ref code) const { return code ? finish_(std::move(code)) : Ref(); }

 private:
  ResumeFunction* made_at(Borrowed function, ResumePlace place);
  bool bind(ResumeFunction& made) const;

  Bind bind_;
  Finish finish_;
  std::deque<ResumeFunction> all_;
};

}  // namespace evalframe::codegen
