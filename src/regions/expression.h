// New arrays of native loops, element by element: put together until someone needs them in memory, and then computed by one kernel.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "regions/block.h"

namespace evalframe::regions {

using ExpressionRef = std::shared_ptr<Expression>;

// An array, a number, or an operation on such.
struct Expression {
  DType dtype = DType::kNone;
  std::vector<Term> sizes;
  std::shared_ptr<Strided> array = {};
  Varies varies = Varies::kAnyhow;  // of an array: where it is, in many turns
  std::shared_ptr<Expression> source = {};  // of an array that was computed
  native::Value number = {};
  native::ScalarOp op = native::ScalarOp::add;
  std::vector<ExpressionRef> operands = {};
  size_t weight = 1;  // of all that it is made of, what is named twice counted twice, as whoever looks at all of it meets it
  // Of what is rolled (rolls.h): the elements of its one operand, an array, are moved on by so many along each axis.
  std::vector<Term> moved = {};
  // Of what a mask keeps (masks.h): of its two operands, an array and the mask.
  bool is_kept = false;
  // A select that is stored where its condition is true, and computed near that only.
  bool skips = false;
  // Where it stands in memory, once it was computed. A part of another one may be computed with that alone.
  std::shared_ptr<Written> made = {};
  bool is_computed = false;

  bool is_leaf() const { return operands.empty(); }
  bool is_rolled() const { return !moved.empty(); }
};

ExpressionRef leaf(Block& block, const Written& array);
ExpressionRef leaf(const native::Value& number);
ExpressionRef operation(native::ScalarOp op, DType dtype, std::vector<ExpressionRef> operands);
// From which weight of its operands on these are computed before what is made of them.
inline constexpr size_t kMostWeight = 256;
// The operation's sizes by the rules of broadcasting; leaves where they don't fit.
void broadcast(Block& block, Expression& expression);
// Bytes from one element to the next along an axis of a result of that size: none where the array has one element for all.
Term stretched(Block& block, const Term& size, const Term& stride, const Term& of);
// Of an array that is broadcast to these sizes.
std::vector<Term> strides_within(Block& block, const Expression& leaf, const std::vector<Term>& sizes);
ExpressionRef cast_to(ExpressionRef operand, DType dtype);
Written written_array(ExpressionRef expression);

// Sizes of new arrays of two dimensions, for which nothing wraps around: what is larger is left to NumPy.
inline constexpr int64_t kMostSize = 1 << 20;
// Leaves unless the array's axes are in C order, as those of new ones are: NumPy gives what it makes of others their order.
void require_c_order(Block& block, const Strided& array);
// ... and all arrays that it is made of, where someone sees its order.
void require_c_order(Block& block, const Written& array);

// What the text of a kKernel begins with where operands are rolled: as many rows of no elements follow its operands, whose steps say by how
// many rows and columns each of them is moved on.
inline constexpr std::string_view kRolled = "rolled ";

// Computes it, if that wasn't done: an array in memory.
Written computed(Block& block, const Written& array);

// What computes it, and what that is called with: arrays and numbers.
struct KernelOfArrays {
  native::Kernel kernel;
  std::vector<const Expression*> inputs;
};
KernelOfArrays kernel_of(Expression& expression);
// Those of its inputs that are arrays, in the same order.
std::vector<const Expression*> arrays_of(const Expression& expression);

// Whether it may be computed when it is stored (Block::Store). What it is made of is computed with it.
bool may_compute_for(const ExpressionRef& expression, const Strided& to);
// Whether it may be computed in the array itself (an i1): they are as many elements, in rows of neighbours, and nothing that it reads stands there in another
// place.
Term may_compute_in(Block& block, const Expression& expression, const Strided& to);
// Computes it in the array itself where `in_place` holds, and else in new memory: the elements there, for an array of these sizes. Leaves where they are
// neither as many nor one.
Strided computed_for(Block& block, const ExpressionRef& expression, const Strided& to, const Term& in_place);
// An array's elements as those of one of these sizes.
Strided spread(Block& block, Strided from, const Strided& to);

}  // namespace evalframe::regions
