// Rules for calls that only ask what the guards fix already: ranks, shapes, element types.
#include <algorithm>
#include <array>

#include "core/made_once.h"
#include "core/object_text.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

// How the result of a function follows from metadata.
enum class Follows : uint8_t {
  kAttribute,  // it is the attribute of this name of an array
  kFromTypes,  // from the element types of arrays and from values that are known
  kFromType,   // from the type of its argument
};

struct Fact {
  const char* module;
  const char* name;
  Follows follows;
};
constexpr Fact kFacts[] = {
    {"numpy", "ndim", Follows::kAttribute},        {"numpy", "shape", Follows::kAttribute},
    {"numpy", "size", Follows::kAttribute},        {"numpy", "isscalar", Follows::kFromType},
    {"numpy", "iscomplexobj", Follows::kFromTypes}, {"numpy", "isrealobj", Follows::kFromTypes},
    {"numpy", "issubdtype", Follows::kFromTypes},  {"numpy", "isdtype", Follows::kFromTypes},
    {"numpy", "result_type", Follows::kFromTypes}, {"numpy", "can_cast", Follows::kFromTypes},
    {"numpy", "promote_types", Follows::kFromTypes}, {"numpy", "finfo", Follows::kFromTypes},
    {"numpy", "iinfo", Follows::kFromTypes},       {"numpy", "dtype", Follows::kFromTypes},
    {"builtins", "issubclass", Follows::kFromTypes}, {"builtins", "hasattr", Follows::kFromTypes}};

// The functions themselves, as they were when first asked for.
const Fact* fact_of(PyObject* callable) {
  static MadeOnce<std::array<Ref, std::size(kFacts)>> functions;
  const auto& known = functions.get([] {
    std::array<Ref, std::size(kFacts)> found;
    for (size_t i = 0; i < found.size(); i++) {
      const Ref module = Ref::steal(PyImport_ImportModule(kFacts[i].module));
      if (module) found[i] = Ref::steal(PyObject_GetAttrString(module.get(), kFacts[i].name));
      if (!found[i]) PyErr_Clear();
    }
    return found;
  });
  for (size_t i = 0; i < std::size(kFacts); i++) {
    if (known[i].get() == callable) return &kFacts[i];
  }
  return nullptr;
}

// Of arrays, NumPy scalars and Python's floats and complex numbers the type is what counts, of all else the value: ints have sizes.
bool is_fixed(const Site& site, int slot) {
  Recorder& recorder = site.recorder;
  PyObject* object = site.frame.slot(slot);
  const uint32_t label = recorder.label(slot);
  if (numpy::is_array(object)) return static_cast<bool>(recorder.operand(label, object));
  const bool number = PyFloat_CheckExact(object) || PyComplex_CheckExact(object);
  if (number && recorder.value(label).kind == Value::Kind::kSource) return static_cast<bool>(recorder.operand(label, object));
  return recorder.known(label, object);
}

std::optional<Plan> attribute_of_array(const Site& site, const Activation::CallSite& call, const char* name) {
  PyObject* array = site.frame.slot(call.first);
  if (call.count != 1 || call.keyword_names || !numpy::is_exact_array(array)) return std::nullopt;
  Plan plan;
  plan.kind = Plan::Kind::kNode;
  plan.form = graph::Form::kGetAttr;
  plan.of_shapes = true;
  static std::array<Ref, std::size(kFacts)> names;
  const size_t row = static_cast<size_t>(fact_of(site.frame.slot(call.callable)) - kFacts);
  if (!names[row]) names[row] = Ref::steal(PyUnicode_InternFromString(name));
  plan.callable = names[row].get();
  plan.operands = {site.recorder.operand(site.recorder.label(call.first), array)};
  if (!plan.operands[0]) return std::nullopt;
  return plan;
}

}  // namespace

std::optional<Plan> metadata_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  const Fact* const row = fact_of(callable);
  if (!row) return std::nullopt;
  if (row->follows == Follows::kAttribute) return attribute_of_array(site, call, row->name);
  if (row->follows == Follows::kFromType && (call.count != 1 || !numpy::is_array(site.frame.slot(call.first)))) return std::nullopt;
  for (int i = 0; i < call.count; i++) {
    if (numpy::is_warned_of(site.frame.slot(call.first + i)) || !is_fixed(site, call.first + i)) return std::nullopt;
  }
  return plan_constant();
}

bool is_dtype_fact(Borrowed dtype, Borrowed name) {
  if (!numpy::is_plain_dtype(dtype.get())) return false;
  for (const char* fact : {"kind", "itemsize", "char", "num", "name", "str", "type", "alignment", "byteorder", "isnative"}) {
    if (PyUnicode_CompareWithASCIIString(name.get(), fact) == 0) return true;
  }
  return false;
}

}  // namespace evalframe::recorder
