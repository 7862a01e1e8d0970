// One run of a variant: finds memory, calls kernels, and puts back what they have written where the run is given up.
#include "backends/native/run/variant_run.h"

#include <Python.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <tuple>

#include "backends/native/lower/axis_order.h"
#include "backends/native/lower/numbers.h"
#include "backends/native/run/result_memory.h"
#include "backends/native/run/thread_pool.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::native {

namespace {

// Elements times operations above which other threads may run meanwhile.
constexpr int64_t kWorkToReleaseGil = 40000;

}  // namespace

VariantRun::VariantRun(const Variant& variant, const int64_t* symbols, Arena::Scope& scope)
    : variant_(variant), symbols_(symbols), scope_(scope), places_(scope.take<Place>(variant.storages.size())) {
  if (variant.plain) return;
  layouts_ = scope.take<const int64_t*>(variant.layouts.size());
  std::fill_n(layouts_, variant.layouts.size(), nullptr);
}

VariantRun::~VariantRun() { restore(); }

bool VariantRun::has_empty_space() const {
  for (const KernelPlan& plan : variant_.kernels) {
    for (const int size : plan.space) {
      if (symbols_[size] == 0) return true;
    }
  }
  return false;
}

bool VariantRun::place(PyObject* const* leaves, char* scalars, const graph::Graph& graph, std::vector<Ref>& values) {
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

void VariantRun::prepare() {
  size_t most = 0;
  for (const KernelPlan& plan : variant_.kernels) {
    size_t parts = std::max<size_t>(1, 2 * plan.hole.size());
    for (int d = 0; plan.rolled && d < plan.kernel.rank; d++) parts *= borders_along(plan, d).size() - 1;
    most += parts;
  }
  calls_ = end_ = scope_.take<KernelCall>(most);
  ends_ = scope_.take<int>(variant_.kernels.size());
  for (size_t k = 0; k < variant_.kernels.size(); k++) {
    const KernelPlan& plan = variant_.kernels[k];
    KernelCall call{plan.compiled, nullptr, nullptr, plan.scratch.data()};
    find_operands(plan, call);
    if (plan.commits) plan.compiled->make_ready(call.extents, call.operands);
    else add_calls(plan, call);
    ends_[k] = static_cast<int>(end_ - calls_);
    if (plan.lags >= 0 && !lagged_) find_lagged(plan);
  }
  copy_borders();
}

std::span<char* const> VariantRun::memory() const {
  char** const data = scope_.take<char*>(variant_.storages.size());
  for (size_t i = 0; i < variant_.storages.size(); i++) data[i] = places_[i].data;
  return {data, variant_.storages.size()};
}

template <class Work>
FloatFlags VariantRun::without_gil(std::span<const KernelCall> calls, Work work) const {
  int64_t all = 0;
  for (const KernelCall& call : calls) all += work_of(call);
  if (all < kWorkToReleaseGil && !may_run_in_slices(calls)) return work();
  struct Released {
    PyThreadState* const thread = PyEval_SaveThread();
    ~Released() { PyEval_RestoreThread(thread); }
  } const released;
  return work();
}

FloatFlags VariantRun::run() {
  const std::span<const KernelCall> all(calls_, end_);
  return without_gil(all, [&] {
    FloatFlags flags = run_calls(lagged_ ? all.first(all.size() - 1) : all, memory(), done_);
    if (lagged_) flags |= lagged_->run(scope_), done_++;
    return flags;
  });
}

void VariantRun::find_lagged(const KernelPlan& stores) {
  const KernelPlan& plan = variant_.kernels[static_cast<size_t>(stores.lags)];
  const int before = stores.lags ? ends_[stores.lags - 1] : 0, calls = static_cast<int>(end_ - calls_);
  if (calls != ends_[stores.lags] || calls != before + 1 || plan.space != stores.space) return;
  const auto is_value = [&](const Box& port) { return port.storage == stores.ports[0].storage; };
  const auto output = static_cast<size_t>(std::find_if(plan.ports.begin(), plan.ports.end(), is_value) - plan.ports.begin());
  KernelCall call{stores.compiled, nullptr, nullptr, stores.scratch.data()};
  find_operands(stores, call);
  lagged_ = Lagged::of(calls_[before], output, call.operands[1]);
  if (lagged_) stored_ = &stores;
}

void VariantRun::commit() {
  for (const KernelPlan& plan : variant_.kernels) {
    if (!plan.commits || &plan == stored_) continue;
    KernelCall call{plan.compiled, nullptr, nullptr, plan.scratch.data()};
    find_operands(plan, call);
    int done = 0;
    without_gil({&call, 1}, [&] { return run_calls({&call, 1}, memory(), done); });
  }
  done_ = 0;
  lagged_.reset();
}

void VariantRun::find_operands(const KernelPlan& plan, KernelCall& call) {
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
  }
}

