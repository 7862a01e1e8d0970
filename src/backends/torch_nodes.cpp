#include "backends/torch_nodes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "bytecode/operators.h"
#include "core/builtins.h"
#include "core/object_text.h"
#include "cpython/codec.h"
#include "frontends/numpy/calls.h"
#include "frontends/torch/calls.h"
#include "frontends/torch/tensors.h"
#include "recorder/recorder.h"

namespace evalframe::backends {

using graph::Form, graph::Graph, graph::Kind, graph::Meta, graph::Node, graph::Operand;

namespace {

bool is_number(const graph::Meta& meta) { return meta.kind == Kind::kInt || meta.kind == Kind::kBool || meta.kind == Kind::kFloat; }

// What keeps functools.lru_cache's counts and results, which the recorder calls (recorder/caches.h), and what asks for abc's registrations.
constexpr std::string_view kApart[] = {"is_cached", "is_cached_as", "cached", "count_hit", "count_miss", "keep", "keep_more", "get_cache_token"};

// No operation on tensors sees what it does, and it sees none.
bool stands_apart(PyObject* callable) {
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) return PyDescr_TYPE(callable) == &PyContextVar_Type;
  if (!PyCFunction_Check(callable)) return false;
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  return std::find(std::begin(kApart), std::end(kApart), name) != std::end(kApart);
}

bool is_data(PyObject* arguments) {
  if (!PyDict_Check(arguments)) return arguments == Py_None || recorder::is_immutable(arguments);
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(arguments, &at, nullptr, &value);) {
    if (!recorder::is_immutable(value)) return false;
  }
  return true;
}

// Functions that write or draw numbers only where an argument says so.
struct Condition {
  std::string_view function, keyword;
  uint32_t place;
  bool by_default;
};
constexpr Condition kConditions[] = {
    {"embedding", "max_norm", 3, false},
    {"scaled_dot_product_attention", "dropout_p", 4, false},
    {"dropout", "training", 2, true},
    {"batch_norm", "training", 5, false},
    {"multi_head_attention_forward", "training", 13, true},
};

// The argument of that name; null: there is none.
const Operand* named_operand(const Graph& graph, const Node& node, std::string_view name) {
  for (uint32_t i = 0; i < node.keywords; i++) {
    if (utf8(PyTuple_GET_ITEM(graph.constants[node.keyword_names].get(), i)) == name) return graph.operands_of(node) + (node.count - node.keywords) + i;
  }
  return nullptr;
}

// Whether it is surely None, 0 or False.
bool is_nothing(const Graph& graph, Operand operand) {
  PyObject* const value = operand.space == Operand::Space::kConstant ? graph.constants[operand.index].get() : nullptr;
  return value == Py_None || value == Py_False || (value && PyFloat_CheckExact(value) && PyFloat_AS_DOUBLE(value) == 0);
}

bool is_off(const Graph& graph, const Node& node, const Condition& condition) {
  const Operand* const operands = graph.operands_of(node);
  const uint32_t positional = node.count - node.keywords;
  const Operand* const given = condition.place < positional ? operands + condition.place : named_operand(graph, node, condition.keyword);
  return given ? is_nothing(graph, *given) : !condition.by_default;
}

// Whether a result that is given by `out` had another shape before, which backends don't know to change.
bool may_resize(const Graph& graph, const Node& node) {
  const Operand* const out = node.form == Form::kCall ? named_operand(graph, node, "out") : nullptr;
  if (!out || (out->space == Operand::Space::kConstant && graph.constants[out->index].get() == Py_None)) return false;
  const graph::Meta* const before = graph.meta_of(*out);
  if (!before || before->kind != Kind::kTensor || node.meta.kind != Kind::kTensor || before->rank != node.meta.rank) return true;
  const auto sizes = graph.sizes.begin();
  return !std::equal(sizes + before->shape, sizes + before->shape + before->rank, sizes + node.meta.shape);
}

bool is_switched_off(const Graph& graph, const Node& node, PyObject* callable) {
  const Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  if (!name || !PyUnicode_Check(name.get())) return PyErr_Clear(), false;
  const auto found = std::find_if(std::begin(kConditions), std::end(kConditions), [&](const Condition& condition) { return utf8(name.get()) == condition.function; });
  return found != std::end(kConditions) && is_off(graph, node, *found);
}

