// Calls of evalframe's own functions, and functions that are one instruction.
#define Py_BUILD_CORE 1
#include "cpython/unseen_call.h"

#include <map>
#include <string>
#include <utility>

#include "cpython/opcode_table.h"
#include "cpython/tables.h"
#include "frame_layout.h"

namespace evalframe::cpython {

namespace {

// Without a RESUME: a frame that hasn't come to its first one isn't shown by sys._getframe, tracebacks and the like.
std::string units_of(LoneInstruction instruction, bool two_operands) {
  std::string units;
  const auto put = [&](Op op, int arg) { units += {static_cast<char>(opcode_of(op, false)->number), static_cast<char>(arg)}; };
  put(Op::LOAD_FAST, 0);
  if (two_operands) put(Op::LOAD_FAST, 1);
  put(instruction.op, instruction.arg);
  put(Op::RETURN_VALUE, 0);
  return units;
}

Ref bytes(const std::string& text) { return Ref::steal(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))); }

#if PY_VERSION_HEX >= 0x030C0000
constexpr auto new_code = PyUnstable_Code_NewWithPosOnlyArgs;
#else
constexpr auto new_code = PyCode_NewWithPosOnlyArgs;
#endif

// Not by compile() or replace(), which are audit events.
Ref code_of(LoneInstruction instruction, int operands, Borrowed name) {
  const std::string units = units_of(instruction, operands == 2);
  PositionWriter positions(1);
  positions.add(bytecode::Position{1, 1, -1, -1}, static_cast<int>(units.size() / 2));
  const Ref code = bytes(units), lines = bytes(positions.finish()), none = bytes("");
  const Ref empty = Ref::steal(PyTuple_New(0));
  const Ref names = name ? Ref::steal(PyTuple_Pack(1, name.get())) : Ref::borrow(empty.get());
  const Ref variables = Ref::steal(operands == 2 ? Py_BuildValue("(ss)", "first", "second") : Py_BuildValue("(s)", "first"));
  const Ref file = Ref::steal(PyUnicode_FromString("<evalframe>")), called = Ref::steal(PyUnicode_FromString("lone_instruction"));
  if (!code || !lines || !none || !empty || !names || !variables || !file || !called) return Ref();
  constexpr int kStackSize = 3;
  return Ref::steal(new_code(operands, operands, 0, operands, kStackSize, CO_OPTIMIZED | CO_NEWLOCALS, code.get(), empty.get(), names.get(),
                             variables.get(), empty.get(), empty.get(), file.get(), called.get(), called.get(), 1, lines.get(), none.get()));
}

Ref function_of(LoneInstruction instruction, int operands, Borrowed name) {
  const Ref code = code_of(instruction, operands, name);
  const Ref globals = code ? unseen_globals() : Ref();
  return globals ? Ref::steal(PyFunction_New(code.get(), globals.get())) : Ref();
}

// The same for the next time, and to the end of the process.
PyObject* known_function(LoneInstruction instruction, int operands) {
  static auto* const known = new std::map<std::pair<Op, int>, PyObject*>;
  PyObject*& function = (*known)[{instruction.op, instruction.arg}];
  if (!function) function = function_of(instruction, operands, Borrowed()).release();
  return function;
}

}  // namespace

Ref unseen_globals() { return Ref::steal(Py_BuildValue("{ss}", "__name__", "evalframe")); }

Ref call_unseen(PyThreadState* thread, Borrowed function, PyObject* const* arguments, size_t count) {
  [[maybe_unused]] const layout::KeepCBudget budget(thread);
  constexpr int kLevels = 2;
  layout::recursion_remaining(thread) += kLevels;
  Ref result = Ref::steal(PyObject_Vectorcall(function.get(), arguments, count, nullptr));
  layout::recursion_remaining(thread) -= kLevels;
  return result;
}

Ref run_alone(PyThreadState* thread, LoneInstruction instruction, Borrowed first, Borrowed second, Borrowed name) {
  const int operands = second ? 2 : 1;
  const Ref function = name ? function_of(instruction, operands, name) : Ref::borrow(known_function(instruction, operands));
  PyObject* const arguments[] = {first.get(), second.get()};
  return function ? call_unseen(thread, function.get(), arguments, static_cast<size_t>(operands)) : Ref();
}

}  // namespace evalframe::cpython
