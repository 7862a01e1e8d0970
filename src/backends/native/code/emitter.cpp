// Writes LLVM IR text for straight-line code on elements.
#include "backends/native/code/emitter.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>

#include "core/check.h"

namespace evalframe::native {
namespace {

std::string element(const std::string& type) {
  return type[0] == '<' ? type.substr(type.find('x') + 2, type.size() - type.find('x') - 3) : type;
}

std::string with_element(const std::string& type, const std::string& replacement) {
  return type[0] == '<' ? type.substr(0, type.find('x') + 2) + replacement + ">" : replacement;
}

std::string splat(const std::string& type, const std::string& constant) {
  return type[0] == '<' ? "splat (" + element(type) + " " + constant + ")" : constant;
}

std::string suffix(const std::string& type) {
  const std::string one = element(type);
  const std::string name = one == "double" ? "f64" : one == "float" ? "f32" : one == "half" ? "f16" : one;
  return type[0] == '<' ? "v" + type.substr(1, type.find(' ') - 1) + name : name;
}

}  // namespace

bool Term::is_float() const {
  const std::string one = element(type);
  return one == "double" || one == "float" || one == "half";
}

Term Emitter::let(std::string type, const std::string& instruction) {
  std::string ref = prefix_ + std::to_string(next_++);
  text_ += "  " + ref + " = " + instruction + "\n";
  return {this, std::move(type), std::move(ref)};
}

void Emitter::need(const std::string& declaration) {
  if (needed_.find(declaration) == std::string::npos) needed_ += declaration + "\n";
}

Term Emitter::number(const std::string& type, double value) {
  char text[32];
  const double rounded = element(type) == "float" ? static_cast<double>(static_cast<float>(value)) : value;
  std::snprintf(text, sizeof text, "0x%016llX", static_cast<unsigned long long>(std::bit_cast<uint64_t>(rounded)));
  return {this, type, splat(type, text)};
}

Term Emitter::integer(const std::string& type, int64_t value) {
  return {this, type, splat(type, std::to_string(value))};
}

void Emitter::gather(int which, const std::string& ref) {
  std::string& gathered = gathered_[which];
  if (gathered.empty()) gathered = "%sticky" + std::to_string(which);
  gathered = let(kGathered[which], std::string("or ") + kGathered[which] + " " + gathered + ", " + ref).ref;
}

void Emitter::report(Condition condition, const Term& holds) { gather(static_cast<int>(condition), holds.ref); }

void Emitter::compute_everywhere(const Term& x) {
  const Term bits = x.is_float() ? as_bits(x) : x;
  const bool wide = bits.type == "i64";
  gather(wide ? kConditions + 1 : kConditions, wide ? bits.ref : convert("zext", bits, "i32").ref);
}

Term Emitter::hidden_zero(const std::string& type) {
  if (!hides(type)) hidden_ += type + " ";
  return {this, type, "%hidden." + type};
}

std::string definition_of_hidden_zero(const std::string& type) {
  const bool is_integer = type[0] == 'i';
  return "  %hidden." + type + " = call " + type + " asm \"\", \"=" + (is_integer ? "r" : "x") + ",0\"(" + type + (is_integer ? " 0)\n" : " 0.0)\n");
}

std::string kept_for_vectors(const std::string& declarations) {
  constexpr std::string_view kOnVectors = "declare <";
  std::string list;
  int count = 0;
  for (size_t at = 0; at < declarations.size(); at = declarations.find('\n', at) + 1) {
    if (declarations.compare(at, kOnVectors.size(), kOnVectors) != 0) continue;
    const size_t name = declarations.find('@', at);
    list += (count++ ? ", ptr " : "ptr ") + declarations.substr(name, declarations.find('(', name) - name);
  }
  return count ? "@llvm.compiler.used = appending global [" + std::to_string(count) + " x ptr] [" + list + "], section \"llvm.metadata\"\n" : "";
}

namespace {

// An integer that is known, as the sum of its bits with the sign's; none: it isn't, or is a vector's.
std::optional<int64_t> known(const Term& term) {
  if (term.type[0] != 'i') return {};
  int64_t value = 0;
  const char* const end = term.ref.data() + term.ref.size();
  const auto [at, error] = std::from_chars(term.ref.data(), end, value);
  return error == std::errc() && at == end ? std::optional(value) : std::nullopt;
}

// In as many bits as its type has.
Term wrapped(const Term& like, uint64_t value) {
  const int unused = 64 - std::atoi(like.type.c_str() + 1);
  return like.emitter->integer(like.type, static_cast<int64_t>(value << unused) >> unused);
}

// What isn't written, as it is known here: LLVM takes its time for each line.
std::optional<Term> folded(std::string_view instruction, const Term& a, const Term& b) {
  const std::optional<int64_t> x = known(a), y = known(b);
  if (!x && !y) return {};
  const auto with = [&](auto compute) { return x && y ? std::optional(wrapped(a, compute(static_cast<uint64_t>(*x), static_cast<uint64_t>(*y)))) : std::nullopt; };
  const auto is = [&](const std::optional<int64_t>& one, int64_t value) { return one && *one == value; };
  if (instruction == "add") return is(x, 0) ? b : is(y, 0) ? a : with(std::plus<uint64_t>());
  if (instruction == "sub") return is(y, 0) ? a : with(std::minus<uint64_t>());
  if (instruction == "mul") return is(x, 1) ? b : is(y, 1) ? a : with(std::multiplies<uint64_t>());
  if (instruction == "and") return is(x, -1) || is(y, 0) ? b : is(y, -1) || is(x, 0) ? a : with(std::bit_and<uint64_t>());
  if (instruction == "or") return is(x, 0) || is(y, -1) ? b : is(y, 0) || is(x, -1) ? a : with(std::bit_or<uint64_t>());
  if (instruction == "xor") return is(x, 0) ? b : is(y, 0) ? a : with(std::bit_xor<uint64_t>());
  return {};
}

std::optional<bool> known_comparison(std::string_view predicate, const Term& a, const Term& b) {
  const std::optional<int64_t> x = known(a), y = known(b);
  if (!x || !y) return {};
  const auto ux = static_cast<uint64_t>(*x), uy = static_cast<uint64_t>(*y);
  if (predicate == "eq") return x == y;
  if (predicate == "ne") return x != y;
  if (predicate == "slt") return *x < *y;
  if (predicate == "sle") return *x <= *y;
  if (predicate == "sgt") return *x > *y;
  if (predicate == "sge") return *x >= *y;
  if (predicate == "ult") return ux < uy;
  if (predicate == "ule") return ux <= uy;
  if (predicate == "ugt") return ux > uy;
  if (predicate == "uge") return ux >= uy;
  return {};
}

}  // namespace

bool holds_always(const Term& condition) { return condition.type == "i1" && known(condition).value_or(0) != 0; }

Term binary(const char* instruction, const Term& a, const Term& b) {
  DCHECK(a.type == b.type);
  if (const std::optional<Term> there = folded(instruction, a, b)) return *there;
  return a.emitter->let(a.type, std::string(instruction) + " " + a.type + " " + a.ref + ", " + b.ref);
}

Term operator+(const Term& a, const Term& b) { return binary(a.is_float() ? "fadd" : "add", a, b); }
Term operator-(const Term& a, const Term& b) { return binary(a.is_float() ? "fsub" : "sub", a, b); }
Term operator*(const Term& a, const Term& b) { return binary(a.is_float() ? "fmul" : "mul", a, b); }
Term operator/(const Term& a, const Term& b) { return binary("fdiv", a, b); }
Term operator&(const Term& a, const Term& b) { return binary("and", a, b); }
Term operator|(const Term& a, const Term& b) { return binary("or", a, b); }
Term operator^(const Term& a, const Term& b) { return binary("xor", a, b); }
Term operator!(const Term& a) { return a ^ a.emitter->integer(a.type, -1); }
Term operator<<(const Term& a, int by) { return binary("shl", a, a.emitter->integer(a.type, by)); }
Term operator>>(const Term& a, int by) { return binary("ashr", a, a.emitter->integer(a.type, by)); }

Term operator-(const Term& a) {
  if (!a.is_float()) return a.emitter->integer(a.type, 0) - a;
  return a.emitter->let(a.type, "fneg " + a.type + " " + a.ref);
}

namespace {
Term constant_like(const Term& a, double value) {
  return a.is_float() ? a.emitter->number(a.type, value) : a.emitter->integer(a.type, static_cast<int64_t>(value));
}
}  // namespace

Term operator+(const Term& a, double b) { return a + constant_like(a, b); }
Term operator-(const Term& a, double b) { return a - constant_like(a, b); }
Term operator*(const Term& a, double b) { return a * constant_like(a, b); }
Term operator-(double a, const Term& b) { return constant_like(b, a) - b; }
Term operator/(double a, const Term& b) { return constant_like(b, a) / b; }

Term compare(const char* predicate, const Term& a, const Term& b) {
  if (const std::optional<bool> there = known_comparison(predicate, a, b)) return a.emitter->integer("i1", *there ? -1 : 0);
  return a.emitter->let(with_element(a.type, "i1"), std::string(a.is_float() ? "fcmp " : "icmp ") + predicate + " " + a.type +
                                                        " " + a.ref + ", " + b.ref);
}

Term compare(const char* predicate, const Term& a, int64_t b) {
  return compare(predicate, a, a.emitter->integer(a.type, b));
}

Term convert(const char* instruction, const Term& a, const std::string& type) {
  if (a.type == type) return a;
  return a.emitter->let(type, std::string(instruction) + " " + a.type + " " + a.ref + " to " + type);
}

Term select(const Term& condition, const Term& yes, const Term& no) {
  DCHECK(yes.type == no.type);
  if (const std::optional<int64_t> there = known(condition)) return *there ? yes : no;
  // Unpredictable: CodeGen must not turn it into a branch around an operation whose flags NumPy would raise.
  return yes.emitter->let(yes.type, "select " + condition.type + " " + condition.ref + ", " + yes.type + " " + yes.ref + ", " +
                                        no.type + " " + no.ref + ", !unpredictable !3");
}

Term call(const std::string& function, const std::string& type, std::initializer_list<Term> arguments) {
  std::string types;
  std::string values;
  Emitter* emitter = nullptr;
  for (const Term& argument : arguments) {
    types += (types.empty() ? "" : ", ") + argument.type;
    values += (values.empty() ? "" : ", ") + argument.type + " " + argument.ref;
    emitter = argument.emitter;
  }
  emitter->need("declare " + type + " @" + function + "(" + types + ") #1");
  return emitter->let(type, "call " + type + " @" + function + "(" + values + ")");
}

Term intrinsic(const char* name, std::initializer_list<Term> arguments) {
  const std::string& type = arguments.begin()->type;
  return call(std::string("llvm.") + name + "." + suffix(type), type, arguments);
}

Term fma(const Term& a, const Term& b, const Term& c) {
  return intrinsic("fma", {a, b, c});
}

Term as_bits(const Term& a) {
  const std::string one = element(a.type);
  return convert("bitcast", a, with_element(a.type, one == "double" ? "i64" : one == "float" ? "i32" : "i16"));
}

Term as_float(const Term& a) {
  return convert("bitcast", a, with_element(a.type, element(a.type) == "i64" ? "double" : "float"));
}

Term hidden(const Term& a) {
  if (!a.is_float()) return a | a.emitter->hidden_zero(a.type);
  return as_float(as_bits(a) | as_bits(a.emitter->hidden_zero(a.type)));
}

Term quiet_less(const Term& a, const Term& b) {
  if (!a.emitter->must_be_quiet()) return compare("olt", a, b);
  const Term ordered = compare("ord", a, b);
  const Term zero = a.emitter->number(a.type, 0.0);
  return compare("olt", select(ordered, a, zero), select(ordered, b, zero));
}

Term quiet_less_equal(const Term& a, const Term& b) {
  if (!a.emitter->must_be_quiet()) return compare("ole", a, b);
  const Term ordered = compare("ord", a, b);
  return compare("ole", select(ordered, a, a.emitter->number(a.type, 1.0)), select(ordered, b, a.emitter->number(a.type, 0.0)));
}

}  // namespace evalframe::native
