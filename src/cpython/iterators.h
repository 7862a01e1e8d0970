// Looking into iterators, which CPython only lets advance.
#pragma once

#include <vector>

#include "core/ref.h"

namespace evalframe::cpython {

// What the iterator will give after `turns` more. Null: it isn't of these types, or will be exhausted; no exception is set
// but for memory.
Ref ahead(Borrowed iterator, Py_ssize_t turns);
// As if it had given so many items; `ahead` has said that they are there.
void advance(Borrowed iterator, Py_ssize_t turns);

// What an iterator over a range of C integers will give.
struct RangeState {
  long next, step, left;  // `left`: how many
};
RangeState state_of_range(Borrowed iterator);
void set_range_state(Borrowed iterator, RangeState state);

// What an iterator over items by their numbers goes through, null at its end, and the number of the next.
struct SequenceState {
  PyObject* sequence;
  Py_ssize_t next;
};
SequenceState state_of_sequence(Borrowed iterator);
void set_sequence_state(Borrowed iterator, Py_ssize_t next);

// The iterator that an enumerate asks, and its next number; null where that is no C integer.
struct EnumerateState {
  PyObject* asked;
  Py_ssize_t next;
};
EnumerateState state_of_enumerate(Borrowed enumerate);
void set_enumerate_state(Borrowed enumerate, Py_ssize_t next);
// The iterators that a zip asks, as a tuple; null where it is a strict one.
PyObject* asked_by_zip(Borrowed zip);

// Whether a count of itertools counts in a C integer: nobody's sum is asked for the next number.
bool counts_with_ints(Borrowed count);

// What an iterator was made of, which asks others when it is asked: map, filter and those of itertools in the order of their parameters,
// iterators in the place of what they go through. Empty: another object.
std::vector<Ref> asked_by(Borrowed iterator);
// What it has come to: whether takewhile has stopped or dropwhile begun, the total of accumulate, the next number of enumerate, and
// what chain goes through now; of islice how many it has asked for, the number of the next that it gives, where it stops (-1: nowhere)
// and its step; of what asks for items by number the next of these; of groupby the number of the group that it gives now (0: of none), the key of that, and the key and the value that come
// next, each as a tuple of one or none; of a group whether it is given now; whether a callable_iterator has ended. None: it has ended. Null: nothing so far.
Ref has_come_to(Borrowed iterator);
void come_to(Borrowed iterator, Borrowed value);
// A group of groupby's.
Ref group_of(Borrowed groups, Borrowed key, bool is_given_now);

}  // namespace evalframe::cpython
