// Reads tensors through torch's own C entry points, which are looked for at run time and compared with Python's attributes first.
#include "frontends/torch/tensors.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "core/few.h"
#include "core/object_text.h"
#include "cpython/versions.h"
#include "frontends/torch/default_device.h"
#include "frontends/torch/names.h"
#include "frontends/torch/symbols.h"
#include "frontends/torch/thread_words.h"

namespace evalframe::torch {

namespace {

using graph::DType;

// A tensor's handle, which is an at::Tensor, lies right behind the object's header.
using Handle = void*;
using ReadNumber = int32_t (*)(Handle, int32_t*);
using ReadCount = int32_t (*)(Handle, int64_t*);
using ReadNumbers = int32_t (*)(Handle, int64_t**);
using ReadAddress = int32_t (*)(Handle, void**);
using AsksImpl = bool (*)(const char*);

// Where a TensorImpl has its numbers, in bytes.
struct Layout {
  size_t rank = 0, sizes = 0, strides = 0;  // of tensors of few dimensions; sizes 0: they aren't known
  size_t kind = 0;                          // dtype and device, and what follows from these up to the set of dispatch keys
  size_t keys = 0;                          // the set of dispatch keys
  bool operator==(const Layout&) const = default;
  size_t most_dimensions() const { return (strides - sizes) / sizeof(int64_t); }
  std::string_view kind_of(const char* impl) const { return {impl + kind, keys + sizeof(uint64_t) - kind}; }
};

// Where it is told whether a tensor requires gradients, in bytes: a TensorImpl points to what autograd knows of it, if anything. That has a flag,
// and the function that the tensor came of, if any.
struct Gradients {
  size_t known = 0;  // in a TensorImpl; 0: it isn't known where
  size_t flag = 0, function = 0;
};

// A vector of what transformations of torch.func there are.
struct TransformStack {
  const void *begin, *end, *limit;
};

enum class Nature : uint8_t { kOther, kPlain, kWrapped };

struct Torch {
  Ref tensor, parameter, buffer, size;
  std::vector<Ref> immutable;  // types
  Ref strided, is_wrapped, states;
  ReadNumber dtype = nullptr, device_index = nullptr;
  ReadCount rank = nullptr;
  ReadNumbers sizes = nullptr, strides = nullptr;
  PyGetSetDef* requires_grad = nullptr;
  AsksImpl impl_requires_grad = nullptr;  // the same, ten times as fast
  ReadCount storage_offset = nullptr;  // in elements; this and the next three may be missing
  ReadCount element_count = nullptr;
  ReadAddress data = nullptr;
  const TransformStack& (*transforms)() = nullptr;  // null: Python is asked
  size_t (*element_size)(int32_t dtype) = nullptr;  // bytes
  Layout layout;
  uint64_t truth_keys = 0;   // of a dense tensor of bool on a CPU, which nothing else stands behind; and its dtype
  int32_t truth_dtype = -1;
  Gradients gradients;
  bool is_fast = false;   // all of these are there, and say what Python says
  std::unordered_map<uint64_t, Nature> natures;  // by set of dispatch keys
};
Torch& known() {
  static auto* const torch = new Torch;  // lives as long as the process
  return *torch;
}

Handle handle_of(PyObject* tensor) { return reinterpret_cast<char*>(tensor) + sizeof(PyObject); }
const char* impl_of(PyObject* tensor) { return *static_cast<const char* const*>(handle_of(tensor)); }

// What a function without arguments gives; null: nothing.
Ref asked(const char* module, const char* name) {
  const Ref function = attribute_of(module, name);
  Ref found = function ? Ref::steal(PyObject_CallNoArgs(function.get())) : Ref();
  if (!found) PyErr_Clear();
  return found;
}

int64_t number(const Ref& object) {
  const int64_t value = object ? PyLong_AsLongLong(object.get()) : -1;
  if (PyErr_Occurred()) PyErr_Clear();
  return value;
}

// How many transformations of torch.func there are.
int64_t transform_depth() { return number(asked("torch._C._functorch", "get_dynamic_layer_stack_depth")); }

bool is_true(PyObject* tensor, const char* name) { return attribute(tensor, name).get() == Py_True; }

uint64_t keys_of(PyObject* tensor) {
  uint64_t keys;
  std::memcpy(&keys, impl_of(tensor) + known().layout.keys, sizeof keys);
  return keys;
}

bool requires_grad(PyObject* tensor) {
  Torch& torch = known();
  if (torch.impl_requires_grad) return torch.impl_requires_grad(impl_of(tensor));
  const Ref value = torch.is_fast ? Ref::steal(torch.requires_grad->get(tensor, torch.requires_grad->closure)) : attribute(tensor, "requires_grad");
  if (!value) PyErr_Clear();
  return value.get() == Py_True;
}

// All that a guard asks, by Python's attributes.
Ref told_of(PyObject* tensor) {
  static constexpr const char* kAttributes[] = {"dtype", "device", "layout", "requires_grad", "shape", "is_quantized", "is_nested"};
  static constexpr const char* kMethods[] = {"stride", "is_conj", "is_neg", "is_inference"};
  Ref told = Ref::steal(PyTuple_New(std::size(kAttributes) + std::size(kMethods)));
  Py_ssize_t at = 0;
  for (const char* const name : kAttributes) PyTuple_SET_ITEM(told.get(), at++, attribute(tensor, name).release());
  for (const char* const name : kMethods) PyTuple_SET_ITEM(told.get(), at++, PyObject_CallMethod(tensor, name, nullptr));
  for (Py_ssize_t i = 0; i < at; i++) {
    if (!PyTuple_GET_ITEM(told.get(), i)) return PyErr_Clear(), Ref();
  }
  return told;
}

std::vector<int64_t> numbers_of(PyObject* tensor) {
  std::vector<int64_t> all;
  for (const Ref& row : {attribute(tensor, "shape"), Ref::steal(PyObject_CallMethod(tensor, "stride", nullptr))}) {
    if (!row || !PyTuple_Check(row.get())) return PyErr_Clear(), std::vector<int64_t>();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(row.get()); i++) all.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(row.get(), i)));
  }
  return all;
}

Nature nature_of(PyObject* tensor);

// None of a tensor that isn't dense: it may have no strides, or no sizes.
std::vector<int64_t> fast_numbers_of(PyObject* tensor) {
  const Torch& torch = known();
  if (nature_of(tensor) == Nature::kOther) return {};
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  torch.rank(handle_of(tensor), &rank);
  torch.sizes(handle_of(tensor), &sizes);
  torch.strides(handle_of(tensor), &strides);
  std::vector<int64_t> all(sizes, sizes + rank);
  all.insert(all.end(), strides, strides + rank);
  return all;
}

