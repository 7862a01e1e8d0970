// Runs a planned graph: segments by their kernels, or, whenever anything is out of the ordinary, by the recorded calls.
//
// A segment has no effects but writes into arrays. These come when everything else is done, or what stood there is kept till then.
// So whatever stands in its way (shapes that have no kernel, a number that doesn't fit, a floating-point flag that NumPy would warn
// of, an exception, a failed check), all that it made is dropped, what it has written is put back, and its nodes are run from its
// start by the calls that were recorded: these warn, raise and leave exactly as NumPy and the program do.
#include "backends/native/executor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <tuple>

#include "backends/native/copy_around.h"
#include "backends/native/kernel_slices.h"
#include "backends/native/native.h"
#include "backends/native/numbers.h"
#include "backends/native/result_memory.h"
#include "backends/node_call.h"
#include "core/check.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::native {

using backends::Outcome;
using backends::Position;
using graph::Form;
using graph::Kind;
using graph::Node;
using graph::Operand;

namespace {

constexpr size_t kMaxVariants = 8;
constexpr int kMaxRefused = 8;
constexpr size_t kMaxAsCalls = 16;
// A segment whose kernels were dropped for a warning this often is run by NumPy from then on.
constexpr int kMaxFlagged = 16;
// Elements times operations above which other threads may run meanwhile.
constexpr int64_t kWorkToReleaseGil = 40000;

// NumPy's mark on arrays that will be read-only one day (np.broadcast_arrays); its headers keep it to themselves.
constexpr int kWarnsOnWrite = 1 << 31;

// Where a storage is in this run.
struct Place {
  char* data = nullptr;
  const int64_t* strides = nullptr;
};

// np.errstate as it stands, read by the C function below np.geterr: in Python code a signal's handler could raise, and
// the caller has no use for an exception.
Ref error_states() {
  const Ref name = Ref::steal(PyUnicode_FromString("numpy._core.umath"));
  const Ref module = name ? Ref::steal(PyImport_GetModule(name.get())) : Ref();
  return module ? Ref::steal(PyObject_CallMethod(module.get(), "_get_extobj_dict", nullptr)) : Ref();
}

// Whether NumPy, as np.errstate stands, does anything about one of these flags.
bool cares_about(FloatFlags flags) {
  const Ref states = error_states();
  if (!states) {
    PyErr_Clear();
    return true;
  }
  constexpr std::pair<int, const char*> kFlags[] = {{1, "divide"}, {2, "over"}, {4, "under"}, {8, "invalid"}};
  for (const auto& [flag, name] : kFlags) {
    if (!(flags & flag)) continue;
    PyObject* const state = PyDict_GetItemString(states.get(), name);
    if (!state || PyUnicode_CompareWithASCIIString(state, "ignore") != 0) return true;
  }
  return false;
}

bool is_check(Form form) { return form == Form::kCheck || form == Form::kCheckMeta; }

bool is_ordinary_array(PyObject* object, const graph::Meta& meta) {
  if (!PyArray_CheckExact(object)) return false;
  PyArrayObject* const array = numpy::as_array(object);
  return PyArray_NDIM(array) == meta.rank && PyArray_TYPE(array) == type_number(meta.dtype) && PyArray_ISBEHAVED_RO(array);
}

LeafShape shape_of(PyObject* object) {
  PyArrayObject* const array = numpy::as_array(object);
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  return {reinterpret_cast<const int64_t*>(PyArray_DIMS(array)), reinterpret_cast<const int64_t*>(PyArray_STRIDES(array))};
}

// Sorts axes as NumPy's iterator does for arrays of these strides (operand o's stride of axis a: strides[o][a]; 0 for what doesn't
// move), the one that moves least first: stable, and where operands disagree C order wins.
void sort_axes(const std::vector<const int64_t*>& strides, int rank, int* axes) {
  for (int i = 0; i < rank; i++) {
    const int axis = rank - 1 - i;
    int place = i;
    for (int j = i - 1; j >= 0; j--) {
      bool compared = false, inside = false;
      for (const int64_t* operand : strides) {
        const int64_t ours = std::abs(operand[axis]), other = std::abs(operand[axes[j]]);
        if (!ours || !other) continue;
        if (other <= ours) inside = false;
        else if (!compared) inside = true;
        compared = true;
      }
      if (compared && !inside) break;
      if (compared) place = j;
    }
    std::copy_backward(axes + place, axes + i, axes + i + 1);
    axes[place] = axis;
  }
}

// NumPy sums what lies in memory in memory's order: it turns negative strides round and joins dimensions that follow on.
bool sums_in_memory_order(const int64_t* strides, const int64_t* extents, const Kernel& kernel) {
  for (int i = 0; i < kernel.rank; i++) {
    if (strides[i] < 0) return true;
    const bool both = i + 1 < kernel.rank && (kernel.reduced >> i & 3) == 3;
    if (both && strides[i] != 0 && strides[i] == strides[i + 1] * extents[i + 1]) return true;
  }
  return false;
}

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

// The arrays that enter a segment. They are held by the caller, by the run or by the graph.
struct NativeExecutable::Leaves {
  PyObject** objects;
  LeafShape* shapes;
};

namespace {

// One run of one variant: its symbols are known, its memory is taken from `scope`.
class VariantRun {
 public:
  VariantRun(const Variant& variant, const int64_t* symbols, Arena::Scope& scope)
      : variant_(variant), symbols_(symbols), scope_(scope), places_(scope.take<Place>(variant.storages.size())) {
    if (variant.plain) return;
    layouts_ = scope.take<const int64_t*>(variant.layouts.size());
    std::fill_n(layouts_, variant.layouts.size(), nullptr);
  }
  // Where it didn't come to its end, nothing is written.
  ~VariantRun() { restore(); }
  VariantRun(const VariantRun&) = delete;
  VariantRun& operator=(const VariantRun&) = delete;

