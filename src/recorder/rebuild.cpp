// Objects made again from a state: one for each value, so that identities hold.
#include <algorithm>

#include "core/check.h"
#include "cpython/attributes.h"
#include "cpython/classes.h"
#include "cpython/codec.h"
#include "cpython/dict_keys.h"
#include "cpython/exceptions.h"
#include "cpython/generators.h"
#include "cpython/objects.h"
#include "recorder/cursor.h"

namespace evalframe::recorder {

using graph::Operand;

Rebuild::Rebuild(const Recording& recording, const graph::ExitPoint& exit, std::span<const Ref> objects,
                 PyObject* const* sources, LiveFrames* frames)
    : recording_(recording), exit_(exit), objects_(objects), sources_(sources), frames_(frames) {
  if (!recording.handles) return;
  outer_[0] = cpython::own_handled_exception(PyThreadState_Get());
  outer_[1] = cpython::handled_exception(PyThreadState_Get());
}

// What may hold itself is known before it is filled.
static bool makes_itself_known(Value::Kind kind) {
  return kind == Value::Kind::kCell || kind == Value::Kind::kList || kind == Value::Kind::kDict || kind == Value::Kind::kMapping || kind == Value::Kind::kDeque || kind == Value::Kind::kInstance ||
         kind == Value::Kind::kFunction ||
         kind == Value::Kind::kException || kind == Value::Kind::kTraceback || kind == Value::Kind::kReplayed ||
         kind == Value::Kind::kGenerator;
}

PyObject* Rebuild::known(uint32_t value) const {
  for (const auto& [other, object] : made_) {
    if (other == value) return object.get();
  }
  return nullptr;
}

// Made by nobody here, and of which there is no other.
inline bool Rebuild::is_at_hand(const Value& value) { return value.kind <= Value::Kind::kConstant && !(value.kind == Value::Kind::kConstant && value.b); }

inline PyObject* Rebuild::at_hand(const Value& value) const {
  if (value.kind == Value::Kind::kNull) return nullptr;
  if (value.kind == Value::Kind::kSource) return sources_[value.a];
  if (value.kind == Value::Kind::kConstant) return recording_.graph.constants[value.a].get();
  const auto at = std::find(exit_.values.begin(), exit_.values.end(), Operand::node(value.a));
  CHECK(at != exit_.values.end());
  return objects_[at - exit_.values.begin()].get();
}

Ref Rebuild::make(uint32_t value) {
  if (is_at_hand(recording_.values[value])) return Ref::borrow(at_hand(recording_.values[value]));
  const Value::Kind of = recording_.values[value].kind;
  if (of == Value::Kind::kList || of == Value::Kind::kDict || of == Value::Kind::kMapping || of == Value::Kind::kReplayed) {
    const Container& container = recording_.containers[recording_.values[value].a];
    if (container.outer || container.owner) return make(container.outer ? container.outer : container.owner);
    if (container.instance) {
      const Ref instance = make(container.instance);
      return instance ? Ref::steal(PyObject_GenericGetDict(instance.get(), nullptr)) : Ref();
    }
  }
  if (PyObject* const made = known(value)) return Ref::borrow(made);
  Ref object = make_fresh(value);
  const Value::Kind kind = recording_.values[value].kind;
  if (kind < Value::Kind::kTuple || makes_itself_known(kind) || !object) return object;
  // What it is made of may lead to it, by way of a class.
  if (PyObject* const made = known(value)) return Ref::borrow(made);
  made_.emplace_back(value, Ref::borrow(object.get()));
  return object;
}

Window Rebuild::window_of(const Value& value) const { return recording_.cursor_to(exit_.node).windows[value.a]; }

// A list may hold itself: it has to be known before its elements are made.
Ref Rebuild::make_list(uint32_t index, const Value& value) {
  const Window window = window_of(value);
  Ref list = Ref::steal(PyList_New(static_cast<Py_ssize_t>(window.length)));
  if (list && index) made_.emplace_back(index, Ref::borrow(list.get()));
  for (uint32_t i = 0; list && i < window.length; i++) {
    PyList_SET_ITEM(list.get(), i, make(recording_.containers[value.a].elements[window.begin + i]).release());
  }
  return list;
}

Ref Rebuild::make_contents(uint32_t list) { return make_list(0, recording_.values[list]); }

Ref Rebuild::make_dict(uint32_t index, const Value& value) {
  const Window window = window_of(value);
  Ref dict = Ref::steal(PyDict_New());
  if (dict) made_.emplace_back(index, Ref::borrow(dict.get()));
  for (uint32_t i = window.begin; dict && i < window.begin + window.length; i += 2) {
    const Ref key = make(recording_.containers[value.a].elements[i]), item = make(recording_.containers[value.a].elements[i + 1]);
    if (!key || !item || !store(dict.get(), recording_.containers[value.a].elements[i], key.get(), item.get())) return Ref();
  }
  return dict;
}

// Under the hash that the key's class has given.
bool Rebuild::store(PyObject* dict, uint32_t label, PyObject* key, PyObject* item) const {
  // An OrderedDict knows its keys by the stores into it; of others, what their class has for that isn't asked.
  if (PyODict_Check(dict)) return PyODict_SetItem(dict, key, item) == 0;
  const auto hash = recording_.hashes.find(label);
  if (hash == recording_.hashes.end()) return PyDict_SetItem(dict, key, item) == 0;
  return cpython::store_under_hash(dict, key, hash->second, item);
}

Ref Rebuild::make_mapping(uint32_t index, const Value& value) {
  const Container& container = recording_.containers[value.a];
  const Window window = window_of(value);
  const Ref type = class_of(value);
  if (PyObject* const made = known(index)) return Ref::borrow(made);
  Ref mapping = type ? cpython::bare_instance(type.as<PyTypeObject>()) : Ref();
  if (mapping) made_.emplace_back(index, Ref::borrow(mapping.get()));
  const Ref factory = mapping && container.factory ? make(container.factory) : Ref();
  if (factory && PyObject_SetAttrString(mapping.get(), "default_factory", factory.get()) < 0) return Ref();
  for (uint32_t i = window.begin; mapping && i < window.begin + window.length; i += 2) {
    const Ref key = make(container.elements[i]), item = make(container.elements[i + 1]);
    if (!key || !item || !store(mapping.get(), container.elements[i], key.get(), item.get())) return Ref();
  }
  return mapping;
}

Ref Rebuild::make_deque(uint32_t index, const Value& value) {
  static PyObject* const empty = PyTuple_New(0);
  const Ref maximum = Ref::steal(Py_BuildValue("(OO)", empty, recording_.graph.constants[value.b].get()));
  Ref deque = maximum ? Ref::steal(PyObject_CallObject(type_of_deques(), maximum.get())) : Ref();
  if (deque) made_.emplace_back(index, Ref::borrow(deque.get()));
  const Window window = window_of(value);
  for (const Begun& begun : recording_.containers[value.a].begun) {
    if (!deque || begun.over == window) continue;
    for (uint32_t i = 0; i < begun.over.length; i++) {
      if (!Ref::steal(PyObject_CallMethod(deque.get(), "append", "(O)", Py_None))) return Ref();
    }
    if (!make_begun(deque.get(), begun)) return Ref();
    // Both are changes that it is told of.
    if (!Ref::steal(PyObject_CallMethod(deque.get(), "append", "(O)", Py_None)) || !Ref::steal(PyObject_CallMethod(deque.get(), "clear", nullptr))) return Ref();
  }
  for (uint32_t i = window.begin; deque && i < window.begin + window.length; i++) {
    const Ref item = make(recording_.containers[value.a].elements[i]);
    if (!item || !Ref::steal(PyObject_CallMethod(deque.get(), "append", "(O)", item.get()))) return Ref();
  }
  return deque;
}

bool Rebuild::make_begun(PyObject* over, const Begun& begun) {
  Ref iterator = Ref::steal(PyObject_GetIter(over));
  for (uint32_t i = window_of(recording_.values[begun.iterator]).begin; iterator && i > 0; i--) {
    if (!Ref::steal(PyIter_Next(iterator.get()))) break;
  }
  if (!iterator || PyErr_Occurred()) return false;
  made_.emplace_back(begun.iterator, std::move(iterator));
  return true;
}

// What a list or dict holds, into an object of a class that inherits from it.
bool Rebuild::fill(PyObject* object, const Value& contents) {
  const Window window = window_of(contents);
  const auto part = [&](uint32_t i) { return recording_.containers[contents.a].elements[window.begin + i]; };
  const bool keyed = contents.kind != Value::Kind::kList;
  for (uint32_t i = 0; i < window.length; i += keyed ? 2 : 1) {
    const Ref first = make(part(i)), second = keyed ? make(part(i + 1)) : Ref();
    if (!first || (keyed ? !second || !store(object, part(i), first.get(), second.get()) : PyList_Append(object, first.get()) < 0)) return false;
  }
  return true;
}

// Without attributes, and known before it is filled.
Ref Rebuild::make_bare(uint32_t index, PyTypeObject* type, uint32_t contents) {
  const auto known = [&](Ref object) {
    if (object) made_.emplace_back(index, Ref::borrow(object.get()));
    return object;
  };
  const Value of = recording_.values[contents];
  if (!contents) return known(cpython::bare_instance(type));
  if (of.kind == Value::Kind::kList || of.kind == Value::Kind::kDict || of.kind == Value::Kind::kMapping) {
    Ref object = known(cpython::instance_of_builtin(type, nullptr));
    return object && fill(object.get(), of) ? std::move(object) : Ref();
  }
  if (of.kind != Value::Kind::kTuple) return known(cpython::instance_of_builtin(type, make(contents).get()));
  const std::vector<uint32_t>& elements = recording_.containers[of.a].elements;
  Ref tuple = known(Ref::steal(type->tp_alloc(type, static_cast<Py_ssize_t>(elements.size()))));
  for (size_t i = 0; tuple && i < elements.size(); i++) {
    Ref element = make(elements[i]);
    if (!element) return Ref();
    PyTuple_SET_ITEM(tuple.get(), i, element.release());
  }
  return tuple;
}

Ref Rebuild::make_instance(uint32_t index, const Value& value) {
  const Window window = window_of(value);
  const std::vector<uint32_t>& parts = recording_.containers[value.a].elements;
  const bool has_contents = window.length >= 2 && parts[window.begin] == 0;
  const Ref type = class_of(value);
  // What the class has may lead to the instance.
  if (PyObject* const made = known(index)) return Ref::borrow(made);
  Ref instance = type ? make_bare(index, type.as<PyTypeObject>(), has_contents ? parts[window.begin + 1] : 0) : Ref();
  for (uint32_t i = window.begin + (has_contents ? 2 : 0); instance && i < window.begin + window.length; i += 2) {
    const Ref name = make(recording_.containers[value.a].elements[i]), attribute = make(recording_.containers[value.a].elements[i + 1]);
    if (!name || !attribute || PyObject_GenericSetAttr(instance.get(), name.get(), attribute.get()) < 0) return Ref();
  }
  return instance;
}

// What was stored into it may lead to it.
Ref Rebuild::make_function(uint32_t index, const Value& value) {
  const Window window = window_of(value);
  const auto part = [&](uint32_t i) { return recording_.containers[value.a].elements[window.begin + i]; };
  Ref function = Ref::steal(PyFunction_New(make(part(0)).get(), make(part(1)).get()));
  if (function) made_.emplace_back(index, Ref::borrow(function.get()));
  if (function && part(2) && PyFunction_SetDefaults(function.get(), make(part(2)).get()) < 0) return Ref();
  if (function && part(5) && PyObject_SetAttrString(function.get(), "__kwdefaults__", make(part(5)).get()) < 0) return Ref();
  if (function && part(3) && PyFunction_SetClosure(function.get(), make(part(3)).get()) < 0) return Ref();
  // A tuple of names and values, until someone asks for them.
  if (function && part(4)) function.as<PyFunctionObject>()->func_annotations = make(part(4)).release();
  for (uint32_t i = 6; function && i < window.length; i += 2) {
    const Ref name = make(part(i)), attribute = make(part(i + 1));
    if (!name || !attribute || PyObject_GenericSetAttr(function.get(), name.get(), attribute.get()) < 0) return Ref();
  }
  return function;
}

Ref Rebuild::class_of(const Value& instance) {
  const MadeClass* const made = recording_.made_class(instance.b);
  return made ? make(made->value) : Ref::borrow(recording_.graph.constants[instance.b].get());
}

// What a body leaves may lead to the class: the class is made first, with something in the place of all but constants.
Ref Rebuild::make_class(uint32_t index, const MadeClass& made) {
  const std::vector<uint32_t>& wanted = recording_.containers[static_cast<size_t>(recording_.values[made.bases].a)].elements;
  const Ref metaclass = make(made.metaclass), name = make(made.name), names = Ref::steal(PyDict_New());
  const Ref bases = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(wanted.size())));
  if (!metaclass || !bases || !names) return Ref();
  for (size_t i = 0; i < wanted.size(); i++) {
    Ref base = make(wanted[i]);
    if (!base) return Ref();
    PyTuple_SET_ITEM(bases.get(), static_cast<Py_ssize_t>(i), base.release());
  }
  // What a base has may lead to the class.
  if (PyObject* const known_class = known(index)) return Ref::borrow(known_class);
  const auto is_constant = [&](uint32_t value) { return recording_.values[value].kind == Value::Kind::kConstant && !recording_.values[value].b; };
  for (size_t i = 0; i < made.names.size(); i++) {
    const Ref key = make(made.names[i]), content = is_constant(made.contents[i]) ? make(made.contents[i]) : Ref::borrow(Py_None);
    if (PyDict_SetItem(names.get(), key.get(), content.get()) < 0) return Ref();
  }
  Ref type = cpython::bare_class(metaclass.get(), name.get(), bases.get(), names.get());
  if (type) made_.emplace_back(index, Ref::borrow(type.get()));
  for (size_t i = 0; type && i < made.names.size(); i++) {
    if (is_constant(made.contents[i])) continue;
    const Ref key = make(made.names[i]), content = make(made.contents[i]);
    if (!content || !cpython::put_into_class(type.get(), key.get(), content.get())) return Ref();
  }
  if (type && !change_class(type.get(), recording_.values[made.changes])) return Ref();
  if (type && !cpython::finish_class(type.get())) return Ref();
  return type;
}

