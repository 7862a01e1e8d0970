// Looking ahead gives what the iterator then gives.
#include "cpython/iterators.h"

#include "core/testing.h"

namespace evalframe {

namespace {

Ref evaluated(const char* expression) {
  const Ref globals = Ref::steal(PyDict_New());
  PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  return Ref::steal(PyRun_String(expression, Py_eval_input, globals.get(), globals.get()));
}

bool equal(const Ref& a, const Ref& b) { return a && b ? PyObject_RichCompareBool(a.get(), b.get(), Py_EQ) == 1 : !a && !b; }

// Reads three items, looks at all that follow, skips two of them and compares what then comes.
void looks_ahead(const char* expression) {
  const Ref iterator = evaluated(expression);
  EXPECT(iterator);
  for (int i = 0; i < 3; i++) EXPECT(Ref::steal(PyIter_Next(iterator.get())));
  Ref seen[8];
  for (int i = 0; i < 8; i++) seen[i] = cpython::ahead(iterator.get(), i);
  cpython::advance(iterator.get(), 2);
  EXPECT(seen[2]);
  for (int i = 2; i < 8; i++) {
    const Ref next = Ref::steal(PyIter_Next(iterator.get()));
    EXPECT(equal(seen[i], next));
  }
  EXPECT(!PyErr_Occurred() && !cpython::ahead(iterator.get(), 0));
}

}  // namespace

TEST(LookingAheadInARange) {
  looks_ahead("iter(range(5, 40, 5))");
  looks_ahead("iter(range(9, -40, -7))");
  looks_ahead("iter(range(2**63 - 9, 2**63 - 1))");
}

TEST(LookingAheadInAList) { looks_ahead("iter([2, 3, 5, 7, 11, 13, 17, 19])"); }

TEST(LookingAheadInATuple) { looks_ahead("iter((2, 3, 5, 7, 11, 13, 17, 19))"); }

TEST(LookingAheadInOtherIterators) {
  const Ref iterator = evaluated("iter(range(2**70, 2**70 + 9))");
  EXPECT(iterator && !cpython::ahead(iterator.get(), 0));
}

}  // namespace evalframe
