// Cuts a graph into stretches without effects for a user's backend, and runs what that returned for them.
#include "backends/python_backend.h"

#include <algorithm>
#include <optional>

#include "backends/effects.h"
#include "backends/node_call.h"
#include "backends/reference.h"
#include "backends/torch_nodes.h"
#include "core/few.h"
#include "cpython/codec.h"
#include "cpython/hook.h"
#include "frontends/numpy/numpy_api.h"
#include "frontends/torch/calls.h"
#include "frontends/torch/tensors.h"

namespace evalframe::backends {

using graph::Form, graph::Graph, graph::Kind, graph::Meta, graph::Node, graph::Operand;

namespace {

struct Stretch {
  int32_t begin, end;
  Ref function;                  // null: run by the recorded calls
  Ref origin;                    // of its first node: (file, line, function)
  std::vector<Operand> inputs;   // what the function takes
  bool takes_all = false;        // the graph's inputs, as they are
  std::vector<int32_t> outputs;  // nodes whose values it returns
  std::vector<int32_t> late;     // views, containers and checks that are made of them behind it, and what stands apart
  std::vector<int32_t> apart;    // of these: done once, whoever runs the rest
  Ref told;                      // until the function is made: by the first run, where what goes in isn't known before
  bool acts = false;             // it mustn't be run twice
  bool writes = false;           // ... as it writes into tensors
  bool handled = false;          // ... and its frames handle what it raises
  bool transforms = false;       // transformations of torch.func begin and end in it
  bool enters_dual_level = false;
  Ref transforms_before;         // how these are in front of it: the guards ask for that, but for the level
  bool draws = false;            // it draws random numbers, and has checks, or frames that handle what it raises: it may be run twice, as they are set back
  std::vector<int32_t> dead;     // nodes whose values nothing behind this stretch needs
  std::vector<int32_t> dead_of_functions;  // ... of those that functions return, and what is made of these
  graph::Origin place = {};      // where the function stands for its nodes
};

bool is_node(Operand operand, int32_t begin, int32_t end) {
  return operand.space == Operand::Space::kNode && operand.index >= begin && operand.index < end;
}

std::vector<Operand> operands_of(const Graph& graph, int32_t node) {
  const Operand* first = graph.operands_of(graph.nodes[node]);
  return {first, first + graph.nodes[node].count};
}

// Where the node's frame stands in the innermost one that the stretch's nodes are all run in: what is done for several functions is done in the one that calls them.
graph::Origin place_of(const Graph& graph, const Stretch& stretch, int32_t of) {
  const auto stands_in = [&](int32_t frame, int32_t outer) {
    while (frame >= 0 && frame != outer) frame = graph.frames[frame].parent;
    return frame == outer;
  };
  graph::Origin place = graph.nodes[of].origin;
  for (int32_t node = stretch.begin; node < stretch.end; node++) {
    while (!stands_in(graph.nodes[node].origin.frame, place.frame)) {
      const graph::Frame& frame = graph.frames[place.frame];
      if (frame.parent < 0) return graph.nodes[of].origin;
      place = {frame.parent, frame.call_instruction};
    }
  }
  return place;
}

std::vector<Effect> effects_of(const Graph& graph) {
  std::vector<Effect> effects;
  for (const Node& node : graph.nodes) effects.push_back(effect_of(graph, node));
  return effects;
}

// Cuts the graph, and finds for each stretch without effects what is needed of it behind it.
class Planner {
 public:
  Planner(const Graph& graph, const ExitAt& exit_at, std::vector<Effect> effects, bool of_torch)
      : graph_(graph), of_torch_(of_torch), size_(static_cast<int32_t>(graph.nodes.size())), effects_(std::move(effects)), last_use_(size_, -1) {
    for (int32_t node = 0; node <= size_; node++) {
      if (node < size_) use(operands_of(graph, node), node);
      use(exit_at(node).values, node);
    }
    for (int32_t node = size_ - 1; node >= 0; node--) {
      if (is_made_again(node)) use(operands_of(graph, node), last_use_[node]);
    }
    keep_places(Effect::kApart, [this](int32_t at, int32_t begin) { return acts(at, begin); });
    if (of_torch) keep_places(Effect::kCheck, [this](int32_t at, int32_t begin) { return acts(at, begin) && !only_draws(graph_, graph_.nodes[at]); });
  }

  std::vector<Stretch> run() {
    int32_t begin = 0;
    for (int32_t node = 1; node <= size_; node++) {
      if (node < size_ && (effects_[node] == Effect::kEffect) == (effects_[begin] == Effect::kEffect)) continue;
      add(begin, node);
      begin = node;
    }
    return std::move(stretches_);
  }

  // Whether the stretch writes into tensors, others than its own, or draws random numbers.
  bool acts(const Stretch& stretch) const {
    for (int32_t node = stretch.begin; node < stretch.end; node++) {
      if (acts(node, stretch.begin)) return true;
    }
    return false;
  }

  // ... the one of these.
  bool writes(const Stretch& stretch) const {
    for (int32_t node = stretch.begin; node < stretch.end; node++) {
      if (acts(node, stretch.begin) && !only_draws(graph_, graph_.nodes[node])) return true;
    }
    return false;
  }