// In the order in which it was changed. False with an exception.
bool Rebuild::change_class(PyObject* type, const Value& changes) {
  const Window window = window_of(changes);
  for (uint32_t i = window.begin; i < window.begin + window.length; i += 2) {
    const uint32_t put = recording_.containers[changes.a].elements[i + 1];
    const Ref name = make(recording_.containers[changes.a].elements[i]), value = make(put);
    if (!name || (put && !value)) return false;
    if (PyType_Type.tp_setattro(type, name.get(), value.get()) < 0) return false;
  }
  return true;
}

// What it has may lead to it.
Ref Rebuild::make_group(uint32_t index, const Value& value, PyTypeObject* type) {
  Ref group = cpython::make_bare_group(type);
  if (group) made_.emplace_back(index, Ref::borrow(group.get()));
  const Window window = window_of(value);
  Ref message, exceptions;
  for (uint32_t i = 0; group && i < window.length; i += 2) {
    const auto part = [&](uint32_t at) { return recording_.containers[value.a].elements[window.begin + at]; };
    const Ref name = make(part(i));
    Ref attribute = make(part(i + 1));
    if (!name || !attribute) return Ref();
    const bool is_message = PyUnicode_CompareWithASCIIString(name.get(), "message") == 0;
    if (is_message || PyUnicode_CompareWithASCIIString(name.get(), "exceptions") == 0) {
      (is_message ? message : exceptions) = std::move(attribute);
    } else if (PyObject_GenericSetAttr(group.get(), name.get(), attribute.get()) < 0) {
      return Ref();
    }
  }
  if (group) cpython::fill_group(group.get(), std::move(message), std::move(exceptions));
  return group;
}