  bool has_empty_space() const {
    for (const KernelPlan& plan : variant_.kernels) {
      for (const int size : plan.space) {
        if (symbols_[size] == 0) return true;
      }
    }
    return false;
  }

  // Finds or takes the memory of every storage; `values` get the arrays that are results.
  bool place(PyObject* const* leaves, char* scalars, const graph::Graph& graph, std::vector<Ref>& values) {
    for (size_t i = 0; i < variant_.storages.size(); i++) {
      const Storage& storage = variant_.storages[i];
      switch (storage.kind) {
        case Storage::Kind::kLeaf: {
          PyArrayObject* const array = numpy::as_array(leaves[storage.source]);
          places_[i] = {PyArray_BYTES(array), reinterpret_cast<const int64_t*>(PyArray_STRIDES(array))};
          break;
        }
        case Storage::Kind::kScalar: places_[i] = {scalars + storage.source * kNumberBytes, nullptr}; break;
        case Storage::Kind::kBuffer:
          if (!place_buffer(storage, places_[i], graph, values)) return false;
          break;
      }
    }
    return true;
  }

  const Place& at(size_t storage) const { return places_[storage]; }

  // Finds what each kernel is called with; false if operands are in an order that kernels don't keep.
  bool prepare() {
    size_t most = 0;
    for (const KernelPlan& plan : variant_.kernels) most += std::max<size_t>(1, 2 * plan.hole.size());
    calls_ = end_ = scope_.take<KernelCall>(most);
    ends_ = scope_.take<int>(variant_.kernels.size());
    for (size_t k = 0; k < variant_.kernels.size(); k++) {
      const KernelPlan& plan = variant_.kernels[k];
      KernelCall call{plan.compiled, nullptr, nullptr, plan.scratch.data()};
      if (!find_operands(plan, call)) return false;
      if (plan.commits) plan.compiled->make_ready(call.extents, call.operands);
      else add_calls(plan, call);
      ends_[k] = static_cast<int>(end_ - calls_);
    }
    return true;
  }

  FloatFlags run() { return run({calls_, end_}, done_); }