// Tensors unlike one another, by which the C entry points are tried.
std::vector<Ref> samples() {
  std::vector<Ref> made;
  const Ref globals = Ref::steal(PyDict_New()), torch = Ref::steal(PyImport_ImportModule("torch"));
  if (!globals || !torch || PyDict_SetItemString(globals.get(), "torch", torch.get()) < 0) return made;
  for (const char* const text : {"torch.empty(2, 3)", "torch.empty(5, dtype=torch.int64)", "torch.empty((), dtype=torch.bool)",
                                 "torch.empty(4, 6, 2, dtype=torch.float64)[1:, ::2].transpose(0, 2)", "torch.empty(3, dtype=torch.complex64).conj()",
                                 "torch.empty(2, 2, device='meta')", "torch.empty(7, 1, dtype=torch.int32)", "torch.empty(1, 1, 1, 1, 1, dtype=torch.float16)", "torch.nn.Parameter(torch.empty(3, 1))"}) {
    Ref one = Ref::steal(PyRun_String(text, Py_eval_input, globals.get(), globals.get()));
    if (!one) return PyErr_Clear(), std::vector<Ref>{};
    made.push_back(std::move(one));
  }
  return made;
}

// Whether Python's attributes say that they are of one kind.
bool is_alike(PyObject* one, PyObject* other) {
  return std::ranges::all_of(std::array{"dtype", "device"}, [&](const char* name) {
    const Ref left = attribute(one, name), right = attribute(other, name);
    const int same = left && right ? PyObject_RichCompareBool(left.get(), right.get(), Py_EQ) : 0;
    if (same < 0) PyErr_Clear();
    return same > 0;
  }) && keys_of(one) == keys_of(other);
}

uint64_t keys_by_python(PyObject* tensor) {
  const Ref asks = attribute_of("torch._C", "_dispatch_keys");
  const Ref keys = asks ? Ref::steal(PyObject_CallOneArg(asks.get(), tensor)) : Ref();
  const Ref raw = keys ? Ref::steal(PyObject_CallMethod(keys.get(), "raw_repr", nullptr)) : Ref();
  const uint64_t value = raw ? PyLong_AsUnsignedLongLong(raw.get()) : 0;
  if (PyErr_Occurred()) PyErr_Clear();
  return value;
}

// Where each sample has its set of dispatch keys; 0: nowhere.
size_t find_keys(const std::vector<Ref>& tensors) {
  constexpr size_t kMost = 32 * sizeof(uint64_t);  // a TensorImpl is larger
  for (size_t at = sizeof(uint64_t); at < kMost; at += sizeof(uint64_t)) {
    bool all = true;
    for (const Ref& tensor : tensors) {
      uint64_t word;
      std::memcpy(&word, impl_of(tensor.get()) + at, sizeof word);
      all = all && word == keys_by_python(tensor.get());
    }
    if (all) return at;
  }
  return 0;
}

// Where a tensor has its sizes and strides, and what else is between these and the keys; none: somewhere else.
Layout layout_of(PyObject* tensor) {
  const Torch& torch = known();
  const char* const impl = impl_of(tensor);
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  torch.rank(handle_of(tensor), &rank);
  torch.sizes(handle_of(tensor), &sizes);
  torch.strides(handle_of(tensor), &strides);
  const size_t keys = torch.layout.keys;
  const auto place = [&](const int64_t* numbers) { return static_cast<size_t>(reinterpret_cast<const char*>(numbers) - impl); };
  const size_t sizes_at = place(sizes), strides_at = place(strides);
  constexpr size_t kWord = sizeof rank, kBetween = 2 * kWord;  // the place in the storage, and how many elements there are
  if (sizes_at < kWord || sizes_at >= strides_at || strides_at >= keys) return {.keys = keys};
  const Layout found{sizes_at - kWord, sizes_at, strides_at, 2 * strides_at - sizes_at + kBetween, keys};
  const bool has_rank = std::memcmp(impl + found.rank, &rank, sizeof rank) == 0;
  return has_rank && found.kind < keys && (keys - found.kind) % kWord == 0 ? found : Layout{.keys = keys};
}

// Tensors that differ by dtype, device or keys must differ by what lies there, and most of those made alike must not: bits that mean nothing
// are as they were in memory that was somebody else's.
void find_layout(const std::vector<Ref>& tensors) {
  Layout& layout = known().layout;
  const Layout found = layout_of(tensors[0].get());
  const std::vector<Ref> others = samples();
  if (!found.sizes || others.size() != tensors.size()) return;
  size_t alike = 0;
  for (size_t i = 0; i < tensors.size(); i++) {
    if (layout_of(tensors[i].get()) != found) return;
    for (size_t k = 0; k < others.size(); k++) {
      const bool same = found.kind_of(impl_of(tensors[i].get())) == found.kind_of(impl_of(others[k].get()));
      if (same && !is_alike(tensors[i].get(), others[k].get())) return;
      alike += same && i == k;
    }
  }
  if (alike > tensors.size() / 2) layout = found;
}

// c10::TensorImpl::requires_grad, if it says of all tensors what Python says.
void find_requires_grad(const std::vector<Ref>& tensors) {
  AsksImpl asks = nullptr;
  find_symbol(asks, "_ZNK3c1010TensorImpl13requires_gradEv", "libc10.so");
  const bool agrees = asks && std::all_of(tensors.begin(), tensors.end(), [&](const Ref& tensor) { return asks(impl_of(tensor.get())) == is_true(tensor.get(), "requires_grad"); });
  if (agrees) known().impl_requires_grad = asks;
}

// What autograd knows of the tensor, at that place.
const char* autograd_of(const Ref& tensor, size_t place) { return reinterpret_cast<const char*>(value_at(impl_of(tensor.get()) + place)); }

// The words of a block in which each of some tensors has something, or each has nothing.
template <class Holds>
std::vector<size_t> words_where(size_t begin, size_t end, Holds holds) {
  std::vector<size_t> found;
  for (size_t at = begin; at + sizeof(uint64_t) <= end; at += sizeof(uint64_t)) {
    if (holds(at)) found.push_back(at);
  }
  return found;
}

