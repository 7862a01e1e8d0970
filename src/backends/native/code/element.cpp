// Elements in registers, with NumPy's casts.
#include "backends/native/code/element.h"

namespace evalframe::native {
namespace {

const char* memory_type(DType dtype) {
  constexpr const char* kTypes[] = {
#define EVALFRAME_DTYPE(name, number, size, kind, llvm) llvm,
#include "graph/dtypes.def"
#undef EVALFRAME_DTYPE
  };
  return kTypes[static_cast<int>(dtype)];
}

// Rounds a float16 value's register form to what float16 can hold.
Term round_to_half(const Term& x) { return convert("fpext", convert("fptrunc", x, "half"), "float"); }

// The conversion of double to float with the inexact result made odd, so that rounding on to float16 rounds only once.
Term to_float_odd(const Term& x) {
  const Term nearest = convert("fptrunc", x, "float");
  const Term wide = convert("fpext", nearest, "double");
  const Term bits = as_bits(nearest);
  const Term too_big = compare("ugt", as_bits(wide) & x.emitter->integer("i64", INT64_MAX),
                               as_bits(x) & x.emitter->integer("i64", INT64_MAX));
  const Term odd = (bits - convert("zext", too_big, "i32")) | x.emitter->integer("i32", 1);
  const Term inexact = compare("one", wide, x);
  return as_float(select(inexact, odd, bits));
}

// x86's conversions give the lowest integer for what doesn't fit. LLVM's instruction leaves it open, and so takes a number that goes
// there and back for the number itself: it is shown neither what it converts nor that what comes out is one's whole part.
Term to_signed(const Term& x, const std::string& type) {
  const Term converted = convert("fptosi", hidden(x), type);
  return hidden(x.emitter->let(type, "freeze " + type + " " + converted.ref));
}

// For what it doesn't hold, NumPy's loop has one result in vectors and another in the last elements and in arrays with gaps.
void report_outside_uint32(const Term& x) {
  Emitter& emitter = *x.emitter;
  const Term negative = x.type == "double" ? compare("ogt", x, emitter.number(x.type, -0x1p31 - 1)) : compare("oge", x, emitter.number(x.type, -0x1p31));
  emitter.report(Condition::kByPlace, !(negative & compare("olt", x, emitter.number(x.type, 0x1p32))));
}

Term float_to_integer(const Term& x, DType from, DType to) {
  // Narrower types take the low bits, as NumPy's casts.
  if (to == DType::uint64) {
    const Term limit = x.emitter->number(x.type, 9223372036854775808.0);
    const Term big = quiet_less_equal(limit, x);
    const Term part = to_signed(select(big, x - limit, x), "i64");
    return select(big, part ^ x.emitter->integer("i64", INT64_MIN), part);
  }
  if (to == DType::uint32 && from != DType::float16) report_outside_uint32(x);
  const bool wide = to == DType::uint32 || to == DType::int64;
  return convert("trunc", to_signed(x, wide ? "i64" : "i32"), register_type(to));
}

Term cast_term(const Term& x, DType from, DType to) {
  Emitter& emitter = *x.emitter;
  const std::string type = register_type(to);
  if (to == DType::bool_) {
    if (from == DType::bool_) return x;
    return is_float(from) ? compare("une", x, emitter.number(x.type, 0.0)) : compare("ne", x, 0);
  }
  if (is_float(from)) {
    if (!is_float(to)) return float_to_integer(x, from, to);
    if (to == DType::float16) return from == DType::float64 ? round_to_half(to_float_odd(x)) : round_to_half(x);
    return convert(to == DType::float64 ? "fpext" : "fptrunc", x, type);
  }
  if (is_float(to)) {
    const char* instruction = is_signed(from) ? "sitofp" : "uitofp";
    // NumPy goes through float for float16; the wider integers' rounding is the same, as float has more than twice its bits.
    const Term number = convert(instruction, x, type);
    // Hidden, as LLVM knows both values of a bool.
    return hidden(to == DType::float16 ? round_to_half(number) : number);
  }
  const int before = from == DType::bool_ ? 1 : bits_of(from);
  if (bits_of(to) == before) return x;
  return convert(bits_of(to) < before ? "trunc" : is_signed(from) ? "sext" : "zext", x, type);
}

}  // namespace

DType component(DType dtype) {
  if (dtype == DType::complex64) return DType::float32;
  if (dtype == DType::complex128) return DType::float64;
  return dtype;
}

int bits_of(DType dtype) { return graph::size_of(dtype) * 8; }

std::string register_type(DType dtype) {
  if (dtype == DType::bool_) return "i1";
  return dtype == DType::float16 ? "float" : memory_type(dtype);
}

Value make(DType dtype, const Term& real) {
  return {dtype, dtype == DType::float16 ? round_to_half(real) : real, {}};
}
Value make(DType dtype, const Term& real, const Term& imag) { return {dtype, real, imag}; }
Value exact(DType dtype, const Term& real) { return {dtype, real, {}}; }

Term zero(Emitter& emitter, DType dtype) {
  const std::string type = register_type(dtype);
  return is_float(component(dtype)) ? emitter.number(type, 0.0) : emitter.integer(type, 0);
}

Term truth(Emitter& emitter, const Value& value) {
  if (value.dtype == DType::bool_) return value.real;
  if (is_complex(value.dtype)) {
    const Term nothing = zero(emitter, value.dtype);
    return compare("une", value.real, nothing) | compare("une", value.imag, nothing);
  }
  return cast_term(value.real, value.dtype, DType::bool_);
}

Value cast(const Value& value, DType dtype) {
  const DType from = component(value.dtype);
  if (value.dtype == dtype) return value;
  if (dtype == DType::bool_) return exact(dtype, truth(*value.real.emitter, value));
  const Term real = cast_term(value.real, from, component(dtype));
  if (!is_complex(dtype)) return exact(dtype, real);
  if (is_complex(value.dtype)) return make(dtype, real, cast_term(value.imag, from, component(dtype)));
  return make(dtype, real, hidden(zero(*value.real.emitter, dtype)));
}

Value load_element(Emitter& emitter, DType dtype, const std::string& address, const std::string& metadata) {
  const std::string type = memory_type(dtype);
  const auto load = [&](const std::string& from) { return emitter.let(type, "load " + type + ", ptr " + from + ", align 1" + metadata); };
  if (is_complex(dtype)) {
    const std::string second = emitter.let("ptr", "getelementptr i8, ptr " + address + ", i64 " +
                                                      std::to_string(graph::size_of(dtype) / 2)).ref;
    return make(dtype, load(address), load(second));
  }
  const Term loaded = load(address);
  if (dtype == DType::bool_) return exact(dtype, compare("ne", loaded, 0));
  return exact(dtype, dtype == DType::float16 ? convert("fpext", loaded, "float") : loaded);
}

void store_element(Emitter& emitter, const Value& value, const std::string& address, const std::string& metadata) {
  const std::string type = memory_type(value.dtype);
  const auto store = [&](const Term& term, const std::string& to) {
    emitter.line("store " + type + " " + term.ref + ", ptr " + to + ", align 1" + metadata);
  };
  if (value.dtype == DType::bool_) return store(convert("zext", value.real, "i8"), address);
  if (value.dtype == DType::float16) return store(convert("fptrunc", value.real, "half"), address);
  store(value.real, address);
  if (!is_complex(value.dtype)) return;
  store(value.imag, emitter.let("ptr", "getelementptr i8, ptr " + address + ", i64 " +
                                           std::to_string(graph::size_of(value.dtype) / 2)).ref);
}

}  // namespace evalframe::native
