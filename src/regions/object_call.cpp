#include "regions/object_call.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "backends/effects.h"
#include "cpython/codec.h"
#include "core/object_text.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "regions/expression.h"
#include "regions/views.h"

namespace evalframe::regions {

using backends::Effect, backends::effect_of;
using graph::Form, graph::Graph, graph::Node;
using Kind = Type::Kind;

namespace {

// Functions that warn of arrays without elements, or of what a conversion leaves out; of which elements count, too, where these say so.
constexpr const char* kWarning[] = {"mean", "std", "var", "median", "astype", "average"};
constexpr const char* kCounting[] = {"ddof", "correction", "where"};
// And those that warn of elements: their warnings are Python's, which nothing turns into exceptions for one call.
constexpr const char* kWarningOfElements[] = {"nanmean", "nanmin", "nanmax"};
// Of vectors of two numbers.
constexpr const char* kWarningOfTwo[] = {"cross"};

bool is_named(PyObject* callable, std::span<const char* const> names) {
  const Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  const char* const text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!text) PyErr_Clear();
  return text && std::any_of(names.begin(), names.end(), [&](const char* other) { return std::strcmp(text, other) == 0; });
}

bool is_one_number(const graph::Meta& meta) {
  return meta.kind == graph::Kind::kFloat || meta.kind == graph::Kind::kInt || (meta.kind == graph::Kind::kNumpyScalar && is_computed(meta.dtype));
}

// Whether an index has an array or a list in it: what it gives is a copy.
bool has_array(const Graph& graph, graph::Operand index) {
  if (const graph::Meta* const meta = graph.meta_of(index); meta && meta->kind == graph::Kind::kArray) return true;
  if (index.space == graph::Operand::Space::kConstant) return PyList_CheckExact(graph.constants[static_cast<size_t>(index.index)].get());
  if (index.space != graph::Operand::Space::kNode) return false;
  const Node& node = graph.nodes[static_cast<size_t>(index.index)];
  if (node.form == Form::kList) return true;
  if (node.form != Form::kTuple) return false;
  const graph::Operand* const items = graph.operands_of(node);
  return std::any_of(items, items + node.count, [&](graph::Operand item) { return has_array(graph, item); });
}

// Methods of NumPy's random generators that give one number for numbers, always of the same type, and raise before they draw.
constexpr const char* kDraws[] = {
    "random", "normal", "standard_normal", "uniform", "exponential", "standard_exponential", "gamma", "standard_gamma", "beta", "chisquare",
    "lognormal", "laplace", "logistic", "rayleigh", "weibull", "pareto", "triangular", "vonmises", "wald", "standard_t", "standard_cauchy",
    "poisson", "binomial", "geometric", "integers", "rand", "randn", "randint", "random_sample",
};

bool gathers(const Graph& graph, const Node& node) {
  return (node.form == Form::kGetItem || node.form == Form::kSetItem) && has_array(graph, graph.operands_of(node)[1]);
}

class CallWriter {
 public:
  CallWriter(const ArrayNodes& nodes, int32_t index) : nodes_(nodes), block_(nodes.block), node_(nodes.graph.nodes[static_cast<size_t>(index)]) {
    may_alias_ = effect_of(nodes.graph, node_) == Effect::kDerived && !gathers(nodes.graph, node_);
  }

  Written write() {
    warns_ = node_.form == Form::kCall && is_named(callable(), kWarning);
    refuse_warnings();
    const graph::Operand* const operands = nodes_.graph.operands_of(node_);
    for (uint32_t i = 0; i < node_.count; i++) call_.operands.push_back(operand(operands[i]));
    add_node();
    call_.result = result_type();
    block_.look_at_conditions();
    for (size_t i = 0; i < words_.size(); i++) emitter().line("store " + words_[i].type + " " + words_[i].ref + ", ptr " + place(i).ref);
    const Term none = emitter().integer("i64", 0), one = emitter().integer("i64", 1);
    Routine routine{.kind = Routine::Kind::kObject, .text = text_};
    routine.object = std::make_shared<const ObjectCall>(std::move(call_));
    const Type result = routine.object->result;
    block_.call(routine, {{place(0), none, none}}, one, one, false);
    return loaded(result);
  }

 private:
  Emitter& emitter() const { return block_.emitter; }
  Term place(size_t word) const { return emitter().let("ptr", std::string("getelementptr i64, ptr ") + kCallWords + ", i64 " + std::to_string(word)); }

