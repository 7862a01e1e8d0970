// Python's and NumPy's arithmetic on numbers in registers. What can't be done exactly, raises, or is reported leaves the block.
#pragma once

#include "bytecode/operators.h"
#include "regions/block.h"

namespace evalframe::regions {

// Throw Unsupported. meta: of the result, as recorded; code: as of the graph's forms.
Written binary(Block& block, int code, const Written& a, const Written& b, const graph::Meta& meta);
Written unary(Block& block, int code, const Written& a, const graph::Meta& meta);
Written compare_numbers(Block& block, int code, const Written& a, const Written& b, const graph::Meta& meta);
Term truth(Block& block, const Written& a);

// As a Python int of 64 bits (of ints, bools and NumPy's integers); leaves where it has more.
Term as_int(Block& block, const Written& a);
// As a Python float, exactly or not at all.
Term as_double(Block& block, const Written& a);
// As NumPy converts the operand of an operation, or what is assigned to an element.
native::Value as_operand(Block& block, const Written& a, DType dtype);
native::Value as_element(Block& block, const Written& a, DType dtype);

// A function of C's library.
Term call_c(const std::string& function, std::initializer_list<Term> arguments);
Term is_finite(Block& block, const Term& x);
// Rounded down; the divisor is neither zero, nor -1 of the lowest number.
Term floored_quotient(const Term& a, const Term& b);
// a <operation> b with a sign or not, of any width; leaves where it doesn't fit. operation: add, sub, mul.
Term checked(Block& block, const std::string& operation, bool is_signed, const Term& a, const Term& b);

}  // namespace evalframe::regions