  // Nodes that the function has to know: its outputs, what they are made of, what writes into tensors, whoever uses what it gives, and what nobody
  // uses but may still raise.
  std::vector<int32_t> nodes_of(const Stretch& stretch) const {
    std::vector<char> wanted(size_);
    for (const int32_t node : stretch.outputs) wanted[node] = 1;
    std::vector<int32_t> nodes;
    for (int32_t node = stretch.end - 1; node >= 0; node--) {
      const bool may_raise = of_torch_ && graph_.nodes[node].meta.kind == Kind::kFloat;  // what Python computes of numbers
      const bool counts = effects_[node] == Effect::kPure && (last_use_[node] <= node || may_raise || (of_torch_ && acts_on_tensors(graph_, graph_.nodes[node])));
      const bool asked = node >= stretch.begin && (effects_[node] == Effect::kHeld || counts);
      if (!wanted[node] && !asked) continue;
      nodes.push_back(node);
      for (const Operand operand : operands_of(graph_, node)) {
        if (is_node(operand, stretch.begin, stretch.end) || (is_node(operand, 0, size_) && is_made_again(operand.index))) wanted[operand.index] = 1;
      }
    }
    std::reverse(nodes.begin(), nodes.end());
    return nodes;
  }

  // Whether something is to be computed, and not only looked up, or recording of gradients switched.
  bool computes(const std::vector<int32_t>& nodes) const {
    return std::any_of(nodes.begin(), nodes.end(), [this](int32_t node) {
      const Node& of = graph_.nodes[node];
      return effects_[node] == Effect::kPure && !(of.form == Form::kCall && torch::changes_gradient_mode(graph_.constants[of.callable].get()));
    });
  }

 private:
  // ... of which stretch the node is tells what is its own.
  bool acts(int32_t node, int32_t begin) const {
    return effects_[node] != Effect::kApart && acts_on_tensors(graph_, graph_.nodes[node]) && !writes_into_new(graph_, graph_.nodes[node], begin);
  }

  // What may leave the graph, and could wait, isn't done behind what mustn't be run twice: it keeps its place there.
  template <class Acts>
  void keep_places(Effect waits, Acts acts) {
    if (std::find(effects_.begin(), effects_.end(), waits) == effects_.end()) return;
    bool behind_acts = false;
    int32_t begin = 0, last = -1;  // of this stretch, and the last in it that waits
    for (int32_t node = 0; node < size_; node++) {
      if (effects_[node] == waits) {
        if (behind_acts) effects_[node] = Effect::kEffect;
        else last = node;
      }
      if (effects_[node] == Effect::kEffect) {
        behind_acts = false;
        last = -1;
        begin = node + 1;
      } else if (acts(node, begin)) {
        if (last >= begin) begin = last + 1;
        for (behind_acts = true; last >= 0 && effects_[last] == waits; last--) effects_[last] = Effect::kEffect;
        last = -1;
      }
    }
  }

  void use(const std::vector<Operand>& operands, int32_t at) {
    for (const Operand operand : operands) {
      if (operand.space == Operand::Space::kNode) last_use_[operand.index] = std::max(last_use_[operand.index], at);
    }
  }

  // Of torch's graphs: containers and sizes, which no function takes or returns, are made by each that needs them.
  bool is_made_again(int32_t node) const {
    const Kind kind = graph_.nodes[node].meta.kind;
    return of_torch_ && effects_[node] == Effect::kDerived && kind != Kind::kInt && kind != Kind::kBool && kind != Kind::kFloat;
  }

  void add(int32_t begin, int32_t end) {
    Stretch stretch{.begin = begin, .end = end};
    for (int32_t node = begin; node < end; node++) {
      if (effects_[node] == Effect::kApart) stretch.apart.push_back(node);
    }
    for (int32_t node = 0; node < end; node++) {
      if (last_use_[node] < end && std::max(last_use_[node], node) >= begin) stretch.dead.push_back(node);
    }
    const bool computes = std::find(effects_.begin() + begin, effects_.begin() + end, Effect::kPure) != effects_.begin() + end;
    if (computes) find_outputs(stretch);
    stretches_.push_back(std::move(stretch));
  }

  void find_outputs(Stretch& stretch) {
    std::vector<char> wanted(size_);
    for (int32_t node = stretch.end - 1; node >= stretch.begin; node--) {
      const bool leaves = effects_[node] == Effect::kCheck || effects_[node] == Effect::kApart || graph_.nodes[node].form == Form::kTruth;
      if (!leaves && !wanted[node] && last_use_[node] < stretch.end) continue;
      if (effects_[node] == Effect::kPure) {
        stretch.outputs.push_back(node);
        continue;
      }
      stretch.late.push_back(node);
      for (const Operand operand : operands_of(graph_, node)) {
        if (is_node(operand, stretch.begin, stretch.end)) wanted[operand.index] = 1;
      }
    }
    std::reverse(stretch.outputs.begin(), stretch.outputs.end());
    std::reverse(stretch.late.begin(), stretch.late.end());
  }

