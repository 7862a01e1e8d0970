// Runs a planned graph: segments by their kernels, or, whenever anything is out of the ordinary, by the recorded calls.
//
// A segment has no effects but writes into arrays. These come when everything else is done, or what stood there is kept till then.
// So whatever stands in its way (shapes that have no kernel, a number that doesn't fit, a floating-point flag that NumPy would warn
// of, an exception, a failed check), all that it made is dropped, what it has written is put back, and its nodes are run from its
// start by the calls that were recorded: these warn, raise and leave exactly as NumPy and the program do.
#include "backends/native/executor.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <stdexcept>

#include "backends/native/lower/numbers.h"
#include "backends/native/machine/machine.h"
#include "backends/native/native.h"
#include "backends/native/run/leaves.h"
#include "backends/native/run/result_memory.h"
#include "backends/native/run/variant_run.h"
#include "backends/node_call.h"
#include "core/check.h"
#include "frontends/numpy/error_state.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::native {

using backends::Outcome, backends::Position;

namespace {

constexpr size_t kMaxVariants = 8;
constexpr int kMaxRefused = 8;
constexpr size_t kMaxAsCalls = 16;
// A segment whose kernels were dropped for a warning this often is run by NumPy from then on.
constexpr int kMaxFlagged = 16;
// Seconds that NumPy takes for an element, about.
constexpr double kSecondsOfElement = 0.5e-9;

// Of all executables. Under the GIL.
uint64_t waiting_runs = 0;
double waiting_seconds = 0;

bool is_check(Form form) { return form == Form::kCheck || form == Form::kCheckMeta; }

}  // namespace

// One run of the graph.
struct NativeExecutable::Run {
  PyObject* const* inputs;
  Position& position;
  int32_t leave_before;
  std::vector<Ref> values;  // of the nodes, where there is an object
  Outcome outcome;
};

// Counts a run while it lasts.
struct NativeExecutable::Active {
  explicit Active(int& count) : count(count) { count++; }
  ~Active() { count--; }
  int& count;
};

