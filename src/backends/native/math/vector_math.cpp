// Calls of elementary functions in generated code, with what LLVM's loop vectoriser must know to call their vector forms.
#include "backends/native/math/vector_math.h"

#include "backends/native/machine/processor.h"

namespace evalframe::native::math {
namespace {

std::string joined(const std::string& type, int count) { return count == 1 ? type : type + ", " + type; }

// Declares a vector form, keeps it from being dropped before the vectoriser asks for it, and returns its row of the attribute.
std::string variant(Emitter& emitter, const std::string& scalar, const std::string& type, int lanes, int arguments) {
  const std::string name = scalar + "x" + std::to_string(lanes);
  const std::string vector = "<" + std::to_string(lanes) + " x " + type + ">";
  emitter.need("declare " + vector + " @" + name + "(" + joined(vector, arguments) + ")");
  emitter.keep("@" + name);
  return "_ZGV_LLVM_N" + std::to_string(lanes) + (arguments == 1 ? "v_" : "vv_") + scalar + "(" + name + ")";
}

Term apply(const std::string& function, std::initializer_list<Term> arguments) {
  Emitter& emitter = *arguments.begin()->emitter;
  const std::string& type = arguments.begin()->type;
  const int count = static_cast<int>(arguments.size());
  const bool wide = type == "double";
  const std::string name = "evalframe_" + function + (wide ? "_f64" : "_f32");
  std::string attribute;
  if (const int bytes = vector_bytes()) {
    const int lanes = bytes / (wide ? 8 : 4);
    // Half a vector: a loop over doubles too takes as many floats as there are doubles in a vector; and for the last elements.
    attribute = variant(emitter, name, type, lanes, count) + "," + variant(emitter, name, type, lanes / 2, count);
    attribute = " \"vector-function-abi-variant\"=\"" + attribute + "\"";
  }
  emitter.need("declare " + type + " @" + name + "(" + joined(type, count) + ") nounwind willreturn memory(none)" + attribute);
  std::string values;
  for (const Term& argument : arguments) values += (values.empty() ? "" : ", ") + type + " " + argument.ref;
  return emitter.let(type, "call " + type + " @" + name + "(" + values + ")");
}

}  // namespace

#define EVALFRAME_MATH1(name, c_name) \
  Term name(const Term& x) { return apply(#name, {x}); }
#define EVALFRAME_MATH2(name, c_name) \
  Term name(const Term& x, const Term& y) { return apply(#name, {x, y}); }
#include "backends/native/math/vector_math.def"

}  // namespace evalframe::native::math