// What torch.func's transformations look at, where it isn't as it is in front of all of them.
struct Transforms {
  int depth = 0, dual_levels = 0;
  PyObject *message = Py_None, *inplace = Py_False, *forward = Py_True;
  bool operator==(const Transforms& other) const {
    return depth == other.depth && dual_levels == other.dual_levels && is_same(message, other.message) && inplace == other.inplace && forward == other.forward;
  }

 private:
  static bool is_same(PyObject* left, PyObject* right) { return left == right || (PyUnicode_Check(left) && PyUnicode_Check(right) && PyUnicode_Compare(left, right) == 0); }
};
struct Change {
  std::string_view function;
  void (*change)(Transforms& transforms, PyObject* argument);
};
constexpr Change kChanges[] = {
    {"_grad_increment_nesting", [](Transforms& transforms, PyObject*) { transforms.depth++; }},
    {"_grad_decrement_nesting", [](Transforms& transforms, PyObject*) { transforms.depth--; }},
    {"_jvp_increment_nesting", [](Transforms& transforms, PyObject*) { transforms.depth++; }},
    {"_jvp_decrement_nesting", [](Transforms& transforms, PyObject*) { transforms.depth--; }},
    {"_vmap_increment_nesting", [](Transforms& transforms, PyObject*) { transforms.depth++; }},
    {"_vmap_decrement_nesting", [](Transforms& transforms, PyObject*) { transforms.depth--; }},
    {"_enter_dual_level", [](Transforms& transforms, PyObject*) { transforms.dual_levels++; }},
    {"_exit_dual_level", [](Transforms& transforms, PyObject*) { transforms.dual_levels--; }},
    {"_saved_tensors_hooks_disable", [](Transforms& transforms, PyObject* message) { transforms.message = message; }},
    {"_saved_tensors_hooks_enable", [](Transforms& transforms, PyObject*) { transforms.message = Py_None; }},
    {"set_inplace_requires_grad_allowed", [](Transforms& transforms, PyObject* allowed) { transforms.inplace = allowed; }},
    {"_set_fwd_grad_enabled", [](Transforms& transforms, PyObject* enabled) { transforms.forward = enabled; }},
};

constexpr int kLost = 1 << 20;  // a depth that no graph comes back from: what a function without a row does isn't known

bool is_transform(const Graph& graph, const Node& node) {
  return node.form == Form::kCall && torch::call_kind(graph.constants[node.callable].get()) == torch::CallKind::kTransform;
}

// An argument that the graph computes is none of those that a state begins with.
void change(Transforms& transforms, const Graph& graph, const Node& node) {
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(graph.constants[node.callable].get())->m_ml->ml_name;
  const auto* const row = std::find_if(std::begin(kChanges), std::end(kChanges), [&](const Change& known) { return known.function == name; });
  const Operand* const first = node.count ? graph.operands_of(node) : nullptr;
  PyObject* const argument = first && first->space == Operand::Space::kConstant ? graph.constants[first->index].get() : Py_Ellipsis;
  if (row != std::end(kChanges)) return row->change(transforms, argument);
  transforms.depth = kLost;
}

// Whether Python reads the text of a complex number as another one, as graphs have it: (-0+1j) as 1j, -1j as (-0-1j), and infj as a name.
bool has_other_text(PyObject* object) {
  if (!PyComplex_CheckExact(object)) return false;
  const double real = PyComplex_RealAsDouble(object), imag = PyComplex_ImagAsDouble(object);
  const bool is_minus_zero = (real == 0 && std::signbit(real)) || (imag == 0 && std::signbit(imag));
  return is_minus_zero || (real == 0 && std::signbit(imag)) || !std::isfinite(imag);
}

bool is_of_floats(const Meta& meta) { return meta.kind == Kind::kTensor && (meta.dtype == graph::DType::float32 || meta.dtype == graph::DType::float64); }

