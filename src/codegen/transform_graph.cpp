// Calls the compiled graph, gives its outputs to variables, and leaves where it was left.
#include "codegen/transform_parts.h"

namespace evalframe::codegen {

void Transform::call_graph() {
  b_->begin_call();
  b_->load_constant(callables_.compiled.get());
  b_->end_callable();
  for (const int32_t source : recording_.input_sources) read_source(source);
  b_->call(static_cast<int32_t>(recording_.input_sources.size()));
  call_end_ = b_->next();
  if (exit_.values.empty()) {
    b_->emit(Op::POP_TOP);
    return;
  }
  if (!rebuilt_.empty()) {
    outputs_ = b_->variable("__outputs");
    b_->store(outputs_);
    b_->load(outputs_);
  }
  b_->emit(Op::UNPACK_SEQUENCE, static_cast<int32_t>(exit_.values.size()));
  for (const graph::Operand operand : exit_.values) {
    if (rebuilt_.empty() || is_wanted(operand)) {
      b_->store(home_of_output(operand));
    } else {
      b_->emit(Op::POP_TOP);
    }
  }
}

bool Transform::is_wanted(graph::Operand operand) const {
  for (size_t i = 0; i < recording_.values.size(); i++) {
    if (value(i).kind == Value::Kind::kNode && value(i).a == operand.index && homes_[i].uses > 0) return true;
  }
  return false;
}

// An output goes straight into the variable that it is for, where nothing else needs what the variable had.
int32_t Transform::home_of_output(graph::Operand operand) {
  int32_t home = -1;
  for (size_t i = 0; i < recording_.values.size(); i++) {
    if (value(i).kind != Value::Kind::kNode || value(i).a != operand.index) continue;
    if (home < 0) home = variable_for(static_cast<uint32_t>(i));
    if (home < 0) home = b_->variable("__output_" + std::to_string(operand.index));
    homes_[i].slot = home;
  }
  return home;
}

int32_t Transform::variable_for(uint32_t index) {
  if (states_.size() != 1) return -1;
  for (int32_t slot = 0; slot < locals(); slot++) {
    if (is_cell(code(), slot) || states_[0].slots[slot] != index || !is_changed(slot)) continue;
    const uint32_t old = recording_.initial[0][slot];
    if (old && homes_[old].uses > 0) continue;
    stored_.push_back(slot);
    homes_[index].uses--;
    return slot_of_[slot];
  }
  return -1;
}

// The graph was left before its end: the evaluator finishes the frame.
void Transform::write_leave(int32_t from, int32_t to) {
  const int32_t handler = b_->next();
  b_->set_position(code().positions[recording_.start[0].next]);
  b_->add_region({from, to, handler, 0, false});
  const int32_t left = b_->variable("__left");
  b_->store(left);
  b_->begin_call();
  b_->load_constant(callables_.leave.get());
  b_->end_callable();
  // Nothing of ours may hold it: it holds this frame through its traceback.
  b_->load(left);
  b_->emit(Op::DELETE_FAST, left);
  for (size_t i = 0; i < recording_.values.size(); i++) {
    if (value(i).kind != Value::Kind::kSource) continue;
    const guards::Source& source = recording_.guards.sources[value(i).a];
    if (source.reach == guards::Reach::kSlot && !given_[source.index]) continue;
    result_.left_with.push_back(value(i).a);
    if (homes_[i].slot >= 0) {
      b_->load(homes_[i].slot);
    } else {
      read_source(value(i).a);
    }
  }
  b_->call(static_cast<int32_t>(result_.left_with.size()) + 1);
  b_->emit(Op::RETURN_VALUE);
}

}  // namespace evalframe::codegen