Ref Rebuild::make_exception(uint32_t index, const Value& value) {
  const Window window = window_of(value);
  const auto part = [&](uint32_t i) { return recording_.containers[value.a].elements[window.begin + i]; };
  const Container& container = recording_.containers[value.a];
  const bool by_call = container.raised.call != 0;
  const Ref type = class_of(value);
  if (type && !by_call && cpython::is_class_of_groups(type.as<PyTypeObject>())) return make_group(index, value, type.as<PyTypeObject>());
  const Ref arguments = type && !by_call ? make(part(1)) : Ref();
  if (PyObject* const made = known(index)) return Ref::borrow(made);
  Ref exception = by_call ? raise_again(container.raised, type.get()) : arguments ? cpython::make_exception(type.as<PyTypeObject>(), arguments.get()) : Ref();
  if (exception) made_.emplace_back(index, Ref::borrow(exception.get()));
  for (uint32_t i = by_call ? 0 : 2; exception && i < window.length; i += 2) {
    if (by_call && i < container.initial.length && part(i + 1) == container.elements[i + 1]) continue;  // as it was raised
    const Ref name = make(part(i)), attribute = make(part(i + 1));
    if (!name || !attribute || PyObject_GenericSetAttr(exception.get(), name.get(), attribute.get()) < 0) return Ref();
  }
  return exception;
}

