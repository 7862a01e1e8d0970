// What the recorded code has made: instances, containers, iterators, and how far each has come.
#include "recorder/recorder.h"

#include <algorithm>

#include "core/builtins.h"
#include "core/check.h"
#include "cpython/iterators.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

// They come first, without a name.
uint32_t Recorder::instance(Borrowed type, uint32_t contents) {
  const uint32_t made = container(Value::Kind::kInstance, contents ? std::vector<uint32_t>{0, contents} : std::vector<uint32_t>{});
  const Value of = contents ? recording_->values[contents] : Value{};
  if (of.kind == Value::Kind::kList || of.kind == Value::Kind::kDict || of.kind == Value::Kind::kMapping) recording_->containers[of.a].owner = made;
  recording_->values[made].b = recording_->values[constant(type)].a;
  return made;
}

uint32_t Recorder::contents(uint32_t instance) const {
  const Value& of = recording_->values[instance];
  if (of.kind != Value::Kind::kInstance) return 0;
  const std::span<const uint32_t> parts = elements(of);
  return parts.size() >= 2 && parts[0] == 0 ? parts[1] : 0;
}

uint32_t Recorder::dict_of_instance(uint32_t instance) {
  const int32_t at = recording_->values[instance].a;
  if (!recording_->containers[at].attributes) {
    const uint32_t dict = add_value({Value::Kind::kDict, false, at});
    recording_->containers[at].attributes = dict;
    recording_->containers[at].instance = instance;
  }
  return recording_->containers[at].attributes;
}

PyTypeObject* Recorder::class_of_attributes(uint32_t dict) const {
  const Value& of = recording_->values[dict];
  const uint32_t instance = of.kind == Value::Kind::kDict ? recording_->containers[of.a].instance : 0;
  return instance ? recording_->graph.constants[recording_->values[instance].b].as<PyTypeObject>() : nullptr;
}

uint32_t Recorder::attribute_of(const Value& instance, Borrowed name) const {
  if (instance.kind == Value::Kind::kMapping) return 0;  // none has been stored
  const std::span<const uint32_t> parts = elements(instance);
  for (size_t i = 0; i < parts.size(); i += 2) {
    if (constant_of(parts[i]) == name.get()) return parts[i + 1];
  }
  return 0;
}

PyObject* Recorder::constant_of(uint32_t index) const {
  const Value& of = recording_->values[index];
  return of.kind == Value::Kind::kConstant ? recording_->graph.constants[of.a].get() : nullptr;
}

bool Recorder::is_super(uint32_t index) const {
  const Value& of = recording_->values[index];
  return of.kind == Value::Kind::kMade && constant_of(elements(of)[0]) == reinterpret_cast<PyObject*>(&PySuper_Type);
}

bool Recorder::fix_class(Borrowed type) {
  if (made_class(type.get())) return true;  // its bases were asked for when it was made
  guards::Source at{guards::Reach::kObject};
  at.object = Ref::borrow(type);
  return guards().require_class_version(value(source(std::move(at))).a, type);
}

uint32_t Recorder::add_value(Value value) {
  recording_->values.push_back(value);
  return static_cast<uint32_t>(recording_->values.size()) - 1;
}

// A tuple of what is another object in each run.
bool Recorder::holds_adopted(PyObject* object) const {
  if (adopted_.empty() || !PyTuple_CheckExact(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
    PyObject* const part = PyTuple_GET_ITEM(object, i);
    if (is_adopted(part) || holds_adopted(part)) return true;
  }
  return false;
}

uint32_t Recorder::constant(Borrowed object) {
  if (is_adopted(object.get())) return adopted_.at(object.get());
  if (holds_adopted(object.get())) {
    std::vector<uint32_t> parts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object.get()); i++) parts.push_back(constant(PyTuple_GET_ITEM(object.get(), i)));
    return container(Value::Kind::kTuple, std::move(parts));
  }
  recording_->graph.constants.push_back(Ref::borrow(object));
  return add_value({Value::Kind::kConstant, false, static_cast<int32_t>(recording_->graph.constants.size()) - 1});
}

