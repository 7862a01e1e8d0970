// The arguments of a recorded call, by name, and small questions about them.
#pragma once

#include <string>
#include <string_view>

#include "backends/native/meaning/meaning.h"

namespace evalframe::native {

// `all_known` is false if there is an argument that the reader didn't ask for.
struct Meanings::Arguments {
  const graph::Graph& graph;
  const graph::Node& node;
  size_t known = 0;
  int positional() const { return static_cast<int>(node.count - node.keywords); }
  // By position (-1: keyword only) or by name; no space if absent.
  graph::Operand get(int position, std::string_view name) {
    const graph::Operand* operands = graph.operands_of(node);
    if (position >= 0 && position < positional()) return known++, operands[position];
    for (int i = 0; i < node.keywords; i++) {
      PyObject* const keyword = PyTuple_GET_ITEM(graph.constants[node.keyword_names].get(), i);
      if (PyUnicode_CompareWithASCIIString(keyword, std::string(name).c_str()) == 0) return known++, operands[positional() + i];
    }
    return {};
  }
  bool all_known() const { return known == node.count; }
};

// Axes are bits of a number.
inline constexpr int kMaxRank = 16;

inline bool is_typed(const graph::Meta& meta) {
  return (meta.kind == graph::Kind::kArray || meta.kind == graph::Kind::kNumpyScalar) && meta.dtype != DType::kNone && meta.rank <= kMaxRank;
}

inline bool read_int(PyObject* object, int64_t& value) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return !overflow;
}

}  // namespace evalframe::native