// A constant that a float64 is, too; its value.
std::optional<double> plain_number(const Graph& graph, Operand operand) {
  constexpr int64_t kMost = int64_t{1} << 53;
  PyObject* const object = operand.space == Operand::Space::kConstant ? graph.constants[operand.index].get() : nullptr;
  if (object && PyFloat_CheckExact(object)) return PyFloat_AS_DOUBLE(object);
  if (!object || !PyLong_CheckExact(object)) return std::nullopt;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow || value > kMost || value < -kMost ? std::nullopt : std::optional(static_cast<double>(value));
}

// What Python computes of floats as float64s are computed, errors apart, which graphs ask for (python/evalframe/torch/graphs.py).
bool is_arithmetic(const Graph& graph, const Node& node) {
  using enum bytecode::BinaryOp;
  if (node.form == Form::kUnary) return static_cast<bytecode::UnaryOp>(node.code) == bytecode::UnaryOp::kNegative;
  if (node.form != Form::kBinary) return false;
  const bytecode::BinaryOp op = bytecode::binary_op(node.code);
  if (op != kPower) return op == kAdd || op == kSubtract || op == kMultiply || op == kTrueDivide;
  const std::optional<double> base = plain_number(graph, graph.operands_of(node)[0]), exponent = plain_number(graph, graph.operands_of(node)[1]);
  return base ? *base > 0 && *base < 1 : exponent && (*exponent == 2 || *exponent == 0.5);
}

// Of the function that the node calls, without the line that stands behind those in place.
std::string name_not_in_place(const Graph& graph, const Node& node) {
  const Ref text = node.form == Form::kCall ? Ref::steal(PyObject_GetAttrString(graph.constants[node.callable].get(), "__name__")) : Ref();
  if (!text || !PyUnicode_Check(text.get())) return PyErr_Clear(), std::string();
  std::string name(utf8(text.get()));
  if (name.ends_with("_")) name.pop_back();
  return name;
}

// Operations that take a tensor without dimensions for a number: one of two operands, or what the last, with this name, is multiplied by.
bool takes_tensor_for_number(const Graph& graph, const Node& node) {
  if (node.form == Form::kBinary) return is_arithmetic(graph, node) && bytecode::binary_op(node.code) != bytecode::BinaryOp::kPower;
  static constexpr std::pair<std::string_view, uint32_t> kScaled[] = {{"add", 3}, {"sub", 3}, {"addcmul", 4}, {"addcdiv", 4}};
  static constexpr std::string_view kOfTwo[] = {"add", "sub", "mul", "div"};
  const std::string called = name_not_in_place(graph, node);
  const std::string_view name = called;
  if (node.keywords == 0) return node.count == 2 && std::ranges::find(kOfTwo, name) != std::end(kOfTwo);
  const Operand* const scale = named_operand(graph, node, name.starts_with("addc") ? "value" : "alpha");
  return node.keywords == 1 && scale && std::ranges::find(kScaled, std::pair(name, node.count)) != std::end(kScaled);
}

bool makes_row(const Node& node) { return (node.form == Form::kList || node.form == Form::kTuple) && node.count > 0; }

// The node that makes such a list or tuple; null: it is none.
const Node* row_of(const Graph& graph, Operand operand) {
  const Node* const made = operand.space == Operand::Space::kNode ? &graph.nodes[operand.index] : nullptr;
  return made && makes_row(*made) ? made : nullptr;
}

// Operations on rows of tensors of one dtype whose last operand is a row of numbers, or of tensors without dimensions in their place.
bool takes_row_for_numbers(const Graph& graph, const std::vector<char>& before, const Node& node) {
  static constexpr std::pair<std::string_view, uint32_t> kOfRows[] = {{"_foreach_add", 2}, {"_foreach_mul", 2}, {"_foreach_div", 2}, {"_foreach_addcmul", 4}, {"_foreach_addcdiv", 4}};
  const Operand* const operands = graph.operands_of(node);
  const Operand numbers = node.count ? operands[node.count - 1] : Operand();
  if (!row_of(graph, numbers) || !before[numbers.index]) return false;
  const std::string called = name_not_in_place(graph, node);
  if (node.keywords || std::ranges::find(kOfRows, std::pair(std::string_view(called), node.count)) == std::end(kOfRows)) return false;
  const Node* const first = row_of(graph, *operands);
  const Meta* const one = first ? graph.meta_of(*graph.operands_of(*first)) : nullptr;
  return one && is_of_floats(*one) && std::all_of(operands, operands + node.count - 1, [&](Operand operand) {
    const Node* const row = row_of(graph, operand);
    return row && std::all_of(graph.operands_of(*row), graph.operands_of(*row) + row->count, [&](Operand tensor) {
      const Meta* const meta = graph.meta_of(tensor);
      return meta && meta->kind == Kind::kTensor && meta->dtype == one->dtype;
    });
  });
}