uint32_t Recorder::fixed(Borrowed borrowed) {
  PyObject* object = borrowed.get();
  if (is_adopted(object) || holds_adopted(object)) return constant(borrowed);
  const bool callable = PyFunction_Check(object) || PyCFunction_Check(object) || Py_TYPE(object) == &PyMethodDescr_Type || Py_TYPE(object) == &PyWrapperDescr_Type;
  if (is_immutable(object) || PyType_Check(object) || PyModule_CheckExact(object) || callable ||
      numpy::call_kind(borrowed) != numpy::CallKind::kUnknown || PyArray_DescrCheck(object)) {
    return constant(borrowed);
  }
  guards::Source at{guards::Reach::kObject};
  at.object = Ref::borrow(borrowed);
  return source(std::move(at));
}

uint32_t Recorder::container(Value::Kind kind, std::vector<uint32_t> elements) {
  Container made;
  if (kind != Value::Kind::kMade) made.initial.length = static_cast<uint32_t>(elements.size());
  made.present = made.initial;
  made.elements = std::move(elements);
  recording_->containers.push_back(std::move(made));
  return add_value({kind, false, static_cast<int32_t>(recording_->containers.size()) - 1});
}

// What an instance has of a builtin type is none of its attributes: the dict of these is what comes behind it.
uint32_t Recorder::ahead_of(const Value& value) const {
  const Container& container = recording_->containers[value.a];
  const bool is_attributes = value.kind == Value::Kind::kDict && container.instance;
  return is_attributes && contents(container.instance) ? 2 : 0;
}

std::span<const uint32_t> Recorder::elements(const Value& value) const {
  const Container& container = recording_->containers[value.a];
  if (value.kind == Value::Kind::kMade) return container.elements;
  const uint32_t ahead = ahead_of(value);
  return {container.elements.data() + container.present.begin + ahead, container.present.length - ahead};
}

std::vector<uint32_t> Recorder::copied_elements(const Value& value) const {
  const auto present = elements(value);
  return {present.begin(), present.end()};
}

uint32_t Recorder::source(guards::Source wanted) {
  const int32_t index = recording_->guards.add(std::move(wanted));
  if (static_cast<size_t>(index) >= source_values_.size()) source_values_.resize(index + 1);
  uint32_t& value = source_values_[index];
  if (!value) value = add_value({Value::Kind::kSource, false, index});
  return value;
}

void Recorder::append(const Value& list, uint32_t element) {
  Container& container = recording_->containers[list.a];
  DCHECK(container.present.begin + container.present.length == container.elements.size());
  container.elements.push_back(element);
  container.present.length++;
  recording_->journal.push_back({Change::Kind::kAppend, list.a, element});
  if (container.outer) note_change(list.a, {});
}

void Recorder::replace(const Value& value, const std::vector<uint32_t>& elements) {
  Container& container = recording_->containers[value.a];
  const int32_t at = value.a;
  const std::vector<uint32_t> before = container.outer ? copied_elements(value) : std::vector<uint32_t>{};
  const uint32_t ahead = ahead_of(value), from = container.present.begin;
  container.present = {static_cast<uint32_t>(container.elements.size()), ahead + static_cast<uint32_t>(elements.size())};
  for (uint32_t i = 0; i < ahead; i++) container.elements.push_back(container.elements[from + i]);
  container.elements.insert(container.elements.end(), elements.begin(), elements.end());
  move_window(at);
  if (recording_->containers[at].outer) note_change(at, before);
}

uint32_t Recorder::made(Borrowed callable, Borrowed keyword_names, const std::vector<uint32_t>& arguments) {
  std::vector<uint32_t> parts{constant(callable), keyword_names ? constant(keyword_names) : 0};
  parts.insert(parts.end(), arguments.begin(), arguments.end());
  return container(Value::Kind::kMade, std::move(parts));
}