// Takes the time of what is done in the place of kernels.
struct NativeExecutable::Waiting {
  explicit Waiting(Kernels& of) : kernels(of) { waiting_runs++; }
  ~Waiting() { add(kernels, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  static void add(Kernels& kernels, double seconds) {
    kernels.seconds += seconds;
    waiting_seconds += seconds;
  }
  Kernels& kernels;
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

// The arrays that enter a segment. They are held by the caller, by the run or by the graph.
struct NativeExecutable::Leaves {
  PyObject** objects;
  LeafShape* shapes;
};

namespace {

// Tells the kernels which of their memory is nobody else's.
void find_scratch(Variant& variant) {
  std::vector<bool> shared;
  for (const Storage& storage : variant.storages) shared.push_back(storage.kind != Storage::Kind::kBuffer || storage.node >= 0);
  for (const KernelPlan& plan : variant.kernels) {
    if (!plan.commits) continue;
    for (const Box& port : plan.ports) shared[static_cast<size_t>(port.storage)] = true;
  }
  for (const Undo& undo : variant.undo) shared[static_cast<size_t>(undo.kept)] = true;
  for (KernelPlan& plan : variant.kernels) {
    for (const Box& port : plan.ports) plan.scratch.push_back(shared[static_cast<size_t>(port.storage)] ? -1 : port.storage);
  }
}

bool serves(const Variant& variant, const LeafShape* shapes, PyObject* const* leaves, int64_t* symbols) {
  if (!evaluate(variant.symbols, shapes, symbols)) return false;
  for (const auto& [a, b] : variant.equal) {
    if (symbols[a] != symbols[b]) return false;
  }
  if (!std::all_of(variant.alone.begin(), variant.alone.end(), [&](int leaf) { return shapes[leaf].alone; })) return false;
  if (!has_order_of(variant, shapes, symbols)) return false;
  return std::all_of(variant.contiguous.begin(), variant.contiguous.end(),
                     [&](int leaf) { return PyArray_IS_C_CONTIGUOUS(numpy::as_array(leaves[leaf])); });
}

// Calls make several arrays before one goes: more than the C library keeps where each is freed when the next is made, as in a program.
bool makes_large_arrays(const graph::Graph& graph) {
  constexpr double kLarge = 128 << 10;  // bytes, from which on each has memory of the system's at first
  const auto is_large = [&](const Node& node) {
    return node.meta.dtype != DType::kNone && graph.elements_of(node.meta) * graph::size_of(node.meta.dtype) >= kLarge;
  };
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), is_large);
}

}  // namespace

NativeExecutable::NativeExecutable(const graph::Graph& graph, backends::ExitAt exit_at, backends::Wishes wishes)
    : graph_(graph), exit_at_(std::move(exit_at)), is_patient_(wishes.patient), meanings_(graph), end_(exit_at_(static_cast<int32_t>(graph.nodes.size()))) {
  for (size_t node = 0; node < graph.nodes.size(); node++) {
    const Meaning& meaning = meanings_.of(static_cast<int32_t>(node));
    const Sense sense = meaning.sense;
    if (wishes.exact && is_elementary(meaning)) as_calls_.insert(static_cast<int32_t>(node));
    quiet_.push_back(graph.nodes[node].form != Form::kCall && (sense == Sense::kView || sense == Sense::kQuick));
  }
  if (makes_large_arrays(graph)) keep_freed_memory();
  plan();
}

void NativeExecutable::plan() {
  // What is running, in this thread or another, runs to its end on the steps that it began with.
  while (outdated_ && active_ == 0) {
    const Active active(active_);
    outdated_ = false;
    steps_ = make_plan(graph_, meanings_, exit_at_, as_calls_);
    kernels_.clear();
    kernels_.resize(steps_.size());
    add_recorded_variants();
  }
}

void NativeExecutable::add_recorded_variants() {
  for (size_t step = 0; step < steps_.size(); step++) {
    // Of numbers no example is known: such a segment gets its kernels when it is first run.
    if (!steps_[step].is_segment || !steps_[step].segment.numbers.empty()) continue;
    std::vector<LeafShape> shapes;
    for (const Operand leaf : steps_[step].segment.leaves) {
      const graph::Meta& meta = meanings_.meta(leaf);
      shapes.push_back({graph_.sizes.data() + meta.shape, graph_.sizes.data() + meta.shape + meta.rank});
    }
    add_variant(step, shapes);
    // The run that was recorded counts.
    if (is_patient_) Waiting::add(kernels_[step], kSecondsOfElement * elements_of(steps_[step].segment));
  }
}

double NativeExecutable::elements_of(const Segment& segment) const {
  double all = 0;
  for (int32_t node = segment.begin; node < segment.end; node++) all += graph_.elements_of(graph_.nodes[node].meta);
  return all;
}

bool NativeExecutable::is_worth_compiling(const Kernels& kernels) const {
  return !is_patient_ || (kernels.seconds >= seconds_of_kernel(Effort::kOptimised) && (llvm_is_loaded() || waiting_seconds >= kSecondsOfLoading));
}

const Variant* NativeExecutable::add_variant(size_t step, const std::vector<LeafShape>& shapes) {
  Kernels& kernels = kernels_[step];
  int32_t obstacle = -1;
  std::optional<Variant> lowered = lower(graph_, meanings_, steps_[step].segment, shapes, obstacle);
  if (!lowered) {
    kernels.refused++;
    // Where other layouts are served, one that isn't must not slow them down.
    if (obstacle >= 0 && kernels.variants.empty() && as_calls_.size() < kMaxAsCalls) outdated_ |= as_calls_.insert(obstacle).second;
    return nullptr;
  }
  try {
    for (KernelPlan& plan : lowered->kernels) plan.compiled = &compile(plan.kernel);
    if (!is_patient_ && !lowered->kernels.empty()) will_compile(lowered->kernels[0].compiled->ir());
  } catch (const std::runtime_error& error) {
    kernels.refused = kMaxRefused;
    kernels.reason = error.what();
    return nullptr;
  }
  find_scratch(*lowered);
  kernels.variants.push_back(std::make_unique<Variant>(std::move(*lowered)));
  return kernels.variants.back().get();
}

Outcome NativeExecutable::run(PyObject* const* inputs, Position& position, int32_t leave_before) {
  // A run inside this one finds no spare and makes its own.
  plan();
  const Active active(active_);
  Run run{inputs, position, leave_before, std::move(spare_values_), {}};
  run.values.resize(graph_.nodes.size());
  run_steps(run);
  for (Ref& value : run.values) value.reset();
  spare_values_ = std::move(run.values);
  return std::move(run.outcome);
}

void NativeExecutable::run_steps(Run& run) {
  if (run.leave_before >= 0) {
    if (call_nodes(run, 0, static_cast<int32_t>(graph_.nodes.size()))) leave(run, static_cast<int32_t>(graph_.nodes.size()), false);
    return;
  }
  for (size_t i = 0; i < steps_.size(); i++) {
    const Step& step = steps_[i];
    const bool native = step.is_segment && run_segment(run, i);
    if (!native && !call_step(run, i)) return;
    for (const int32_t node : step.released) run.values[node].reset();
  }
  leave(run, static_cast<int32_t>(graph_.nodes.size()), false);
}

bool NativeExecutable::call_step(Run& run, size_t step) {
  std::optional<Waiting> waiting;
  if (kernels_[step].waits) waiting.emplace(kernels_[step]);
  return call_nodes(run, steps_[step].segment.begin, steps_[step].segment.end);
}

bool NativeExecutable::run_segment(Run& run, size_t step) {
  const Segment& segment = steps_[step].segment;
  Kernels& kernels = kernels_[step];
  if (kernels.flagged >= kMaxFlagged || (kernels.variants.empty() && kernels.refused >= kMaxRefused)) return false;
  const bool is_worth = is_worth_compiling(kernels);
  if (kernels.waits && !is_worth) return false;
  kernels.waits = false;
  const CompilesLater later(!is_worth);
  Arena::Scope scope(Arena::current());
  try {
    if (try_segment(run, step, scope)) return true;
  } catch (const NotCompiled&) {
    kernels.waits = true;
  } catch (const std::runtime_error& error) {
    // The code for a layout that was first met here could not be made.
    kernels_[step].flagged = kMaxFlagged;
    kernels_[step].reason = error.what();
  }
  PyErr_Clear();
  for (int32_t node = segment.begin; node < segment.end; node++) run.values[node].reset();
  return false;
}

bool NativeExecutable::try_segment(Run& run, size_t step, Arena::Scope& scope) {
  const Segment& segment = steps_[step].segment;
  if (!call_quick(run, segment.early)) return false;
  const size_t count = segment.leaves.size();
  const Leaves leaves{scope.take<PyObject*>(count), scope.take<LeafShape>(count + 1)};
  for (size_t i = 0; i < count; i++) {
    PyObject* const leaf = fetch(run, segment.leaves[i]);
    if (!leaf || !is_ordinary_array(leaf, meanings_.meta(segment.leaves[i]))) return false;
    leaves.objects[i] = leaf;
    leaves.shapes[i] = shape_of(leaf);
  }
  int64_t* const numbers = scope.take<int64_t>(segment.numbers.size());
  leaves.shapes[count] = {numbers, nullptr};
  if (!read_numbers(run, segment, numbers) || !can_write(segment, leaves.objects)) return false;
  find_alone(segment, leaves.objects, leaves.shapes);
  int64_t* symbols = nullptr;
  const Variant* const variant = find_variant(step, leaves, scope, symbols);
  if (!variant) return false;
  VariantRun running(*variant, symbols, scope);
  char* const scalars = scope.take<char>(variant->scalars.size() * kNumberBytes);
  if (running.has_empty_space() || !fill_scalars(run, *variant, symbols, scalars)) return false;
  if (!running.place(leaves.objects, scalars, graph_, run.values)) return false;
  running.prepare();
  const FloatFlags flags = running.run();
  if (flags && (flags & (numpy::reported_conditions() | kByPlace))) {
    kernels_[step].flagged++;
    return false;
  }
  for (size_t i = 0; i < variant->storages.size(); i++) {
    const Storage& storage = variant->storages[i];
    if (storage.node < 0) continue;
    Ref& value = run.values[storage.node];
    if (!value) value = read_scalar(running.at(i).data, storage.dtype);
    if (!value) return false;
  }
  if (!call_late(run, segment)) return false;
  running.commit();
  return true;
}

// The variant for these leaves, made if there is none yet; its symbols are computed.
const Variant* NativeExecutable::find_variant(size_t step, const Leaves& leaves, Arena::Scope& scope, int64_t*& symbols) {
  const Kernels& kernels = kernels_[step];
  for (const auto& candidate : kernels.variants) {
    symbols = scope.take<int64_t>(candidate->symbols.size());
    if (serves(*candidate, leaves.shapes, leaves.objects, symbols)) return candidate.get();
  }
  if (kernels.variants.size() >= kMaxVariants || kernels.refused >= kMaxRefused) return nullptr;
  const Variant* const made = add_variant(step, {leaves.shapes, leaves.shapes + steps_[step].segment.leaves.size() + 1});
  if (!made) return nullptr;
  symbols = scope.take<int64_t>(made->symbols.size());
  return serves(*made, leaves.shapes, leaves.objects, symbols) ? made : nullptr;
}

bool NativeExecutable::read_numbers(Run& run, const Segment& segment, int64_t* numbers) {
  for (const Operand operand : segment.numbers) {
    PyObject* const number = fetch(run, operand);
    if (!number || !PyLong_CheckExact(number)) return false;
    int overflow = 0;
    *numbers = PyLong_AsLongLongAndOverflow(number, &overflow);
    // The least number stands for an absent bound.
    if (overflow || *numbers++ == IndexItem::kAbsent) return false;
  }
  return true;
}

bool NativeExecutable::call_late(Run& run, const Segment& segment) {
  for (const int32_t node : segment.late) {
    const Meaning& meaning = segment.meanings[node - segment.begin];
    if (meaning.target) {
      run.values[node] = Ref::borrow(fetch(run, meaning.target));
    } else if (!call_quick(run, node)) {
      return false;
    }
  }
  return true;
}

bool NativeExecutable::call_quick(Run& run, const std::vector<int32_t>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [&](int32_t node) { return call_quick(run, node); });
}

