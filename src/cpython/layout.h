// What the running version's instructions do to the operand stack where versions differ, as constants.
#pragma once

#include <Python.h>

#include <cstddef>

namespace evalframe::cpython::layout {

constexpr bool k311 = PY_VERSION_HEX < 0x030C0000;
constexpr bool k312 = PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000;
constexpr bool k313 = PY_VERSION_HEX >= 0x030D0000;

// CALL (n arguments), from the bottom: 3.13 [callable, self or NULL, args]; before: [NULL, callable, args] or
// [method, self, args].
constexpr bool kSelfAfterCallable = k313;
// LOAD_GLOBAL with arg2 = 1 pushes, from the bottom, NULL and the value; 3.13: the value and NULL.
constexpr bool kGlobalThenNull = k313;
// CALL_FUNCTION_EX, from the bottom: [NULL, callable, args, kwargs?]; 3.13: [callable, NULL, args, kwargs?].
constexpr bool kCallExNullAfterCallable = k313;
// A starred call keeps its tuple and its dict until it's over; from 3.12 on, a function's frame has taken the values out of them.
constexpr bool kStarredCallKeepsArguments = k311;
// A class that is called with just the arguments that its __init__ has parameters for, and whose instances have inline values, gives
// them away; otherwise they are the caller's, too, until the instance is set up.
constexpr bool kInstanceTakesArguments = k313;
// The position of a caller, while a Python function runs that it called, is the last of the instruction's caches.
constexpr bool kCallerStandsAtCaches = !k313;
// A CALL's keyword names are a constant (arg2); in 3.13 CALL_KW has them on the stack.
constexpr bool kKeywordNamesAreConstant = !k313;

// An exhausted FOR_ITER pops its iterator and goes on this many instructions behind its target: the instructions that
// the compiler put there (3.12: END_FOR; 3.13: END_FOR, POP_TOP) only matter to CPython's instrumentation.
constexpr int kForIterSkip = k311 ? 0 : k312 ? 1 : 2;
// CHECK_EG_MATCH leaves a group of which nothing matches as it is; later it leaves a copy.
constexpr bool kUnmatchedGroupStays = k311;
// END_FOR itself pops the iterator and the value (3.12), or the value (3.13).
constexpr int kEndForPops = k312 ? 2 : 1;

// SEND, when the receiver has returned: 3.11 pops the receiver and leaves the value; later ones leave both to END_SEND.
constexpr bool kSendPopsReceiver = k311;
// POP_JUMP_IF_* pop in every version; in 3.13 they want an exact bool on the stack (TO_BOOL or a comparison makes it).
constexpr bool kJumpNeedsBool = k313;
// COMPARE_OP must give an exact bool where this bit of arg2 is set (3.13).
constexpr int kCompareAsBool = k313 ? 16 : 0;

// MAKE_FUNCTION: closure, annotations and defaults lie below the code object, as its flags say; 3.13: they are set
// afterwards by SET_FUNCTION_ATTRIBUTE.
constexpr bool kMakeFunctionTakesAttributes = !k313;

// LOAD_FAST looks whether the variable is bound; from 3.12 on the compiler has proved it, or emits LOAD_FAST_CHECK.
constexpr bool kLoadFastChecks = k311;

// The cell of a variable is loaded with LOAD_FAST (3.13) or with LOAD_CLOSURE.
constexpr bool kLoadFastLoadsCells = k313;

// `from module import *` also binds the variables of a module's inlined comprehensions.
constexpr bool kStarBindsHidden = k312;
// What a class pattern's class must be, as its error says.
constexpr const char* kNoMatchClass = k311 ? "called match pattern must be a type" : "called match pattern must be a class";

// Where a frame has what the evaluator often asks for, in pointers from its beginning (checked in frame.cpp): its builtins
// follow its globals.
constexpr int kFrameCode = k311 ? 4 : 0;
constexpr int kFrameGlobals = k311 ? 1 : 3;
constexpr int kFramePointer = 7;   // to the instruction
constexpr int kFrameStackTop = 8;  // an int, and whose frame it is
constexpr int kFrameSlots = 9;
constexpr int kFrameOwner = 8 * kFrameStackTop + (k311 ? 5 : 6);  // in bytes
constexpr char kOwnedByGenerator = 1;
// The frame object of a generator that has raised leads to who resumed it.
constexpr bool kEndedGeneratorKnowsCaller = !k311;
// generator.close() gives what the generator returns, and a call of throw() with more than an exception warns.
constexpr bool kCloseGivesResult = k313;
constexpr bool kThrowOfThreeWarns = !k311;
// Finalizers of what a frame held, when it's dropped, run at the recursion depth of its callees.
constexpr bool kFinalizersCountAsCallees = k311;
// In bytes. 3.11: whether CPython's evaluator was entered with the frame; later: how far behind a call it goes on. No one but
// that evaluator reads it, and sets it first.
constexpr int kFrameMark = 8 * kFrameStackTop + 4;

// A frame keeps the dict that locals() gives, which is brought up to date at each call; later it is a new one each time.
constexpr bool kLocalsAreKept = !k313;

// What monitoring tools have of a code object (3.12+), in bytes from its beginning.
#if PY_VERSION_HEX >= 0x030C0000
constexpr size_t kCodeMonitoring = offsetof(PyCodeObject, _co_monitoring);
#else
constexpr size_t kCodeMonitoring = 0;
#endif

// The pointer of a frame is the unit before the next instruction, and the instruction itself while it runs; 3.13: the next.
constexpr int kPointerToNext = k313 ? 0 : 1;

// The least co_stacksize that the compiler gives.
constexpr int kSmallestStack = k313 ? 1 : 0;

}  // namespace evalframe::cpython::layout
