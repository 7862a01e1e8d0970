// The layouts of iterators.
#include "cpython/iterators.h"

#include <string_view>
#include <utility>

namespace evalframe::cpython {

namespace {

// Not in any public header: 3.11 Objects/rangeobject.c, later pycore_range.h; iterators_test.cpp holds them against the iterators.
struct RangeIterator {
  PyObject_HEAD
#if PY_VERSION_HEX < 0x030C0000
  long index;
#endif
  long start, step, length;

  bool has(Py_ssize_t turns) const {
#if PY_VERSION_HEX < 0x030C0000
    return turns < length - index;
#else
    return turns < length;
#endif
  }
  // Unsigned, for it may go beyond the range of a long on the way.
  long at(Py_ssize_t turns) const {
#if PY_VERSION_HEX < 0x030C0000
    turns += index;
#endif
    return static_cast<long>(static_cast<unsigned long>(start) + static_cast<unsigned long>(turns) * static_cast<unsigned long>(step));
  }
  void advance(Py_ssize_t turns) {
#if PY_VERSION_HEX < 0x030C0000
    index += turns;
#else
    start = at(turns);
    length -= turns;
#endif
  }
};

// Of lists and tuples alike.
struct SequenceIterator {
  PyObject_HEAD
  Py_ssize_t index;
  PyObject* sequence;  // null: exhausted
};

bool is_sequence_iterator(Borrowed iterator) {
  return Py_TYPE(iterator.get()) == &PyListIter_Type || Py_TYPE(iterator.get()) == &PyTupleIter_Type;
}

}  // namespace

Ref ahead(Borrowed iterator, Py_ssize_t turns) {
  if (Py_TYPE(iterator.get()) == &PyRangeIter_Type) {
    const auto* range = iterator.as<RangeIterator>();
    return range->has(turns) ? Ref::steal(PyLong_FromLong(range->at(turns))) : Ref();
  }
  if (!is_sequence_iterator(iterator)) return Ref();
  const auto* items = iterator.as<SequenceIterator>();
  if (!items->sequence || items->index < 0 || turns >= PySequence_Fast_GET_SIZE(items->sequence) - items->index) return Ref();
  return Ref::borrow(PySequence_Fast_ITEMS(items->sequence)[items->index + turns]);
}

void advance(Borrowed iterator, Py_ssize_t turns) {
  if (Py_TYPE(iterator.get()) == &PyRangeIter_Type) return iterator.as<RangeIterator>()->advance(turns);
  iterator.as<SequenceIterator>()->index += turns;
}

RangeState state_of_range(Borrowed iterator) {
  const auto* range = iterator.as<RangeIterator>();
#if PY_VERSION_HEX < 0x030C0000
  return {range->at(0), range->step, range->length - range->index};
#else
  return {range->start, range->step, range->length};
#endif
}

void set_range_state(Borrowed iterator, RangeState state) {
  auto* range = iterator.as<RangeIterator>();
#if PY_VERSION_HEX < 0x030C0000
  // It counts from its start: what it has given stays counted.
  range->start = static_cast<long>(static_cast<unsigned long>(state.next) - static_cast<unsigned long>(range->index) * static_cast<unsigned long>(state.step));
  range->length = range->index + state.left;
#else
  range->start = state.next;
  range->length = state.left;
#endif
  range->step = state.step;
}

// As countobject begins: it goes over to objects behind the greatest C integer.
bool counts_with_ints(Borrowed count) {
  struct Count {
    PyObject head;
    Py_ssize_t number;
    PyObject *long_number, *long_step;
  };
  return reinterpret_cast<const Count*>(count.get())->number != PY_SSIZE_T_MAX;
}

namespace {

// Modules/itertoolsmodule.c, the same in all versions: CPython has no other way to look into these without a warning.
struct Two {  // starmap, filterfalse, compress; what follows begins as these do
  PyObject head;
  PyObject *first, *second;
};
struct Called {  // callable_iterator; null: it has ended
  PyObject head;
  PyObject *function, *sentinel;
};
struct Flagged {  // takewhile, dropwhile
  Two parts;
  long flag;
};
struct Accumulate {
  PyObject head;
  PyObject *total, *iterator, *function, *initial;
};
struct Chain {
  PyObject head;
  PyObject *source, *active;  // null source: it has ended
};
struct Slice {  // islice
  PyObject head;
  PyObject* iterator;  // null: it has ended
  Py_ssize_t next, stop, step, count;
};
struct Groups {  // groupby; what isn't there is null
  PyObject head;
  PyObject *iterator, *function, *target, *key, *value;
  const void* group;  // that is being given now
};
struct Enumerate {
  PyObject head;
  Py_ssize_t index;
  PyObject *asked, *result, *long_index;
};
struct Zip {
  PyObject head;
  Py_ssize_t count;
  PyObject *asked, *result;
  int strict;
};

bool has_name(Borrowed iterator, std::string_view name) {
  const PyTypeObject* const type = Py_TYPE(iterator.get());
  const bool of_c = !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
  return of_c && type->tp_name == name;
}
bool is_flagged(Borrowed iterator) { return has_name(iterator, "itertools.takewhile") || has_name(iterator, "itertools.dropwhile"); }
bool is_accumulate(Borrowed iterator) { return has_name(iterator, "itertools.accumulate"); }
bool is_chain(Borrowed iterator) { return has_name(iterator, "itertools.chain"); }
bool is_slice(Borrowed iterator) { return has_name(iterator, "itertools.islice"); }
bool is_groups(Borrowed iterator) { return has_name(iterator, "itertools.groupby"); }
bool is_group(Borrowed iterator) { return has_name(iterator, "itertools._grouper"); }  // of Two: the groups, its key
// What asks for items by their numbers: PySeqIter, and PyReversed with its number below 0 at the end. Both are laid out as iterators of lists are.
bool goes_by_number(Borrowed iterator) { return Py_TYPE(iterator.get()) == &PySeqIter_Type || Py_TYPE(iterator.get()) == &PyReversed_Type; }
bool is_called(Borrowed iterator) { return Py_TYPE(iterator.get()) == &PyCallIter_Type; }
bool is_enumerate(Borrowed iterator) { return Py_TYPE(iterator.get()) == &PyEnum_Type; }
// What __reduce__ says of these without a warning: the iterators, or they and a count.
bool is_of_builtins(Borrowed iterator) {
  const PyTypeObject* const type = Py_TYPE(iterator.get());
  return type == &PyMap_Type || type == &PyFilter_Type || type == &PyZip_Type || type == &PyEnum_Type;
}

Ref one_or_none(PyObject* object) { return Ref::steal(object ? PyTuple_Pack(1, object) : PyTuple_New(0)); }

Ref state_of_groups(const Groups& of) {
  const Ref target = one_or_none(of.target), key = one_or_none(of.key), value = one_or_none(of.value);
  return target && key && value ? Ref::steal(Py_BuildValue("(nOOO)", Py_ssize_t{of.group != nullptr}, target.get(), key.get(), value.get())) : Ref();
}

// The number 0: no group is being given.
void set_groups(Groups& of, PyObject* state) {
  const auto part = [&](Py_ssize_t i) {
    PyObject* const tuple = PyTuple_GET_ITEM(state, i);
    return PyTuple_GET_SIZE(tuple) ? Py_NewRef(PyTuple_GET_ITEM(tuple, 0)) : nullptr;
  };
  if (PyObject_Not(PyTuple_GET_ITEM(state, 0)) == 1) of.group = nullptr;
  const Ref target = Ref::steal(std::exchange(of.target, part(1))), key = Ref::steal(std::exchange(of.key, part(2))), value = Ref::steal(std::exchange(of.value, part(3)));
}

Ref or_none(PyObject* object) { return Ref::borrow(object ? object : Py_None); }

}  // namespace

std::vector<Ref> asked_by(Borrowed iterator) {
  std::vector<Ref> parts;
  if (is_of_builtins(iterator)) {
    const Ref reduced = Ref::steal(PyObject_CallMethod(iterator.get(), "__reduce__", nullptr));
    PyObject* const made_of = reduced ? PyTuple_GET_ITEM(reduced.get(), 1) : nullptr;
    for (Py_ssize_t i = 0; made_of && i < PyTuple_GET_SIZE(made_of); i++) parts.push_back(Ref::borrow(PyTuple_GET_ITEM(made_of, i)));
    if (!reduced) PyErr_Clear();
    if (is_enumerate(iterator) && !parts.empty()) parts.pop_back();
  } else if (is_chain(iterator)) {
    parts.push_back(or_none(iterator.as<Chain>()->source));
  } else if (is_groups(iterator)) {
    parts.push_back(or_none(iterator.as<Groups>()->iterator));
    parts.push_back(or_none(iterator.as<Groups>()->function));
  } else if (is_group(iterator)) {
    parts.push_back(or_none(iterator.as<Two>()->first));
    parts.push_back(or_none(iterator.as<Two>()->second));
    parts.push_back(or_none(nullptr));
  } else if (is_slice(iterator)) {
    parts.push_back(or_none(iterator.as<Slice>()->iterator));
  } else if (is_called(iterator)) {
    parts.push_back(or_none(iterator.as<Called>()->function));
    parts.push_back(or_none(iterator.as<Called>()->sentinel));
  } else if (goes_by_number(iterator)) {
    parts.push_back(or_none(iterator.as<SequenceIterator>()->sequence));
  } else if (is_accumulate(iterator)) {
    const auto* of = iterator.as<Accumulate>();
    for (PyObject* const part : {of->iterator, of->function, of->initial}) parts.push_back(or_none(part));
  } else if (is_flagged(iterator) || has_name(iterator, "itertools.starmap") || has_name(iterator, "itertools.filterfalse") || has_name(iterator, "itertools.compress")) {
    parts.push_back(or_none(iterator.as<Two>()->first));
    parts.push_back(or_none(iterator.as<Two>()->second));
  }
  return parts;
}

Ref has_come_to(Borrowed iterator) {
  if (is_flagged(iterator) && iterator.as<Flagged>()->flag) return Ref::borrow(Py_True);
  if (is_accumulate(iterator) && iterator.as<Accumulate>()->total) return Ref::borrow(iterator.as<Accumulate>()->total);
  if (is_groups(iterator)) return state_of_groups(*iterator.as<Groups>());
  if (is_group(iterator)) return reinterpret_cast<const Groups*>(iterator.as<Two>()->first)->group == iterator.get() ? Ref::borrow(Py_True) : Ref();
  if (is_slice(iterator)) {
    const auto* const of = iterator.as<Slice>();
    return of->iterator ? Ref::steal(Py_BuildValue("(nnnn)", of->count, of->next, of->stop, of->step)) : Ref::borrow(Py_None);
  }
  if (is_called(iterator)) return iterator.as<Called>()->function ? Ref() : Ref::borrow(Py_True);
  if (goes_by_number(iterator)) return iterator.as<SequenceIterator>()->sequence ? Ref::steal(PyLong_FromSsize_t(iterator.as<SequenceIterator>()->index)) : Ref::borrow(Py_None);
  if (is_enumerate(iterator)) return Ref::steal(PyLong_FromSsize_t(iterator.as<Enumerate>()->index));
  if (is_chain(iterator) && (!iterator.as<Chain>()->source || iterator.as<Chain>()->active)) return or_none(iterator.as<Chain>()->active);
  return Ref();
}

void come_to(Borrowed iterator, Borrowed value) {
  if (is_flagged(iterator)) {
    iterator.as<Flagged>()->flag = 1;
  } else if (is_called(iterator)) {
    auto* const of = iterator.as<Called>();
    const Ref sentinel = Ref::steal(std::exchange(of->sentinel, nullptr)), function = Ref::steal(std::exchange(of->function, nullptr));
  } else if (goes_by_number(iterator) && value.get() == Py_None) {
    if (Py_TYPE(iterator.get()) == &PyReversed_Type) iterator.as<SequenceIterator>()->index = -1;
    const Ref ended = Ref::steal(std::exchange(iterator.as<SequenceIterator>()->sequence, nullptr));
  } else if (goes_by_number(iterator)) {
    iterator.as<SequenceIterator>()->index = PyLong_AsSsize_t(value.get());
  } else if (is_enumerate(iterator)) {
    iterator.as<Enumerate>()->index = PyLong_AsSsize_t(value.get());
  } else if (is_accumulate(iterator)) {
    auto* const of = iterator.as<Accumulate>();
    const Ref initial = Ref::steal(std::exchange(of->initial, Py_NewRef(Py_None))), total = Ref::steal(std::exchange(of->total, Py_NewRef(value.get())));
  } else if (is_groups(iterator)) {
    set_groups(*iterator.as<Groups>(), value.get());
  } else if (is_slice(iterator) && PyTuple_CheckExact(value.get())) {
    auto* const of = iterator.as<Slice>();
    const auto number = [&](Py_ssize_t i) { return PyLong_AsSsize_t(PyTuple_GET_ITEM(value.get(), i)); };
    of->count = number(0), of->next = number(1), of->stop = number(2), of->step = number(3);
  } else if (is_slice(iterator)) {
    const Ref ended = Ref::steal(std::exchange(iterator.as<Slice>()->iterator, nullptr));
  } else if (is_chain(iterator)) {
    auto* const of = iterator.as<Chain>();
    const bool ended = value.get() == Py_None;
    const Ref active = Ref::steal(std::exchange(of->active, ended ? nullptr : Py_NewRef(value.get())));
    const Ref source = ended ? Ref::steal(std::exchange(of->source, nullptr)) : Ref();
  }
}

Ref group_of(Borrowed groups, Borrowed key, bool is_given_now) {
  const void* const before = groups.as<Groups>()->group;
  Ref type;
  if (const Ref module = Ref::steal(PyImport_ImportModule("itertools"))) type = Ref::steal(PyObject_GetAttrString(module.get(), "_grouper"));
  Ref made = type ? Ref::steal(PyObject_CallFunctionObjArgs(type.get(), groups.get(), key.get(), nullptr)) : Ref();
  if (!is_given_now) groups.as<Groups>()->group = before;
  return made;
}

SequenceState state_of_sequence(Borrowed iterator) { return {iterator.as<SequenceIterator>()->sequence, iterator.as<SequenceIterator>()->index}; }
void set_sequence_state(Borrowed iterator, Py_ssize_t next) { iterator.as<SequenceIterator>()->index = next; }

EnumerateState state_of_enumerate(Borrowed enumerate) {
  const auto* const of = enumerate.as<Enumerate>();
  return {of->long_index ? nullptr : of->asked, of->index};
}
void set_enumerate_state(Borrowed enumerate, Py_ssize_t next) { enumerate.as<Enumerate>()->index = next; }

PyObject* asked_by_zip(Borrowed zip) { return zip.as<Zip>()->strict ? nullptr : zip.as<Zip>()->asked; }

}  // namespace evalframe::cpython