bool NativeExecutable::call_quick(Run& run, int32_t node) {
  Ref value = call(run, node);
  if (!value) return false;
  const bool as_recorded = is_check(graph_.nodes[node].form) ? value.get() == Py_True : backends::matches(graph_.nodes[node].meta, value.get());
  if (as_recorded) run.values[node] = std::move(value);
  return as_recorded;
}

bool NativeExecutable::fill_scalars(Run& run, const Variant& variant, const int64_t* symbols, char* scalars) {
  for (const ScalarSource& source : variant.scalars) {
    if (!source.operand) {
      write_count(symbols[source.symbol], source.dtype, scalars);
    } else {
      PyObject* const number = fetch(run, source.operand);
      if (!number) return false;
      const bool typed = meanings_.meta(source.operand).kind == Kind::kNumpyScalar;
      if (typed ? !write_numpy_scalar(number, source.dtype, scalars) : !write_python_number(number, source.dtype, scalars)) return false;
    }
    scalars += kNumberBytes;
  }
  return true;
}

bool NativeExecutable::call_nodes(Run& run, int32_t begin, int32_t end) {
  for (int32_t node = begin; node < end; node++) {
    if (node == run.leave_before) return leave(run, node, false), false;
    Ref value = quick_number(run, node);
    if (!value) {
      if (!quiet_[node]) run.position.at(node);
      value = call(run, node);
    }
    if (!value) return leave(run, node, true), false;
    const Form form = graph_.nodes[node].form;
    if (is_check(form) && value.get() != Py_True) return leave(run, node, false), false;
    const bool known = is_check(form) || form == Form::kSetItem || backends::matches(graph_.nodes[node].meta, value.get());
    run.values[node] = std::move(value);
    if (!known) return leave(run, node + 1, false), false;
  }
  return true;
}