// Whether backends get the node with tensors in the place of floats that depend on elements: x.item(), what is computed of such numbers, rows of
// them, and operations on tensors of one dtype that they go into. before: the same of the nodes before it.
bool numbers_as_tensors(const Graph& graph, const std::vector<char>& before, const Node& node) {
  const Operand* const first = graph.operands_of(node);
  const auto is_known = [&](Operand operand) { return operand.space == Operand::Space::kNode && before[operand.index] && graph.nodes[operand.index].meta.kind == Kind::kFloat; };
  if (makes_row(node)) return std::all_of(first, first + node.count, is_known);
  if (takes_row_for_numbers(graph, before, node)) return true;
  if (node.meta.kind == Kind::kFloat && node.form == Form::kCall) {
    PyObject* const callable = graph.constants[node.callable].get();
    const bool asks = callable == reinterpret_cast<PyObject*>(&PyFloat_Type) || (torch::is_torchs(callable) && Py_IS_TYPE(callable, &PyMethodDescr_Type) && std::string_view(reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name) == "item");
    const Meta* const meta = node.count == 1 ? graph.meta_of(*first) : nullptr;
    return asks && meta && is_of_floats(*meta);
  }
  if (std::none_of(first, first + node.count, is_known)) return false;
  if (node.meta.kind == Kind::kFloat) {
    return is_arithmetic(graph, node) && std::all_of(first, first + node.count, [&](Operand operand) { return is_known(operand) || plain_number(graph, operand); });
  }
  return is_of_floats(node.meta) && takes_tensor_for_number(graph, node) && std::all_of(first, first + node.count, [&](Operand operand) {
    const Meta* const meta = graph.meta_of(operand);
    return is_known(operand) || (meta && meta->kind == Kind::kTensor && meta->dtype == node.meta.dtype);
  });
}

// Goes through a graph in order.
class Effects {
 public:
  explicit Effects(const Graph& graph) : graph_(graph), of_sizes_(graph.nodes.size()), of_elements_(graph.nodes.size()) {}

  std::vector<Effect> all() {
    // Where arithmetic raises an error the recorded calls do all again, which would draw other random numbers.
    const bool draws = std::ranges::any_of(graph_.nodes, [this](const Node& node) { return backends::only_draws(graph_, node) && acts_on_tensors(graph_, node); });
    for (const Node& node : graph_.nodes) as_tensors_.push_back(!draws && numbers_as_tensors(graph_, as_tensors_, node));
    do find_effects();
    while (parts_numbers());
    for (size_t i = 0; i < effects_.size(); i++) {
      if (effects_[i] != Effect::kApart && effects_[i] != Effect::kEffect) need_before(graph_.nodes[i]);
    }
    keep_transforms_whole();
    keep_parts();
    return std::move(effects_);
  }

 private:
  void find_effects() {
    effects_.clear();
    for (const Node& node : graph_.nodes) {
      const size_t at = effects_.size();
      of_sizes_[at] = asks_for_size(node) || is_computed_of_sizes(node);
      of_elements_[at] = !of_sizes_[at] && is_of_elements(node);
      effects_.push_back(as_tensors_[at] && !makes_row(node) ? Effect::kPure : effect(node, of_sizes_[at]));
    }
  }