// Found by what differs between tensors without gradients, some that were asked to have them, and results of these.
Gradients gradients_of(const std::vector<Ref>& plain, const std::vector<Ref>& leaves, const std::vector<Ref>& results, const Ref& changing) {
  const auto all = [](const std::vector<Ref>& tensors, auto holds) { return std::all_of(tensors.begin(), tensors.end(), holds); };
  const auto is_there = [&](size_t at) { return [=](const Ref& tensor) { return autograd_of(tensor, at) != nullptr; }; };
  const auto places = words_where(sizeof(uint64_t), known().layout.rank, [&](size_t at) {
    return all(leaves, is_there(at)) && all(results, is_there(at)) && std::none_of(plain.begin(), plain.end(), is_there(at));
  });
  if (places.size() != 1) return {};
  size_t size = SIZE_MAX;
  for (const std::vector<Ref>* const tensors : {&leaves, &results}) {
    for (const Ref& tensor : *tensors) size = std::min(size, malloc_usable_size(const_cast<char*>(autograd_of(tensor, places[0]))));
  }
  if (!autograd_of(changing, places[0]) || malloc_usable_size(const_cast<char*>(autograd_of(changing, places[0]))) < size) return {};
  const auto has = [&](size_t at) { return [=](const Ref& tensor) { return value_at(autograd_of(tensor, places[0]) + at) != 0; }; };
  const auto seen_in = [&](const Ref& tensor) { return std::vector<char>(autograd_of(tensor, places[0]), autograd_of(tensor, places[0]) + size); };
  // What lies behind it may look as if it were of that kind, but doesn't change when a tensor becomes a result.
  const std::vector<char> before = seen_in(changing);
  if (!Ref::steal(PyObject_CallMethod(changing.get(), "mul_", "O", leaves[0].get()))) return PyErr_Clear(), Gradients();
  const std::vector<char> behind = seen_in(changing);
  const auto comes = [&](size_t at) { return !value_at(before.data() + at) && value_at(behind.data() + at); };
  // A pointer, and perhaps what counts those that share it.
  const std::vector<size_t> functions = words_where(sizeof(uint64_t), size, [&](size_t at) { return comes(at) && all(results, has(at)) && std::none_of(leaves.begin(), leaves.end(), has(at)); });
  if (functions.empty() || functions.back() - functions.front() > sizeof(uint64_t)) return {};

  const char* const block = autograd_of(leaves[0], places[0]);
  const auto after_setting = [&](PyObject* flag) {
    if (!Ref::steal(PyObject_CallMethod(leaves[0].get(), "requires_grad_", "O", flag))) PyErr_Clear();
    return std::vector<char>(block, block + size);
  };
  const std::vector<char> without = after_setting(Py_False), with = after_setting(Py_True);
  const std::vector<size_t> flags = words_where(0, size, [&](size_t at) { return value_at(without.data() + at) != value_at(with.data() + at); });
  if (flags.size() != 1 || autograd_of(leaves[0], places[0]) != block) return {};
  return {places[0], flags[0], functions[0]};
}

void find_gradients() {
  constexpr const char* kMakes =
      "with torch.inference_mode(False), torch.enable_grad(), torch.device('cpu'):\n"
      "  leaves = [torch.empty(2, requires_grad=True), torch.nn.Parameter(torch.empty(3, 2)), torch.empty(4).requires_grad_()]\n"
      "  results = [leaves[0] * 1.0, leaves[1].t(), leaves[2][1:], leaves[2].sum()]\n"
      "  plain = [torch.empty(2), torch.empty(3, dtype=torch.int64)]\n"
      "  changing = [torch.empty(2).requires_grad_().requires_grad_(False)]\n";
  const Ref globals = Ref::steal(PyDict_New()), torch = Ref::steal(PyImport_ImportModule("torch"));
  if (!globals || !torch || PyDict_SetItemString(globals.get(), "torch", torch.get()) < 0) return PyErr_Clear();
  if (!Ref::steal(PyRun_String(kMakes, Py_file_input, globals.get(), globals.get()))) return PyErr_Clear();
  const auto list = [&](const char* name) {
    std::vector<Ref> tensors;
    PyObject* const made = PyDict_GetItemString(globals.get(), name);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(made); i++) tensors.push_back(Ref::borrow(PyList_GET_ITEM(made, i)));
    return tensors;
  };
  known().gradients = gradients_of(list("plain"), list("leaves"), list("results"), list("changing")[0]);
}

// at::functorch::getDynamicLayerStack, if it says what Python says, without a transformation and in one.
void find_transforms() {
  const TransformStack& (*stack)() = nullptr;
  find_symbol(stack, "_ZN2at9functorch20getDynamicLayerStackEv");
  const Ref begin = attribute_of("torch._C._functorch", "_grad_increment_nesting"), end = attribute_of("torch._C._functorch", "_grad_decrement_nesting");
  if (!stack || !begin || !end) return;
  const auto agrees = [&] { return (stack().begin != stack().end) == (transform_depth() > 0); };
  bool all = agrees();
  const Ref begun = Ref::steal(PyObject_CallNoArgs(begin.get()));
  all = all && begun && agrees();
  const Ref ended = begun ? Ref::steal(PyObject_CallNoArgs(end.get())) : Ref();
  if (PyErr_Occurred()) PyErr_Clear();
  if (all && ended && agrees()) known().transforms = stack;
}

// What a tensor is like whose truth is no more than an element in memory.
void find_truth() {
  Torch& torch = known();
  const Ref makes = attribute_of("torch", "tensor"), arguments = Ref::steal(Py_BuildValue("(O)", Py_True)), device = Ref::steal(Py_BuildValue("{ss}", "device", "cpu"));
  const Ref one = makes && arguments && device ? Ref::steal(PyObject_Call(makes.get(), arguments.get(), device.get())) : Ref();
  if (!one) return PyErr_Clear();
  if (!torch.data || !torch.element_count || !Py_IS_TYPE(one.get(), torch.tensor.as<PyTypeObject>())) return;
  torch.dtype(handle_of(one.get()), &torch.truth_dtype);
  torch.truth_keys = keys_of(one.get());
}

// Whether the truth of torch.Tensor is still what torch's C++ says.
bool asks_torch_for_truth() {
  static uint32_t version = 0;  // for which it is
  auto* const type = known().tensor.as<PyTypeObject>();
  const uint32_t present = cpython::current_type_version(type);
  if (present && present == version) return true;
  static PyObject* const name = PyUnicode_InternFromString("__bool__");
  PyObject* const method = _PyType_Lookup(type, name);
  if (!method || !Py_IS_TYPE(method, &PyMethodDescr_Type)) return false;
  version = cpython::current_type_version(type);
  return true;
}