  // Writes what is to be written at the end: nothing can go wrong any more.
  void commit() {
    for (const KernelPlan& plan : variant_.kernels) {
      if (!plan.commits) continue;
      KernelCall call{plan.compiled, nullptr, nullptr, plan.scratch.data()};
      find_operands(plan, call);
      int done = 0;
      run({&call, 1}, done);
    }
    done_ = 0;
  }

 private:
  // More elements around a part that needn't be copied are worth kernels.
  static constexpr int64_t kMostAround = 1 << 14;

  // Addresses and strides of a kernel's operands; false if they are in an order that kernels don't keep.
  bool find_operands(const KernelPlan& plan, KernelCall& call) {
    const int rank = plan.kernel.rank;
    int64_t* const extents = scope_.take<int64_t>(rank);
    for (int i = 0; i < rank; i++) extents[i] = symbols_[plan.space[i]];
    KernelOperand* const operands = scope_.take<KernelOperand>(plan.ports.size());
    call.extents = extents;
    call.operands = operands;
    int64_t* strides = scope_.take<int64_t>(plan.ports.size() * rank);
    for (size_t p = 0; p < plan.ports.size(); p++, strides += rank) {
      const Box& port = plan.ports[p];
      operands[p] = {address(port), strides};
      for (int i = 0; i < rank; i++) strides[i] = stride(port, port.axes[i]);
      if (plan.commits) continue;
      if (plan.sums_floats && sums_in_memory_order(strides, extents, plan.kernel)) return false;
    }
    return true;
  }

  // A kernel's call, or what is left of it around a part that needn't be written.
  void add_calls(const KernelPlan& plan, const KernelCall& whole) {
    if (plan.hole.empty()) {
      *end_++ = whole;
      return;
    }
    const int rank = plan.kernel.rank;
    int64_t* const first = scope_.take<int64_t>(2 * static_cast<size_t>(rank));
    int64_t* const last = first + rank;
    for (int i = 0; i < rank; i++) std::tie(first[i], last[i]) = range(plan.hole[static_cast<size_t>(i)]);
    if (!plan.copied.empty() && elements_around(rank, whole.extents, first, last) <= kMostAround) return copy_border(plan, whole, first, last);
    for (int i = 0; i < rank; i++) {
      add_slab(plan, whole, i, 0, first[i]);
      add_slab(plan, whole, i, last[i], whole.extents[i]);
    }
  }

  // Copies what is around the part; it goes into memory that is new, so that nothing is lost if no kernel runs.
  void copy_border(const KernelPlan& plan, const KernelCall& call, const int64_t* first, const int64_t* last) const {
    const size_t inputs = plan.kernel.inputs.size();
    for (size_t i = 0; i < plan.copied.size(); i++) {
      const KernelOperand &from = call.operands[plan.copied[i]], &to = call.operands[inputs + i];
      const size_t item = static_cast<size_t>(graph::size_of(plan.kernel.outputs[i].dtype));
      copy_around({plan.kernel.rank, item, call.extents, from.strides, to.strides, first, last}, from.data, to.data);
    }
  }

  // The part of `whole` with indices begin .. end - 1 of dimension d, and the hole's in the dimensions before.
  void add_slab(const KernelPlan& plan, const KernelCall& whole, int d, int64_t begin, int64_t end) {
    if (begin >= end) return;
    const int rank = plan.kernel.rank;
    int64_t* const extents = scope_.take<int64_t>(rank);
    KernelOperand* const operands = scope_.take<KernelOperand>(plan.ports.size());
    std::copy_n(whole.extents, rank, extents);
    std::copy_n(whole.operands, plan.ports.size(), operands);
    for (int i = 0; i <= d; i++) {
      const auto [first, last] = i == d ? std::pair{begin, end} : range(plan.hole[static_cast<size_t>(i)]);
      extents[i] = last - first;
      for (size_t p = 0; p < plan.ports.size(); p++) operands[p].data += first * operands[p].strides[i];
    }
    *end_++ = {whole.kernel, extents, operands, whole.scratch};
  }

  std::pair<int64_t, int64_t> range(const Range& range) const {
    const int64_t start = range.start < 0 ? 0 : symbols_[range.start];
    return {start, start + symbols_[range.length]};
  }

