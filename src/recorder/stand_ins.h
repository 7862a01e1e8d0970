// Python functions that are followed in the place of C functions which call back into Python (python/evalframe/stand_ins.py).
#pragma once

#include <optional>

#include "core/ref.h"

namespace evalframe::recorder {

struct Plan;
struct Site;

struct StandIn {
  Ref function;
  int through = 0;  // the argument that it goes through; -1: none; less: none, and where it stands in
  static constexpr int kOnlyCompiling = -2;   // only then (recorder/purpose.h)
  static constexpr int kOnlyTorch = -3;       // in graphs for torch's backends
};

// The function's code is changed so that nobody sees its frames. False with an exception.
bool add_stand_in(Borrowed callable, Borrowed function, int through);
const StandIn* stand_in_named(const char* name);
// LIST_EXTEND of a list on top of which lies what has steps that are followed, such as a generator; none: another iterable, or list.
std::optional<Plan> extension_call(const Site& site);
// Null: the callable has none.
const StandIn* stand_in_of(PyObject* callable);
// The order in which a sort leaves what has these keys, as a tuple of places.
PyObject* places_in_order();
// The matches that pattern.sub(..., text, count) replaces, as a tuple.
PyObject* matches_of_pattern();
// Closes a generator with what closing the one that it waited for has raised.
PyObject* close_with();
// An iterator that has been asked for, for functions of C's that ask what they are given for one: it isn't asked again.
PyObject* asked_iterator();
// What such an iterator as takewhile has come to (rules/lazies.cpp): asked for, or told behind the iterator.
PyObject* progress_of_lazies();
PyObject* group_of_lazies();
// Which keys a sort compares next, by what has come of the comparisons before.
PyObject* step_of_sort();

}  // namespace evalframe::recorder
