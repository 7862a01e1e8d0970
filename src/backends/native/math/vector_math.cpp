// Calls of elementary functions in generated code, with what LLVM's loop vectoriser must know to call their vector forms.
#include "backends/native/math/vector_math.h"

#include <stdexcept>

#include "backends/native/machine/processor.h"

namespace evalframe::native::math {
namespace {

std::string joined(const std::string& type, int count) { return count == 1 ? type : type + ", " + type; }

std::string full_name(const char* function, const std::string& type) { return std::string("evalframe_") + function + (type == "double" ? "_f64" : "_f32"); }

Term apply(const char* function, std::initializer_list<Term> arguments) {
  Emitter& emitter = *arguments.begin()->emitter;
  const std::string& type = arguments.begin()->type;
  const int count = static_cast<int>(arguments.size());
  const std::string name = full_name(function, type);
  emitter.need("declare " + type + " @" + name + "(" + joined(type, count) + ") nounwind willreturn memory(none)" + vector_forms(emitter, name, name, std::vector<std::string>(static_cast<size_t>(count), type)));
  std::string values;
  for (const Term& argument : arguments) values += (values.empty() ? "" : ", ") + type + " " + argument.ref;
  return emitter.let(type, "call " + type + " @" + name + "(" + values + ")");
}

Term apply_c(const char* function, const char* c_name, const Term& x) {
  // LLVM would compute a function beforehand that it knows by its name, and looks for no vector forms of one that it is told not to know.
  const std::string name = std::string("evalframe_c_") + c_name + (x.type == "double" ? "" : "f");
  x.emitter->need("declare " + x.type + " @" + name + "(" + x.type + ") nounwind willreturn memory(none)" + vector_forms(*x.emitter, full_name(function, x.type), name, {x.type}));
  return x.emitter->let(x.type, "call " + x.type + " @" + name + "(" + x.type + " " + x.ref + ")");
}

}  // namespace

std::string vector_forms(Emitter& emitter, const std::string& operation, const std::string& scalar, const std::vector<std::string>& arguments) {
  const int bytes = vector_bytes();
  if (!bytes) return {};
  const int whole = bytes / (arguments[0] == "double" ? 8 : 4);
  std::string rows;
  // Half a vector: a loop over doubles too takes as many floats as there are doubles in a vector; and for the last elements.
  for (const int lanes : {whole, whole / 2}) {
    const auto in_lanes = [&](const std::string& type) { return "<" + std::to_string(lanes) + " x " + type + ">"; };
    const std::string name = operation + "x" + std::to_string(lanes);
    std::string parameters;
    for (const std::string& type : arguments) parameters += (parameters.empty() ? "" : ", ") + in_lanes(type);
    emitter.need("declare " + in_lanes(arguments[0]) + " @" + name + "(" + parameters + ")");
    rows += (rows.empty() ? "" : ",") + ("_ZGV_LLVM_N" + std::to_string(lanes)) + std::string(arguments.size(), 'v') + "_" + scalar + "(" + name + ")";
  }
  return " \"vector-function-abi-variant\"=\"" + rows + "\"";
}

#define EVALFRAME_MATH1(name, c_name) \
  Term name(const Term& x) { return apply(#name, {x}); }
#define EVALFRAME_MATH2(name, c_name) \
  Term name(const Term& x, const Term& y) { return apply(#name, {x, y}); }
#include "backends/native/math/vector_math.def"

Term of_one(ScalarOp op, const Term& x) {
  switch (op) {
#define EVALFRAME_MATH1(name, c_name) \
  case ScalarOp::name: return apply_c(#name, #c_name, x);
#define EVALFRAME_MATH2(name, c_name)
#include "backends/native/math/vector_math.def"
    default: throw std::runtime_error("no elementary function of one number");
  }
}

}  // namespace evalframe::native::math