// Arithmetic of single numbers that needs no call; null, without an exception, for all else.
Ref NativeExecutable::quick_number(Run& run, int32_t index) {
  const Node& node = graph_.nodes[index];
  if (node.form != Form::kBinary || node.meta.kind != Kind::kNumpyScalar || node.meta.dtype != graph::DType::float64) return Ref();
  PyObject* const left = fetch(run, graph_.operands_of(node)[0]);
  PyObject* const right = left ? fetch(run, graph_.operands_of(node)[1]) : nullptr;
  if (!right) return PyErr_Clear(), Ref();
  return quick_binary(node.code, left, right);
}

// Hands over what the interpreter's state needs before `node`.
void NativeExecutable::leave(Run& run, int32_t node, bool raised) {
  Ref type, value, traceback;
  if (raised) {
    PyObject *t, *v, *tb;
    PyErr_Fetch(&t, &v, &tb);
    type = Ref::steal(t), value = Ref::steal(v), traceback = Ref::steal(tb);
  }
  run.outcome.node = node;
  run.outcome.raised = raised;
  const bool at_end = node == static_cast<int32_t>(graph_.nodes.size());
  const graph::ExitPoint early = at_end ? graph::ExitPoint{} : exit_at_(node);
  const std::vector<Operand>& values = at_end ? end_.values : early.values;
  run.outcome.values.reserve(values.size());
  for (const Operand operand : values) {
    PyObject* const object = fetch(run, operand);
    CHECK(object != nullptr);
    run.outcome.values.push_back(Ref::borrow(object));
  }
  if (raised) PyErr_Restore(type.release(), value.release(), traceback.release());
}

