// Finishes kernels: numbers their values, joins their dimensions where memory does, and puts them in order.
#include "backends/native/lower/lowering.h"

#include <algorithm>
#include <utility>

namespace evalframe::native::lowering {

void Lowering::finish(int k) {
  Building& building = building_[k];
  KernelPlan& plan = variant_.kernels[k];
  add_outputs(k);
  number_values(building, plan);
  if (!plan.hole.empty()) plan.copied = copied_inputs(plan.kernel);
  plan.rolled = building.rolled;
  plan.space = canonical(building.space);
  if (plan.space.empty()) {
    plan.space.push_back(constant(1));
    for (Box& port : plan.ports) port.axes.push_back({});
  }
  plan.kernel.rank = static_cast<int>(plan.space.size());
  if (plan.kernel.rank > 1) collapse(building, plan);
}

std::vector<int> Lowering::copied_inputs(const Kernel& kernel) {
  const int inputs = static_cast<int>(kernel.inputs.size());
  std::vector<int> copied;
  for (const KernelOutput& output : kernel.outputs) {
    int value = output.value;
    while (value >= inputs && kernel.ops[value - inputs].op == ScalarOp::cast) value = kernel.ops[value - inputs].a;
    if (value >= inputs || kernel.inputs[value].scalar || kernel.inputs[value].dtype != output.dtype) return {};
    copied.push_back(value);
  }
  return copied;
}

void Lowering::add_outputs(int k) {
  Building& building = building_[k];
  KernelPlan& plan = variant_.kernels[k];
  for (const Value& input : building.inputs) {
    const bool scalar = std::all_of(input.box.axes.begin(), input.box.axes.end(), [](const Axis& axis) { return axis.of < 0; });
    plan.kernel.inputs.push_back({input.dtype, scalar});
    plan.ports.push_back(input.box);
  }
  for (const Written& output : outputs_) {
    if (output.kernel != k) continue;
    Box box = output.box;
    box.storage = output.storage;
    plan.kernel.outputs.push_back({output.value, variant_.storages[output.storage].dtype, output.reduce});
    plan.ports.push_back(std::move(box));
  }
}

void Lowering::number_values(const Building& building, KernelPlan& plan) {
  const int inputs = static_cast<int>(building.inputs.size());
  auto renumber = [&](int32_t& value) {
    if (value == kNoValue) value = -1;
    else value = value < 0 ? -1 - value : value + inputs;
  };
  for (KernelOp& op : plan.kernel.ops) {
    renumber(op.a);
    if (arity(op.op) > 1) renumber(op.b); else op.b = -1;
    if (arity(op.op) > 2) renumber(op.c); else op.c = -1;
  }
  for (KernelOutput& output : plan.kernel.outputs) renumber(output.value);
}

int Lowering::arity(ScalarOp op) {
  switch (op) {
#define EVALFRAME_SCALAR_OP(name, arity, numbers, flags) \
case ScalarOp::name: return arity;
#include "backends/native/code/scalar_ops.def"
#undef EVALFRAME_SCALAR_OP
  }
  return 0;
}

// A space whose operands are all contiguous is one dimension.
void Lowering::collapse(const Building& building, KernelPlan& plan) {
  const uint32_t all = (1u << plan.space.size()) - 1;
  if (!building.flat || (plan.kernel.reduced && plan.kernel.reduced != all)) return;
  int size = plan.space[0];
  for (size_t i = 1; i < plan.space.size(); i++) size = symbol({Symbol::Kind::kProduct, size, plan.space[i]});
  plan.space = {size};
  plan.kernel.rank = 1;
  plan.kernel.reduced = plan.kernel.reduced ? 1 : 0;
  for (Box& port : plan.ports) {
    const bool moves = std::any_of(port.axes.begin(), port.axes.end(), [](const Axis& axis) { return axis.of >= 0; });
    port.axes = {Axis{moves ? Axis::kFlat : Axis::kBroadcast, 1}};
    const Storage& storage = variant_.storages[port.storage];
    const bool leaf = moves && storage.kind == Storage::Kind::kLeaf;
    std::vector<int>& required = variant_.contiguous;
    if (leaf && std::find(required.begin(), required.end(), storage.source) == required.end()) required.push_back(storage.source);
  }
}

// Copies first. A kernel that nothing is read from still raises floating-point flags; one without operations does nothing at all.
// Gives the new numbers.
std::vector<int> Lowering::order_kernels() {
  std::vector<KernelPlan> used;
  std::vector<int> place(building_.size());
  for (const bool copies : {true, false}) {
    for (size_t k = 0; k < building_.size(); k++) {
      KernelPlan& plan = variant_.kernels[k];
      if (building_[k].copies != copies || plan.kernel.outputs.empty()) continue;
      place[k] = static_cast<int>(used.size());
      used.push_back(std::move(plan));
    }
  }
  variant_.kernels = std::move(used);
  for (Undo& undo : variant_.undo) undo.kernel = place[static_cast<size_t>(undo.kernel)];
  return place;
}

}  // namespace evalframe::native::lowering