// Whether the entry points are there, and agree with Python on all samples.
bool find_entry_points() {
  Torch& torch = known();
  find_symbol(torch.dtype, "aoti_torch_get_dtype");
  find_symbol(torch.device_index, "aoti_torch_get_device_index");
  find_symbol(torch.rank, "aoti_torch_get_dim");
  find_symbol(torch.sizes, "aoti_torch_get_sizes");
  find_symbol(torch.strides, "aoti_torch_get_strides");
  find_symbol(torch.storage_offset, "aoti_torch_get_storage_offset");
  find_symbol(torch.element_count, "aoti_torch_get_numel");
  find_symbol(torch.data, "aoti_torch_get_data_ptr");
  find_symbol(torch.element_size, "aoti_torch_dtype_element_size");
  PyObject* const flag = _PyType_Lookup(torch.tensor.as<PyTypeObject>(), Ref::steal(PyUnicode_InternFromString("requires_grad")).get());
  if (flag && Py_IS_TYPE(flag, &PyGetSetDescr_Type)) torch.requires_grad = reinterpret_cast<PyGetSetDescrObject*>(flag)->d_getset;
  if (!torch.dtype || !torch.device_index || !torch.rank || !torch.sizes || !torch.strides || !torch.requires_grad) return false;
  const std::vector<Ref> tensors = samples();
  for (const Ref& tensor : tensors) {
    // `_cdata` is where the TensorImpl lies.
    if (number(attribute(tensor.get(), "_cdata")) != reinterpret_cast<int64_t>(impl_of(tensor.get()))) return false;
  }
  torch.layout.keys = find_keys(tensors);
  if (tensors.empty() || !torch.layout.keys) return false;
  for (const Ref& tensor : tensors) {
    if (fast_numbers_of(tensor.get()) != numbers_of(tensor.get())) return false;
  }
  find_requires_grad(tensors);
  find_layout(tensors);
  if (torch.layout.sizes) find_gradients();
  find_truth();
  return true;
}

DType dtype_by_name(PyObject* dtype) {
  const Ref text = Ref::steal(PyObject_Str(dtype));
  if (!text) return PyErr_Clear(), DType::kNone;
  std::string_view name = utf8(text.get());
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "bool") return DType::bool_;
  for (int i = 0; i < static_cast<int>(DType::kNone); i++) {
    if (name == graph::name(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  return DType::kNone;
}

// torch's element types live as long as the process.
DType dtype_of(PyObject* tensor) {
  static auto* const known_ones = new std::unordered_map<PyObject*, DType>;
  const Ref dtype = attribute(tensor, "dtype");
  if (!dtype) return DType::kNone;
  const auto found = known_ones->find(dtype.get());
  return found != known_ones->end() ? found->second : known_ones->emplace(Ref::borrow(dtype.get()).release(), dtype_by_name(dtype.get())).first->second;
}

// The dimensions of a tensor whose elements lie one behind the other, the innermost last; none for other tensors.
std::vector<uint8_t> dense_order(const std::vector<int64_t>& sizes_and_strides) {
  const size_t rank = sizes_and_strides.size() / 2;
  const int64_t* const sizes = sizes_and_strides.data();
  const int64_t* const strides = sizes + rank;
  std::vector<uint8_t> order(rank);
  std::iota(order.begin(), order.end(), uint8_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint8_t a, uint8_t b) { return strides[a] > strides[b]; });
  int64_t wanted = 1;
  for (size_t i = rank; i-- > 0; wanted *= sizes[order[i]]) {
    if (strides[order[i]] != wanted) return {};
  }
  return order;
}

// Whether sizes may be these where some vary. Strides follow from them, or are what they were.
bool may_be(const Facts& facts, const int64_t* sizes, const int64_t* strides) {
  const size_t rank = facts.varies.size();
  for (size_t i = 0; i < rank; i++) {
    if (facts.varies[i] ? sizes[i] < kLeastVarying : sizes[i] != facts.sizes_and_strides[i]) return false;
  }
  if (facts.order.empty()) return std::equal(strides, strides + rank, facts.sizes_and_strides.data() + rank);
  int64_t wanted = 1;
  for (size_t i = facts.order.size(); i-- > 0; wanted *= sizes[facts.order[i]]) {
    if (strides[facts.order[i]] != wanted) return false;
  }
  return true;
}

std::string text_of(PyObject* tensor, const std::vector<int64_t>& numbers, const std::vector<uint8_t>& varies) {
  const Ref dtype = attribute(tensor, "dtype");
  const Ref name = dtype ? Ref::steal(PyObject_Str(dtype.get())) : Ref();
  if (!name) PyErr_Clear();
  std::string text = name ? std::string(utf8(name.get())) : "?";
  if (text.starts_with("torch.")) text = text.substr(6);
  if (nature_of(tensor) == Nature::kOther) return text + " that isn't dense";
  text += "[";
  for (size_t i = 0; i < numbers.size() / 2; i++) text += (i ? ", " : "") + (!varies.empty() && varies[i] ? "any" : std::to_string(numbers[i]));
  text += "]";
  const Ref device = attribute(tensor, "device");
  const Ref where = device ? Ref::steal(PyObject_Str(device.get())) : Ref();
  if (!where) PyErr_Clear();
  if (where && utf8(where.get()) != "cpu") text += " on " + std::string(utf8(where.get()));
  return requires_grad(tensor) ? text + " with gradients" : text;
}

Nature find_nature(PyObject* tensor) {
  const Torch& torch = known();
  const Ref layout = attribute(tensor, "layout");
  if (!layout || layout.get() != torch.strided.get()) return PyErr_Clear(), Nature::kOther;
  for (const char* const name : {"is_quantized", "is_nested", "is_mkldnn"}) {
    if (is_true(tensor, name)) return Nature::kOther;
  }
  const Ref wrapped = Ref::steal(PyObject_CallOneArg(torch.is_wrapped.get(), tensor));
  if (!wrapped) PyErr_Clear();
  return wrapped.get() == Py_False ? Nature::kPlain : wrapped.get() == Py_True ? Nature::kWrapped : Nature::kOther;
}

Nature nature_of(PyObject* tensor) {
  Torch& torch = known();
  if (!torch.is_fast) return find_nature(tensor);
  const auto [found, is_new] = torch.natures.try_emplace(keys_of(tensor), Nature::kOther);
  if (is_new) found->second = find_nature(tensor);
  return found->second;
}

bool is_not_known() {
  PyErr_SetString(PyExc_ImportError, "this torch isn't one that evalframe knows: what it keeps in torch, torch.nn and torch._C is missing; install torch 2.13");
  return false;
}

}  // namespace

bool watch() {
  if (is_watched()) return true;
  Torch& torch = known();
  torch.tensor = attribute_of("torch", "Tensor");
  torch.parameter = attribute_of("torch.nn", "Parameter");
  torch.buffer = attribute_of("torch.nn", "Buffer");
  torch.size = attribute_of("torch", "Size");
  torch.strided = attribute_of("torch", "strided");
  torch.is_wrapped = attribute_of("torch._C._functorch", "is_functorch_wrapped_tensor");
  torch.states = attribute_of("torch._C._dynamo.guards", "GlobalStateGuard");
  if (!torch.tensor || !torch.parameter || !torch.size || !torch.strided || !torch.is_wrapped || !torch.states) return is_not_known();
  for (const char* const name : {"Size", "dtype", "device", "layout", "memory_format", "finfo", "iinfo"}) {
    Ref type = attribute_of("torch", name);
    if (!type) return is_not_known();
    torch.immutable.push_back(std::move(type));
  }
  if (Ref type = attribute_of("torch._C", "_SDPBackend")) torch.immutable.push_back(std::move(type));  // which kernels of attention there may be
  torch.is_fast = find_entry_points();
  find_transforms();
  detail::watched = true;
  return true;
}