  const Graph& graph_;
  const bool of_torch_;
  const int32_t size_;
  std::vector<Effect> effects_;
  std::vector<int32_t> last_use_;  // by a node or, at the same number, by the exit before it
  std::vector<Stretch> stretches_;
};

// Tells Python of a stretch: plain tuples, from which evalframe.graph makes its objects.
class Teller {
 public:
  Teller(const Graph& graph, const Stretch& stretch, std::vector<int32_t> nodes) : graph_(graph), stretch_(stretch), nodes_(std::move(nodes)) {}

  // The operands that come from outside, in the order in which the nodes ask for them.
  std::vector<Operand> inputs() const {
    std::vector<Operand> found;
    for (const int32_t node : nodes_) {
      for (const Operand operand : operands_of(graph_, node)) {
        const bool inside = operand.space == Operand::Space::kConstant || is_told(operand);
        if (!inside && std::find(found.begin(), found.end(), operand) == found.end()) found.push_back(operand);
      }
    }
    return found;
  }

  // (origin, inputs, nodes, outputs); null with an exception. An input: its name, kind, and the dimensions whose sizes vary.
  Ref tell() const {
    Ref inputs = list(stretch_.inputs, [this](Operand operand) { return input(operand); });
    Ref nodes = list(nodes_, [this](int32_t node) { return row(node); });
    Ref outputs = list(stretch_.outputs, [this](int32_t node) { return Ref::steal(PyLong_FromSsize_t(index_of(node))); });
    Ref at = origin(stretch_.outputs.empty() ? stretch_.begin : nodes_.front());
    if (!inputs || !nodes || !outputs || !at) return Ref();
    return Ref::steal(PyTuple_Pack(4, at.get(), inputs.get(), nodes.get(), outputs.get()));
  }

 private:
  template <class Items, class Make>
  static Ref list(const Items& items, Make make) {
    Ref made = Ref::steal(PyList_New(0));
    for (const auto& item : items) {
      const Ref object = made ? make(item) : Ref();
      if (!object || PyList_Append(made.get(), object.get()) < 0) return Ref();
    }
    return made;
  }

  bool is_told(Operand operand) const { return operand.space == Operand::Space::kNode && std::binary_search(nodes_.begin(), nodes_.end(), operand.index); }

  Py_ssize_t index_of(int32_t node) const { return std::lower_bound(nodes_.begin(), nodes_.end(), node) - nodes_.begin(); }

  Ref input(Operand operand) const {
    const bool given = operand.space == Operand::Space::kInput;
    const std::string name = given ? graph_.inputs[operand.index].name : "n" + std::to_string(operand.index);
    const Ref told = meta(*graph_.meta_of(operand));
    return told ? Ref::steal(Py_BuildValue("sOK", name.c_str(), told.get(), dimensions_that_vary(operand))) : Ref();
  }

  // A bit for each. Of what was made by the graph nothing is known.
  unsigned long long dimensions_that_vary(Operand operand) const {
    if (operand.space == Operand::Space::kInput) return graph_.inputs[operand.index].varies;
    return varies_ ? ~0ull : 0;
  }

  // (kind, dtype or None, recorded shape or None)
  Ref meta(const Meta& meta) const {
    constexpr const char* kKinds[] = {"array", "scalar", "int", "float", "bool", "complex", "none", "object", "tensor"};
    Ref shape = Ref::borrow(Py_None);
    if (meta.kind == Kind::kArray) {
      shape = Ref::steal(PyTuple_New(meta.rank));
      for (int i = 0; shape && i < meta.rank; i++) PyTuple_SET_ITEM(shape.get(), i, PyLong_FromLongLong(graph_.sizes[meta.shape + i]));
    }
    if (!shape) return Ref();
    const bool typed = meta.dtype != graph::DType::kNone;
    return Ref::steal(Py_BuildValue("szO", kKinds[static_cast<int>(meta.kind)], typed ? graph::name(meta.dtype) : nullptr, shape.get()));
  }

  // (form, code, callable, keyword names, operands, meta, origin)
  Ref row(int32_t index) const {
    const Node& node = graph_.nodes[index];
    const auto constant = [this](int32_t at) { return at < 0 ? Py_None : graph_.constants[at].get(); };
    const Ref operands = list(operands_of(graph_, index), [this](Operand operand) { return operand_row(operand); });
    const Ref told = meta(node.meta);
    const Ref at = origin(index);
    if (!operands || !told || !at) return Ref();
    PyObject* names = node.keywords ? constant(node.keyword_names) : Py_None;
    return Ref::steal(Py_BuildValue("siOOOOO", graph::name(node.form), static_cast<int>(node.code), constant(node.callable), names,
                                    operands.get(), told.get(), at.get()));
  }

  // ("i", position among the inputs), ("n", position among the nodes) or ("c", object)
  Ref operand_row(Operand operand) const {
    if (operand.space == Operand::Space::kConstant) return Ref::steal(Py_BuildValue("sO", "c", graph_.constants[operand.index].get()));
    if (is_told(operand)) return Ref::steal(Py_BuildValue("sn", "n", index_of(operand.index)));
    const auto at = std::find(stretch_.inputs.begin(), stretch_.inputs.end(), operand);
    return Ref::steal(Py_BuildValue("sn", "i", static_cast<Py_ssize_t>(at - stretch_.inputs.begin())));
  }

