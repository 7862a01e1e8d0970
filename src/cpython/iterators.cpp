// The layouts of three iterators.
#include "cpython/iterators.h"

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

// As countobject begins: it goes over to objects behind the greatest C integer.
bool counts_with_ints(Borrowed count) {
  struct Count {
    PyObject head;
    Py_ssize_t number;
    PyObject *long_number, *long_step;
  };
  return reinterpret_cast<const Count*>(count.get())->number != PY_SSIZE_T_MAX;
}

}  // namespace evalframe::cpython