Ref Rebuild::make_traceback(uint32_t index, const Value& value) {
  const TracePoint& point = recording_.trace_points[value.b];
  const uint32_t next = recording_.containers[value.a].elements[0];
  const Ref behind = next ? make(next) : Ref::borrow(Py_None), frame = frame_object(point.frame);
  if (!behind || !frame) return Ref();
  // One of the frame's variables may have had it.
  if (PyObject* const made = known(index)) return Ref::borrow(made);
  // The frames of a call that was made once more were called from here.
  if (recording_.values[next].kind == Value::Kind::kMade && PyTraceBack_Check(behind.get())) cpython::set_caller(behind.as<PyTracebackObject>()->tb_frame, frame.get());
  Ref traceback = Ref::steal(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyTraceBack_Type), "OOii", behind.get(), frame.get(), point.lasti, point.line));
  if (traceback) made_.emplace_back(index, Ref::borrow(traceback.get()));
  return traceback;
}

// Its slots are filled by who runs it, if someone does.
Ref Rebuild::make_generator(uint32_t index, const Value& value) {
  using Phase = Recording::Cursor::GeneratorState::Phase;
  const Generator& of = recording_.generators[value.a];
  const auto state = recording_.cursor_to(exit_.node).generators[value.a];
  Ref made = cpython::bare_generator(PyThreadState_Get(), of.function.get());
  if (made) made_.emplace_back(index, Ref::borrow(made.get()));
  if (!made || state.phase == Phase::kRunning) return made;
  if (state.phase == Phase::kFinished) return cpython::end_bare_generator(made.get()) ? std::move(made) : Ref();
  cpython::Slots into = cpython::slots(cpython::frame_of(made.get()));
  for (int32_t i = 0; i < state.suspension.depth; i++) {
    const auto& slots = recording_.cursor_to(exit_.node).slots;
    const size_t slot = of.base + i;
    Ref filled = slot < slots.size() && slots[slot] ? make(slots[slot]) : Ref();
    if (!filled && PyErr_Occurred()) return Ref();
    into.put(i, std::move(filled));
  }
  const int unit = of.code->instructions[state.suspension.next].offset;
  if (state.suspension.begun) cpython::suspend_bare_generator(made.get(), unit, state.suspension.depth, state.suspension.delegates);
  if (!state.suspension.begun) cpython::set_next(cpython::frame_of(made.get()), unit, state.suspension.depth);
  if (state.handled) cpython::set_generator_handled(made.get(), make(state.handled));
  return made;
}

