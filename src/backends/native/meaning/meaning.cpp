// What a recorded node means for arrays, by its form and by what it calls.
#include "backends/native/meaning/meaning.h"

#include "backends/native/meaning/arguments.h"
#include "backends/native/meaning/functions.h"
#include "backends/native/meaning/products.h"

namespace evalframe::native {

bool is_elementary(const Meaning& meaning) {
  if (meaning.sense != Sense::kMap) return false;
  switch (meaning.op) {
#define EVALFRAME_MATH1(name, c_name) case ScalarOp::name:
#define EVALFRAME_MATH2(name, c_name) case ScalarOp::name:
#include "backends/native/math/vector_math.def"
      return true;
    case ScalarOp::absolute:
      return is_complex(meaning.loop);
    case ScalarOp::multiply_fused: case ScalarOp::square_fused:
      return products_of(meaning.loop) == Products::kMixed;
    default:
      return false;
  }
}

Meanings::Meanings(const Graph& graph, Reader reader) : graph_(graph), reader_(reader) {
  std::vector<int64_t> sizes;
  for (const Ref& constant : graph.constants) {
    Meta meta = graph::meta_of(constant.get(), sizes);
    // A constant array's sizes stand elsewhere than in the graph: it is read by calls only.
    if (meta.kind == Kind::kArray) meta = Meta{};
    constants_.push_back(meta);
  }
}

const Meta& Meanings::meta(Operand operand) const {
  static const Meta none;
  if (operand.space == Operand::Space::kConstant) return constants_[operand.index];
  const Meta* found = graph_.meta_of(operand);
  return found ? *found : none;
}

PyObject* Meanings::constant(Operand operand) const {
  return operand.space == Operand::Space::kConstant ? graph_.constants[operand.index].get() : nullptr;
}

bool Meanings::is_element(Operand operand) const {
  const Meta& known = meta(operand);
  return is_typed(known) || is_number(known.kind) || known.kind == Kind::kComplex;
}

Meaning Meanings::of(int32_t index) const {
  const Node& node = graph_.nodes[index];
  const Operand* operands = graph_.operands_of(node);
  const Ufuncs& table = ufuncs();
  Meaning meaning;
  switch (node.form) {
    case Form::kCall: meaning = call(node); break;
    case Form::kBinary:
      meaning = map(node, table.by_binary[node.code % bytecode::kBinaryOps], operands, 2,
                    node.code >= bytecode::kBinaryOps ? operands[0] : Operand{});
      break;
    case Form::kUnary: meaning = map(node, table.by_unary[node.code], operands, 1, {}); break;
    case Form::kCompare: meaning = map(node, table.by_compare[node.code], operands, 2, {}); break;
    case Form::kGetItem: meaning = subscript(node); break;
    case Form::kGetAttr: meaning = attribute(node); break;
    case Form::kSetItem: meaning = store(node); break;
    case Form::kTuple: case Form::kSlice: case Form::kCheck: case Form::kTruth: case Form::kList:
    case Form::kIterator: case Form::kCheckMeta: break;
  }
  if (meaning.sense == Sense::kCall && quick(node)) meaning.sense = Sense::kQuick;
  return meaning;
}

// Nodes that neither make arrays nor warn nor change anything.
bool Meanings::quick(const Node& node) const {
  const Operand* operands = graph_.operands_of(node);
  switch (node.form) {
    case Form::kTuple: case Form::kSlice: case Form::kList: case Form::kCheckMeta: return true;
    case Form::kCheck: case Form::kTruth: return is_number(meta(operands[0]).kind);
    case Form::kUnary: return is_number(meta(operands[0]).kind);
    case Form::kBinary: case Form::kCompare: return is_number(meta(operands[0]).kind) && is_number(meta(operands[1]).kind);
    case Form::kGetAttr: {
      if (meta(operands[0]).kind != Kind::kArray) return false;
      PyObject* const name = graph_.constants[node.callable].get();
      for (const char* quiet : {"shape", "ndim", "size", "dtype", "T", "itemsize", "nbytes", "strides"}) {
        if (PyUnicode_CompareWithASCIIString(name, quiet) == 0) return true;
      }
      return false;
    }
    case Form::kGetItem: {
      // An item of a tuple that the graph itself made: a size of a shape.
      if (operands[0].space != Operand::Space::kNode || meta(operands[1]).kind != Kind::kInt) return false;
      const Node& container = graph_.nodes[operands[0].index];
      return node.meta.kind == Kind::kInt && (container.form == Form::kTuple || container.form == Form::kGetAttr);
    }
    case Form::kCall: {
      // A new array of no interest until it is written.
      const std::optional<Known> known = known_function(graph_.constants[node.callable].get());
      return known && (known->function == Function::kFill || known->function >= Function::kCreate) && is_typed(node.meta);
    }
    case Form::kSetItem: case Form::kIterator: return false;
  }
  return false;
}

Meaning Meanings::call(const Node& node) const {
  PyObject* const callable = graph_.constants[node.callable].get();
  const std::optional<Known> known = known_function(callable);
  if (!known) return {};
  switch (known->function) {
    case Function::kUfunc: return ufunc_call(node, callable, known->op);
    case Function::kReduction: return reduction(node, known->reduce, known->statistic);
    case Function::kWhere: return where(node);
    case Function::kClip: return clip(node);
    case Function::kCast: return cast(node);
    case Function::kCopy: return copy(node);
    case Function::kCopyInCOrder: {
      Meaning meaning = copy(node);
      meaning.c_order = true;
      return meaning;
    }
    case Function::kCreate: return {};
    // What NumPy finds in memory may be zeros. Where kernels write into it, it is better to have none.
    case Function::kEmpty: return reader_ == Reader::kLoop ? fill(node, Filling::kZero) : Meaning{};
    case Function::kEmptyLike: return reader_ == Reader::kLoop ? fill(node, Filling::kZeroLike) : Meaning{};
    case Function::kFill: return fill(node, known->filling);
    case Function::kRound: return round(node);
    case Function::kOuter: return outer(node);
    case Function::kRoll: return roll(node);
    case Function::kDifference: return difference(node);
    case Function::kView: return view(node, known->view);
  }
  return {};
}

}  // namespace evalframe::native