// The object of an operand; a node without one is called for it.
PyObject* NativeExecutable::fetch(Run& run, Operand operand) {
  switch (operand.space) {
    case Operand::Space::kInput: return run.inputs[operand.index];
    case Operand::Space::kConstant: return graph_.constants[operand.index].get();
    case Operand::Space::kNone: return nullptr;
    case Operand::Space::kNode: break;
  }
  Ref& value = run.values[operand.index];
  if (!value) value = call(run, operand.index);
  return value.get();
}

Ref NativeExecutable::call(Run& run, int32_t index) {
  const Node& node = graph_.nodes[index];
  PyObject* few[8];
  std::vector<PyObject*> many(node.count > 8 ? node.count : 0);
  PyObject** const operands = node.count > 8 ? many.data() : few;
  for (uint32_t i = 0; i < node.count; i++) {
    operands[i] = fetch(run, graph_.operands_of(node)[i]);
    if (!operands[i]) return Ref();
  }
  return backends::call_node(graph_, node, operands);
}

std::string NativeExecutable::text() const {
  std::string text;
  for (size_t i = 0; i < steps_.size(); i++) {
    const Segment& segment = steps_[i].segment;
    const bool native = !kernels_[i].variants.empty();
    if (!kernels_[i].reason.empty()) text += "no kernels: " + kernels_[i].reason + "\n";
    text += native ? "kernels n" : steps_[i].is_segment ? "calls n" : "call n";
    text += std::to_string(segment.begin);
    if (steps_[i].is_segment) text.append(" .. n").append(std::to_string(segment.end - 1));
    text += "\n";
    for (const auto& variant : kernels_[i].variants) text += print(*variant);
  }
  return text;
}

bool NativeExecutable::improve() {
  bool was_less = false;
  for (const auto& kernels : kernels_) {
    for (const auto& variant : kernels.variants) {
      for (const KernelPlan& plan : variant->kernels) was_less |= plan.compiled && plan.compiled->improve();
    }
  }
  return was_less;
}

std::vector<std::string> NativeExecutable::modules() const {
  std::set<const CompiledKernel*> told;
  std::vector<std::string> modules;
  for (const auto& kernels : kernels_) {
    for (const auto& variant : kernels.variants) {
      for (const KernelPlan& plan : variant->kernels) {
        if (plan.compiled && told.insert(plan.compiled).second) modules.push_back(plan.compiled->ir());
      }
    }
  }
  return modules;
}

uint64_t runs_that_waited() { return waiting_runs; }

std::unique_ptr<backends::Executable> make_executable(const graph::Graph& graph, backends::ExitAt exit_at, backends::Wishes wishes) {
  const std::string error = graph::verify(graph);
  if (!error.empty()) throw std::runtime_error("the graph is not valid: " + error);
  return std::make_unique<NativeExecutable>(graph, std::move(exit_at), wishes);
}

}  // namespace evalframe::native
