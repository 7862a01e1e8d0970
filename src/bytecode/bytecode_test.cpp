// Liveness, stack depth, verification and printing of decoded code.
#include "bytecode/liveness.h"
#include "bytecode/stack.h"
#include "bytecode/verify.h"
#include "core/testing.h"
#include "cpython/codec.h"

using namespace evalframe;
using bytecode::Op;

namespace {

// The code of the function `f` that `source` defines.
Ref code_of_f(const char* source) {
  const Ref globals = Ref::steal(PyDict_New());
  PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  const Ref done = Ref::steal(PyRun_String(source, Py_file_input, globals.get(), globals.get()));
  EXPECT(done);
  PyObject* f = PyDict_GetItemString(globals.get(), "f");
  EXPECT(f != nullptr);
  return Ref::borrow(PyFunction_GetCode(f));
}

int32_t first(const bytecode::Code& code, Op op) {
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    if (code.instructions[i].op == op) return static_cast<int32_t>(i);
  }
  throw testing::Failure(std::string("no ") + bytecode::name(op));
}

}  // namespace

TEST(DecodedIsMadeOnceAndFreedWithItsCodeObject) {
  Ref code = code_of_f("def f(x): return x\n");
  const Py_ssize_t before = Py_REFCNT(code.get());
  const bytecode::Code* decoded = cpython::decoded(code.get());
  EXPECT(decoded != nullptr && decoded == cpython::decoded(code.get()));
  EXPECT(Py_REFCNT(code.get()) == before);
  EXPECT(!decoded->keep_alive && decoded->code.get() == code.get());
}

TEST(DecodeOfWhatIsNoCodeObjectRaisesTypeError) {
  EXPECT(cpython::decode(Py_None) == nullptr);
  EXPECT(PyErr_ExceptionMatches(PyExc_TypeError));
  PyErr_Clear();
}

TEST(EveryUnitBelongsToTheInstructionThatCoversIt) {
  const Ref code = code_of_f("def f(a, b):\n  for x in a: b(x, key=x)\n");
  const auto decoded = cpython::decode(code.get());
  for (size_t unit = 0; unit < decoded->index_of_unit.size(); ++unit) {
    const auto& covering = decoded->instructions[decoded->index_of_unit[unit]];
    EXPECT(covering.offset <= static_cast<int32_t>(unit) && static_cast<int32_t>(unit) < covering.end);
  }
  EXPECT(decoded->instructions[first(*decoded, Op::FOR_ITER)].target > 0);
}

TEST(HandlerIsFoundInsideItsRegionOnly) {
  const Ref code = code_of_f("def f(a):\n  try: a()\n  except ValueError: pass\n");
  const auto decoded = cpython::decode(code.get());
  const int32_t call = first(*decoded, Op::CALL);
  EXPECT(decoded->handler(call) != nullptr && decoded->handler(call)->target > call);
  EXPECT(decoded->handler(0) == nullptr);
}

TEST(VariableIsLiveUntilItsLastReadAndAcrossTheLoop) {
  const Ref code = code_of_f("def f(a, b):\n  while a: a = b\n  b = 1\n  return b\n");
  const auto decoded = cpython::decode(code.get());
  const bytecode::Liveness liveness(*decoded);
  EXPECT(liveness.live(0) == (std::vector<int>{0, 1}));
  EXPECT(liveness.live(static_cast<int32_t>(decoded->instructions.size()) - 1).empty());
}

TEST(VariableReadByAHandlerIsLiveInItsRegion) {
  const Ref code = code_of_f("def f(a, x):\n  x = 1\n  try:\n    x = a()\n  except ValueError: pass\n  return x\n");
  const auto decoded = cpython::decode(code.get());
  const bytecode::Liveness liveness(*decoded);
  EXPECT(!liveness.is_live(0, 1));
  EXPECT(liveness.is_live(first(*decoded, Op::CALL), 1));
}

TEST(StackThatRunsEmptyIsFound) {
  const Ref code = code_of_f("def f(a): return a\n");
  auto decoded = cpython::decode(code.get());
  decoded->instructions[first(*decoded, Op::LOAD_FAST)].op = Op::NOP;
  bytecode::StackDepths depths;
  const auto problem = bytecode::verify(*decoded, bytecode::operands_of(*decoded), depths);
  EXPECT(problem && problem->index == first(*decoded, Op::RETURN_VALUE));
}

TEST(ReplacementMustKeepVariablesInOrder) {
  const Ref original = code_of_f("def f(a, b): pass\n");
  EXPECT(!bytecode::verify_replacement(original.get(), code_of_f("def f(a, b): c = 1\n").get()));
  const auto swapped = bytecode::verify_replacement(original.get(), code_of_f("def f(b, a): pass\n").get());
  EXPECT(swapped && swapped->find("where the original has the local variable 'a'") != std::string::npos);
  const auto missing = bytecode::verify_replacement(original.get(), code_of_f("def f(a, c): pass\n").get());
  EXPECT(missing && missing->find("lacks the local variable 'b'") != std::string::npos);
}
