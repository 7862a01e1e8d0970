// What functions that make new arrays mean: copies, casts, and arrays of one value.
#include "backends/native/meaning/arguments.h"
#include "backends/native/meaning/loops.h"

namespace evalframe::native {

// Whether a copy has the bits of the original: kernels read bytes as truth values, and halves as floats.
static bool keeps_bits(DType dtype) { return dtype != DType::bool_ && dtype != DType::float16; }

Meaning Meanings::copy(const Node& node) const {
  const Operand from = graph_.operands_of(node)[0];
  const Meta& known = meta(from);
  if (node.count != 1 || known.kind != Kind::kArray || !is_typed(known) || !keeps_bits(known.dtype)) return {};
  if (node.meta.kind != Kind::kArray || node.meta.dtype != known.dtype) return {};
  Meaning meaning;
  meaning.sense = Sense::kCast;
  meaning.count = 1;
  meaning.args[0] = from;
  meaning.loop = meaning.result = known.dtype;
  return meaning;
}

Meaning Meanings::cast(const Node& node) const {
  Arguments arguments{graph_, node};
  const Operand array = arguments.get(0, ""), dtype = arguments.get(1, "dtype"), always = arguments.get(-1, "copy");
  if (!array || !constant(dtype) || (always && constant(always) != Py_True) || !arguments.all_known()) return {};
  const Meta& from = meta(array);
  const DType to = dtype_argument(constant(dtype));
  if (from.dtype == to && !keeps_bits(to)) return {};
  if (from.kind != Kind::kArray || !is_typed(from) || to == DType::kNone || to != node.meta.dtype) return {};
  // Dropping the imaginary part warns.
  if (is_complex(from.dtype) && !is_complex(to)) return {};
  if (node.meta.kind != Kind::kArray) return {};
  Meaning meaning;
  meaning.sense = Sense::kCast;
  meaning.count = 1;
  meaning.args[0] = array;
  meaning.loop = from.dtype;
  meaning.result = to;
  return meaning;
}

Meaning Meanings::fill(const Node& node, Filling filling) const {
  const bool like = filling == Filling::kZeroLike || filling == Filling::kOneLike || filling == Filling::kGivenLike;
  const bool given = filling == Filling::kGiven || filling == Filling::kGivenLike;
  Arguments arguments{graph_, node};
  const Operand from = arguments.get(0, like ? "a" : "shape");
  const Operand value = given ? arguments.get(1, "fill_value") : Operand{};
  const Operand dtype = arguments.get(given ? 2 : 1, "dtype");
  if (!from || !arguments.all_known() || (dtype && !constant(dtype)) || node.meta.kind != Kind::kArray || !is_typed(node.meta)) return {};
  Meaning meaning;
  if (like) {
    if (meta(from).kind != Kind::kArray || !is_typed(meta(from))) return {};
    meaning.shape.push_back({Extent::Kind::kShapeOf, 0, from});
  } else if (!read_shape(from, meaning.shape)) {
    return {};
  }
  for (const Extent& extent : meaning.shape) {
    if (extent.kind == Extent::Kind::kRest) return {};
  }
  if (given) {
    const Meta& known = meta(value);
    const bool number = is_typed(known) ? known.kind == Kind::kNumpyScalar : is_element(value);
    // Python numbers that no kernel can read as this type.
    const bool unread = !is_typed(known) && (node.meta.dtype == DType::float16 || node.meta.dtype == DType::complex64);
    if (!number || unread || (is_typed(known) ? warns_of_cast(known.dtype, node.meta.dtype) : !fits(known.kind, node.meta.dtype))) return {};
    meaning.args[0] = value;
    meaning.count = 1;
  }
  meaning.number = filling == Filling::kOne || filling == Filling::kOneLike;
  meaning.sense = Sense::kFill;
  meaning.like = like;
  meaning.loop = meaning.result = node.meta.dtype;
  return meaning;
}

}  // namespace evalframe::native
