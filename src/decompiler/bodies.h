// What belongs to a body besides its statements: docstrings, declarations, and what the compiler adds to classes.
#pragma once

#include "decompiler/tree.h"

namespace evalframe::decompiler {

// The free variables of a code object are its last slots.
inline int first_free(const PyCodeObject* code) { return code->co_nlocalsplus - code->co_nfreevars; }
// Null, and no exception, where it's damaged.
const bytecode::Code* decoded_if_possible(PyCodeObject* code);

// `around`: the code objects of the functions and classes around this one, outermost first.
void finish_function(Tree& tree, PyCodeObject* code, const std::vector<PyCodeObject*>& around, Nodes& body);
void finish_class(Tree& tree, PyCodeObject* code, const std::vector<PyCodeObject*>& around, Nodes& body);
void finish_module(Tree& tree, PyCodeObject* code, Nodes& body);
// All variables, in their order, for code whose source doesn't store each; free ones that it doesn't mention, too.
void keep_variables(Tree& tree, PyCodeObject* code, Nodes& body);
bool keeps_free_variables(PyCodeObject* code, const Nodes& body);
void finish_lambda(Nodes& body);
void finish_comprehension(Nodes& body);

// What stands for a body that is refused, and for the value of a lambda.
Node* refused_expression(Tree& tree, PyCodeObject* code, const std::string& reason);
Nodes refused_body(Tree& tree, PyCodeObject* code, const std::string& reason);

}  // namespace evalframe::decompiler