bool is_tensor(PyObject* object) {
  if (!is_watched()) return false;
  const Torch& torch = known();
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return type == torch.tensor.get() || type == torch.parameter.get();
}

PyObject* tensor_type() { return known().tensor.get(); }

bool is_plain(PyObject* tensor) { return nature_of(tensor) == Nature::kPlain; }
bool is_wrapped(PyObject* tensor) { return nature_of(tensor) == Nature::kWrapped; }

int64_t level_of(PyObject* tensor) {
  static const auto* const asks = new Ref(attribute_of("torch._C._functorch", "maybe_get_level"));
  const Ref level = *asks ? Ref::steal(PyObject_CallOneArg(asks->get(), tensor)) : Ref();
  if (!level) PyErr_Clear();
  return level && PyLong_Check(level.get()) ? number(level) : -1;
}

bool is_immutable(PyObject* object) { return is_immutable_type(reinterpret_cast<PyObject*>(Py_TYPE(object))); }

bool is_immutable_type(PyObject* type) {
  if (!is_watched()) return false;
  for (const Ref& known_type : known().immutable) {
    if (known_type.get() == type) return true;
  }
  return false;
}

bool is_parameter_type(PyObject* type) { return is_watched() && type == known().parameter.get(); }

bool is_buffer_type(PyObject* type) { return is_watched() && type == known().buffer.get(); }

bool is_size_type(PyObject* type) { return is_watched() && type == known().size.get(); }

bool is_size(PyObject* object) { return is_size_type(reinterpret_cast<PyObject*>(Py_TYPE(object))); }

bool is_return_type(PyObject* object) {
  return is_watched() && PyTuple_Check(object) && std::string_view(Py_TYPE(object)->tp_name).starts_with("torch.return_types.");
}

bool is_of_floats(PyObject* tensor) {
  const DType dtype = dtype_of(tensor);
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::float16;
}

bool is_mask(PyObject* tensor) {
  const DType dtype = dtype_of(tensor);
  return dtype == DType::bool_ || dtype == DType::uint8;
}

std::optional<bool> truth_at_hand(PyObject* object) {
  const Torch& torch = known();
  const bool is_one = is_watched() && torch.truth_keys && Py_IS_TYPE(object, torch.tensor.as<PyTypeObject>()) && impl_of(object) && keys_of(object) == torch.truth_keys;
  if (!is_one || !asks_torch_for_truth()) return std::nullopt;
  int32_t dtype = -1;
  int64_t count = 0;
  void* data = nullptr;
  torch.dtype(handle_of(object), &dtype);
  torch.element_count(handle_of(object), &count);
  if (dtype != torch.truth_dtype || count != 1 || torch.data(handle_of(object), &data) || !data) return std::nullopt;
  return *static_cast<const uint8_t*>(data) != 0;
}

std::shared_ptr<const Facts> facts_of(PyObject* tensor, std::vector<uint8_t> varies) {
  const Torch& torch = known();
  auto facts = std::make_shared<Facts>();
  facts->type = Py_TYPE(tensor);
  facts->requires_grad = requires_grad(tensor);
  facts->sizes_and_strides = torch.is_fast ? fast_numbers_of(tensor) : numbers_of(tensor);
  for (size_t i = 0; i < varies.size(); i++) varies[i] = varies[i] && facts->sizes_and_strides[i] >= kLeastVarying;
  if (torch.is_fast && std::find(varies.begin(), varies.end(), 1) != varies.end()) {
    facts->order = dense_order(facts->sizes_and_strides);
    facts->varies = std::move(varies);
  }
  facts->text = text_of(tensor, facts->sizes_and_strides, facts->varies);
  if (torch.is_fast) {
    torch.dtype(handle_of(tensor), &facts->dtype);
    torch.device_index(handle_of(tensor), &facts->device_index);
    facts->keys = keys_of(tensor);
    const bool is_near = torch.layout.sizes && facts->varies.empty() && facts->sizes_and_strides.size() / 2 <= torch.layout.most_dimensions();
    if (is_near) facts->kind = torch.layout.kind_of(impl_of(tensor));
  } else {
    facts->told = told_of(tensor);
  }
  return facts;
}

bool Facts::is_same(const Facts& other) const {
  const int told_same = told && other.told ? PyObject_RichCompareBool(told.get(), other.told.get(), Py_EQ) : 1;
  if (told_same < 0) PyErr_Clear();
  return type == other.type && requires_grad == other.requires_grad && dtype == other.dtype && device_index == other.device_index && keys == other.keys &&
         sizes_and_strides == other.sizes_and_strides && varies == other.varies && told_same > 0;
}

// All but sizes and strides, which are looked at meanwhile.
template <class Numbers>
static bool has_facts_where(PyObject* object, const Facts& facts, Numbers holds) {
  const Torch& torch = known();
  const size_t rank = facts.sizes_and_strides.size() / 2;
  const Handle handle = handle_of(object);
  int32_t dtype = -1, device_index = -1;
  int64_t found_rank = 0, *sizes = nullptr, *strides = nullptr;
  if (Py_TYPE(object) != facts.type || !impl_of(object) || keys_of(object) != facts.keys) return false;
  torch.dtype(handle, &dtype);
  torch.rank(handle, &found_rank);
  if (dtype != facts.dtype || static_cast<size_t>(found_rank) != rank) return false;
  torch.device_index(handle, &device_index);
  torch.sizes(handle, &sizes);
  torch.strides(handle, &strides);
  return device_index == facts.device_index && holds(sizes, strides, rank) && requires_grad(object) == facts.requires_grad;
}

// Hands over where each of the facts lies, and what is there in a tensor that has it, until `visit` says no. Nothing is known of flags that
// are no facts: they are as they were.
template <class Visit>
static bool all_numbers(const char* impl, const Facts& facts, Visit visit) {
  const Layout& layout = known().layout;
  const size_t rank = facts.sizes_and_strides.size() / 2;
  if (!visit(Word{impl + layout.rank, rank})) return false;
  for (size_t at = 0; at < facts.kind.size(); at += sizeof(uint64_t)) {
    if (!visit(Word{impl + layout.kind + at, value_at(facts.kind.data() + at)})) return false;
  }
  for (size_t i = 0; i < rank; i++) {
    const bool same = visit(Word{impl + layout.sizes + i * sizeof(int64_t), static_cast<uint64_t>(facts.sizes_and_strides[i])}) &&
                      visit(Word{impl + layout.strides + i * sizeof(int64_t), static_cast<uint64_t>(facts.sizes_and_strides[rank + i])});
    if (!same) return false;
  }
  return true;
}

