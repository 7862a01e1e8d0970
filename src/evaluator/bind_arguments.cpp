// Positional arguments, keywords, defaults, keyword-only ones, *args and **kwargs, in CPython's order.
#include "evaluator/bind_arguments.h"

#include <vector>

#include "cpython/python_call.h"

namespace evalframe::evaluator {
namespace {

class Binder {
 public:
  Binder(Borrowed function, PyObject* const* arguments, size_t count, PyObject* keyword_names, Ref* slots)
      : function_(reinterpret_cast<PyFunctionObject*>(function.get())),
        code_(reinterpret_cast<PyCodeObject*>(function_->func_code)),
        arguments_(arguments),
        given_(static_cast<int>(PyVectorcall_NARGS(count))),
        keyword_names_(keyword_names),
        slots_(slots) {}

  // The usual call: as many positional arguments as there are parameters.
  bool binds_in_order() const {
    constexpr int kCollects = CO_VARARGS | CO_VARKEYWORDS;
    return given_ == code_->co_argcount && !keyword_names_ && !code_->co_kwonlyargcount && !(code_->co_flags & kCollects) &&
           runs_its_code();
  }

  bool bind() {
    return runs_its_code() && positional() && rest() && keywords() && (takes_rest() || extra() == 0) && defaults() && keyword_defaults();
  }

 private:
  // False where a call isn't simply a new frame with locals of its own: code of a module made a function, which uses the
  // globals for them; another vectorcall put in (3.12+).
  bool runs_its_code() const {
    return (code_->co_flags & CO_OPTIMIZED) && cpython::has_usual_vectorcall(function_);
  }
  int parameters() const { return code_->co_argcount + code_->co_kwonlyargcount; }
  bool takes_rest() const { return code_->co_flags & CO_VARARGS; }
  bool takes_keywords() const { return code_->co_flags & CO_VARKEYWORDS; }

  bool positional() {
    for (int index = 0; index < given_ && index < code_->co_argcount; ++index) slots_[index] = Ref::borrow(arguments_[index]);
    return true;
  }

  int extra() const { return given_ > code_->co_argcount ? given_ - code_->co_argcount : 0; }
  bool rest() {
    if (!takes_rest()) return true;
    Ref tuple = Ref::steal(PyTuple_New(extra()));
    if (!tuple) return false;
    for (int index = 0; index < extra(); ++index) {
      PyTuple_SET_ITEM(tuple.get(), index, Py_NewRef(arguments_[code_->co_argcount + index]));
    }
    slots_[parameters()] = std::move(tuple);
    return true;
  }

  // The parameter of this name that may be given by keyword, or -1.
  int parameter(PyObject* name) const {
    for (int index = code_->co_posonlyargcount; index < parameters(); ++index) {
      if (PyTuple_GET_ITEM(code_->co_localsplusnames, index) == name) return index;
    }
    for (int index = code_->co_posonlyargcount; index < parameters(); ++index) {
      if (PyUnicode_Compare(PyTuple_GET_ITEM(code_->co_localsplusnames, index), name) == 0) return index;
    }
    return -1;
  }

  bool keywords() {
    PyObject* const others = takes_keywords() ? PyDict_New() : nullptr;
    if (takes_keywords()) slots_[parameters() + takes_rest()] = Ref::steal(others);
    if (takes_keywords() && !others) return false;
    const Py_ssize_t count = keyword_names_ ? PyTuple_GET_SIZE(keyword_names_) : 0;
    for (Py_ssize_t index = 0; index < count; ++index) {
      PyObject* const name = PyTuple_GET_ITEM(keyword_names_, index);
      PyObject* const value = arguments_[given_ + index];
      if (!PyUnicode_CheckExact(name)) return false;
      const int slot = parameter(name);
      if (slot >= 0 && slots_[slot]) return false;
      if (slot < 0 && (!others || PyDict_Contains(others, name) != 0)) return false;
      if (slot >= 0) {
        slots_[slot] = Ref::borrow(value);
      } else if (PyDict_SetItem(others, name, value) < 0) {
        return false;
      }
    }
    return true;
  }

  bool defaults() {
    PyObject* const values = function_->func_defaults;
    const int count = values ? static_cast<int>(PyTuple_GET_SIZE(values)) : 0;
    const int first = code_->co_argcount - count;
    for (int index = 0; index < code_->co_argcount; ++index) {
      if (slots_[index]) continue;
      if (index < first) return false;
      slots_[index] = Ref::borrow(PyTuple_GET_ITEM(values, index - first));
    }
    return true;
  }

  bool keyword_defaults() {
    for (int index = code_->co_argcount; index < parameters(); ++index) {
      if (slots_[index]) continue;
      PyObject* const values = function_->func_kwdefaults;
      PyObject* const value =
          values ? PyDict_GetItemWithError(values, PyTuple_GET_ITEM(code_->co_localsplusnames, index)) : nullptr;
      if (!value) return false;
      slots_[index] = Ref::borrow(value);
    }
    return true;
  }

  PyFunctionObject* function_;
  PyCodeObject* code_;
  PyObject* const* arguments_;
  int given_;
  PyObject* keyword_names_;
  Ref* slots_;
};

}  // namespace

bool bind_arguments(Borrowed function, PyObject* const* args, size_t nargsf, Borrowed kwnames, Ref* localsplus_out) {
  return Binder(function, args, nargsf, kwnames.get(), localsplus_out).bind();
}

bool bind_into(cpython::Frame* frame, Borrowed function, PyObject* const* args, size_t nargsf, Borrowed kwnames) {
  const auto* const code = reinterpret_cast<PyCodeObject*>(cpython::code_of(frame).get());
  if (Binder(function, args, nargsf, kwnames.get(), nullptr).binds_in_order()) {
    PyObject** const slots = cpython::slots(frame).base();
    for (int index = 0; index < code->co_argcount; ++index) slots[index] = Py_NewRef(args[index]);
    return true;
  }
  constexpr int kFew = 32;
  Ref few[kFew];
  std::vector<Ref> many(code->co_nlocalsplus > kFew ? static_cast<size_t>(code->co_nlocalsplus) : 0);
  Ref* const bound = many.empty() ? few : many.data();
  const bool fits = bind_arguments(function, args, nargsf, kwnames, bound);
  cpython::Slots slots = cpython::slots(frame);
  for (int index = 0; index < code->co_nlocalsplus; ++index) slots.put(index, std::move(bound[index]));
  return fits;
}

}  // namespace evalframe::evaluator