  // (file, line, function)
  Ref origin(int32_t node) const {
    const graph::Origin origin = graph_.nodes[node].origin;
    if (static_cast<size_t>(origin.frame) >= graph_.frames.size()) return Ref::steal(Py_BuildValue("sis", "?", 0, "?"));
    const Borrowed object = graph_.frames[origin.frame].code;
    const bytecode::Code* code = cpython::decoded(object);
    const int line = code ? code->positions[origin.instruction].line : 0;
    PyErr_Clear();
    const auto* raw = object.as<PyCodeObject>();
    return Ref::steal(Py_BuildValue("OiO", raw->co_filename, line, raw->co_qualname));
  }

  const Graph& graph_;
  const bool varies_ = varies(graph_);
  const Stretch& stretch_;
  const std::vector<int32_t> nodes_;
};

Ref helper(const char* name) {
  const Ref module = Ref::steal(PyImport_ImportModule("evalframe.user_backends"));
  return module ? Ref::steal(PyObject_GetAttrString(module.get(), name)) : Ref();
}

// First and last byte of an array's elements; empty for an array without any.
std::pair<const char*, const char*> extent(PyArrayObject* array) {
  const char* low = PyArray_BYTES(array);
  const char* high = low + PyArray_ITEMSIZE(array);
  for (int i = 0; i < PyArray_NDIM(array); i++) {
    const npy_intp size = PyArray_DIM(array, i);
    if (size == 0) return {low, low};
    const npy_intp span = (size - 1) * PyArray_STRIDE(array, i);
    (span < 0 ? low : high) += span;
  }
  return {low, high};
}

bool may_overlap(PyObject* left, PyObject* right) {
  if (left == right) return true;
  if (!PyArray_Check(left) || !PyArray_Check(right)) return false;
  const auto [a, b] = extent(numpy::as_array(left));
  const auto [c, d] = extent(numpy::as_array(right));
  return a < d && c < b;
}

class Python final : public Executable {
 public:
  Python(const Graph& graph, ExitAt exit_at, std::string name, bool of_torch = false, bool records_gradients = false)
      : graph_(graph), exit_at_(std::move(exit_at)), name_(std::move(name)), of_torch_(of_torch), records_gradients_(records_gradients) {}

  int traverse(visitproc visit, void* arg) const override {
    for (const Stretch& stretch : stretches_) {
      Py_VISIT(stretch.function.get());
      Py_VISIT(stretch.origin.get());
      Py_VISIT(stretch.told.get());
      Py_VISIT(stretch.transforms_before.get());
    }
    Py_VISIT(backend_.get());
    return 0;
  }

  bool compile(Borrowed backend, const std::vector<Ref>& examples) {
    Planner planner(graph_, exit_at_, of_torch_ ? torch_effects_of(graph_) : effects_of(graph_), of_torch_);
    stretches_ = planner.run();
    find_dead_of_functions();
    for (const Node& node : graph_.nodes) needs_no_frames_.push_back(of_torch_ && runs_no_code(graph_, node));
    end_ = exit_at_(static_cast<int32_t>(graph_.nodes.size()));
    if (of_torch_) backend_ = Ref::borrow(backend);
    const Ref compiled = of_torch_ ? Ref::borrow(backend) : helper("compiled");
    if (!compiled) return false;
    for (Stretch& stretch : stretches_) {
      const std::vector<int32_t> nodes = planner.nodes_of(stretch);
      if (of_torch_ ? !planner.computes(nodes) : stretch.outputs.empty()) continue;
      Teller teller(graph_, stretch, nodes);
      stretch.inputs = teller.inputs();
      stretch.takes_all = takes_all(stretch);
      const Ref told = teller.tell();
      const Ref given = told ? example_inputs(stretch, examples) : Ref();
      if (!given) return false;
      if (of_torch_) {
        stretch.acts = planner.acts(stretch);
        stretch.writes = planner.writes(stretch);
        stretch.transforms = transforms(graph_, stretch.begin, stretch.end);
        stretch.enters_dual_level = enters_dual_level(graph_, stretch.begin, stretch.end);
        if (takes_or_gives_wrapped(stretch)) continue;
        if (!compile_torch(stretch, backend, told, given)) return false;
      } else {
        stretch.function = Ref::steal(PyObject_CallFunction(compiled.get(), "OsOO", backend.get(), name_.c_str(), told.get(), given.get()));
        if (!stretch.function) return false;
      }
      stretch.origin = Ref::borrow(PyTuple_GET_ITEM(told.get(), 0));
      stretch.place = place_of(graph_, stretch, stretch.outputs.empty() ? stretch.begin : stretch.outputs.front());
    }
    return true;
  }

  bool has_functions() const {
    return std::any_of(stretches_.begin(), stretches_.end(), [](const Stretch& stretch) { return stretch.function || stretch.told; });
  }

