#include "codegen/resume_functions.h"

namespace evalframe::codegen {

namespace {

// FunctionType(code, globals, name, None, closure)
Ref make_function(const ResumeFunction& resume) {
  const auto* function = reinterpret_cast<PyFunctionObject*>(resume.function.get());
  PyObject* closure = function->func_closure ? function->func_closure : Py_None;
  return Ref::steal(PyObject_CallFunction(function_type().get(), "OOsOO", resume.resume.code.get(), function->func_globals,
                                          resume.name.c_str(), Py_None, closure));
}

}  // namespace

const ResumeFunction* ResumeFunctions::at(Borrowed function, ResumePlace place) {
  for (const ResumeFunction& known : all_) {
    if (known.function == function && known.place == place) return &known;
  }
  const std::string name = "__resume_at_" + std::to_string(2 * place.code->instructions[place.next].offset) + "_" + std::to_string(all_.size());
  ResumeFunction made{function, std::move(place), name, {}, {}};
  made.resume = make_resume(made.place, name);
  made.resume.code = finished(std::move(made.resume.code));
  if (!made.resume.code) return nullptr;
  // A function that recorded code makes anew is kept without its cells.
  const auto* object = made.place.code->code.as<PyCodeObject>();
  const bool has_cells = object->co_nfreevars == 0 || reinterpret_cast<PyFunctionObject*>(function.get())->func_closure;
  if (!has_own_cells(*made.place.code) && has_cells) {
    Ref plain = make_function(made);
    if (!plain) return nullptr;
    made.callable = bind_(std::move(plain), is_in_loop(*made.place.code, made.place.next));
    if (!made.callable) return nullptr;
  }
  all_.push_back(std::move(made));
  return &all_.back();
}

}  // namespace evalframe::codegen