  // Puts back what kernels that have run have written into leaves, the last first.
  void restore() const {
    for (auto undo = variant_.undo.rbegin(); undo != variant_.undo.rend(); ++undo) {
      if (done_ && ends_[undo->kernel] <= done_) restore(*undo, 0, address(undo->place), places_[undo->kept].data);
    }
  }

  // Dimension d and those behind it.
  void restore(const Undo& undo, size_t d, char* to, const char* from) const {
    const Storage& storage = variant_.storages[undo.kept];
    if (d == undo.dims.size()) {
      std::memcpy(to, from, static_cast<size_t>(graph::size_of(storage.dtype)));
      return;
    }
    for (int64_t i = 0; i < symbols_[undo.dims[d]]; i++) {
      restore(undo, d + 1, to, from);
      to += stride(undo.place, undo.place.axes[d]);
      from += places_[undo.kept].strides[d];
    }
  }

  // done: counts those that have run, as code for a layout that is met first may not be made.
  FloatFlags run(std::span<const KernelCall> calls, int& done) {
    char** const data = scope_.take<char*>(variant_.storages.size());
    for (size_t i = 0; i < variant_.storages.size(); i++) data[i] = places_[i].data;
    const std::span<char* const> scratch(data, variant_.storages.size());
    int64_t work = 0;
    for (const KernelCall& call : calls) work += work_of(call);
    if (work < kWorkToReleaseGil && !may_run_in_slices(calls)) return run_calls(calls, scratch, done);
    struct Released {
      PyThreadState* const thread = PyEval_SaveThread();
      ~Released() { PyEval_RestoreThread(thread); }
    } const released;
    return run_calls(calls, scratch, done);
  }

  static int64_t work_of(const KernelCall& call) {
    const Kernel& kernel = call.kernel->kernel();
    int64_t work = 1 + static_cast<int64_t>(kernel.ops.size());
    for (int i = 0; i < kernel.rank; i++) work *= call.extents[i];
    return work;
  }

  bool place_buffer(const Storage& storage, Place& place, const graph::Graph& graph, std::vector<Ref>& values) {
    const int rank = static_cast<int>(storage.dims.size());
    int64_t* const sizes = scope_.take<int64_t>(2 * rank);
    int64_t* const strides = sizes + rank;
    int64_t size = graph::size_of(storage.dtype);
    for (int i = 0; i < rank; i++) sizes[i] = symbols_[storage.dims[i]];
    // The value of a write has the order of the array that is written, which its buffer needn't have.
    const bool ordered = !variant_.plain && storage.layout >= 0 && variant_.layouts[storage.layout].box.storage < 0;
    const int64_t* const steps = ordered ? layout(storage.layout) : nullptr;
    for (int i = rank - 1; i >= 0; i--) {
      strides[i] = ordered ? steps[i] * graph::size_of(storage.dtype) : size;
      size *= sizes[i];
    }
    place.strides = strides;
    if (storage.node < 0 || graph.nodes[storage.node].meta.kind != Kind::kArray) {
      place.data = scope_.take<char>(std::max<int64_t>(size, kNumberBytes));
      return true;
    }
    Ref array = new_result(storage.dtype, rank, sizes, ordered ? strides : nullptr);
    if (!array) return false;
    place.data = PyArray_BYTES(array.as<PyArrayObject>());
    values[storage.node] = std::move(array);
    return true;
  }

  // How far apart elements are along each dimension of a layout: bytes of an array that is there, elements of a result.
  const int64_t* layout(int index) {
    if (layouts_[index]) return layouts_[index];
    const Layout& layout = variant_.layouts[index];
    const int rank = static_cast<int>(layout.dims.size());
    int64_t* const strides = scope_.take<int64_t>(rank);
    layouts_[index] = strides;
    if (layout.box.storage >= 0) {
      for (int i = 0; i < rank; i++) strides[i] = stride(layout.box, layout.box.axes[i]);
      return strides;
    }
    std::vector<int> axes(rank);
    if (layout.keeps) {
      sort_axes_of_copy(layout, axes);
    } else {
      std::vector<const int64_t*> operands;
      for (const int operand : layout.operands) operands.push_back(spread(operand, rank));
      sort_axes(operands, rank, axes.data());
    }
    int64_t step = 1;
    for (const int axis : axes) {
      strides[axis] = step;
      step *= symbols_[layout.dims[axis]];
    }
    return strides;
  }