  Outcome run(PyObject* const* inputs, Position& position, int32_t leave_before) override {
    Run run(*this, inputs, position, leave_before);
    // Inside of a transformation of torch.func the same calls do something else.
    const bool transformed = of_torch_ && torch::transforms_are_active();
    for (Stretch& stretch : stretches_) {
      if (stretch.told && !transformed && !make_now(run, stretch)) return std::move(run.outcome);
      const bool leaves_inside = leave_before > stretch.begin && leave_before < stretch.end;
      if (leave_before == stretch.begin) return leave(run, stretch.begin, false), std::move(run.outcome);
      const bool done = stretch.function && !leaves_inside && !transformed ? run_function(run, stretch) : run_nodes(run, stretch);
      if (!done) return std::move(run.outcome);
      for (const int32_t dead : run.results.has_nodes ? stretch.dead : stretch.dead_of_functions) run.results[dead].reset();
    }
    leave(run, static_cast<int32_t>(graph_.nodes.size()), false);
    return std::move(run.outcome);
  }

  std::string text() const override {
    std::string text;
    for (const Stretch& stretch : stretches_) {
      if (!stretch.function) continue;
      const Ref shown = Ref::steal(PyObject_Repr(stretch.function.get()));
      const char* utf8 = shown ? PyUnicode_AsUTF8(shown.get()) : nullptr;
      if (!utf8) PyErr_Clear();
      text += "nodes " + std::to_string(stretch.begin) + " to " + std::to_string(stretch.end - 1) + ": " + (utf8 ? utf8 : "?") + "\n";
    }
    return text;
  }

 private:
  // The nodes' values, in memory that one run leaves to the next, empty.
  class Results {
   public:
    explicit Results(Python& of) : of_(of), values_(std::move(of.spare_)) { values_.resize(of.graph_.nodes.size()); }
    Results(const Results&) = delete;
    Results& operator=(const Results&) = delete;
    ~Results() {
      if (has_nodes) std::ranges::for_each(values_, &Ref::reset);
      else for (const int32_t node : of_.given_by_functions_) values_[node].reset();
      of_.spare_ = std::move(values_);
    }
    Ref& operator[](size_t node) { return values_[node]; }
    const Ref& operator[](size_t node) const { return values_[node]; }
    bool has_nodes = false;  // others than functions return

   private:
    Python& of_;
    std::vector<Ref> values_;
  };

  struct Run {
    Run(Python& of, PyObject* const* given, Position& where, int32_t before) : inputs(given), position(where), leave_before(before), results(of) {}
    PyObject* const* inputs;
    Position& position;
    int32_t leave_before;
    Results results;
    Outcome outcome;
  };

  void find_dead_of_functions() {
    std::vector<char> is_known(graph_.nodes.size());
    for (Stretch& stretch : stretches_) {
      for (const std::vector<int32_t>* known : {&stretch.outputs, &stretch.late, &stretch.apart}) {
        for (const int32_t node : *known) is_known[node] = 1;
        given_by_functions_.insert(given_by_functions_.end(), known->begin(), known->end());
      }
      std::ranges::copy_if(stretch.dead, std::back_inserter(stretch.dead_of_functions), [&](int32_t node) { return is_known[node] != 0; });
    }
  }

  bool takes_all(const Stretch& stretch) const {
    int32_t next = 0;
    const auto is_next = [&](Operand operand) { return operand.space == Operand::Space::kInput && operand.index == next++; };
    return stretch.inputs.size() == graph_.inputs.size() && std::ranges::all_of(stretch.inputs, is_next);
  }

  // What goes in is at hand now. False: the backend has raised.
  bool make_now(Run& run, Stretch& stretch) {
    const Ref told = std::move(stretch.told);  // other threads run the recorded calls meanwhile
    const Ref given = Ref::steal(PyList_New(0));
    for (const Operand operand : stretch.inputs) {
      if (given && PyList_Append(given.get(), object(run, operand)) < 0) break;
    }
    if (given && !PyErr_Occurred() && make_function(stretch, backend_.get(), told, given)) return true;
    leave(run, stretch.begin, true);
    return false;
  }

  bool compile_torch(Stretch& stretch, Borrowed backend, const Ref& told, const Ref& given) const {
    const auto begin = graph_.nodes.begin() + stretch.begin, end = graph_.nodes.begin() + stretch.end;
    const bool handled = stretch.acts && std::any_of(begin, end, [this](const Node& node) { return is_handled(graph_, node); });
    const bool all_known = std::all_of(stretch.inputs.begin(), stretch.inputs.end(), [](Operand operand) { return operand.space == Operand::Space::kInput; });
    stretch.handled = stretch.writes && handled;
    const bool checks = std::ranges::any_of(stretch.late, [this](int32_t node) { return graph_.nodes[node].form == Form::kCheck; });
    stretch.draws = stretch.acts && !stretch.writes && (handled || checks);
    // What a backend makes depends on the modes that hold, too, and on transformations of torch.func that the recording was left in.
    const bool here = all_known && !is_behind_mode(stretch.begin) && !torch::transforms_are_active();
    if (!here && !replays(backend)) return stretch.told = Ref::borrow(told.get()), true;
    return make_function(stretch, backend, told, given);
  }

  bool is_behind_mode(int32_t node) const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.begin() + node, [this](const Node& before) {
      return before.form == Form::kCall && torch::changes_mode(graph_.constants[before.callable].get());
    });
  }