// Whether the tensor lies in memory as one with these facts did, so that it has them, too. Flags that are no facts may say no.
static bool lies_as(PyObject* object, const Facts& facts) {
  const char* const impl = impl_of(object);
  if (!impl || !all_numbers(impl, facts, is_unchanged)) return false;
  const size_t autograd = known().gradients.known;
  return (autograd && !value_at(impl + autograd) ? false : requires_grad(object)) == facts.requires_grad;
}

// Behind the sizes, and the strides, of a tensor of few dimensions: two words are as quickly compared as one, and these stay as they are.
static std::vector<const char*> unused_words(const char* impl, const Facts& facts) {
  const Layout& layout = known().layout;
  const size_t rank = facts.sizes_and_strides.size() / 2;
  if (rank >= layout.most_dimensions()) return {};
  const size_t numbers = rank % 2 ? layout.strides : layout.sizes;  // in front of the sizes is the rank
  return {impl + numbers + rank * sizeof(int64_t)};
}

std::vector<TensorWord> words_of(PyObject* tensor, const Facts& facts) {
  const Gradients& gradients = known().gradients;
  if (facts.kind.empty() || !gradients.known || !lies_as(tensor, facts)) return {};
  const char* const impl = impl_of(tensor);
  std::vector<TensorWord> words = {{word_at(handle_of(tensor)), 0}, {word_at(impl + gradients.known), 1}};
  if (const auto* const autograd = reinterpret_cast<const char*>(words.back().word.value)) {
    words.push_back({word_at(autograd + gradients.flag), 2});
    // Without a function, the flag alone says that gradients are required.
    const Word function = word_at(autograd + gradients.function);
    if (function.value || !facts.requires_grad) words.push_back({function, 2});
  }
  all_numbers(impl, facts, [&](const Word& word) { return words.push_back({word, 1}), true; });
  for (const char* const unused : unused_words(impl, facts)) words.push_back({word_at(unused), 1});
  return words;
}

bool has_facts(PyObject* object, const Facts& facts) {
  if (!facts.kind.empty() && Py_TYPE(object) == facts.type && lies_as(object, facts)) return true;
  if (!known().is_fast) {
    const Ref told = Py_TYPE(object) == facts.type ? told_of(object) : Ref();
    const int same = told && facts.told ? PyObject_RichCompareBool(told.get(), facts.told.get(), Py_EQ) : 0;
    if (same < 0) PyErr_Clear();
    return same > 0;
  }
  return has_facts_where(object, facts, [&](const int64_t* sizes, const int64_t* strides, size_t rank) {
    if (!facts.varies.empty()) return may_be(facts, sizes, strides);
    const int64_t* const wanted = facts.sizes_and_strides.data();
    return !rank || (std::memcmp(sizes, wanted, rank * sizeof *sizes) == 0 && std::memcmp(strides, wanted + rank, rank * sizeof *strides) == 0);
  });
}

std::vector<int> dimensions_that_changed(PyObject* object, const Facts& facts) {
  std::vector<int> changed;
  if (!known().is_fast || is_parameter_type(reinterpret_cast<PyObject*>(facts.type))) return changed;
  bool may_vary = true;
  has_facts_where(object, facts, [&](const int64_t* sizes, const int64_t*, size_t rank) {
    for (size_t i = 0; i < rank; i++) {
      if (sizes[i] == facts.sizes_and_strides[i] || (!facts.varies.empty() && facts.varies[i] && sizes[i] >= kLeastVarying)) continue;
      may_vary = may_vary && std::min(sizes[i], facts.sizes_and_strides[i]) >= kLeastVarying;
      changed.push_back(static_cast<int>(i));
    }
    return true;
  });
  return may_vary ? changed : std::vector<int>();
}

static bool has_elements(PyObject* tensor) {
  int64_t count = 1;
  known().element_count(handle_of(tensor), &count);
  return count != 0;
}

// Where the tensor's storage begins; null: that can't be told, as its elements are nowhere.
static const char* storage_of(PyObject* tensor) {
  const Torch& torch = known();
  void* data = nullptr;
  int64_t offset = 0;
  int32_t dtype = 0;
  const bool failed = torch.data(handle_of(tensor), &data) || torch.storage_offset(handle_of(tensor), &offset) || torch.dtype(handle_of(tensor), &dtype);
  return data && !failed ? static_cast<const char*>(data) - offset * static_cast<int64_t>(torch.element_size(dtype)) : nullptr;
}

std::optional<bool> share_no_memory(PyObject* const* values, Py_ssize_t count) {
  const Torch& torch = known();
  if (!torch.is_fast || !torch.data || !torch.storage_offset || !torch.element_count || !torch.element_size) return std::nullopt;
  Few<const char*, 64> storages;
  storages.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; i++) {
    if (!is_tensor(values[i])) continue;
    if (!is_plain(values[i])) return std::nullopt;
    if (!has_elements(values[i])) continue;
    storages.push_back(storage_of(values[i]));
    if (!storages.back()) return std::nullopt;
  }
  std::sort(storages.begin(), storages.end());
  return std::adjacent_find(storages.begin(), storages.end()) == storages.end();
}

std::vector<int64_t> sizes_of(PyObject* tensor) {
  if (!known().is_fast || is_parameter_type(reinterpret_cast<PyObject*>(Py_TYPE(tensor)))) return {};
  std::vector<int64_t> sizes = fast_numbers_of(tensor);
  sizes.resize(sizes.size() / 2);
  return sizes;
}

graph::Meta meta_of(PyObject* tensor, std::vector<int64_t>& sizes) {
  graph::Meta meta;
  meta.kind = graph::Kind::kTensor;
  if (!is_plain(tensor)) return meta;
  const std::vector<int64_t> numbers = known().is_fast ? fast_numbers_of(tensor) : numbers_of(tensor);
  meta.dtype = dtype_of(tensor);
  meta.rank = static_cast<int8_t>(numbers.size() / 2);
  meta.shape = static_cast<uint32_t>(sizes.size());
  sizes.insert(sizes.end(), numbers.begin(), numbers.end());
  return meta;
}

int64_t Getter::number() const {
  switch (gives) {
    case Gives::kBool: return reinterpret_cast<bool (*)(const void*)>(function)(self);
    case Gives::kCount: return reinterpret_cast<int64_t (*)(const void*)>(function)(self);
    case Gives::kPointer: return *reinterpret_cast<const void* const* (*)(const void*)>(function)(self) != nullptr;
  }
  return 0;
}

