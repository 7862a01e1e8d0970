// The arguments of a recorded call, by name, and small questions about them.
#pragma once

#include <string>
#include <string_view>

#include "backends/native/meaning/meaning.h"

namespace evalframe::native {

// `all_known` is false if there is an argument that the reader didn't ask for.
struct Meanings::Arguments {
  const Graph& graph;
  const Node& node;
  size_t known = 0;
  int positional() const { return static_cast<int>(node.count - node.keywords); }
  // By position (-1: keyword only) or by name; no space if absent.
  Operand get(int position, std::string_view name) {
    const Operand* operands = graph.operands_of(node);
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

inline bool is_typed(const Meta& meta) {
  return (meta.kind == Kind::kArray || meta.kind == Kind::kNumpyScalar) && meta.dtype != DType::kNone && meta.rank <= kMaxRank;
}

inline bool is_number(Kind kind) { return kind == Kind::kInt || kind == Kind::kFloat || kind == Kind::kBool; }

// Whether a number of this kind becomes an element of `dtype` as it is.
inline bool fits(Kind number, DType dtype) {
  switch (graph::kind_of(dtype)) {
    case 'b': return number == Kind::kBool;
    case 'i': case 'u': return number == Kind::kInt || number == Kind::kBool;
    default: return is_number(number);
  }
}

// Whether NumPy warns of casts between these types: an imaginary part is dropped.
inline bool warns_of_cast(DType from, DType to) { return is_complex(from) && !is_complex(to); }

inline bool read_int(PyObject* object, int64_t& value) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return !overflow;
}

}  // namespace evalframe::native
