#include "backends/native/code/late.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include "backends/native/machine/processor.h"
#include "backends/native/math/vector_math.h"

namespace evalframe::native {
namespace {

constexpr std::string_view kMark = "; late\n";
constexpr const char* kQuotient = "evalframe_quotient";

// Numbers and divisors from 2^-400 to 2^400: nothing that is computed on the way from these to their quotient overflows, or loses bits at the lower end.
constexpr int kPlaces = 400, kBias = std::numeric_limits<double>::max_exponent - 1, kFraction = std::numeric_limits<double>::digits - 1;
constexpr int64_t kLeast = static_cast<int64_t>(kBias - kPlaces) << kFraction, kSpan = static_cast<int64_t>(2 * kPlaces) << kFraction;
constexpr int64_t kNever = std::numeric_limits<int64_t>::min();  // further than kSpan below the bits of any number's magnitude

// What is known of a divisor. reciprocal + rest is 1 / divisor with twice as many bits; least: the lowest bits of a number that is divided so.
struct Divisor {
  Term number, reciprocal, rest, least;
};

bool is_in_range(double x) { return static_cast<uint64_t>(std::bit_cast<int64_t>(std::fabs(x)) - kLeast) <= static_cast<uint64_t>(kSpan); }

Divisor known_divisor(const Term& b, double value) {
  Emitter& emitter = *b.emitter;
  const double reciprocal = 1.0 / value;
  return {b, emitter.number("double", reciprocal), emitter.number("double", std::fma(-reciprocal, value, 1.0) / value), emitter.integer("i64", kLeast)};
}

// Of 1 in its place where it is out of range: no flags are raised for it.
Divisor divisor_of(const Term& b) {
  Emitter& emitter = *b.emitter;
  const Term one = emitter.number("double", 1.0), magnitude = as_bits(b) & emitter.integer("i64", std::numeric_limits<int64_t>::max());
  const Term is_ordinary = compare("ule", magnitude - emitter.integer("i64", kLeast), kSpan);
  const Term ordinary = select(is_ordinary, b, one), reciprocal = one / ordinary;
  return {b, reciprocal, fma(-reciprocal, ordinary, one) / ordinary, select(is_ordinary, emitter.integer("i64", kLeast), emitter.integer("i64", kNever))};
}

std::vector<int> lanes() { return {vector_bytes() / 8, vector_bytes() / 16}; }

std::string vector_of(int lanes, const std::string& type) { return "<" + std::to_string(lanes) + " x " + type + ">"; }

std::string declaration(const std::string& name, const std::string& number, const std::string& bits) {
  return number + " @" + name + "(" + number + " %a, " + number + " %b, " + number + " %reciprocal, " + number + " %rest, " + bits + " %least)";
}

std::string form(int lanes) { return kQuotient + ("x" + std::to_string(lanes)); }

// q is within one unit in the last place of a / b. What is left over of a is then a number (no more bits than a has), and adding its quotient rounds as dividing does (P. Markstein,
// "Computation of elementary functions on the IBM RISC System/6000 processor", 1990, theorem 4). Zeros come out without their sign. Other numbers than in range are divided, with all beside them.
constexpr const char* kForm = R"( alwaysinline nounwind willreturn memory(none) {
  %a.bits = bitcast @V %a to @I
  %magnitude = and @I %a.bits, splat (i64 9223372036854775807)
  %is.zero = icmp eq @I %magnitude, zeroinitializer
  %looked.at = select <@N x i1> %is.zero, @I splat (i64 @LEAST), @I %magnitude
  %above = sub @I %looked.at, %least
  %is.out = icmp ugt @I %above, splat (i64 @SPAN)
  %out = bitcast <@N x i1> %is.out to i@N
  %is.any.out = icmp ne i@N %out, 0
  br i1 %is.any.out, label %divides, label %multiplies, !prof !0
divides:
  %quotient = fdiv @V %a, %b
  ret @V %quotient
multiplies:
  %little = fmul @V %a, %rest
  %q = call @V @llvm.fma.v@Nf64(@V %a, @V %reciprocal, @V %little)
  %negative = fneg @V %q
  %over = call @V @llvm.fma.v@Nf64(@V %negative, @V %b, @V %a)
  %nearest = call @V @llvm.fma.v@Nf64(@V %over, @V %reciprocal, @V %q)
  %nearest.bits = bitcast @V %nearest to @I
  %b.bits = bitcast @V %b to @I
  %signs = xor @I %a.bits, %b.bits
  %sign = and @I %signs, splat (i64 -9223372036854775808)
  %signed = or @I %nearest.bits, %sign
  %result = bitcast @I %signed to @V
  ret @V %result
}
declare @V @llvm.fma.v@Nf64(@V, @V, @V)
)";

std::string filled_in(std::string text, int lanes) {
  const std::pair<std::string_view, std::string> names[] = {
      {"@V", vector_of(lanes, "double")}, {"@I", vector_of(lanes, "i64")}, {"@N", std::to_string(lanes)}, {"@LEAST", std::to_string(kLeast)}, {"@SPAN", std::to_string(kSpan)}};
  for (const auto& [name, value] : names) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size())) text.replace(at, name.size(), value);
  }
  return text;
}

std::string code_of_quotients() {
  constexpr const char* kLinkage = "define linkonce_odr hidden ";
  std::string code = kLinkage + declaration(kQuotient, "double", "i64") + " alwaysinline nounwind willreturn memory(none) {\n  %quotient = fdiv double %a, %b\n  ret double %quotient\n}\n";
  for (const int count : lanes()) code += kLinkage + declaration(form(count), vector_of(count, "double"), vector_of(count, "i64")) + filled_in(kForm, count);
  return code + "!0 = !{!\"branch_weights\", i32 1, i32 2000}\n";
}

}  // namespace

Term quotient_by_fixed(const Term& a, const Term& b) {
  if (vector_bytes() < 32) return a / b;  // without the instruction that multiplies and adds
  const bool is_known = b.ref.starts_with("0x");
  const double value = is_known ? std::bit_cast<double>(static_cast<uint64_t>(std::strtoull(b.ref.c_str(), nullptr, 16))) : 0.0;
  int exponent = 0;
  // Of powers of two LLVM knows the reciprocals.
  if (is_known && (!is_in_range(value) || std::fabs(std::frexp(value, &exponent)) == 0.5)) return a / b;
  const std::string forms = math::vector_forms(*a.emitter, kQuotient, kQuotient, {"double", "double", "double", "double", "i64"});
  a.emitter->need("declare " + declaration(kQuotient, "double", "i64") + " nounwind willreturn memory(none)" + forms);
  const Divisor by = is_known ? known_divisor(b, value) : divisor_of(b);
  const auto argument = [](const Term& term) { return term.type + " " + term.ref; };
  return a.emitter->let("double", std::string("call double @") + kQuotient + "(" + argument(a) + ", " + argument(by.number) + ", " + argument(by.reciprocal) + ", " + argument(by.rest) + ", " + argument(by.least) + ")");
}

std::string with_late_functions(std::string ir) {
  if (ir.find(std::string("@") + kQuotient) == std::string::npos) return ir;
  return ir + std::string(kMark) + code_of_quotients();
}

std::pair<std::string_view, std::string_view> parts_of(std::string_view ir) {
  const size_t mark = ir.find(kMark);
  if (mark == std::string_view::npos) return {ir, {}};
  return {ir.substr(0, mark), ir.substr(mark + kMark.size())};
}

}  // namespace evalframe::native