  // Numbers that something else asks for are Python's own, and so are those that were made in front of what isn't a backend's. Whether there were such.
  bool parts_numbers() {
    bool found = false;
    std::vector<int32_t> pieces;  // by node
    for (size_t i = 0; i < effects_.size(); i++) {
      pieces.push_back((i ? pieces.back() : 0) + (effects_[i] == Effect::kEffect));
      for (const Operand* operand = operands(graph_.nodes[i]); operand != operands(graph_.nodes[i]) + graph_.nodes[i].count; operand++) {
        if (operand->space != Operand::Space::kNode || !of_elements_[operand->index]) continue;
        char& number = as_tensors_[operand->index];
        const bool parted = as_tensors_[i] && (!number || pieces[operand->index] != pieces[i]), asked = !as_tensors_[i] && number;
        if (parted) as_tensors_[i] = 0;
        if (asked) number = 0;
        found = found || parted || asked;
      }
    }
    return found;
  }

  // A backend gets all that a transformation of torch.func is about, or nothing of it: what that has wrapped has no meaning outside. Where it
  // isn't known that what holds in front of it was set back, the recorded calls run it.
  void keep_transforms_whole() {
    Transforms now;
    size_t begin = 0;  // where they began to be others than at first
    for (size_t i = 0; i < effects_.size(); i++) {
      if (!is_transform(graph_, graph_.nodes[i])) continue;
      const bool outside = now == Transforms();
      change(now, graph_, graph_.nodes[i]);
      if (outside) begin = i;
      if (now == Transforms()) keep_whole(begin, i + 1);
    }
    if (!(now == Transforms())) std::fill(effects_.begin() + static_cast<std::ptrdiff_t>(begin), effects_.end(), Effect::kEffect);
  }

  // What the recorded calls are given together, a list of tensors, is taken apart by them: backends take tensors.
  void keep_parts() {
    for (size_t i = 0; i < effects_.size(); i++) {
      const Node& node = graph_.nodes[i];
      if (node.form != Form::kGetItem || operands(node)->space != Operand::Space::kNode) continue;
      const auto whole = static_cast<size_t>(operands(node)->index);
      if (effects_[whole] == Effect::kEffect && graph_.nodes[whole].meta.kind == Kind::kObject) effects_[i] = Effect::kEffect;
    }
  }

  void keep_whole(size_t begin, size_t end) {
    const auto first = effects_.begin() + static_cast<std::ptrdiff_t>(begin), last = effects_.begin() + static_cast<std::ptrdiff_t>(end);
    if (std::find(first, last, Effect::kEffect) != last) std::fill(first, last, Effect::kEffect);
  }

  // What something is computed of can't be done behind it.
  void need_before(const Node& node) {
    for (uint32_t i = 0; i < node.count; i++) {
      if (is_apart(operands(node)[i])) effects_[operands(node)[i].index] = Effect::kEffect;
    }
  }

  static bool is_truth_of_tensor(const Node& node) { return node.form == Form::kTruth && node.code == 1; }
  bool may_wait(Operand operand) const { return operand.space == Operand::Space::kNode && is_truth_of_tensor(graph_.nodes[operand.index]); }

  bool is_apart(Operand operand) const { return operand.space == Operand::Space::kNode && effects_[operand.index] == Effect::kApart; }

  bool stands_apart(const Node& node) const {
    if (node.form == Form::kCheck || node.form == Form::kCheckMeta) return is_apart(operands(node)[0]);
    if (node.form != Form::kCall || !backends::stands_apart(callable_of(node)) || has_tensor(node)) return false;
    return std::all_of(operands(node), operands(node) + node.count, [this](Operand operand) { return operand.space != Operand::Space::kNode || is_apart(operand); });
  }

  Effect effect(const Node& node, bool of_sizes) const {
    if (stands_apart(node)) return Effect::kApart;
    switch (node.form) {
      case Form::kTuple: case Form::kList: case Form::kSlice: return Effect::kDerived;
      case Form::kCheck: return is_of_sizes(operands(node)[0]) ? Effect::kHeld : may_wait(operands(node)[0]) ? Effect::kCheck : Effect::kEffect;
      case Form::kCheckMeta: case Form::kIterator: return Effect::kEffect;
      case Form::kCall: case Form::kBinary: case Form::kUnary: case Form::kCompare: case Form::kGetItem: case Form::kSetItem: case Form::kGetAttr: case Form::kTruth: break;
    }
    if (of_sizes || is_truth_of_tensor(node)) return Effect::kDerived;
    if (may_resize(graph_, node) || takes_number(node) || takes_other_text(node)) return Effect::kEffect;
    return node.form != Form::kTruth && is_operation(node) ? Effect::kPure : Effect::kEffect;
  }

