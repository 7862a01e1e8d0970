// Brings the recorded values to where code needs them: sources are read, containers made again.
#include "codegen/transform_parts.h"

namespace evalframe::codegen {

// At the recording's end.
std::span<const uint32_t> Transform::elements(const Value& of) const {
  const recorder::Container& container = recording_.containers[of.a];
  return {container.elements.data() + container.present.begin, container.present.length};
}

// What stands for the value: that of a list or dict from outside, which the recorded code changes, for its place there.
uint32_t Transform::stand_in(uint32_t index) const {
  const Value& of = value(index);
  const bool may_be_outer = of.kind == Value::Kind::kList || of.kind == Value::Kind::kDict || of.kind == Value::Kind::kReplayed;
  const uint32_t outer = may_be_outer ? recording_.containers[of.a].outer : 0;
  return outer ? outer : index;
}

void Transform::use(uint32_t index) {
  index = stand_in(index);
  homes_.resize(recording_.values.size());
  if (homes_[index].uses++ > 0) return;
  const Value& of = value(index);
  switch (of.kind) {
    case Value::Kind::kTuple:
    case Value::Kind::kList:
    case Value::Kind::kSlice:
    case Value::Kind::kDict:
      if (recording_.containers[of.a].instance) return;  // rebuilt
      for (const uint32_t element : elements(of)) use(element);
      return;
    case Value::Kind::kTruth:
    case Value::Kind::kIterator: return use(static_cast<uint32_t>(of.a));
    case Value::Kind::kMade:
    case Value::Kind::kReplayed:
    case Value::Kind::kMapping:
    case Value::Kind::kDeque:
    case Value::Kind::kCell:
    case Value::Kind::kFunction:
    case Value::Kind::kInstance:  // rebuilt
    case Value::Kind::kOuterException:  // there is no code then
    case Value::Kind::kException:
    case Value::Kind::kTraceback:
    case Value::Kind::kGenerator:
    case Value::Kind::kFrame:
    case Value::Kind::kNull:
    case Value::Kind::kSource:
    case Value::Kind::kNode:
    case Value::Kind::kConstant: return;
  }
}

// What the code has to have at its end. A variable keeps what it has unless the recorded part gave it something else.
std::vector<uint32_t> Transform::wanted() const {
  std::vector<uint32_t> all;
  for (const recorder::PendingStore& store : recording_.stores_at(end_)) {
    const recorder::Name& name = recording_.names[store.name];
    for (const uint32_t index : {name.owner, name.key}) {
      if (index) all.push_back(stand_in(index));
    }
    if (name.kind == recorder::Name::Kind::kContents) {
      for (const uint32_t element : elements(value(store.value))) all.push_back(stand_in(element));
    } else if (store.value) {
      all.push_back(stand_in(store.value));
    }
  }
  if (recording_.returns) all.push_back(stand_in(recording_.result));
  for (size_t k = 0; k < states_.size(); k++) {
    const Code& of = *states_[k].code;
    for (size_t i = 0; i < states_[k].slots.size(); i++) {
      const uint32_t index = states_[k].slots[i];
      const bool is_variable = static_cast<int>(i) < cpython::variable_count(of.code);
      if (!index || (is_variable && is_cell(of, static_cast<int>(i)) && value(index).kind != Value::Kind::kCell)) continue;
      if (k == 0 && is_variable && !is_changed(static_cast<int32_t>(i))) continue;
      all.push_back(stand_in(index));
    }
  }
  return all;
}

void Transform::count_uses() {
  homes_.resize(recording_.values.size());
  const std::vector<uint32_t> all = wanted();
  std::vector<Visit> seen(recording_.values.size());
  bool any = false;
  for (const uint32_t index : all) any = visit(index, seen) || any;
  for (const uint32_t index : all) {
    if (!any) {
      use(index);
      continue;
    }
    const bool is_fresh = homes_[index].uses++ == 0;
    if (is_fresh && value(index).kind >= Value::Kind::kTuple) rebuilt_.push_back(index);
  }
  if (!any) return rebuilt_from_.clear();
  // They stay where they are until all is made.
  for (const uint32_t index : rebuilt_from_) homes_[index].uses++;
}

// Whether what instructions alone can't make is among the value and its parts (one that is inside of itself, too). The sources
// among them: rebuilt_from_.
bool Transform::visit(uint32_t index, std::vector<Visit>& seen) {
  index = stand_in(index);
  if (!index || seen[index] != Visit::kNone) return seen[index] == Visit::kBegun;
  seen[index] = Visit::kBegun;
  const bool any = visit_parts(index, seen);
  seen[index] = Visit::kDone;
  return any;
}

bool Transform::visit_parts(uint32_t index, std::vector<Visit>& seen) {
  const Value& of = value(index);
  switch (of.kind) {
    case Value::Kind::kSource: rebuilt_from_.push_back(index); return false;
    case Value::Kind::kTruth:
    case Value::Kind::kIterator: return visit(static_cast<uint32_t>(of.a), seen);
    case Value::Kind::kNull:
    case Value::Kind::kNode:
    case Value::Kind::kOuterException:
    case Value::Kind::kException:
    case Value::Kind::kTraceback:
    case Value::Kind::kGenerator:
    case Value::Kind::kFrame:
    case Value::Kind::kConstant: return false;
    case Value::Kind::kTuple:
    case Value::Kind::kList:
    case Value::Kind::kSlice:
    case Value::Kind::kDict:
    case Value::Kind::kMade:
    case Value::Kind::kReplayed:
    case Value::Kind::kMapping:
    case Value::Kind::kDeque:
    case Value::Kind::kCell:
    case Value::Kind::kFunction:
    case Value::Kind::kInstance: break;
  }
  bool any = of.kind == Value::Kind::kMade || of.kind == Value::Kind::kReplayed || of.kind == Value::Kind::kMapping || of.kind == Value::Kind::kDeque || of.kind == Value::Kind::kCell || of.kind == Value::Kind::kFunction || of.kind == Value::Kind::kInstance;
  any = any || recording_.containers[of.a].instance;
  for (const uint32_t part : recording_.containers[of.a].elements) any = visit(part, seen) || any;
  any = visit(recording_.containers[of.a].factory, seen) || any;
  return any;
}

// Whether the source is read by one instruction that nothing can change. A cell takes the place of an argument.
bool Transform::is_simple(const guards::Source& source) const {
  if (source.reach == guards::Reach::kSlot) return !(at_start_ && source.index < locals() && is_cell(code(), source.index));
  return source.reach == guards::Reach::kObject || source.reach == guards::Reach::kMethod;
}

// What the state at the end needs from outside is read before the graph runs, as it was when recorded.
void Transform::load_sources() {
  for (size_t i = 0; i < recording_.values.size(); i++) {
    if (value(i).kind != Value::Kind::kSource || !homes_[i].uses || is_simple(recording_.guards.sources[value(i).a])) continue;
    homes_[i].slot = b_->variable("__source_" + std::to_string(value(i).a));
    read_source(value(i).a);
    b_->store(homes_[i].slot);
  }
}

void Transform::load_slot(int32_t slot) {
  const bool is_variable = slot < locals();
  if (is_variable && is_cell(code(), slot) && !at_start_) return b_->load_cell(slot_of_[slot]);
  b_->load(slot_of_[slot]);
}

void Transform::read_source(int32_t index) {
  const guards::Source& source = recording_.guards.sources[index];
  switch (source.reach) {
    case guards::Reach::kSlot: return load_slot(source.index);
    case guards::Reach::kAttribute:
      read_source(source.parent);
      b_->emit(Op::LOAD_ATTR, b_->name(Borrowed(source.object.get())));
      return;
    case guards::Reach::kMethod: return b_->load_constant(identity_of(source));
    case guards::Reach::kItem: {
      read_source(source.parent);
      const Ref number = source.object ? Ref() : Ref::steal(PyLong_FromLong(source.index));
      b_->load_constant(source.object ? source.object.get() : number.get());
      b_->emit(Op::BINARY_SUBSCR);
      return;
    }
    case guards::Reach::kCell:
      if (source.object) return read_cell(source.object.get());
      b_->emit(Op::LOAD_DEREF, slot_of_[recording_.guards.sources[source.parent].index]);
      return;
    case guards::Reach::kReferent:
      b_->begin_call();
      read_source(source.parent);
      b_->end_callable();
      b_->call(0);
      return;
    case guards::Reach::kTurn: CHECK(false);  // refused
    case guards::Reach::kObject: return b_->load_constant(source.object.get());
  }
}

// A method is always guarded to be the same function.
Borrowed Transform::identity_of(const guards::Source& source) {
  if (source.fact.check == guards::Check::kIdentity) return source.fact.want.get();
  for (const guards::Fact& fact : source.more) {
    if (fact.check == guards::Check::kIdentity) return fact.want.get();
  }
  CHECK(false);
  return {};
}

// The variable of the frame that has the cell, or else the contents of the cell itself.
void Transform::read_cell(PyObject* cell) {
  const auto* function = reinterpret_cast<PyFunctionObject*>(recording_.start[0].function.get());
  const Py_ssize_t count = function->func_closure ? PyTuple_GET_SIZE(function->func_closure) : 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    if (PyTuple_GET_ITEM(function->func_closure, i) != cell) continue;
    b_->emit(Op::LOAD_DEREF, slot_of_[locals() - count + i]);
    return;
  }
  b_->load_constant(cell);
  b_->emit(Op::LOAD_ATTR, b_->name("cell_contents"));
}