// What Python's function asks, if it says so now.
static Getter getter_of(Getter::Gives gives, const char* symbol, const char* library, const void* self, PyObject* said) {
  Getter getter{gives, nullptr, self};
  find_symbol(getter.function, symbol, library);
  const int64_t number = PyLong_Check(said) ? PyLong_AsLongLong(said) : said != Py_None;
  return getter.function && getter.number() == number ? getter : Getter{};
}

static void add_state(std::vector<State>& states, const Ref& callable, const char* text, const std::function<Getter(PyObject*)>& find_getter = {}) {
  Ref wanted = callable ? Ref::steal(PyObject_CallNoArgs(callable.get())) : Ref();
  if (!wanted) return PyErr_Clear();
  // One for each function of Python's.
  static auto* const getters = new std::unordered_map<PyObject*, Getter>;
  State& state = states.emplace_back(Ref::borrow(callable.get()), std::move(wanted), text);
  if (!find_getter || !is_watched()) return;
  const auto [found, is_new] = getters->try_emplace(callable.get());
  if (is_new) {
    Py_INCREF(callable.get());
    found->second = find_getter(state.wanted.get());
  }
  state.getter = found->second;
  if (state.getter.function) state.number = state.getter.number();
}

constexpr const char* kCore = "libc10.so";
constexpr const char* kCpu = "libtorch_cpu.so";

// torch.nn.attention.sdpa_kernel and torch.backends.cuda.enable_flash_sdp set them: by functions of torch._C.
struct Kernel {
  const char *get, *set, *symbol;
};
static constexpr Kernel kKernels[] = {{"_get_cudnn_sdp_enabled", "_set_sdp_use_cudnn", "_ZNK2at7Context19userEnabledCuDNNSDPEv"},
                                      {"_get_flash_sdp_enabled", "_set_sdp_use_flash", "_ZNK2at7Context19userEnabledFlashSDPEv"},
                                      {"_get_math_sdp_enabled", "_set_sdp_use_math", "_ZNK2at7Context18userEnabledMathSDPEv"},
                                      {"_get_mem_efficient_sdp_enabled", "_set_sdp_use_mem_efficient", "_ZNK2at7Context26userEnabledMemEfficientSDPEv"},
                                      {"_get_overrideable_sdp_enabled", "_set_sdp_use_overrideable", "_ZNK2at7Context26userEnabledOverrideableSDPEv"}};

std::vector<State> present_kernels() {
  std::vector<State> states;
  static const void* const context = [] {
    const void* (*global_context)() = nullptr;
    find_symbol(global_context, "_ZN2at13globalContextEv");
    return global_context ? global_context() : nullptr;
  }();
  for (const auto& [get, set, symbol] : kKernels) {
    const auto find_getter = [&](PyObject* said) { return context ? getter_of(Getter::Gives::kBool, symbol, kCpu, context, said) : Getter{}; };
    add_state(states, attribute_of("torch._C", get), "the kernels of attention that there may be are as before", find_getter);
  }
  return states;
}

std::vector<State> present_states() {
  using Gives = Getter::Gives;
  std::vector<State> states;
  const auto add = [&](const Ref& callable, const char* text, Gives gives, const char* symbol, const char* library) {
    add_state(states, callable, text, [&](PyObject* said) { return getter_of(gives, symbol, library, nullptr, said); });
  };
  const Ref guard = Ref::steal(PyObject_CallNoArgs(known().states.get()));
  if (!guard) PyErr_Clear();
  const Ref dumped = guard ? Ref::steal(PyObject_CallMethod(guard.get(), "__getstate__", nullptr)) : Ref();
  const char* const text = dumped && PyUnicode_Check(dumped.get()) ? PyUnicode_AsUTF8(dumped.get()) : nullptr;
  if (!text) PyErr_Clear();
  const bool is_told = text && thread_words_tell(text);
  if (guard) add_state(states, attribute(guard.get(), "check"), "gradients, autocast, determinism and the default dtype are set as before");
  add(attribute_of("torch", "is_inference_mode_enabled"), "inference mode is as before", Gives::kBool, "_ZN3c1013InferenceMode10is_enabledEv", kCore);
  add(attribute_of("torch._C", "_len_torch_function_stack"), "as many modes see calls of torch", Gives::kCount, "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", kCpu);
  add(attribute_of("torch._C", "_len_torch_dispatch_stack"), "as many modes see operations of torch", Gives::kCount, "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", kCore);
  add(attribute_of("torch._C", "_get_tracing_state"), "torch.jit.trace sees them as before", Gives::kPointer, "_ZN5torch3jit6tracer15getTracingStateEv", kCpu);
  for (State& state : states) state.is_told = is_told;
  if (default_device().get() != Py_None) add_state(states, Ref::borrow(asks_default_device()), "the default device is as before");
  return states;
}

namespace {

// What says how it is, and what sets that: the first is the number of transformations.
struct TransformPart {
  const char *module, *get, *set;
};
constexpr TransformPart kTransformParts[] = {
    {"torch._C._functorch", "get_dynamic_layer_stack_depth", "pop_dynamic_layer_stack_and_undo_to_depth"},
    {"torch._C._functorch", "get_inplace_requires_grad_allowed", "set_inplace_requires_grad_allowed"},
    {"torch._C._autograd", "_saved_tensors_hooks_get_disabled_error_message", "_saved_tensors_hooks_disable"},
    {"torch._C", "_is_fwd_grad_enabled", "_set_fwd_grad_enabled"},
};

// The level of forward mode that torch's Python code is in, or -1; there is but one.
Ref dual_level() { return attribute_of("torch.autograd.forward_ad", "_current_level"); }

// A graph has no Python code, but begins that level, too.
void leave_dual_level(Borrowed then) {
  const Ref now = dual_level();
  if (!now || number(Ref::borrow(then)) >= 0) return;
  const bool told = number(now) >= 0;
  const Ref leaves = told ? attribute_of("torch.autograd.forward_ad", "exit_dual_level") : attribute_of("torch._C", "_exit_dual_level");
  const Ref none = Ref::steal(PyTuple_New(0)), level = Ref::steal(Py_BuildValue("{sL}", "level", std::max<long long>(number(now), 0)));
  if (leaves && none && level && !Ref::steal(PyObject_Call(leaves.get(), none.get(), level.get()))) PyErr_Clear();  // none had begun
}

void call(const char* module, const char* name, Borrowed argument = {}) {
  const Ref function = attribute_of(module, name);
  if (!function || !Ref::steal(argument ? PyObject_CallOneArg(function.get(), argument.get()) : PyObject_CallNoArgs(function.get()))) PyErr_Clear();
}

}  // namespace

std::vector<State> transform_states() {
  std::vector<State> states;
  for (const TransformPart& part : kTransformParts) add_state(states, attribute_of(part.module, part.get), "torch.func's transformations are as before");
  return states;
}