  // A number of Python's that depends on elements, or a container of such: backends would take it for a constant.
  bool is_of_elements(const Node& node) const {
    return node.form == Form::kTuple || node.form == Form::kList ? takes_number(node) : is_number(node.meta);
  }
  bool takes_number(const Node& node) const {
    return std::any_of(operands(node), operands(node) + node.count, [this](Operand operand) { return operand.space == Operand::Space::kNode && of_elements_[operand.index]; });
  }

  bool takes_other_text(const Node& node) const {
    return std::any_of(operands(node), operands(node) + node.count, [this](Operand operand) { return operand.space == Operand::Space::kConstant && has_other_text(graph_.constants[operand.index].get()); });
  }

  bool is_operation(const Node& node) const {
    if (node.form == Form::kCall) {
      PyObject* const callable = callable_of(node);
      if (torch::is_recurrent(callable)) return false;
      const torch::CallKind kind = torch::call_kind(callable);
      if (kind == torch::CallKind::kOperation || kind == torch::CallKind::kDescribed || kind == torch::CallKind::kState || kind == torch::CallKind::kMark) return true;
      if (kind == torch::CallKind::kTransform || kind == torch::CallKind::kTracks) return true;
      if (kind == torch::CallKind::kValue && node.meta.kind == Kind::kTensor) return name_not_in_place(graph_, node) == "repeat_interleave";  // by a number
      return torch::is_builtin_operation(callable) && (node.meta.kind == Kind::kTensor || node.meta.kind == Kind::kObject);
    }
    if (has_tensor(node)) return true;
    // What stands in a tuple that an operation has given.
    const bool is_item = node.form == Form::kGetItem && operands(node)[0].space == Operand::Space::kNode;
    return is_item ? is_operation(graph_.nodes[operands(node)[0].index]) : node.meta.kind == Kind::kTensor;
  }

  // Of a tensor, its shape, its rank, its length; of what an operation gives, how many there are.
  bool asks_for_size(const Node& node) const {
    const bool attribute = node.form == Form::kGetAttr, call = node.form == Form::kCall;
    if (!attribute && !call) return false;
    if (call && callable_of(node) == builtin<"len">()) {
      const Operand whole = operands(node)[0];
      return has_tensor(node) || (whole.space == Operand::Space::kNode && is_operation(graph_.nodes[whole.index]));
    }
    const torch::CallKind kind = attribute ? torch::attribute_kind(callable_of(node)) : torch::call_kind(callable_of(node));
    return has_tensor(node) && (kind == torch::CallKind::kSize || kind == torch::CallKind::kLayout);
  }

  bool is_computed_of_sizes(const Node& node) const {
    switch (node.form) {
      case Form::kCall:
        if (numpy::call_kind(callable_of(node)) != numpy::CallKind::kPure && callable_of(node) != builtin<"len">() && !torch::is_size_type(callable_of(node))) return false;
        break;
      case Form::kTuple: case Form::kList: case Form::kSlice: case Form::kBinary: case Form::kUnary: case Form::kCompare: case Form::kGetItem: case Form::kTruth: break;
      case Form::kCheck: case Form::kCheckMeta: case Form::kIterator: case Form::kSetItem: case Form::kGetAttr: return false;
    }
    return std::all_of(operands(node), operands(node) + node.count, [this](Operand operand) { return is_of_sizes(operand); });
  }

  bool is_of_sizes(Operand operand) const {
    switch (operand.space) {
      case Operand::Space::kConstant: return !torch::is_tensor(graph_.constants[operand.index].get());
      case Operand::Space::kInput: return is_number(graph_.inputs[operand.index].meta);
      case Operand::Space::kNode: return of_sizes_[operand.index];
      case Operand::Space::kNone: break;
    }
    return false;
  }