  // What a transformation of torch.func has wrapped is nothing that backends know.
  bool takes_or_gives_wrapped(const Stretch& stretch) const {
    const auto is_wrapped = [this](int32_t node) { return graph_.nodes[node].meta.kind == Kind::kTensor && graph_.nodes[node].meta.dtype == graph::DType::kNone; };
    if (!transforms(graph_, 0, stretch.end)) return false;
    const bool takes = std::ranges::any_of(stretch.inputs, [&](Operand operand) { return operand.space == Operand::Space::kNode && is_wrapped(operand.index); });
    return takes || std::ranges::any_of(stretch.outputs, is_wrapped);
  }

  // Whether the backend has the recorded calls made, whatever goes in.
  static bool replays(Borrowed backend) {
    const Ref replays = Ref::steal(PyObject_GetAttrString(backend.get(), "replays"));
    if (!replays) PyErr_Clear();
    return replays.get() == Py_True;
  }

  // Whether gradients are recorded when the node runs: what backends make of a stretch depends on it, and what it switches shows against it.
  bool records_gradients(int32_t node) const {
    int left = 0;  // inference modes, whatever was switched in them
    while (--node >= 0) {
      const Node& before = graph_.nodes[node];
      PyObject* const callable = before.form == Form::kCall ? graph_.constants[before.callable].get() : nullptr;
      if (!callable) continue;
      const int enters = torch::enters_inference_mode(callable);
      if (enters < 0) left++;
      if (enters > 0 && left-- == 0) return !is_true(graph_.operands_of(graph_.nodes[graph_.operands_of(before)[0].index])[0]);
      if (left > 0 || !torch::changes_gradient_mode(callable)) continue;
      const Operand mode = graph_.operands_of(before)[0];
      if (mode.space == Operand::Space::kConstant) return is_true(mode);
    }
    return records_gradients_;
  }

  bool is_true(Operand mode) const { return mode.space == Operand::Space::kConstant && graph_.constants[mode.index].get() == Py_True; }

  bool make_function(Stretch& stretch, Borrowed backend, const Ref& told, const Ref& given) const {
    const cpython::HooksSuspended suspended;
    Ref function = Ref::steal(PyObject_CallFunction(backend.get(), "OOiii", told.get(), given.get(), stretch.writes, stretch.handled, records_gradients(stretch.begin)));
    if (!function) return false;
    if (function.get() != Py_None) stretch.function = std::move(function);
    return true;
  }

  // For what is made in the graph itself there is no example: an array of zeros of the recorded shape stands for it.
  Ref example_inputs(const Stretch& stretch, const std::vector<Ref>& examples) const {
    Ref list = Ref::steal(PyList_New(0));
    for (const Operand operand : stretch.inputs) {
      const bool known = operand.space == Operand::Space::kInput && static_cast<size_t>(operand.index) < examples.size();
      const Borrowed object = known ? examples[operand.index].get() : Py_None;
      if (!list || PyList_Append(list.get(), object.get()) < 0) return Ref();
    }
    return list;
  }

  PyObject* object(const Run& run, Operand operand) const {
    switch (operand.space) {
      case Operand::Space::kInput: return run.inputs[operand.index];
      case Operand::Space::kNode: return run.results[operand.index].get();
      case Operand::Space::kConstant: return graph_.constants[operand.index].get();
      case Operand::Space::kNone: return nullptr;
    }
    return nullptr;
  }

  void leave(Run& run, int32_t node, bool raised) const {
    run.outcome.node = node;
    run.outcome.raised = raised;
    const bool at_end = node == static_cast<int32_t>(graph_.nodes.size());
    const graph::ExitPoint inside = at_end ? graph::ExitPoint() : exit_at_(node);
    for (const Operand operand : at_end ? end_.values : inside.values) run.outcome.values.push_back(Ref::borrow(object(run, operand)));
  }

  enum class Ran : uint8_t { kDone, kCheckFailed, kRaised };
  Ran run_one(Run& run, int32_t index, bool alone = false) const {
    const Node& node = graph_.nodes[index];
    Few<PyObject*, 16> operands(static_cast<size_t>(node.count));
    std::transform(graph_.operands_of(node), graph_.operands_of(node) + node.count, operands.begin(), [&](Operand operand) { return object(run, operand); });
    if (node.form == Form::kCheck || node.form == Form::kCheckMeta) {
      if (!check_holds(graph_, node, operands.data())) return Ran::kCheckFailed;
      run.results[index] = Ref::borrow(Py_None);
      return Ran::kDone;
    }
    if (alone && !needs_no_frames_[static_cast<size_t>(index)]) run.position.in(node.origin);
    if (!alone) run.position.at(index);
    run.results[index] = call_node(graph_, node, operands.data());
    return run.results[index] ? Ran::kDone : Ran::kRaised;
  }

  // False: the graph was left.
  bool run_nodes(Run& run, const Stretch& stretch) const {
    run.results.has_nodes = true;
    for (int32_t node = stretch.begin; node < stretch.end; node++) {
      if (run.results[node] && is_apart(stretch, node)) continue;
      const Ran ran = node == run.leave_before ? Ran::kCheckFailed : run_one(run, node);
      if (ran == Ran::kDone) continue;
      leave(run, node, ran == Ran::kRaised);
      return false;
    }
    return true;
  }