  // What isn't dense, NumPy copies with the largest strides first, however many elements they are for.
  void sort_axes_of_copy(const Layout& copy, std::vector<int>& axes) {
    const int64_t* const from = layout(copy.operands[0]);
    const Box& box = variant_.layouts[copy.operands[0]].box;
    const int64_t unit = box.storage < 0 ? 1 : graph::size_of(variant_.storages[box.storage].dtype);
    const int rank = static_cast<int>(axes.size());
    int64_t* const sizes = scope_.take<int64_t>(rank);
    for (int i = 0; i < rank; i++) sizes[i] = symbols_[copy.dims[i]];
    std::iota(axes.begin(), axes.end(), 0);
    if (!is_dense(from, sizes, rank, unit, false)) {
      if (is_dense(from, sizes, rank, unit, true)) std::reverse(axes.begin(), axes.end());
      else std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return std::abs(from[a]) > std::abs(from[b]); });
    }
    std::reverse(axes.begin(), axes.end());
  }

  // A layout over the last dimensions of `rank`; what has one element doesn't move.
  const int64_t* spread(int index, int rank) {
    const int64_t* const strides = layout(index);
    const std::vector<int>& dims = variant_.layouts[index].dims;
    int64_t* const spread = scope_.take<int64_t>(rank);
    const int missing = rank - static_cast<int>(dims.size());
    for (int i = 0; i < rank; i++) spread[i] = i < missing || symbols_[dims[i - missing]] == 1 ? 0 : strides[i - missing];
    return spread;
  }

  char* address(const Box& port) const {
    const Place& place = places_[port.storage];
    char* data = place.data;
    for (const Offset& offset : port.offsets) data += symbols_[offset.symbol] * steps(offset.step, offset.times) * place.strides[offset.axis];
    return data;
  }

  int64_t stride(const Box& port, const Axis& axis) const {
    if (axis.of == Axis::kBroadcast) return 0;
    if (axis.of == Axis::kFlat) return graph::size_of(variant_.storages[port.storage].dtype);
    return places_[port.storage].strides[axis.of] * steps(axis.step, axis.times);
  }

  int64_t steps(int64_t step, int times) const { return times < 0 ? step : step * symbols_[times]; }

  const Variant& variant_;
  const int64_t* symbols_;
  Arena::Scope& scope_;
  Place* places_;
  const int64_t** layouts_ = nullptr;
  KernelCall* calls_ = nullptr;
  KernelCall* end_ = nullptr;
  int* ends_ = nullptr;  // for each kernel: how many calls there are up to its last
  int done_ = 0;         // calls of kernels that have run and could be undone
};

// The bytes that an array reaches over.
std::pair<const char*, const char*> reach(PyArrayObject* array) {
  const char* begin = PyArray_BYTES(array);
  const char* end = begin + PyArray_ITEMSIZE(array);
  for (int i = 0; i < PyArray_NDIM(array); i++) {
    const npy_intp span = (PyArray_DIM(array, i) - 1) * PyArray_STRIDE(array, i);
    (span < 0 ? begin : end) += span;
  }
  return {begin, end};
}

// Whether two elements of an array may stand in the same place.
bool may_overlap_itself(PyArrayObject* array) {
  std::pair<npy_intp, npy_intp> steps[NPY_MAXDIMS];  // stride, size
  int count = 0;
  for (int i = 0; i < PyArray_NDIM(array); i++) {
    if (PyArray_DIM(array, i) > 1) steps[count++] = {std::abs(PyArray_STRIDE(array, i)), PyArray_DIM(array, i)};
  }
  std::sort(steps, steps + count);
  npy_intp span = PyArray_ITEMSIZE(array);
  for (int i = 0; i < count; i++) {
    if (steps[i].first < span) return true;
    span += (steps[i].second - 1) * steps[i].first;
  }
  return false;
}