  bool has_tensor(const Node& node) const {
    return std::any_of(operands(node), operands(node) + node.count, [this](Operand operand) {
      const graph::Meta* const meta = graph_.meta_of(operand);
      return meta && meta->kind == Kind::kTensor;
    });
  }

  const Operand* operands(const Node& node) const { return graph_.operands_of(node); }
  PyObject* callable_of(const Node& node) const { return graph_.constants[node.callable].get(); }

  const Graph& graph_;
  std::vector<Effect> effects_;  // of the nodes so far
  std::vector<char> of_sizes_;  // by node: numbers, and containers of such, that follow from sizes and numbers from outside
  std::vector<char> of_elements_;  // by node
  std::vector<char> as_tensors_;  // by node: see numbers_as_tensors
};

}  // namespace

bool runs_no_code(const Graph& graph, const Node& node) {
  static constexpr std::string_view kLooks[] = {"is_cached", "is_cached_as", "cached", "count_hit", "count_miss"};
  PyObject* const callable = node.form == Form::kCall ? graph.constants[node.callable].get() : nullptr;
  if (!callable || !stands_apart(callable) || !PyCFunction_Check(callable)) return false;
  if (std::ranges::find(kLooks, reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) == std::end(kLooks)) return false;
  if (node.count < 2) return true;
  const Operand call = graph.operands_of(node)[1];
  PyObject* const known = call.space == Operand::Space::kConstant ? graph.constants[call.index].get() : nullptr;
  return known && PyTuple_Check(known) && PyTuple_GET_SIZE(known) == 2 && is_data(PyTuple_GET_ITEM(known, 0)) && is_data(PyTuple_GET_ITEM(known, 1));
}

std::vector<Effect> torch_effects_of(const Graph& graph) { return Effects(graph).all(); }

bool transforms(const Graph& graph, int32_t begin, int32_t end) {
  return std::any_of(graph.nodes.begin() + begin, graph.nodes.begin() + end, [&](const Node& node) { return is_transform(graph, node); });
}

bool enters_dual_level(const Graph& graph, int32_t begin, int32_t end) {
  return std::any_of(graph.nodes.begin() + begin, graph.nodes.begin() + end, [&](const Node& node) {
    if (!is_transform(graph, node)) return false;
    return std::string_view(reinterpret_cast<PyCFunctionObject*>(graph.constants[node.callable].get())->m_ml->ml_name) == "_enter_dual_level";
  });
}

bool varies(const Graph& graph) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), [](const graph::Input& input) { return input.varies || is_number(input.meta); });
}

// `n += x` of a number gives a new tensor.
static bool is_in_place(const Graph& graph, const Node& node) {
  if (node.form != Form::kBinary || node.code < bytecode::kBinaryOps) return false;
  const Operand left = *graph.operands_of(node);
  if (left.space == Operand::Space::kConstant) return torch::is_tensor(graph.constants[left.index].get());
  const graph::Meta* const meta = graph.meta_of(left);
  return !meta || !is_number(*meta);
}

// Of torch's functions and methods some that give tensors which nobody else has, if none is given by `out`.
static bool is_maker(const Graph& graph, const Node& node) {
  static constexpr std::string_view kMakers[] = {
      "arange", "batch_norm", "bmm", "cat", "clone", "conv1d", "conv2d", "conv3d", "conv_transpose2d", "cos", "empty",
      "empty_like", "exp", "full", "full_like", "layer_norm", "linear", "log_softmax", "matmul", "mean", "mm", "new_empty",
      "new_full", "new_ones", "new_zeros", "ones", "ones_like", "rsqrt", "scaled_dot_product_attention", "sigmoid", "sin",
      "softmax", "sort", "sqrt", "stack", "sum", "tanh", "topk", "where", "zeros", "zeros_like"};
  PyObject* const callable = graph.constants[node.callable].get();
  const Ref name = torch::is_torchs(callable) ? Ref::steal(PyObject_GetAttrString(callable, "__name__")) : Ref();
  if (!name || !PyUnicode_Check(name.get())) return PyErr_Clear(), false;
  return std::find(std::begin(kMakers), std::end(kMakers), utf8(name.get())) != std::end(kMakers) && !named_operand(graph, node, "out");
}