  bool run_function(Run& run, Stretch& stretch) const {
    run.position.in(stretch.place);
    std::string problem;
    const bool recorded_gradients = of_torch_ && torch::records_gradients();
    const bool asks = stretch.transforms && (stretch.enters_dual_level || !stretch.transforms_before);
    if (asks) stretch.transforms_before = torch::transforms_now(stretch.enters_dual_level);
    const Ref& transforms = stretch.transforms_before;
    bool serves = true;
    const Ref random = stretch.draws ? Ref::steal(PyObject_CallMethod(backend_.get(), "random_state", nullptr)) : Ref();
    if (stretch.draws && !random) return leave(run, stretch.begin, true), false;
    if (call(run, stretch, problem, serves) && run_late(run, stretch)) return true;
    if (!serves) return run_nodes(run, stretch);
    set_back(recorded_gradients, transforms);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) {  // an interrupt, or the end of the program
      forget(run, stretch);
      leave(run, stretch.begin, true);
      return false;
    }
    if (stretch.acts && !stretch.draws) {  // nothing in its frames handles it
      if (!PyErr_Occurred()) raise_failure(stretch, problem, Ref());
      forget(run, stretch);
      leave(run, stretch.begin, true);
      return false;
    }
    const Ref cause = take_exception();
    if (random && !Ref::steal(PyObject_CallMethod(backend_.get(), "set_random_state", "(O)", random.get()))) return forget(run, stretch), leave(run, stretch.begin, true), false;
    // Whatever the program itself would raise or check is found by its own calls, at its own line.
    forget(run, stretch);
    if (!run_nodes(run, stretch)) return false;
    if (problem.empty() && !cause) return true;
    forget(run, stretch);
    raise_failure(stretch, problem, cause);
    leave(run, stretch.begin, true);
    return false;
  }

  // What the function has switched, and not back. Transformations that it has begun are given up.
  void set_back(bool recorded_gradients, const Ref& transforms) const {
    if (!of_torch_) return;
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    if (transforms) torch::set_transforms_back(transforms.get());
    torch::set_records_gradients(recorded_gradients);
    PyErr_Restore(type, value, traceback);
  }

  static bool is_apart(const Stretch& stretch, int32_t node) { return std::binary_search(stretch.apart.begin(), stretch.apart.end(), node); }

  // What was computed, to be run again.
  void forget(Run& run, const Stretch& stretch) const {
    for (int32_t node = stretch.begin; node < stretch.end; node++) {
      if (!is_apart(stretch, node)) run.results[node].reset();
    }
  }

  static Ref take_exception() {
    if (!PyErr_Occurred()) return Ref();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    const Ref held_type = Ref::steal(type), held_traceback = Ref::steal(traceback);
    return Ref::steal(value);
  }

  PyObject* called(Run& run, const Stretch& stretch) const {
    if (stretch.takes_all) return PyObject_Vectorcall(stretch.function.get(), run.inputs, stretch.inputs.size(), nullptr);
    Few<PyObject*, 128> arguments(1 + stretch.inputs.size());
    PyObject* const* const inputs = run.inputs;
    std::ranges::transform(stretch.inputs, arguments.begin() + 1, [&](Operand operand) { return operand.space == Operand::Space::kInput ? inputs[operand.index] : object(run, operand); });
    return PyObject_Vectorcall(stretch.function.get(), arguments.data() + 1, stretch.inputs.size() | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  }

  // serves: whether these are sizes for which the function was made.
  bool call(Run& run, const Stretch& stretch, std::string& problem, bool& serves) const {
    std::optional<cpython::HooksSuspended> suspended;
    if (of_torch_) suspended.emplace();  // what runs a graph isn't captured again
    const Ref returned = Ref::steal(called(run, stretch));
    if (!returned) return false;
    if (of_torch_ && returned.get() == Py_NotImplemented) return serves = false;
    const bool sequence = PyTuple_Check(returned.get()) || PyList_Check(returned.get());
    const auto wanted = static_cast<Py_ssize_t>(stretch.outputs.size());
    if (!sequence) {
      problem = std::string("returned ") + Py_TYPE(returned.get())->tp_name + "; return a tuple of the " + std::to_string(wanted) +
                " values in graph.outputs";
      return false;
    }
    if (PySequence_Fast_GET_SIZE(returned.get()) != wanted) {
      problem = "returned " + std::to_string(PySequence_Fast_GET_SIZE(returned.get())) + " values; return a tuple of the " +
                std::to_string(wanted) + " values in graph.outputs";
      return false;
    }
    for (Py_ssize_t i = 0; i < wanted; i++) {
      if (!take(run, stretch, i, PySequence_Fast_GET_ITEM(returned.get(), i), problem)) return false;
    }
    return true;
  }

  bool take(Run& run, const Stretch& stretch, Py_ssize_t index, PyObject* value, std::string& problem) const {
    const int32_t node = stretch.outputs[index];
    const Meta& meta = graph_.nodes[node].meta;
    if (of_torch_ && meta.kind == Kind::kFloat && torch::is_tensor(value)) {  // torch_nodes.cpp: numbers_as_tensors
      return static_cast<bool>(run.results[node] = Ref::steal(PyObject_CallMethod(value, "item", nullptr)));
    }
    if (!matches(meta, value)) {
      problem = "returned " + described(value) + " as output " + std::to_string(index) + "; return " + described(meta) +
                ", as the graph's text says";
      return false;
    }
    // Outputs are new arrays of their own: the program may write into them.
    const bool copies = PyArray_CheckExact(value) && is_shared(run, stretch, index, value);
    run.results[node] = copies ? Ref::steal(PyArray_NewCopy(numpy::as_array(value), NPY_KEEPORDER)) : Ref::borrow(value);
    return static_cast<bool>(run.results[node]);
  }

  // Whether the array can't be written into, or may have elements of an input or of an output before it.
  bool is_shared(const Run& run, const Stretch& stretch, Py_ssize_t index, PyObject* array) const {
    if (!PyArray_ISWRITEABLE(numpy::as_array(array))) return true;
    const auto overlaps = [&](Operand operand) { return may_overlap(array, object(run, operand)); };
    const auto overlaps_node = [&](int32_t node) { return may_overlap(array, run.results[node].get()); };
    return std::any_of(stretch.inputs.begin(), stretch.inputs.end(), overlaps) || std::any_of(stretch.outputs.begin(), stretch.outputs.begin() + index, overlaps_node);
  }

  static std::string described(PyObject* value) {
    if (!PyArray_Check(value)) return std::string("an object of type ") + Py_TYPE(value)->tp_name;
    PyArrayObject* array = numpy::as_array(value);
    const Ref name = Ref::steal(PyObject_Str(reinterpret_cast<PyObject*>(PyArray_DESCR(array))));
    const char* utf8 = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
    if (!utf8) PyErr_Clear();
    return std::string("a ") + Py_TYPE(value)->tp_name + " of " + (utf8 ? utf8 : "?") + " and rank " + std::to_string(PyArray_NDIM(array));
  }

  static std::string described(const Meta& meta) {
    switch (meta.kind) {
      case Kind::kArray: return std::string("a numpy.ndarray of ") + graph::name(meta.dtype) + " and rank " + std::to_string(meta.rank);
      case Kind::kNumpyScalar: return std::string("a NumPy scalar of ") + graph::name(meta.dtype);
      case Kind::kInt: return "an int";
      case Kind::kFloat: return "a float";
      case Kind::kBool: return "a bool";
      case Kind::kComplex: return "a complex";
      case Kind::kNone: return "None";
      case Kind::kObject: return "the recorded object";
      case Kind::kTensor: return "a torch.Tensor";
    }
    return "?";
  }

  bool run_late(Run& run, const Stretch& stretch) const {
    return std::all_of(stretch.late.begin(), stretch.late.end(), [&](int32_t node) { return run_one(run, node, true) == Ran::kDone; });
  }

  void raise_failure(const Stretch& stretch, const std::string& problem, const Ref& cause) const {
    const Ref failed = helper("failed");
    if (!failed) return;
    // It raises; what it returns is of no interest.
    const Ref none = Ref::steal(PyObject_CallFunction(failed.get(), "sOsO", name_.c_str(), stretch.origin.get(), problem.c_str(),
                                                      cause ? cause.get() : Py_None));
  }

  const Graph& graph_;
  ExitAt exit_at_;
  const std::string name_;
  const bool of_torch_;
  Ref backend_;  // torch's
  const bool records_gradients_;
  std::vector<Stretch> stretches_;
  std::vector<char> needs_no_frames_;  // by node
  graph::ExitPoint end_;
  std::vector<int32_t> given_by_functions_;  // nodes whose values they return, and what is made of these
  std::vector<Ref> spare_;                   // see Results
};

}  // namespace