// Whether the arrays that the segment writes may be written, and hold nothing else that it reads.
bool can_write(const Segment& segment, PyObject* const* leaves) {
  for (const int leaf : segment.written) {
    PyArrayObject* const array = numpy::as_array(leaves[leaf]);
    if (!PyArray_ISWRITEABLE(array) || PyArray_CHKFLAGS(array, kWarnsOnWrite) || may_overlap_itself(array)) return false;
  }
  return std::all_of(segment.apart.begin(), segment.apart.end(), [&](const std::pair<int, int>& pair) {
    const auto a = reach(numpy::as_array(leaves[pair.first])), b = reach(numpy::as_array(leaves[pair.second]));
    return a.second <= b.first || b.second <= a.first;
  });
}

// Notes for each leaf that is written whether another stands in its memory.
void find_alone(const Segment& segment, PyObject* const* leaves, LeafShape* shapes) {
  for (const int written : segment.written) {
    const auto own = reach(numpy::as_array(leaves[written]));
    for (size_t i = 0; i < segment.leaves.size(); i++) {
      const auto other = reach(numpy::as_array(leaves[i]));
      if (static_cast<int>(i) != written && own.first < other.second && other.first < own.second) shapes[written].alone = false;
    }
  }
}

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
  const auto alone = [&](const Undo& undo) { return shapes[variant.storages[undo.place.storage].source].alone; };
  if (!std::all_of(variant.undo.begin(), variant.undo.end(), alone)) return false;
  if (!has_order_of(variant, shapes, symbols)) return false;
  return std::all_of(variant.contiguous.begin(), variant.contiguous.end(),
                     [&](int leaf) { return PyArray_IS_C_CONTIGUOUS(numpy::as_array(leaves[leaf])); });
}

}  // namespace

NativeExecutable::NativeExecutable(const graph::Graph& graph, backends::ExitAt exit_at, bool exact)
    : graph_(graph), exit_at_(std::move(exit_at)), meanings_(graph), end_(exit_at_(static_cast<int32_t>(graph.nodes.size()))) {
  for (size_t node = 0; node < graph.nodes.size(); node++) {
    const Meaning& meaning = meanings_.of(static_cast<int32_t>(node));
    const Sense sense = meaning.sense;
    if (exact && is_elementary(meaning)) as_calls_.insert(static_cast<int32_t>(node));
    quiet_.push_back(graph.nodes[node].form != Form::kCall && (sense == Sense::kView || sense == Sense::kQuick));
  }
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
  }
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
    if (!native && !call_nodes(run, step.segment.begin, step.segment.end)) return;
    for (const int32_t node : step.released) run.values[node].reset();
  }
  leave(run, static_cast<int32_t>(graph_.nodes.size()), false);
}

bool NativeExecutable::run_segment(Run& run, size_t step) {
  const Segment& segment = steps_[step].segment;
  const Kernels& kernels = kernels_[step];
  if (kernels.flagged >= kMaxFlagged || (kernels.variants.empty() && kernels.refused >= kMaxRefused)) return false;
  Arena::Scope scope(Arena::current());
  try {
    if (try_segment(run, step, scope)) return true;
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
  if (!running.prepare()) return false;
  const FloatFlags flags = running.run();
  if (flags && cares_about(flags)) {
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

std::string NativeExecutable::source() const {
  std::set<const CompiledKernel*> told;
  std::string text;
  for (const auto& kernels : kernels_) {
    for (const auto& variant : kernels.variants) {
      for (const KernelPlan& plan : variant->kernels) {
        if (plan.compiled && told.insert(plan.compiled).second) text += plan.compiled->ir() + "\n";
      }
    }
  }
  return text;
}

std::unique_ptr<backends::Executable> make_executable(const graph::Graph& graph, backends::ExitAt exit_at, bool exact) {
  const std::string error = graph::verify(graph);
  if (!error.empty()) throw std::runtime_error("the graph is not valid: " + error);
  return std::make_unique<NativeExecutable>(graph, std::move(exit_at), exact);
}

}  // namespace evalframe::native
