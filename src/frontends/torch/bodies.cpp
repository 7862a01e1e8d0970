#include "frontends/torch/bodies.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "core/c_function.h"
#include "frontends/torch/checkpoints.h"
#include "frontends/torch/names.h"

namespace evalframe::torch {

namespace {

constexpr int kMostNesting = 8;  // of functions in partials and closures

using Codes = std::vector<PyObject*>;

void add_codes(Codes& codes, PyObject* callable, int depth = 0) {
  if (depth > kMostNesting) return;
  if (PyMethod_Check(callable)) return add_codes(codes, PyMethod_GET_FUNCTION(callable), depth + 1);
  if (PyFunction_Check(callable)) {
    codes.push_back(PyFunction_GET_CODE(callable));
    PyObject* const closure = PyFunction_GET_CLOSURE(callable);
    for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); i++) {
      PyObject* const content = PyCell_GET(PyTuple_GET_ITEM(closure, i));
      if (content && PyCallable_Check(content)) add_codes(codes, content, depth + 1);
    }
    return;
  }
  const Ref inner = attribute(callable, "func"), keywords = attribute(callable, "keywords");
  if (!inner) return codes.push_back(reinterpret_cast<PyObject*>(Py_TYPE(callable)));
  add_codes(codes, inner.get(), depth + 1);
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; keywords && PyDict_Check(keywords.get()) && PyDict_Next(keywords.get(), &at, &name, &value);) {
    if (PyCallable_Check(value)) add_codes(codes, value, depth + 1);
  }
}

bool& sizes_vary() {
  thread_local bool vary = false;
  return vary;
}

// Borrowed: `follow_body_no_more` keeps them. What can't be followed where sizes vary may be where they don't.
Codes codes_of(PyObject* function) {
  Codes codes;
  if (sizes_vary()) codes.push_back(nullptr);
  add_codes(codes, function);
  std::sort(codes.begin(), codes.end());
  return codes;
}

struct Refused {
  std::vector<Ref> kept;
  std::string why;
};
// Lives as long as the process.
std::map<Codes, Refused>& refused() {
  static auto* const made = new std::map<Codes, Refused>();
  return *made;
}

// Not destroyed where a thread ends, which may not touch objects then.
Ref& ready() {
  thread_local auto* const made = new Ref();
  return *made;
}

PyObject* body_begun(PyObject*, PyObject*) { Py_RETURN_NONE; }

PyObject* body_ended(PyObject*, PyObject* const*, Py_ssize_t) { Py_RETURN_NONE; }

PyObject* bodies_taken(PyObject*, PyObject* const*, Py_ssize_t) {
  Ref bodies = std::move(ready());
  return bodies ? bodies.release() : Py_NewRef(Py_None);
}

PyObject* input_of(PyObject*, PyObject* tensor) {
  const Ref requires_grad = Ref::steal(PyObject_GetAttrString(tensor, "requires_grad"));
  const Ref alone = requires_grad ? Ref::steal(PyObject_CallMethod(tensor, "detach", nullptr)) : Ref();
  return alone ? PyObject_CallMethod(alone.get(), "requires_grad_", "O", requires_grad.get()) : nullptr;
}

PyObject* called_operator(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count < 1) return PyErr_Format(PyExc_TypeError, "a function is wanted");
  return PyObject_Vectorcall(arguments[0], arguments + 1, static_cast<size_t>(count - 1), nullptr);
}

// What is saved for gradients in a checkpoint is counted, and the functions save some, too.
PyObject* is_followed(PyObject*, PyObject* function) { return PyBool_FromLong(open_checkpoints() == 0 && !refused().contains(codes_of(function))); }

}  // namespace

PyObject* begin_body() { return c_function<body_begun>("begin_body"); }
PyObject* end_body() { return c_function<body_ended>("end_body"); }
PyObject* body_input() { return c_function<input_of>("body_input"); }
PyObject* take_bodies() { return c_function<bodies_taken>("take_bodies"); }
PyObject* call_operator() { return c_function<called_operator>("call_operator"); }
PyObject* follows_body() { return c_function<is_followed>("follows_body"); }

void expect_sizes_to_vary(bool vary) { sizes_vary() = vary; }

void give_bodies(Ref bodies) { ready() = std::move(bodies); }

void follow_body_no_more(PyObject* function, const std::string& why) {
  const Codes codes = codes_of(function);
  std::vector<Ref> kept;
  std::ranges::transform(codes, std::back_inserter(kept), [](PyObject* code) { return Ref::borrow(code); });
  refused().try_emplace(codes, Refused{std::move(kept), why});
}

std::string why_not_followed(PyObject* function) {
  const auto found = refused().find(codes_of(function));
  return found == refused().end() ? "" : found->second.why;
}

bool is_of_body(PyObject* callable) {
  return callable == begin_body() || callable == end_body() || callable == body_input() || callable == take_bodies() || callable == call_operator() || callable == follows_body();
}

PyObject* body_left() {
  static PyObject* const made = PyErr_NewException("evalframe._core.BodyLeft", PyExc_BaseException, nullptr);
  return made;
}

}  // namespace evalframe::torch