void Transform::load(uint32_t index) {
  if (!index) {
    b_->emit(Op::PUSH_NULL);
    return;
  }
  index = stand_in(index);
  Home& home = homes_[index];
  if (home.slot < 0) return load_fresh(value(index));
  const bool last = --home.uses == 0 && is_own(home.slot);
  if (last && b_->take_back_store(home.slot)) return;
  b_->load(home.slot);
  if (last) b_->emit(Op::DELETE_FAST, home.slot);
}

void Transform::load_fresh(const Value& of) {
  switch (of.kind) {
    case Value::Kind::kSource: return read_source(of.a);
    case Value::Kind::kConstant: return b_->load_constant(recording_.graph.constants[of.a].get());
    case Value::Kind::kTuple: return build(of, Op::BUILD_TUPLE);
    case Value::Kind::kList: return build(of, Op::BUILD_LIST);
    case Value::Kind::kSlice: return build(of, Op::BUILD_SLICE);
    case Value::Kind::kDict: return build(of, Op::BUILD_MAP, 2);
    case Value::Kind::kIterator: return build_iterator(of);
    case Value::Kind::kTruth: return build_truth(of);
    case Value::Kind::kMade:
    case Value::Kind::kReplayed:
    case Value::Kind::kMapping:
    case Value::Kind::kDeque:
    case Value::Kind::kCell:
    case Value::Kind::kFunction:
    case Value::Kind::kInstance:  // rebuilt
    case Value::Kind::kOuterException:  // there is no code then
    case Value::Kind::kException:
    case Value::Kind::kTraceback:
    case Value::Kind::kGenerator:
    case Value::Kind::kFrame:
    case Value::Kind::kNull:
    case Value::Kind::kNode: return;  // an output has its home
  }
}