Ref Rebuild::frame_object(int32_t frame) {
  Ref live = frames_->frame_object(frame);
  if (live || PyErr_Occurred()) return live;
  using Phase = Recording::Cursor::GeneratorState::Phase;
  const int32_t generator = recording_.generator_of(frame);
  const bool waits = generator >= 0 && recording_.cursor_to(exit_.node).generators[generator].phase == Phase::kWaiting;
  if (!waits) return ended_frame(frame);
  const Ref made = make(recording_.generators[generator].value);
  return made ? cpython::frame_object_of_generator(made.get()) : Ref();
}

// A frame is made, filled, and ended at once. The variables may lead to its frame object.
Ref Rebuild::ended_frame(int32_t frame) {
  const auto found = ended_.find(frame);
  if (found != ended_.end()) return Ref::borrow(found->second.get());
  const FrameStart& start = recording_.frame_start(frame);
  const EndedFrame& ended = recording_.ended.at(frame);
  cpython::EndedFrame made(PyThreadState_Get(), start.function.get(), ended.unit);
  if (!made.object()) return Ref();
  ended_.emplace(frame, Ref::borrow(made.object().get()));
  for (size_t i = 0; i < ended.slots.size(); i++) {
    Ref value = make(ended.slots[i]);
    if (!value && PyErr_Occurred()) return Ref();
    made.put(static_cast<int>(i), std::move(value));
  }
  if (ended.names) {
    Ref names = make(ended.names);
    if (!names) return Ref();
    made.give_names(std::move(names));
  }
  if (start.globals && !made.give_globals(make(start.globals).get())) return Ref();
  const Ref back = ended.back < 0 ? Ref() : frame_object(ended.back);
  return back || ended.back < 0 ? made.end(back.get()) : Ref();
}

