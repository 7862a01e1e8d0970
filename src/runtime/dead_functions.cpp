#include "runtime/dead_functions.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "runtime/capture.h"

namespace evalframe::runtime {

namespace {

// References from captures, of the objects that were asked for.
using Counts = std::unordered_map<PyObject*, Py_ssize_t>;

struct Count {
  Counts held;
  int64_t visits = 0;  // of all that captures refer to
};

int count_visit(PyObject* object, void* count) {
  auto& [held, visits] = *static_cast<Count*>(count);
  visits++;
  if (const auto found = held.find(object); found != held.end()) found->second++;
  return 0;
}

PyObject* closure_of(PyObject* function) { return reinterpret_cast<PyFunctionObject*>(function)->func_closure; }

bool holds_something(PyObject* object) {
  if (!object || !PyFunction_Check(object)) return false;
  const auto* function = reinterpret_cast<PyFunctionObject*>(object);
  return function->func_closure || function->func_defaults || function->func_kwdefaults;
}

// A function that names itself is in a cell of its own closure.
template <typename Visit>
void for_each_cell_around(PyObject* function, Visit visit) {
  PyObject* const closure = closure_of(function);
  for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); i++) {
    PyObject* const cell = PyTuple_GET_ITEM(closure, i);
    if (PyCell_GET(cell) == function) visit(cell);
  }
}

bool is_dead(PyObject* function, const Counts& held) {
  Py_ssize_t inside = 0;
  bool alone = true;
  for_each_cell_around(function, [&](PyObject* cell) {
    inside++;
    alone = alone && Py_REFCNT(cell) == 1 + held.at(cell);
  });
  PyObject* const closure = closure_of(function);
  if (inside) alone = alone && Py_REFCNT(closure) == 1 + held.at(closure);
  return alone && Py_REFCNT(function) == inside + held.at(function);
}

void add_functions(const Compilation& entry, std::vector<PyObject*>& functions) {
  const auto add = [&](const guards::Fact& fact) {
    if (fact.check == guards::Check::kIdentity && holds_something(fact.want.get())) functions.push_back(fact.want.get());
  };
  for (const guards::Source& source : entry.recording->guards.sources) {
    add(source.fact);
    for (const guards::Fact& fact : source.more) add(fact);
  }
}

}  // namespace

Looks& looks_for_dead_functions() {
  static Looks looks;
  return looks;
}

std::unordered_set<PyObject*> dead_functions(const std::vector<PyObject*>& functions) {
  Count count;
  Counts& held = count.held;
  for (PyObject* const function : functions) {
    held.emplace(function, 0);
    if (closure_of(function)) held.emplace(closure_of(function), 0);
    for_each_cell_around(function, [&](PyObject* cell) { held.emplace(cell, 0); });
  }
  for (const Capture* const capture : Capture::all()) capture->traverse(count_visit, &count);
  looks_for_dead_functions().took(count.visits);
  std::unordered_set<PyObject*> dead;
  for (PyObject* const function : functions) {
    if (is_dead(function, held)) dead.insert(function);
  }
  return dead;
}

bool drop_dead(Entries& entries, bool is_full) {
  if (entries.refused && !std::has_single_bit(entries.refused)) return false;
  if (!looks_for_dead_functions().are_due(is_full)) return false;
  std::vector<PyObject*> functions;
  for (const Held<Compilation>& entry : entries.list) add_functions(*entry, functions);
  const std::unordered_set<PyObject*> dead = functions.empty() ? std::unordered_set<PyObject*>() : dead_functions(functions);
  if (dead.empty()) return false;
  const auto lives = [&](const Held<Compilation>& entry) {
    std::vector<PyObject*> wanted;
    add_functions(*entry, wanted);
    return std::none_of(wanted.begin(), wanted.end(), [&](PyObject* function) { return dead.contains(function); });
  };
  entries.replaced += keep_only(entries, lives);
  return true;
}

}  // namespace evalframe::runtime