void VariantRun::add_calls(const KernelPlan& plan, const KernelCall& whole) {
  if (plan.rolled) return add_parts(plan, whole);
  if (plan.hole.empty()) {
    *end_++ = whole;
    return;
  }
  const int rank = plan.kernel.rank;
  int64_t* const first = scope_.take<int64_t>(2 * static_cast<size_t>(rank));
  int64_t* const last = first + rank;
  for (int i = 0; i < rank; i++) std::tie(first[i], last[i]) = range(plan.hole[static_cast<size_t>(i)]);
  if (!plan.copied.empty() && elements_around(rank, whole.extents, first, last) <= kMostAround) return add_borders(plan, whole, first, last);
  for (int i = 0; i < rank; i++) {
    add_slab(plan, whole, i, 0, first[i]);
    add_slab(plan, whole, i, last[i], whole.extents[i]);
  }
}

void VariantRun::add_parts(const KernelPlan& plan, const KernelCall& whole) {
  const size_t rank = static_cast<size_t>(plan.kernel.rank);
  std::vector<std::vector<int64_t>> borders;
  for (size_t d = 0; d < rank; d++) borders.push_back(borders_along(plan, static_cast<int>(d)));
  std::vector<size_t> part(rank, 0);
  for (size_t d = 0; d < rank;) {
    int64_t* const extents = scope_.take<int64_t>(rank);
    KernelOperand* const operands = scope_.take<KernelOperand>(plan.ports.size());
    std::copy_n(whole.operands, plan.ports.size(), operands);
    for (size_t i = 0; i < rank; i++) {
      const int64_t begin = borders[i][part[i]];
      extents[i] = borders[i][part[i] + 1] - begin;
      for (size_t p = 0; p < plan.ports.size(); p++) {
        const std::vector<int>& rolls = plan.ports[p].rolls;
        const int64_t from = begin - (rolls.empty() || rolls[i] < 0 ? 0 : symbols_[rolls[i]]);
        operands[p].data += (from < 0 ? from + whole.extents[i] : from) * operands[p].strides[i];
      }
    }
    // Before anything runs: what has run of a kernel can't be told from all of it where that is to be undone.
    if (!variant_.undo.empty()) plan.compiled->make_ready(extents, operands);
    *end_++ = {whole.kernel, extents, operands, whole.scratch};
    for (d = 0; d < rank && ++part[d] + 1 == borders[d].size(); d++) part[d] = 0;
  }
}

