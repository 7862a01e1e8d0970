// The graph as recorded: a straight line of nodes, each of which can be run by calling what the program called.
//
// A node says *how it was called* (its Form, operands and callable), and what came out when it was recorded (its Meta).
// What it *means* for arrays (map, reduce, view, store ...) is worked out by the front end when a backend asks for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ref.h"

namespace evalframe::graph {

enum class DType : uint8_t {
#define EVALFRAME_DTYPE(name, number, size, kind, llvm) name,
#include "graph/dtypes.def"
#undef EVALFRAME_DTYPE
  kNone,  // not an array or scalar of these types
};
const char* name(DType dtype);
int size_of(DType dtype);        // bytes of one element; 0 for kNone
char kind_of(DType dtype);       // 'b', 'i', 'u', 'f', 'c', or 'O' for kNone

// What kind of Python object a value is.
enum class Kind : uint8_t { kArray, kNumpyScalar, kInt, kFloat, kBool, kComplex, kNone, kObject, kTensor };

// What was seen of a value while recording. Sizes of arrays are those of the recorded run: examples, not facts.
struct Meta {
  Kind kind = Kind::kObject;
  DType dtype = DType::kNone;  // arrays and NumPy scalars; native byte order, else kNone
  int8_t rank = 0;
  bool writeable = true;
  uint32_t shape = 0;  // arrays and tensors: where `rank` sizes and then `rank` strides (bytes) stand in Graph::sizes
};
// Meta of a live object; appends its sizes and strides to `sizes`.
Meta meta_of(Borrowed object, std::vector<int64_t>& sizes);

enum class Form : uint8_t {
#define EVALFRAME_FORM(name, text, operands, codes) name,
#include "graph/forms.def"
#undef EVALFRAME_FORM
};
const char* name(Form form);

// What a node refers to: an input, an earlier node, or a constant.
struct Operand {
  enum class Space : uint8_t { kNone, kInput, kNode, kConstant };
  Space space = Space::kNone;
  int32_t index = -1;
  bool operator==(const Operand&) const = default;
  explicit operator bool() const { return space != Space::kNone; }
  static Operand input(int32_t i) { return {Space::kInput, i}; }
  static Operand node(int32_t i) { return {Space::kNode, i}; }
  static Operand constant(int32_t i) { return {Space::kConstant, i}; }
};

// Where in the program a node comes from.
struct Origin {
  int32_t frame = 0;        // index into Graph::frames
  int32_t instruction = 0;  // canonical instruction index in that frame's code
  bool operator==(const Origin&) const = default;
};

struct Node {
  Form form;
  uint8_t code = 0;          // of an operator or a position, see forms.def
  uint16_t keywords = 0;     // kCall: how many of the operands are keyword values
  uint32_t operands = 0;     // first operand in Graph::operands
  uint32_t count = 0;        // number of operands
  int32_t callable = -1;     // kCall: constant index of the callable; kGetAttr: of the name
  int32_t keyword_names = -1;  // constant index of the tuple of names
  Origin origin;
  Meta meta;                 // of the result as recorded
};

struct Input {
  Meta meta;
  std::string name;  // how a person would name it: `x`, `self.weight`, `np`
  uint64_t varies = 0;  // kTensor: a bit for each dimension whose size is another from run to run
};

// The frame of an inlined call, for origins: which code ran, called from where.
struct Frame {
  Borrowed code;
  int32_t parent = -1;         // index into Graph::frames, or -1
  int32_t call_instruction = -1;
  bool is_torchs = false;             // of a function of torch's own
  std::vector<int32_t> passing = {};  // where handlers begin that end what was begun, and raise again what they got
};

// Owns its constants. Node and input order is program order; effects happen in it.
struct Graph {
  std::vector<Input> inputs;
  std::vector<Node> nodes;
  std::vector<Operand> operands;
  std::vector<Ref> constants;
  std::vector<int64_t> sizes;
  std::vector<Frame> frames;

  const Operand* operands_of(const Node& node) const { return operands.data() + node.operands; }
  const Meta* meta_of(Operand operand) const;  // of an input or node; null for a constant
  double elements_of(const Meta& meta) const;  // as recorded; 0 for what isn't an array
};

// A point at which execution may leave the graph: before node `node` (== nodes.size(): at its end).
// `values` are what the interpreter's state needs there, in the order of the exit's recipe.
struct ExitPoint {
  int32_t node;
  std::vector<Operand> values;
};

// Text of the graph, one line a node; stable, for tests and people.
std::string print(const Graph& graph);
// One line of it, without its end.
std::string print_input(const Graph& graph, int32_t index);
std::string print_node(const Graph& graph, int32_t index);
// Empty, or what is wrong: operand before its definition, index out of range, wrong operand count for a form.
std::string verify(const Graph& graph);

}  // namespace evalframe::graph
