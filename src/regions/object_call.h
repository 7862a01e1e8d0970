// Operations that a native loop leaves to NumPy: it gets objects for its operands, and what it makes of them is held until the loop is left.
#pragma once

#include <memory>

#include "regions/array_node.h"
#include "regions/routine.h"

namespace evalframe::regions {

// An operand, to be made an object from words.
struct Given {
  enum class Kind : uint8_t { kKnown, kObject, kValue, kTuple, kList, kSlice };
  Kind kind = Kind::kKnown;
  int32_t known = -1;  // kKnown: which of the constants; kObject: which of the region's objects
  Type type = {};      // kValue
  int32_t word = 0;    // kValue: where its words begin
  std::vector<Given> items = {};
};

struct ObjectCall {
  graph::Graph graph;  // the node alone, with the constants that it knows
  std::vector<Given> operands;
  Type result;         // an array or a number; kUnbound: it stores
  bool may_report = true;  // floating-point conditions
};

// Where its words stand.
inline constexpr const char* kCallWords = "%call.words";
inline constexpr int kMostCallWords = 96;

// Whether the operation, which isn't computed by the loop itself, may be left to NumPy.
bool may_be_object_call(const graph::Graph& graph, const native::Meanings& meanings, int32_t index);
// Whether it draws a number from a random generator, which can't be undone.
bool is_draw(const graph::Graph& graph, const graph::Node& node);
// Throws Unsupported. Nothing is to be stored yet, and what was put off and is changed is computed.
Written object_call(const ArrayNodes& nodes, int32_t index);

}  // namespace evalframe::regions
