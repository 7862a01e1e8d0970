// One object after the other, with its label; what is left over goes to *args and **keywords.
#include "runtime/bind_followed.h"

#include <algorithm>

namespace evalframe::runtime {
namespace {

bool same_name(PyObject* a, PyObject* b) {
  return a == b || (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && PyUnicode_Compare(a, b) == 0);
}

class Binding {
 public:
  Binding(recorder::Recorder& recorder, const recorder::Plan& plan)
      : recorder_(recorder), plan_(plan), function_(plan.function.as<PyFunctionObject>()),
        code_(reinterpret_cast<PyCodeObject*>(function_->func_code)), parameters_(code_->co_argcount + code_->co_kwonlyargcount) {}
  bool bind(Bound& bound) {
    const size_t keywords = plan_.keyword_names ? static_cast<size_t>(PyTuple_GET_SIZE(plan_.keyword_names.get())) : 0;
    positional_ = plan_.arguments.size() - keywords;
    bound.objects.resize(parameters_);
    bound.labels.assign(parameters_, recorder::Recorder::kDefault);
    const size_t plain = std::min(positional_, static_cast<size_t>(code_->co_argcount));
    for (size_t i = 0; i < plain; i++) give(bound, i, i);
    if (positional_ > plain && !(code_->co_flags & CO_VARARGS)) return false;
    if (keywords && !bind_keywords(bound, keywords)) return false;
    for (int i = 0; i < parameters_; i++) {
      if (bound.objects[i]) continue;
      if (!has_default(i)) return false;
      bound.objects[i] = default_of(i);
    }
    if ((code_->co_flags & CO_VARARGS) && !add_rest(bound, plain)) return false;
    return !(code_->co_flags & CO_VARKEYWORDS) || add_keywords(bound);
  }

 private:
  void give(Bound& bound, size_t parameter, size_t argument) {
    bound.objects[parameter] = Ref::borrow(plan_.arguments[argument]);
    bound.labels[parameter] = plan_.contents[argument];
  }
  bool bind_keywords(Bound& bound, size_t keywords) {
    for (size_t k = 0; k < keywords; k++) {
      PyObject* const name = PyTuple_GET_ITEM(plan_.keyword_names.get(), k);
      int at = code_->co_posonlyargcount;
      while (at < parameters_ && !same_name(PyTuple_GET_ITEM(code_->co_localsplusnames, at), name)) at++;
      if (at < parameters_) {
        if (bound.objects[at]) return false;
        give(bound, at, positional_ + k);
      } else if (!PyUnicode_CheckExact(name) || !(code_->co_flags & CO_VARKEYWORDS)) {
        return false;
      } else {
        others_.push_back(k);
      }
    }
    return true;
  }
  bool has_default(int i) const {
    const int defaults = function_->func_defaults ? static_cast<int>(PyTuple_GET_SIZE(function_->func_defaults)) : 0;
    if (i < code_->co_argcount) return i >= code_->co_argcount - defaults;
    return function_->func_kwdefaults && PyDict_GetItemWithError(function_->func_kwdefaults, PyTuple_GET_ITEM(code_->co_localsplusnames, i));
  }
  Ref default_of(int i) const {
    if (i >= code_->co_argcount) {
      return Ref::borrow(PyDict_GetItemWithError(function_->func_kwdefaults, PyTuple_GET_ITEM(code_->co_localsplusnames, i)));
    }
    const auto defaults = static_cast<int>(PyTuple_GET_SIZE(function_->func_defaults));
    return Ref::borrow(PyTuple_GET_ITEM(function_->func_defaults, i - (code_->co_argcount - defaults)));
  }
  bool add_rest(Bound& bound, size_t from) {
    Ref rest = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(positional_ - from)));
    if (!rest) return PyErr_Clear(), false;
    for (size_t i = from; i < positional_; i++) PyTuple_SET_ITEM(rest.get(), i - from, Ref::borrow(plan_.arguments[i]).release());
    // CPython has one empty tuple.
    const bool empty = positional_ == from;
    std::vector<uint32_t> labels(plan_.contents.begin() + from, plan_.contents.begin() + positional_);
    bound.labels.push_back(empty ? recorder_.constant(rest.get()) : recorder_.container(recorder::Value::Kind::kTuple, std::move(labels)));
    bound.objects.push_back(std::move(rest));
    return true;
  }
  bool add_keywords(Bound& bound) {
    Ref dict = Ref::steal(PyDict_New());
    std::vector<uint32_t> entries;
    for (const size_t k : others_) {
      PyObject* const name = PyTuple_GET_ITEM(plan_.keyword_names.get(), k);
      if (!dict || PyDict_SetItem(dict.get(), name, plan_.arguments[positional_ + k]) < 0) return PyErr_Clear(), false;
      entries.insert(entries.end(), {recorder_.constant(name), plan_.contents[positional_ + k]});
    }
    if (!dict) return PyErr_Clear(), false;
    bound.labels.push_back(recorder_.container(recorder::Value::Kind::kDict, std::move(entries)));
    bound.objects.push_back(std::move(dict));
    return true;
  }

  recorder::Recorder& recorder_;
  const recorder::Plan& plan_;
  const PyFunctionObject* function_;
  const PyCodeObject* code_;
  const int parameters_;
  size_t positional_ = 0;
  std::vector<size_t> others_;  // keywords that no parameter takes
};

}  // namespace

bool bind_followed(recorder::Recorder& recorder, const recorder::Plan& plan, Bound& bound) {
  return Binding(recorder, plan).bind(bound);
}

}  // namespace evalframe::runtime
