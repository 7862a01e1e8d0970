// What CALL_INTRINSIC_1 and CALL_INTRINSIC_2 (3.12+) and 3.11's instructions of the same purpose do inside CPython.
#pragma once

#include "core/ref.h"

namespace evalframe::cpython {

// IDs of pycore_intrinsics.h.
enum UnaryIntrinsic : int {
  kPrint = 1,
  kImportStar,
  kStopIterationError,
  kAsyncGenWrap,
  kUnaryPositive,
  kListToTuple,
  kTypeVar,
  kParamSpec,
  kTypeVarTuple,
  kSubscriptGeneric,
  kTypeAlias
};
enum BinaryIntrinsic : int { kPrepReraiseStar = 1, kTypeVarWithBound, kTypeVarWithConstraints, kSetFunctionTypeParameters, kSetTypeParameterDefault };

// For the thread's current frame. Null with an exception.
Ref unary_intrinsic(PyThreadState* thread, int id, Borrowed value);
Ref binary_intrinsic(PyThreadState* thread, int id, Borrowed first, Borrowed second);

// The exception that except* raises in the end: of what its handlers raised and what none of them took.
Ref prep_reraise_star(Borrowed original, Borrowed exceptions);

// What an asynchronous generator yields to the machinery around it.
Ref async_generator_value(Borrowed value);

}  // namespace evalframe::cpython
