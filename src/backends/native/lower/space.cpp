// The iteration space of one run: unit dimensions dropped, dimensions sorted by stride and merged where they are one in memory.
#include "backends/native/lower/space.h"

#include <algorithm>
#include <cstdlib>

#include "backends/native/code/kernel_codegen.h"
#include "backends/native/lower/axis_order.h"

namespace evalframe::native {
namespace {

int64_t reach(const Dimension& dimension) {
  int64_t sum = 0;
  for (int64_t stride : dimension.strides) sum += std::abs(stride);
  return sum;
}

// Whether `outer` and `inner` are one dimension in memory for every operand.
bool continues(const Dimension& outer, const Dimension& inner) {
  if (outer.reduced != inner.reduced || outer.weight != inner.weight * inner.extent) return false;
  for (size_t i = 0; i < outer.strides.size(); ++i) {
    if (outer.strides[i] != inner.strides[i] * inner.extent) return false;
  }
  return true;
}

// Whether the order of the elements shows in a result.
bool sums_floats(const Kernel& kernel) {
  return std::any_of(kernel.outputs.begin(), kernel.outputs.end(), [](const KernelOutput& output) {
    const char kind = graph::kind_of(output.dtype);
    return (output.reduce == ReduceOp::kAdd || output.reduce == ReduceOp::kMultiply) && (kind == 'f' || kind == 'c');
  });
}

// The dimensions as NumPy's iterator has them for the array that is summed, outermost first.
void put_in_memory_order(size_t input, Space& space) {
  std::vector<int64_t> strides;
  for (const Dimension& dimension : space.dimensions) strides.push_back(dimension.strides[input]);
  const int rank = static_cast<int>(space.dimensions.size());
  std::vector<int> axes(space.dimensions.size());
  sort_axes({strides.data()}, rank, axes.data());
  std::vector<Dimension> sorted;
  for (size_t i = axes.size(); i-- > 0;) sorted.push_back(std::move(space.dimensions[static_cast<size_t>(axes[i])]));
  space.dimensions = std::move(sorted);
}

}  // namespace

Space space_of(const Kernel& kernel, const int64_t* extents, const KernelOperand* operands, bool keep_order) {
  const size_t count = kernel.inputs.size() + kernel.outputs.size();
  Space space;
  space.data.resize(count);
  for (size_t i = 0; i < count; ++i) space.data[i] = operands[i].data;
  auto& dimensions = space.dimensions;
  dimensions.reserve(static_cast<size_t>(std::max(kernel.rank, 2)));
  int64_t weight = 1;
  const bool sorts = !keep_order && !sums_floats(kernel);
  // Innermost first, each put before those that reach less far.
  for (int d = kernel.rank - 1; d >= 0; --d) {
    const bool reduced = kernel.reduced >> d & 1;
    const int64_t step = keep_order && reduced ? weight : 0;
    if (reduced) weight *= extents[d];
    if (extents[d] == 1) continue;
    Dimension dimension{extents[d], reduced, step, std::vector<int64_t>(count)};
    for (size_t i = 0; i < count; ++i) {
      const bool scalar = i < kernel.inputs.size() && kernel.inputs[i].scalar;
      dimension.strides[i] = scalar ? 0 : operands[i].strides[d];
    }
    size_t place = dimensions.size();
    while (sorts && place > 0 && reach(dimensions[place - 1]) > reach(dimension)) --place;
    dimensions.insert(dimensions.begin() + static_cast<int64_t>(place), std::move(dimension));
  }
  std::reverse(dimensions.begin(), dimensions.end());
  // A sum of nothing but an array is one in its order, too.
  const bool itself = !sorts && !keep_order && kernel.ops.empty() && kernel.inputs.size() == 1 && !kernel.inputs[0].scalar;
  if (kernel.in_memory_order || itself) put_in_memory_order(0, space);
  for (size_t d = dimensions.size(); d-- > 1;) {
    if (!continues(dimensions[d - 1], dimensions[d])) continue;
    dimensions[d].extent *= dimensions[d - 1].extent;
    dimensions.erase(dimensions.begin() + static_cast<int64_t>(d) - 1);
  }
  while (dimensions.size() < 2) dimensions.insert(dimensions.begin(), Dimension{1, false, 0, std::vector<int64_t>(count)});
  return space;
}

std::string access_of(const Kernel& kernel, const Space& space) {
  std::string access;
  const Dimension& inner = space.dimensions.back();
  const auto letter = [](Access a) { return static_cast<char>(a); };
  for (size_t i = 0; i < space.data.size(); ++i) {
    const bool input = i < kernel.inputs.size();
    const KernelOutput* output = input ? nullptr : &kernel.outputs[i - kernel.inputs.size()];
    const DType dtype = input ? kernel.inputs[i].dtype : output->dtype;
    const int64_t stride = inner.strides[i];
    if (input && kernel.inputs[i].scalar) access += letter(Access::kScalar);
    else if (output && output->reduce != ReduceOp::kNone) access += letter(Access::kUnit);
    else if (inner.extent == 1) access += letter(Access::kUnit);
    else if (stride == 0 && input) access += letter(Access::kBroadcast);
    else access += letter(access_for(stride, graph::size_of(dtype)));
  }
  return access;
}

}  // namespace evalframe::native