uint32_t Recorder::iterator(Borrowed callable, Borrowed keyword_names, const std::vector<uint32_t>& arguments, std::vector<uint32_t> items, bool endless) {
  const uint32_t made_here = made(callable, keyword_names, arguments);
  for (const uint32_t argument : arguments) claim(argument, true);
  Iterator& iterator = iterators_[recording_->values[made_here].a];
  iterator.over = arguments;
  iterator.items = std::move(items);
  iterator.endless = endless;
  static PyObject* const iter = builtin("iter").get();
  const Value of = arguments.size() == 1 ? recording_->values[arguments[0]] : Value{};
  if (callable.get() == iter && (of.kind == Value::Kind::kReplayed || of.kind == Value::Kind::kDeque)) {
    Container& over = recording_->containers[of.a];
    over.begun.push_back({made_here, over.present});
  }
  return made_here;
}

bool Recorder::tells_iterators(uint32_t container) const {
  const Value& of = recording_->values[container];
  const Container& over = recording_->containers[of.a];
  const auto lives = [&](const Begun& begun) {
    const Iterator& iterator = iterators_.at(recording_->values[begun.iterator].a);
    return !iterator.dropped && !iterator.owned;
  };
  return !over.outer && static_cast<size_t>(std::count_if(over.begun.begin(), over.begun.end(), lives)) == iterated_.count(of.a);
}

bool Recorder::is_stale(uint32_t index) const {
  const Value& value = recording_->values[index];
  const auto found = value.kind == Value::Kind::kMade ? iterators_.find(value.a) : iterators_.end();
  return found != iterators_.end() && found->second.stale;
}

void Recorder::outdate(uint32_t container) {
  for (const Begun& begun : recording_->containers[recording_->values[container].a].begun) {
    Iterator& iterator = iterators_.at(recording_->values[begun.iterator].a);
    iterator.stale = !iterator.dropped;
  }
}

// What an iterator is over: other iterators, lists, dicts and their views.
void Recorder::claim(uint32_t index, bool claimed) {
  const Value& value = recording_->values[index];
  const auto other = value.kind == Value::Kind::kMade ? iterators_.find(value.a) : iterators_.end();
  if (other != iterators_.end()) {
    other->second.owned = true;
  } else if (value.kind == Value::Kind::kMade) {
    const std::vector<uint32_t> arguments = copied_elements(value);
    for (size_t i = 2; i < arguments.size(); i++) claim(arguments[i], claimed);
  } else if (value.kind == Value::Kind::kList || value.kind == Value::Kind::kDict || value.kind == Value::Kind::kMapping || value.kind == Value::Kind::kDeque || value.kind == Value::Kind::kReplayed) {
    if (claimed) iterated_.insert(value.a);
    if (!claimed) iterated_.erase(iterated_.find(value.a));
  }
}

std::vector<uint32_t> Recorder::items_to_come(uint32_t iterator) const {
  const std::vector<uint32_t>& all = items(iterator);
  return {all.begin() + std::min<size_t>(given(iterator), all.size()), all.end()};
}

bool Recorder::is_iterator(uint32_t index) const {
  const Value& value = recording_->values[index];
  if (value.kind != Value::Kind::kMade) return false;
  const auto found = iterators_.find(value.a);
  return found != iterators_.end() && !found->second.owned && !found->second.stale;
}

void Recorder::give(uint32_t index, uint32_t count) {
  const int32_t container = recording_->values[index].a;
  Window& window = recording_->containers[container].present;
  window.begin += count;
  move_window(container);
}

uint32_t Recorder::steps_to_end(uint32_t iterator) const { return static_cast<uint32_t>(items(iterator).size()) + 1 - given(iterator); }

// One that is exhausted but still held keeps its claims: made again over a longer list it would have more to give.
void Recorder::drop(uint32_t index) {
  Iterator& iterator = iterators_.at(recording_->values[index].a);
  if (iterator.dropped) return;
  iterator.dropped = true;
  for (const uint32_t argument : iterator.over) claim(argument, false);
}