// An iterator goes on behind what it has given.
Ref Rebuild::call_again(const Value& value, PyObject* self) {
  const std::vector<uint32_t>& parts = recording_.containers[value.a].elements;
  std::vector<Ref> arguments;
  if (self) arguments.push_back(Ref::borrow(self));
  for (size_t i = 2; i < parts.size(); i++) {
    arguments.push_back(make(parts[i]));
    if (!arguments.back()) return Ref();
  }
  const Ref callable = make(parts[0]), keywords = make(parts[1]);
  const size_t positional = arguments.size() - (keywords ? static_cast<size_t>(PyTuple_GET_SIZE(keywords.get())) : 0);
  Ref made = Ref::steal(PyObject_Vectorcall(callable.get(), pointers(arguments.data()), positional, keywords.get()));
  for (uint32_t i = window_of(value).begin; made && i > 0; i--) {
    if (Ref::steal(PyIter_Next(made.get()))) continue;
    if (PyErr_Occurred()) return Ref();
    break;  // it was exhausted
  }
  return made;
}

Ref Rebuild::call_on(uint32_t call, PyObject* self) { return call_again(recording_.values[call], self); }

// It may hold itself: it is known before it is filled.
Ref Rebuild::make_replayed(uint32_t index, const Value& value) {
  const Window window = window_of(value);
  const auto call = [&](uint32_t i) { return recording_.containers[value.a].elements[window.begin + i]; };
  Ref object = call_again(recording_.values[call(0)]);
  if (object) made_.emplace_back(index, Ref::borrow(object.get()));
  for (uint32_t i = 1; object && i < window.length; i++) {
    for (const Begun& begun : recording_.containers[value.a].begun) {
      if (begun.over.length == i && !make_begun(object.get(), begun)) return Ref();
    }
    if (!call_on(call(i), object.get())) return Ref();
  }
  return object;
}

