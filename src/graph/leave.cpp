// The exception that stands for it never gets to the program.
#include "graph/leave.h"

#include "core/ref.h"

namespace evalframe::graph {

static PyObject* mark = nullptr;  // made when it is first needed

void ask_to_leave() {
  if (!mark) mark = PyErr_NewException("evalframe.LeaveGraph", PyExc_BaseException, nullptr);
  if (mark) PyErr_SetNone(mark);
}

bool was_asked_to_leave() {
  if (!mark || !PyErr_ExceptionMatches(mark)) return false;
  PyErr_Clear();
  return true;
}

}  // namespace evalframe::graph