void Transform::build(const Value& of, Op op, int32_t at_a_time) {
  const std::span<const uint32_t> parts = elements(of);
  for (const uint32_t part : parts) load(part);
  b_->emit(op, static_cast<int32_t>(parts.size()) / at_a_time);
}

void Transform::build_truth(const Value& of) {
  load(static_cast<uint32_t>(of.a));
  if (layout::kJumpNeedsBool) {
    b_->emit(Op::TO_BOOL);
    return;
  }
  b_->emit(Op::UNARY_NOT);
  b_->emit(Op::UNARY_NOT);
}

void Transform::build_iterator(const Value& of) {
  load(static_cast<uint32_t>(of.a));
  b_->emit(Op::GET_ITER);
  if (of.b == 0) return;
  b_->emit(Op::COPY, 1);
  b_->emit(Op::LOAD_ATTR, b_->name("__setstate__"));
  b_->emit(Op::PUSH_NULL);
  if (!layout::kSelfAfterCallable) b_->emit(Op::SWAP, 2);
  const Ref position = Ref::steal(PyLong_FromLong(of.b));
  b_->load_constant(position.get());
  b_->call(1);
  b_->emit(Op::POP_TOP);
}

// All containers are made by one call, so that each is one object, and functions share their cells.
void Transform::rebuild() {
  b_->begin_call();
  b_->load_constant(callables_.rebuild.get());
  b_->end_callable();
  if (outputs_ >= 0) {
    b_->load(outputs_);
    b_->emit(Op::DELETE_FAST, outputs_);
  } else {
    const Ref none = Ref::steal(PyTuple_New(0));
    b_->load_constant(none.get());
  }
  for (const uint32_t index : rebuilt_from_) {
    result_.rebuilt_from.push_back(value(index).a);
    homes_[index].slot >= 0 ? b_->load(homes_[index].slot) : read_source(value(index).a);
  }
  b_->call(static_cast<int32_t>(rebuilt_from_.size()) + 1);
  b_->emit(Op::UNPACK_SEQUENCE, static_cast<int32_t>(rebuilt_.size()));
  for (const uint32_t index : rebuilt_) {
    homes_[index].slot = b_->variable("__made_" + std::to_string(made_++));
    b_->store(homes_[index].slot);
  }
  result_.rebuilt = rebuilt_;
}