// An iterator keeps its position when its list gets shorter, but can't be set to one behind the list's end.
bool Rebuild::advance(PyObject* iterable, PyObject* iterator, int32_t position) {
  const Py_ssize_t length = PyList_CheckExact(iterable) ? PyList_GET_SIZE(iterable) : position;
  for (Py_ssize_t i = length; i < position; i++) {
    if (PyList_Append(iterable, Py_None) < 0) return false;
  }
  if (!Ref::steal(PyObject_CallMethod(iterator, "__setstate__", "i", position))) return false;
  return length >= position || PyList_SetSlice(iterable, length, position, nullptr) == 0;
}

Ref Rebuild::make_fresh(uint32_t index) {
  const Value& value = recording_.values[index];
  switch (value.kind) {
    case Value::Kind::kNull:
    case Value::Kind::kSource:
    case Value::Kind::kNode: return Ref::borrow(at_hand(value));
    case Value::Kind::kConstant: return make_class(index, recording_.classes[static_cast<size_t>(value.b) - 1]);
    case Value::Kind::kOuterException: return Ref::borrow(outer_[value.b] ? outer_[value.b].get() : Py_None);
    case Value::Kind::kTruth: {
      const Ref compared = make(static_cast<uint32_t>(value.a));
      const int truth = compared ? PyObject_IsTrue(compared.get()) : -1;
      return truth < 0 ? Ref() : Ref::borrow(truth ? Py_True : Py_False);
    }
    case Value::Kind::kTuple: {
      const auto& elements = recording_.containers[value.a].elements;
      Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(elements.size())));
      // It may be in a list that it holds.
      if (tuple) made_.emplace_back(index, Ref::borrow(tuple.get()));
      for (size_t i = 0; tuple && i < elements.size(); i++) PyTuple_SET_ITEM(tuple.get(), i, make(elements[i]).release());
      return tuple;
    }
    case Value::Kind::kList: return make_list(index, value);
    case Value::Kind::kDict: return make_dict(index, value);
    case Value::Kind::kMapping: return make_mapping(index, value);
    case Value::Kind::kDeque: return make_deque(index, value);
    case Value::Kind::kInstance: return make_instance(index, value);
    case Value::Kind::kException: return make_exception(index, value);
    case Value::Kind::kTraceback: return make_traceback(index, value);
    case Value::Kind::kGenerator: return make_generator(index, value);
    case Value::Kind::kFrame: return frame_object(value.b);
    case Value::Kind::kMade:
      // What it goes through may have made it, in front of a change.
      for (const uint32_t part : recording_.containers[value.a].elements) {
        const Value::Kind of = recording_.values[part].kind;
        if ((of == Value::Kind::kReplayed || of == Value::Kind::kDeque) && !make(part)) return Ref();
      }
      if (PyObject* const made = known(index)) return Ref::borrow(made);
      return call_again(value);
    case Value::Kind::kReplayed: return make_replayed(index, value);
    case Value::Kind::kSlice: {
      const auto& parts = recording_.containers[value.a].elements;
      Ref start = make(parts[0]), stop = make(parts[1]), step = make(parts[2]);
      return Ref::steal(PySlice_New(start.get(), stop.get(), step.get()));
    }
    case Value::Kind::kCell: {
      Ref cell = Ref::steal(PyCell_New(nullptr));
      // A function in its own closure: the cell has to be known before its contents are made.
      if (cell) made_.emplace_back(index, Ref::borrow(cell.get()));
      const uint32_t content = recording_.containers[value.a].elements[window_of(value).length - 1];
      if (cell && content) PyCell_SET(cell.get(), make(content).release());
      return cell;
    }
    case Value::Kind::kFunction: return make_function(index, value);
    case Value::Kind::kIterator: {
      Ref iterable = make(value.a);
      Ref iterator = iterable ? Ref::steal(PyObject_GetIter(iterable.get())) : Ref();
      if (!iterator || value.b == 0) return iterator;
      return advance(iterable.get(), iterator.get(), value.b) ? std::move(iterator) : Ref();
    }
  }
  return Ref();
}

}  // namespace evalframe::recorder
