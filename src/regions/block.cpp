#include "regions/block.h"

namespace evalframe::regions {

using Kind = Type::Kind;

std::vector<Term> words_of(const Written& value) {
  if (value.type.is_complex()) return {value.number.real, value.number.imag};
  if (value.type.is_number()) return {value.number.real};
  return value.words;
}

Written written_int(const Term& value) { return {.type = {Kind::kInt}, .number = native::exact(DType::int64, value)}; }
Written written_float(const Term& value) { return {.type = {Kind::kFloat}, .number = native::exact(DType::float64, value)}; }
Written written_bool(const Term& value) { return {.type = {Kind::kBool}, .number = native::exact(DType::bool_, value)}; }
Written written_complex(const Term& real, const Term& imag) { return {.type = {Kind::kComplex}, .number = native::make(DType::complex128, real, imag)}; }
Written written_scalar(const native::Value& value) { return {.type = {Kind::kNumpy, value.dtype}, .number = value}; }

Written written_constant(Emitter& emitter, PyObject* constant) {
  const Type type = type_of(constant);
  Written value{.type = type, .constant = constant};
  int64_t word = 0;
  switch (type.kind) {
    case Kind::kInt: value.number = native::exact(DType::int64, emitter.integer("i64", PyLong_AsLongLong(constant))); break;
    case Kind::kFloat: value.number = native::exact(DType::float64, emitter.number("double", PyFloat_AS_DOUBLE(constant))); break;
    case Kind::kBool: value.number = native::exact(DType::bool_, emitter.integer("i1", constant == Py_True ? -1 : 0)); break;
    case Kind::kNumpy: {
      if (native::is_float(type.dtype) || type.is_complex()) throw Unsupported("a NumPy number that is known");
      unbox(type, constant, &word);
      if (graph::size_of(type.dtype) < 8) word &= (int64_t{1} << graph::size_of(type.dtype) * 8) - 1;
      value.number = native::exact(type.dtype, emitter.integer(native::register_type(type.dtype), word));
      break;
    }
    case Kind::kComplex: {
      const Py_complex parts = PyComplex_AsCComplex(constant);
      value.number = native::make(DType::complex128, emitter.number("double", parts.real), emitter.number("double", parts.imag));
      break;
    }
    default: value.type = {Kind::kObject};
  }
  return value;
}

Written written(const Type& type, std::vector<Term> words) {
  Written value{.type = type};
  switch (type.kind) {
    case Kind::kInt: value.number = native::exact(DType::int64, words[0]); break;
    case Kind::kFloat: value.number = native::exact(DType::float64, words[0]); break;
    case Kind::kBool: value.number = native::exact(DType::bool_, words[0]); break;
    case Kind::kComplex: value.number = native::make(DType::complex128, words[0], words[1]); break;
    case Kind::kNumpy: value.number = type.is_complex() ? native::make(type.dtype, words[0], words[1]) : native::exact(type.dtype, words[0]); break;
    default: value.words = std::move(words);
  }
  return value;
}

void Block::leave_unless(const Term& holds) {
  const std::string next = new_label();
  emitter.line("br i1 " + holds.ref + ", label %" + next + ", label %" + leave_ + ", !prof !0");
  emitter.label(next);
}

void Block::watch(const native::Value& result) {
  watch(result.real);
  if (native::is_complex(result.dtype)) watch(result.imag);
}

void Block::look_at_conditions() {
  if (watched_.empty()) return;
  // The processor's flags say what all of these and what led to them have met; no optimisation looks into the assembly.
  for (const Term& result : watched_) emitter.line("call void asm sideeffect \"\", \"x\"(" + result.type + " " + result.ref + ")");
  watched_.clear();
  emitter.line("call void asm sideeffect \"stmxcsr $0\", \"=*m\"(ptr elementtype(i32) %conditions)");
  const Term met = emitter.let("i32", "load volatile i32, ptr %conditions");
  const Term reported = {&emitter, "i32", "%reported"};
  leave_unless(compare("eq", met & reported, 0));
}

native::Value Block::load(DType dtype, const Term& address) {
  native::Value value = native::load_element(emitter, dtype, address.ref, "");
  for (const Store& store : stores) {
    const Term here = compare("eq", address, store.address);
    const bool is_same = store.value.dtype == dtype, is_complex = native::is_complex(dtype);
    if (!is_same || is_complex) {
      // Of another type, or of two parts that each are aligned: any other overlap is left to NumPy.
      const Term a = convert("ptrtoint", address, "i64"), b = convert("ptrtoint", store.address, "i64");
      const Term overlaps = compare("ult", b - a + 15.0, 31);
      leave_if(is_same ? overlaps & !here : overlaps);
    }
    if (!is_same) continue;
    value.real = select(here, store.value.real, value.real);
    if (is_complex) value.imag = select(here, store.value.imag, value.imag);
  }
  return value;
}

void Block::write_stores() {
  for (const Store& store : stores) native::store_element(emitter, store.value, store.address.ref, "");
  stores.clear();
}

}  // namespace evalframe::regions