  void refuse_warnings() const {
    if (node_.form != Form::kCall) return;
    if (is_named(callable(), kWarningOfElements)) throw Unsupported("a function that warns of elements");
    PyObject* const names = warns_ && node_.keywords ? nodes_.graph.constants[static_cast<size_t>(node_.keyword_names)].get() : nullptr;
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); i++) {
      const auto is = [&](const char* name) { return PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), name) == 0; };
      if (std::any_of(std::begin(kCounting), std::end(kCounting), is)) throw Unsupported("a function that warns of few elements");
    }
  }

  Given known(PyObject* object) {
    call_.graph.constants.push_back(Ref::borrow(object));
    text_ += "known " + std::to_string(reinterpret_cast<uintptr_t>(object)) + " ";
    return {.kind = Given::Kind::kKnown, .known = static_cast<int32_t>(call_.graph.constants.size()) - 1};
  }

  Given operand(graph::Operand of) {
    if (of.space == graph::Operand::Space::kConstant) return known(nodes_.graph.constants[static_cast<size_t>(of.index)].get());
    if (of.space == graph::Operand::Space::kNode) {
      const Node& node = nodes_.graph.nodes[static_cast<size_t>(of.index)];
      if (node.form == Form::kTuple) return packed(Given::Kind::kTuple, node);
      if (node.form == Form::kList) return packed(Given::Kind::kList, node);
      if (node.form == Form::kSlice) return packed(Given::Kind::kSlice, node);
    }
    Written value = nodes_.operand(of);
    if (value.is_tuple) throw Unsupported("a shape for a call of NumPy");
    if (value.type.is_array()) return array(value, of);
    if (value.constant && !value.type.is_number()) return known(value.constant);
    if (value.type.kind == Kind::kObject && value.type.object >= 0 && is_draw(nodes_.graph, node_)) {
      text_ += "object " + std::to_string(value.type.object) + " ";
      return {.kind = Given::Kind::kObject, .known = value.type.object};
    }
    if (!value.type.is_number()) throw Unsupported("a call of NumPy with " + text_of(value.type));
    return words(value);
  }

  Given packed(Given::Kind kind, const Node& node) {
    Given all{.kind = kind};
    text_ += "(" + std::to_string(static_cast<int>(kind)) + " ";
    if (warns_ && node.count == 0) throw Unsupported("a function that warns of no elements");
    const graph::Operand* const items = nodes_.graph.operands_of(node);
    for (uint32_t i = 0; i < node.count; i++) all.items.push_back(operand(items[i]));
    text_ += ") ";
    return all;
  }

  Given array(const Written& value, graph::Operand of) {
    if (!agrees(value.type, nodes_.meanings.meta(of))) throw Unsupported("another type of array");
    Written array = value;
    // In the order that NumPy would have given it.
    if (array.expression) require_c_order(block_, array);
    array = computed(block_, array);
    const bool is_memory = array.type.kind == Kind::kFresh || array.is_of_fresh;
    if (is_memory && may_alias_) throw Unsupported("a new array seen in another shape");
    if (array.is_of_fresh) throw Unsupported("a part of a new array for a call of NumPy");
    if (node_.form == Form::kCall && is_named(callable(), kWarningOfTwo)) {
      for (const Term& size : sizes_of(block_, array)) block_.leave_if(compare("eq", size, 2));
    }
    if (warns_) {
      for (const Term& size : sizes_of(block_, array)) block_.leave_unless(compare("sgt", size, 0));
      if (native::is_complex(array.type.dtype)) throw Unsupported("a conversion of complex numbers");
    }
    return words(array);
  }

  Given words(const Written& value) {
    Given made{.kind = Given::Kind::kValue, .type = value.type, .word = static_cast<int32_t>(words_.size())};
    // What an object says of itself isn't needed.
    if (value.type.kind == Kind::kArray || value.type.kind == Kind::kHeld) words_.push_back(value.words[0]);
    else for (const Term& word : words_of(value)) words_.push_back(word);
    if (words_.size() > static_cast<size_t>(kMostCallWords)) throw Unsupported("a call of NumPy with so many operands");
    text_ += text_of(value.type) + "/" + std::to_string(value.type.flags) + " ";
    return made;
  }

  PyObject* callable() const { return nodes_.graph.constants[static_cast<size_t>(node_.callable)].get(); }

  void add_node() {
    Node node = node_;
    node.operands = 0;
    text_ += std::string(graph::name(node.form)) + "/" + std::to_string(node.code) + "/" + std::to_string(node.keywords) + " ";
    if (node.callable >= 0) node.callable = known(callable()).known;
    if (node.keywords) node.keyword_names = known(nodes_.graph.constants[static_cast<size_t>(node_.keyword_names)].get()).known;
    call_.graph.nodes.push_back(node);
    call_.may_report = node.form != Form::kGetItem && node.form != Form::kGetAttr && !is_draw(nodes_.graph, node_);
  }

  Type result_type() {
    const graph::Meta& meta = node_.meta;
    if (node_.form == Form::kSetItem) return {};
    Type type;
    if (meta.kind == graph::Kind::kNumpyScalar && is_computed(meta.dtype)) type = {Kind::kNumpy, meta.dtype};
    if (meta.kind == graph::Kind::kFloat) type = {Kind::kFloat};
    if (meta.kind == graph::Kind::kInt) type = {Kind::kInt};
    const bool fits = meta.rank > 0 && meta.rank <= kMostDimensions && meta.dtype != DType::kNone;
    if (meta.kind == graph::Kind::kArray && fits) type = {Kind::kHeld, meta.dtype, meta.rank, NPY_ARRAY_ALIGNED | (meta.writeable ? NPY_ARRAY_WRITEABLE : 0)};
    if (type.kind == Kind::kUnbound) throw Unsupported("a call of NumPy that gives something else");
    text_ += "to " + text_of(type) + "/" + std::to_string(type.flags);
    return type;
  }

  Written loaded(const Type& type) {
    if (type.kind == Kind::kUnbound) return {};
    std::vector<Term> words;
    for (const std::string& word : words_of(type)) words.push_back(emitter().let(word, "load " + word + ", ptr " + place(words.size()).ref));
    if (type.kind == Kind::kHeld) block_.holds(words[0]);
    return written(type, std::move(words));
  }

  const ArrayNodes& nodes_;
  Block& block_;
  const Node& node_;
  bool may_alias_;
  bool warns_ = false;
  ObjectCall call_;
  std::vector<Term> words_;
  std::string text_;  // what tells it from others
};

}  // namespace