Ref transforms_now(bool with_dual_level) {
  constexpr size_t kCount = std::size(kTransformParts);
  Ref all = Ref::steal(PyTuple_New(kCount + 1));
  for (size_t i = 0; all && i < kCount; i++) PyTuple_SET_ITEM(all.get(), i, asked(kTransformParts[i].module, kTransformParts[i].get).release());
  // A level that has begun already is left alone.
  if (all) PyTuple_SET_ITEM(all.get(), kCount, with_dual_level ? dual_level().release() : PyLong_FromLong(0));
  return all;
}

void set_transforms_back(Borrowed then) {
  const Ref now = transforms_now();
  for (size_t i = 0; now && i < std::size(kTransformParts); i++) {
    PyObject *const was = PyTuple_GET_ITEM(then.get(), i), *const is = PyTuple_GET_ITEM(now.get(), i);
    const int same = was && is ? PyObject_RichCompareBool(was, is, Py_EQ) : 1;
    if (same < 0) PyErr_Clear();
    if (same == 0 && was == Py_None) call("torch._C._autograd", "_saved_tensors_hooks_enable");
    if (same == 0 && was != Py_None) call(kTransformParts[i].module, kTransformParts[i].set, was);
  }
  leave_dual_level(PyTuple_GET_ITEM(then.get(), std::size(kTransformParts)));
}

namespace {

// Where this thread has torch.func's transformations. They are part of what torch may give a thread anew, and lie at the same place in it.
struct OwnTransforms {
  const void* const* state_at = nullptr;
  const void* state = nullptr;
  const TransformStack* stack = nullptr;
};

const TransformStack& own_transforms(const Torch& torch) {
  [[gnu::tls_model("initial-exec")]] static constinit thread_local OwnTransforms own;
  if (own.state && *own.state_at == own.state) [[likely]] return *own.stack;
  static const void* const* (*asks)() = nullptr;
  if (!asks) find_symbol(asks, "_ZN2at9functorch20functorchTLSAccessorEv");
  own.stack = &torch.transforms();
  if (asks) own = {asks(), *asks(), own.stack};
  return *own.stack;
}

}  // namespace

bool transforms_are_active() {
  const Torch& torch = known();
  if (!torch.transforms) return transform_depth() > 0;
  const TransformStack& stack = own_transforms(torch);
  return stack.begin != stack.end;
}

// The work of this thread goes into a graph of CUDA's. A torch that hasn't used CUDA yet would say no by an exception.
static bool is_captured_by_cuda() {
  static const auto* const asks = new Ref(attribute_of("torch._C", "_cuda_isCurrentStreamCapturing"));
  if (!*asks || attribute_of("torch.cuda", "_initialized").get() != Py_True) return false;
  const Ref captures = Ref::steal(PyObject_CallNoArgs(asks->get()));
  if (!captures) PyErr_Clear();
  return captures.get() == Py_True;
}

bool modes_are_active() {
  if (!is_watched()) return false;
  static const auto* const counts = new std::array<Ref, 2>{attribute_of("torch._C", "_len_torch_function_stack"), attribute_of("torch._C", "_len_torch_dispatch_stack")};
  for (const Ref& count : *counts) {
    const Ref depth = count ? Ref::steal(PyObject_CallNoArgs(count.get())) : Ref();
    if (number(depth) == 0) continue;
    const bool names_device = &count == counts->data() && default_device().get() != Py_None;
    if (!names_device) return PyErr_Clear(), true;
  }
  static const auto* const others = new std::array<Ref, 2>{attribute_of("torch._C", "_get_tracing_state"), attribute_of("torch._C._dynamo.eval_frame", "get_eval_frame_callback")};
  for (const Ref& other : *others) {
    const Ref found = other ? Ref::steal(PyObject_CallNoArgs(other.get())) : Ref();
    if (!found) PyErr_Clear();
    if (found && found.get() != Py_None && found.get() != Py_False) return true;
  }
  return is_captured_by_cuda();
}

std::vector<Ref> present_modes() {
  std::vector<Ref> calls;
  const auto add = [&](const char* get, const char* set, std::initializer_list<const char*> devices) {
    const auto find = [](const char* name) { return attribute_of(name[0] == '_' ? "torch._C" : "torch", name); };
    const Ref asks = find(get), sets = find(set);
    for (const char* const device : devices) {
      const Ref now = !asks ? Ref() : device ? Ref::steal(PyObject_CallFunction(asks.get(), "s", device)) : Ref::steal(PyObject_CallNoArgs(asks.get()));
      Ref call = !now || !sets ? Ref() : device ? Ref::steal(Py_BuildValue("OsO", sets.get(), device, now.get())) : Ref::steal(PyTuple_Pack(2, sets.get(), now.get()));
      if (!call) PyErr_Clear();
      if (call) calls.push_back(std::move(call));
    }
  };
  add("get_default_dtype", "_set_default_dtype", {nullptr});
  add("is_autocast_cache_enabled", "set_autocast_cache_enabled", {nullptr});
  add("is_autocast_enabled", "set_autocast_enabled", {"cpu", "cuda"});
  add("get_autocast_dtype", "set_autocast_dtype", {"cpu", "cuda"});
  for (const Kernel& kernel : kKernels) add(kernel.get, kernel.set, {nullptr});
  return calls;
}

void set_modes(const std::vector<Ref>& calls) {
  for (const Ref& call : calls) {
    const Ref arguments = Ref::steal(PyTuple_GetSlice(call.get(), 1, PyTuple_GET_SIZE(call.get())));
    if (!arguments || !Ref::steal(PyObject_CallObject(PyTuple_GET_ITEM(call.get(), 0), arguments.get()))) PyErr_Clear();
  }
}

void leave_autocast() {
  const Ref leave = attribute_of("torch", "autocast_decrement_nesting");
  if (!leave || !Ref::steal(PyObject_CallNoArgs(leave.get()))) PyErr_Clear();
}

bool records_gradients() {
  static bool (*asks)() = nullptr;
  if (!asks) find_symbol(asks, "aoti_torch_grad_mode_is_enabled");
  if (asks) return asks();
  const Ref function = attribute_of("torch", "is_grad_enabled"), answer = function ? Ref::steal(PyObject_CallNoArgs(function.get())) : Ref();
  if (!answer) PyErr_Clear();
  return answer.get() != Py_False;
}

void set_records_gradients(bool records) {
  static void (*sets)(bool) = nullptr;
  if (!sets) find_symbol(sets, "aoti_torch_grad_mode_set_enabled");
  if (sets) return sets(records);
  const Ref function = attribute_of("torch._C", "_set_grad_enabled");
  if (!function || !Ref::steal(PyObject_CallOneArg(function.get(), records ? Py_True : Py_False))) PyErr_Clear();
}

}  // namespace evalframe::torch