std::vector<int64_t> VariantRun::borders_along(const KernelPlan& plan, int d) const {
  std::vector<int64_t> borders{0, symbols_[plan.space[static_cast<size_t>(d)]]};
  for (const Box& port : plan.ports) {
    if (!port.rolls.empty() && port.rolls[static_cast<size_t>(d)] >= 0) borders.push_back(symbols_[port.rolls[static_cast<size_t>(d)]]);
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  return borders;
}

void VariantRun::add_borders(const KernelPlan& plan, const KernelCall& call, const int64_t* first, const int64_t* last) {
  const size_t inputs = plan.kernel.inputs.size();
  for (size_t i = 0; i < plan.copied.size(); i++) {
    const KernelOperand &from = call.operands[plan.copied[i]], &to = call.operands[inputs + i];
    const size_t item = static_cast<size_t>(graph::size_of(plan.kernel.outputs[i].dtype));
    borders_.push_back({{plan.kernel.rank, item, call.extents, from.strides, to.strides, first, last}, from.data, to.data});
  }
}

void VariantRun::copy_borders() const {
  if (borders_.empty()) return;
  int64_t elements = 0;
  for (const auto& [copy, from, to] : borders_) elements += elements_around(copy.rank, copy.extents, copy.first, copy.last);
  // Each thread those of the rows that it computes, which its core has in the cache.
  const int parts = elements < kManyAround ? 1 : threads_here();
  parallel_for(parts, [&](int part) {
    for (const auto& [copy, from, to] : borders_) {
      const int64_t rows = copy.rank ? copy.extents[0] : 0;
      copy_around(copy, from, to, rows * part / parts, rows * (part + 1) / parts);
    }
  });
}

void VariantRun::add_slab(const KernelPlan& plan, const KernelCall& whole, int d, int64_t begin, int64_t end) {
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

std::pair<int64_t, int64_t> VariantRun::range(const Range& range) const {
  const int64_t start = range.start < 0 ? 0 : symbols_[range.start];
  return {start, start + symbols_[range.length]};
}

void VariantRun::restore() const {
  if (lagged_ && done_ == end_ - calls_) lagged_->restore();
  for (auto undo = variant_.undo.rbegin(); undo != variant_.undo.rend(); ++undo) {
    if (done_ && ends_[undo->kernel] <= done_) restore(*undo, 0, address(undo->place), places_[undo->kept].data);
  }
}

void VariantRun::restore(const Undo& undo, size_t d, char* to, const char* from) const {
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

int64_t VariantRun::work_of(const KernelCall& call) {
  const Kernel& kernel = call.kernel->kernel();
  int64_t work = 1 + static_cast<int64_t>(kernel.ops.size());
  for (int i = 0; i < kernel.rank; i++) work *= call.extents[i];
  return work;
}

bool VariantRun::place_buffer(const Storage& storage, Place& place, const graph::Graph& graph, std::vector<Ref>& values) {
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

const int64_t* VariantRun::layout(int index) {
  if (layouts_[index]) return layouts_[index];
  const Layout& layout = variant_.layouts[index];
  const int rank = static_cast<int>(layout.dims.size());
  int64_t* const strides = scope_.take<int64_t>(rank);
  layouts_[index] = strides;
  if (layout.box.storage >= 0) {
    for (int i = 0; i < rank; i++) strides[i] = stride(layout.box, layout.box.axes[i]);
    return strides;
  }
  if (layout.reduced) {
    lay_out_reduced(layout, strides);
    return strides;
  }
  std::vector<int> axes(rank);
  if (layout.keeps) {
    sort_axes_of_copy(layout, axes);
  } else if (!layout.walked && are_dense(layout, false)) {
    std::iota(axes.rbegin(), axes.rend(), 0);
  } else if (!layout.walked && are_dense(layout, true)) {
    std::iota(axes.begin(), axes.end(), 0);
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

bool VariantRun::are_dense(const Layout& result, bool fortran) {
  const int rank = static_cast<int>(result.dims.size());
  std::vector<int64_t> sizes;
  for (const int size : result.dims) sizes.push_back(symbols_[size]);
  const auto in_order = [&](int index) {
    const Layout& operand = variant_.layouts[index];
    for (int i = 0; i < rank; i++) {
      if (static_cast<int>(operand.dims.size()) != rank || symbols_[operand.dims[i]] != sizes[i]) return false;
    }
    const int64_t unit = operand.box.storage < 0 ? 1 : graph::size_of(variant_.storages[operand.box.storage].dtype);
    return is_dense(layout(index), sizes.data(), rank, unit, fortran);
  };
  return !result.operands.empty() && std::all_of(result.operands.begin(), result.operands.end(), in_order);
}

void VariantRun::lay_out_reduced(const Layout& layout, int64_t* strides) {
  const std::vector<int>& dims = variant_.layouts[layout.operands[0]].dims;
  const int rank = static_cast<int>(dims.size());
  std::vector<int> axes(rank);
  sort_axes({spread(layout.operands[0], rank)}, rank, axes.data());
  const bool keepdims = layout.dims.size() == dims.size();
  int64_t step = 1;
  for (const int axis : axes) {
    const bool reduced = layout.reduced >> axis & 1;
    const int place = keepdims ? axis : axis - std::popcount(layout.reduced & ((1u << axis) - 1));
    if (keepdims || !reduced) strides[place] = step;
    if (!reduced) step *= symbols_[dims[axis]];
  }
}

void VariantRun::sort_axes_of_copy(const Layout& copy, std::vector<int>& axes) {
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

const int64_t* VariantRun::spread(int index, int rank) {
  const int64_t* const strides = layout(index);
  const std::vector<int>& dims = variant_.layouts[index].dims;
  int64_t* const spread = scope_.take<int64_t>(rank);
  const int missing = rank - static_cast<int>(dims.size());
  for (int i = 0; i < rank; i++) spread[i] = i < missing || symbols_[dims[i - missing]] == 1 ? 0 : strides[i - missing];
  return spread;
}

char* VariantRun::address(const Box& port) const {
  const Place& place = places_[port.storage];
  char* data = place.data;
  for (const Offset& offset : port.offsets) data += symbols_[offset.symbol] * steps(offset.step, offset.times) * place.strides[offset.axis];
  return data;
}

int64_t VariantRun::stride(const Box& port, const Axis& axis) const {
  if (axis.of == Axis::kBroadcast) return 0;
  if (axis.of == Axis::kFlat) return graph::size_of(variant_.storages[port.storage].dtype);
  return places_[port.storage].strides[axis.of] * steps(axis.step, axis.times);
}

int64_t VariantRun::steps(int64_t step, int times) const { return times < 0 ? step : step * symbols_[times]; }

}  // namespace evalframe::native