static bool takes_numbers(const Graph& graph, std::span<const graph::Operand> operands) {
  return std::all_of(operands.begin(), operands.end(), [&](graph::Operand of) {
    if (of.space == graph::Operand::Space::kConstant) return type_of(graph.constants[static_cast<size_t>(of.index)].get()).is_number();
    const graph::Meta* const meta = graph.meta_of(of);
    return meta && is_one_number(*meta);
  });
}

bool is_draw(const Graph& graph, const Node& node) {
  if (node.form != Form::kCall || node.keywords || !is_one_number(node.meta)) return false;
  PyObject* const callable = graph.constants[static_cast<size_t>(node.callable)].get();
  const graph::Operand* const operands = graph.operands_of(node);
  // Of a generator of the program's the method is the class's, and the first operand is the generator.
  const bool is_method = numpy::is_method_of_random_generators(callable);
  if (!is_method && !numpy::is_bound_to_random_generator(callable)) return false;
  if (is_method && node.count == 0) return false;
  return is_named(callable, kDraws) && takes_numbers(graph, {operands + is_method, operands + node.count});
}

// A function of `math`, of numbers, which gives a number or raises.
static bool is_of_math(const Graph& graph, const Node& node) {
  if (node.form != Form::kCall || node.keywords || !is_one_number(node.meta)) return false;
  PyObject* const callable = graph.constants[static_cast<size_t>(node.callable)].get();
  static PyObject* const math = [] {  // for good
    PyObject* const module = PyImport_ImportModule("math");
    if (!module) PyErr_Clear();  // the program keeps it from being imported
    return module;
  }();
  const bool is_its = PyCFunction_CheckExact(callable) && math && PyCFunction_GET_SELF(callable) == math;
  const graph::Operand* const operands = graph.operands_of(node);
  return is_its && takes_numbers(graph, {operands, operands + node.count});
}

bool may_be_object_call(const Graph& graph, const native::Meanings& meanings, int32_t index) {
  const Node& node = graph.nodes[static_cast<size_t>(index)];
  if (node.form == Form::kSetItem) return gathers(graph, node);
  if (node.form != Form::kCall && node.form != Form::kGetItem) return false;
  if (is_draw(graph, node) || is_of_math(graph, node)) return true;
  const Effect effect = effect_of(graph, node);
  if (effect != Effect::kPure && effect != Effect::kDerived) return false;
  // What graphs put together into kernels isn't taken apart.
  const native::Sense sense = meanings.of(index).sense;
  return sense == native::Sense::kCall || sense == native::Sense::kQuick || sense == native::Sense::kReduce || sense == native::Sense::kView;
}

Written object_call(const ArrayNodes& nodes, int32_t index) { return CallWriter(nodes, index).write(); }

}  // namespace evalframe::regions