// A container that stands in several places is made once.
void Transform::make_shared_containers() {
  for (size_t i = 0; i < homes_.size(); i++) {
    if (value(i).kind < Value::Kind::kTuple || homes_[i].uses < 2) continue;
    share(static_cast<uint32_t>(i));
  }
}

void Transform::share(uint32_t index) {
  if (homes_[index].slot >= 0 || value(index).kind < Value::Kind::kTuple) return;
  if (value(index).kind == Value::Kind::kIterator) {
    share_if_used_often(static_cast<uint32_t>(value(index).a));
  } else {
    for (const uint32_t element : elements(value(index))) share_if_used_often(element);
  }
  load_fresh(value(index));
  homes_[index].slot = b_->variable("__made_" + std::to_string(made_++));
  b_->store(homes_[index].slot);
}

void Transform::share_if_used_often(uint32_t index) {
  if (homes_[index].uses > 1) share(index);
}

bool Transform::changes_dicts() const {
  const auto on_dict = [](const recorder::Name& name) { return name.kind == recorder::Name::Kind::kItem || name.kind == recorder::Name::Kind::kDelete; };
  return std::any_of(recording_.names.begin(), recording_.names.end(), on_dict);
}

// Stores that the recording put off.
void Transform::store_names() {
  for (const recorder::PendingStore& store : recording_.stores_at(end_)) store_one(recording_.names[store.name], store.value);
}

void Transform::store_one(const recorder::Name& name, uint32_t stored) {
  switch (name.kind) {
    using enum recorder::Name::Kind;
    case kName:
      load(stored);
      if (name.dict.get() == reinterpret_cast<PyFunctionObject*>(recording_.start[0].function.get())->func_globals) {
        b_->emit(Op::STORE_GLOBAL, b_->name(Borrowed(name.name.get())));
        return;
      }
      b_->load_constant(name.dict.get());
      b_->load_constant(name.name.get());
      b_->emit(Op::STORE_SUBSCR);
      return;
    case kForget:
      if (name.dict.get() == reinterpret_cast<PyFunctionObject*>(recording_.start[0].function.get())->func_globals) {
        b_->emit(Op::DELETE_GLOBAL, b_->name(Borrowed(name.name.get())));
        return;
      }
      b_->load_constant(name.dict.get());
      b_->load_constant(name.name.get());
      b_->emit(Op::DELETE_SUBSCR);
      return;
    case kAttribute:
      load(stored);
      load(name.owner);
      b_->emit(Op::STORE_ATTR, b_->name(Borrowed(name.name.get())));
      return;
    case kCell:
      load(stored);
      load(name.owner);
      b_->emit(Op::STORE_ATTR, b_->name("cell_contents"));
      return;
    case kAppend:
      load(name.owner);
      load(stored);
      b_->emit(Op::LIST_APPEND, 1);
      b_->emit(Op::POP_TOP);
      return;
    case kItem:
      load(stored);
      load(name.owner);
      load(name.key);
      b_->emit(Op::STORE_SUBSCR);
      return;
    case kDelete:
      load(name.owner);
      load(name.key);
      b_->emit(Op::DELETE_SUBSCR);
      return;
    case kCall:
    case kContext: return;  // there is no code then
    case kContents: {
      build(value(stored), Op::BUILD_LIST);
      load(name.owner);
      const Ref all = Ref::steal(PySlice_New(nullptr, nullptr, nullptr));
      b_->load_constant(all.get());
      b_->emit(Op::STORE_SUBSCR);
      return;
    }
  }
}

}  // namespace evalframe::codegen
