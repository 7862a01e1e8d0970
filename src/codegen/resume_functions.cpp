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

ResumeFunction* ResumeFunctions::made_at(Borrowed function, ResumePlace place) {
  for (ResumeFunction& known : all_) {
    if (known.function == function && known.place == place) return &known;
  }
  const std::string name = "__resume_at_" + std::to_string(2 * place.code->instructions[place.next].offset) + "_" + std::to_string(all_.size());
  ResumeFunction made{function, std::move(place), name, {}, {}};
  made.resume = make_resume(made.place, name);
  return made.resume.code ? &all_.emplace_back(std::move(made)) : nullptr;
}

const ResumeFunction* ResumeFunctions::called_at(Borrowed function, ResumePlace place) {
  ResumeFunction* const made = made_at(function, std::move(place));
  if (!made || (!made->is_called && !bind(*made))) return nullptr;
  made->is_called = true;
  return made;
}

bool ResumeFunctions::bind(ResumeFunction& made) const {
  made.resume.code = finished(std::move(made.resume.code));
  if (!made.resume.code) return false;
  // A function that recorded code makes anew is kept without its cells.
  const auto* object = made.place.code->code.as<PyCodeObject>();
  const bool has_cells = object->co_nfreevars == 0 || reinterpret_cast<PyFunctionObject*>(made.function.get())->func_closure;
  if (has_own_cells(*made.place.code) || !has_cells) return true;
  Ref plain = make_function(made);
  if (!plain) return false;
  made.callable = bind_(std::move(plain), is_in_loop(*made.place.code, made.place.next));
  return static_cast<bool>(made.callable);
}

}  // namespace evalframe::codegen