std::unique_ptr<Executable> make_python(const Graph& graph, ExitAt exit_at, Borrowed backend, const std::string& name,
                                        const std::vector<Ref>& examples) {
  auto made = std::make_unique<Python>(graph, std::move(exit_at), name);
  if (!made->compile(backend, examples)) return nullptr;
  return made;
}

std::unique_ptr<Executable> make_torch(const Graph& graph, ExitAt exit_at, Borrowed backend, const std::vector<Ref>& examples,
                                       bool records_gradients) {
  auto made = std::make_unique<Python>(graph, exit_at, "torch", true, records_gradients);
  if (!made->compile(backend, examples)) return nullptr;
  // Nothing else is quicker than the recorded calls then.
  if (!made->has_functions()) return make_reference(graph, std::move(exit_at));
  return made;
}

bool may_be_in_body(const Graph& graph, const Node& node, int32_t begin) { return !acts_on_tensors(graph, node) || writes_into_new(graph, node, begin); }

Ref tell_body(const Graph& graph, const std::vector<int32_t>& nodes, const std::vector<Operand>& inputs, const std::vector<int32_t>& outputs) {
  const std::vector<Effect> effects = torch_effects_of(graph);
  const bool plain = std::ranges::all_of(nodes, [&](int32_t node) {
    const Effect effect = effects[static_cast<size_t>(node)];
    return effect == Effect::kDerived || (effect == Effect::kPure && graph.nodes[static_cast<size_t>(node)].meta.kind != Kind::kFloat);
  });
  if (!plain) return Ref();
  const Stretch stretch{.begin = outputs.front(), .end = outputs.back() + 1, .inputs = inputs, .outputs = outputs};
  return Teller(graph, stretch, nodes).tell();
}

}  // namespace evalframe::backends