bool Recorder::holds(uint32_t item, uint32_t element) const {
  const Value& value = recording_->values[item];
  if (item == element || value.kind != Value::Kind::kTuple) return item == element;
  const auto parts = elements(value);
  return std::any_of(parts.begin(), parts.end(), [&](uint32_t part) { return holds(part, element); });
}

bool Recorder::is_to_come(uint32_t element) const {
  for (const auto& [container, iterator] : iterators_) {
    if (iterator.owned || iterator.dropped) continue;  // what is over it has the same items
    for (size_t i = recording_->containers[container].present.begin; i < iterator.items.size(); i++) {
      if (holds(iterator.items[i], element)) return true;
    }
  }
  return false;
}

void Recorder::reread(const Plan& plan) {
  PyObject* const list = plan.stored_into.get();
  std::vector<uint32_t> contents;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) contents.push_back(constant(PyList_GET_ITEM(list, i)));
  replace(recording_->values[plan.reread], contents);
}

void Recorder::apply(const Plan& plan) {
  if (plan.reread) reread(plan);
  if (plan.changed) replace(recording_->values[plan.changed], plan.contents), outdate(plan.changed);
  if (plan.consumed) give(plan.consumed, plan.steps);
  if (plan.dropped) drop(plan.consumed);
  if (plan.acts) note_store(add_name({Name::Kind::kContext, Ref(), Ref(), plan.stored_owner}, plan.stored_into.get()), plan.acts);
  if (plan.stored_name && PyModule_Check(plan.stored_into.get())) {
    store(PyModule_GetDict(plan.stored_into.get()), plan.stored_name.get(), plan.stored_value);
  } else if (plan.stored_name) {
    store_attribute(plan.stored_owner, plan.stored_into.get(), plan.stored_name.get(), plan.stored_value);
  }
  if (plan.extended) append_outside(plan.extended, plan.stored_into.get(), plan.contents);
}

void Recorder::move_window(int32_t container) {
  recording_->windows.push_back(recording_->containers[container].present);
  recording_->journal.push_back({Change::Kind::kWindow, container, static_cast<uint32_t>(recording_->windows.size()) - 1});
}

bool Recorder::takes_turn(uint32_t iterator, Borrowed object) {
  const size_t nodes = recording_->graph.nodes.size();
  const bool fits = nodes + nodes / static_cast<size_t>(turns_taken_ + 1) <= kMaxTurnNodes;
  // What a list is about to give is read at the start.
  const auto is_list = [](const Outer& outer) { return PyList_CheckExact(outer.object.get()); };
  const bool lists_change = !appended_.empty() || std::any_of(outers_.begin(), outers_.end(), is_list);
  if (lists_change && !Py_IS_TYPE(object.get(), &PyRangeIter_Type)) return false;
  return recording_->values[iterator].a == turn_iterator_ && turns_taken_ + 1 < purpose_.turns && fits && cpython::ahead(object, 0);
}

uint32_t Recorder::turn(const Value& iterator) {
  guards::Source at{guards::Reach::kTurn};
  at.parent = iterator.a;
  at.index = turns_taken_++;
  recording_->iterator = iterator.a;
  recording_->journal.push_back({Change::Kind::kAdvance, 0, 0});
  return source(std::move(at));
}

uint32_t Recorder::name_source(Borrowed dict, Borrowed name) {
  guards::Source of_dict{guards::Reach::kObject};
  of_dict.object = Ref::borrow(dict);
  guards::Source at{guards::Reach::kItem};
  at.parent = value(source(std::move(of_dict))).a;
  at.object = Ref::borrow(name);
  return source(std::move(at));
}

bool Recorder::name_varies(Borrowed dict, Borrowed name) const {
  return !varying_.empty() && varying_.count(guards::path_of_name(dict, name)) > 0;
}

}  // namespace evalframe::recorder