// Whether it has been made from node `begin` on, as no view of another tensor.
static bool is_new(const Graph& graph, Operand operand, int32_t begin) {
  if (operand.space != Operand::Space::kNode || operand.index < begin) return false;
  const Node& made = graph.nodes[operand.index];
  if (made.form == Form::kBinary) return made.meta.kind == Kind::kTensor && (!is_in_place(graph, made) || writes_into_new(graph, made, begin));
  if (made.form == Form::kCall) return is_maker(graph, made);
  // One of several that an operation has given together.
  if (made.form != Form::kGetItem) return false;
  const graph::Meta* const whole = graph.meta_of(*graph.operands_of(made));
  return whole && whole->kind == Kind::kObject && is_new(graph, *graph.operands_of(made), begin);
}

bool writes_into_new(const Graph& graph, const Node& node, int32_t begin) {
  const bool writes = node.form == Form::kSetItem || is_in_place(graph, node);
  return writes && is_new(graph, *graph.operands_of(node), begin);
}

// An argument of a call says that it acts.
static bool is_asked_to_act(const Graph& graph, const Node& node) {
  return std::ranges::any_of(std::array{"out", "inplace", "generator"}, [&](const char* name) {
    const Operand* const given = named_operand(graph, node, name);
    return given && !is_nothing(graph, *given);
  });
}

bool only_draws(const Graph& graph, const Node& node) {
  PyObject* const callable = node.form == Form::kCall ? graph.constants[node.callable].get() : nullptr;
  if (!callable || !torch::draws(callable) || is_asked_to_act(graph, node)) return false;
  if (!torch::is_in_place(callable)) return true;
  // What the graph has made is filled, whatever is in it.
  static constexpr std::string_view kFills[] = {"normal", "log_normal", "uniform", "exponential", "random"};
  const bool fills = Py_IS_TYPE(callable, &PyMethodDescr_Type) && node.count > 0 && std::ranges::find(kFills, name_not_in_place(graph, node)) != std::end(kFills);
  return fills && is_new(graph, *graph.operands_of(node), 0);
}

bool acts_on_tensors(const Graph& graph, const Node& node) {
  if (node.form == Form::kSetItem) return true;
  if (node.form == Form::kBinary) return is_in_place(graph, node);
  if (node.form != Form::kCall) return false;
  if (is_asked_to_act(graph, node)) return true;
  PyObject* const callable = graph.constants[node.callable].get();
  if (torch::is_builtin_operation(callable)) return std::string_view(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name).starts_with("i");
  return torch::has_effect(callable) && !torch::changes_gradient_mode(callable) && !is_switched_off(graph, node, callable);
}

// Whether the code has an `except`; if not, its handlers end what was begun, and raise again what they got.
static bool has_except(const bytecode::Code& code) {
  using enum bytecode::Op;
  const auto& instructions = code.instructions;
  for (size_t i = 0; i < instructions.size(); i++) {
    const bool drops = instructions[i].op == PUSH_EXC_INFO && i + 1 < instructions.size() && instructions[i + 1].op == POP_TOP;
    if (drops || instructions[i].op == CHECK_EXC_MATCH || instructions[i].op == CHECK_EG_MATCH) return true;
  }
  return false;
}

// Whether what is raised at the instruction of the frame is handled there, but by what raises it again.
static bool is_handled_in(const graph::Frame& frame, const bytecode::Code& code, int32_t instruction) {
  const bytecode::ExceptionRegion* region = code.handler(instruction);
  while (region && std::ranges::find(frame.passing, region->target) != frame.passing.end()) region = code.handler(region->target);
  return region && !(frame.is_torchs && !has_except(code));
}

bool is_handled(const Graph& graph, const Node& node) {
  int32_t frame = node.origin.frame, instruction = node.origin.instruction;
  while (frame >= 0) {
    const graph::Frame& of = graph.frames[static_cast<size_t>(frame)];
    const bytecode::Code* const code = cpython::decoded(of.code);
    if (!code || (instruction >= 0 && is_handled_in(of, *code, instruction))) return true;
    instruction = of.call_instruction;
    frame = of.parent;
  }
  return false;
}

}  // namespace evalframe::backends
