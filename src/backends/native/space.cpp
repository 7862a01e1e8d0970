// The iteration space of one run: unit dimensions dropped, dimensions sorted by stride and merged where they are one in memory.
#include "backends/native/space.h"

#include <algorithm>
#include <cstdlib>

#include "backends/native/kernel_codegen.h"

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

}  // namespace

Space space_of(const Kernel& kernel, const int64_t* extents, const KernelOperand* operands, bool keep_order) {
  const size_t count = kernel.inputs.size() + kernel.outputs.size();
  Space space;
  space.data.resize(count);
  for (size_t i = 0; i < count; ++i) space.data[i] = operands[i].data;
  auto& dimensions = space.dimensions;
  dimensions.reserve(static_cast<size_t>(std::max(kernel.rank, 2)));
  int64_t weight = 1;
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
    while (!keep_order && place > 0 && reach(dimensions[place - 1]) > reach(dimension)) --place;
    dimensions.insert(dimensions.begin() + static_cast<int64_t>(place), std::move(dimension));
  }
  std::reverse(dimensions.begin(), dimensions.end());
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
    else if (stride == graph::size_of(dtype) || inner.extent == 1) access += letter(Access::kUnit);
    else if (stride == 0 && input) access += letter(Access::kBroadcast);
    else access += letter(Access::kStrided);
  }
  return access;
}

}  // namespace evalframe::native
