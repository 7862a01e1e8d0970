// The syntax tree as source text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "decompiler/tree.h"

namespace evalframe::decompiler {

std::string expression_text(const Node* node);
// Each statement on lines of its own, `indent` levels deep. `lines` gets, of each function and class, its code object and its first and
// last line, counted from 1.
struct Lines {
  PyObject* code;
  int first, last;
};
// `places`: of statements that know their instruction, that and the line.
std::string statements_text(const Nodes& statements, int indent, std::vector<Lines>* lines = nullptr, std::vector<std::pair<int, int>>* places = nullptr);
// The parameters as they stand between the parentheses.
std::string parameters_text(const Node& function);
// A constant as a literal that is compiled to it.
std::string constant_text(PyObject* value);

}  // namespace evalframe::decompiler
