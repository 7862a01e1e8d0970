// Writes LLVM IR text for straight-line code on elements, one SSA value a line.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace evalframe::native {

class Emitter;

// An SSA value or a constant of an LLVM scalar or vector type. The operators write one instruction each: floating-point for float
// types, integer otherwise (>> is the arithmetic shift).
struct Term {
  Emitter* emitter = nullptr;
  std::string type;
  std::string ref;

  bool is_float() const;
};

// Sticky conditions that code reports without raising a hardware flag; kByPlace: see kernel.h.
enum class Condition : uint8_t { kDivide, kOverflow, kInvalid, kByPlace };
inline constexpr int kConditions = 4;
// What is gathered over all elements by "or": the conditions, then the bits of floats and of doubles.
inline constexpr const char* kGathered[] = {"i1", "i1", "i1", "i1", "i32", "i64"};
inline constexpr int kAllGathered = 6;

// Types of hidden zeros, and the line that defines one: assembly inside of a loop would keep it from becoming one over vectors.
inline constexpr const char* kHidden[] = {"i32", "i64", "float", "double"};
std::string definition_of_hidden_zero(const std::string& type);

// A list of the functions on vectors among these declarations, which keeps them until the vectoriser, and nobody else, calls them; empty: there are none.
std::string kept_for_vectors(const std::string& declarations);

class Emitter {
 public:
  // quiet: comparisons raise no flag on NaN, as NumPy's. Else they take one instruction and may raise "invalid".
  // prefix: of the names of its values.
  explicit Emitter(bool quiet = true, std::string prefix = "%v") : quiet_(quiet), prefix_(std::move(prefix)) {}
  // Whether this comparison has to be quiet; remembers where one wasn't.
  bool must_be_quiet() {
    may_signal_ |= !quiet_;
    return quiet_;
  }
  bool may_signal() const { return may_signal_; }

  // Writes `%vN = <instruction>` and returns it as a value of the given type.
  Term let(std::string type, const std::string& instruction);
  void line(const std::string& text) { text_ += "  " + text + "\n"; }
  void label(const std::string& name) { text_ += name + ":\n"; }
  // Asks for a declaration or a helper function in the module; each text is written once.
  void need(const std::string& declaration);

  Term number(const std::string& type, double value);
  Term integer(const std::string& type, int64_t value);

  // Marks that a condition holds for this element (an i1), reported when the kernel returns.
  void report(Condition condition, const Term& holds);
  // Has a number computed for every element, whether or not anything depends on it: LLVM knows nothing of flags, and leaves out what
  // isn't needed; the masked instructions of AVX-512 raise none where a select takes the other side.
  void compute_everywhere(const Term& x);
  // Zero of one of kHidden, of which LLVM knows nothing; the function has to define it, in front of its loops, where it was asked for.
  Term hidden_zero(const std::string& type);
  bool hides(const std::string& type) const { return hidden_.find(type) != std::string::npos; }
  // What one of kGathered has gathered so far; empty where there was nothing.
  const std::string& gathered(int which) const { return gathered_[which]; }

  const std::string& text() const { return text_; }
  const std::string& needed() const { return needed_; }

 private:
  bool quiet_;
  std::string prefix_;
  bool may_signal_ = false;
  int next_ = 0;
  std::string text_;
  std::string needed_;
  std::string hidden_;  // types
  void gather(int which, const std::string& ref);

  std::array<std::string, kAllGathered> gathered_;
};

Term operator+(const Term& a, const Term& b);
Term operator-(const Term& a, const Term& b);
Term operator*(const Term& a, const Term& b);
Term operator/(const Term& a, const Term& b);
Term operator-(const Term& a);
Term operator&(const Term& a, const Term& b);
Term operator|(const Term& a, const Term& b);
Term operator^(const Term& a, const Term& b);
Term operator!(const Term& a);
Term operator<<(const Term& a, int by);
Term operator>>(const Term& a, int by);
Term operator+(const Term& a, double b);
Term operator-(const Term& a, double b);
Term operator*(const Term& a, double b);
Term operator-(double a, const Term& b);
Term operator/(double a, const Term& b);

// Whether it is an i1 that is known to be true.
bool holds_always(const Term& condition);
// Of integers that are known nothing is written, here and in comparisons, and where one of them makes no difference.
Term binary(const char* instruction, const Term& a, const Term& b);
// One of LLVM's predicates. The ordered comparisons of vectors raise "invalid" on a NaN; see quiet_less for user arithmetic.
Term compare(const char* predicate, const Term& a, const Term& b);
Term compare(const char* predicate, const Term& a, int64_t b);
Term convert(const char* instruction, const Term& a, const std::string& type);
Term select(const Term& condition, const Term& yes, const Term& no);
Term call(const std::string& function, const std::string& type, std::initializer_list<Term> arguments);
Term intrinsic(const char* name, std::initializer_list<Term> arguments);  // llvm.<name>.<type>, result of the same type
Term fma(const Term& a, const Term& b, const Term& c);
Term as_bits(const Term& a);
Term as_float(const Term& a);  // bits -> float or double of the same width
// The same number, of which LLVM knows nothing: it computes with what it knows beforehand, and raises no flags by that.
Term hidden(const Term& a);
// a < b and a <= b, as NumPy's comparisons; without flags where the emitter is quiet.
Term quiet_less(const Term& a, const Term& b);
Term quiet_less_equal(const Term& a, const Term& b);

}  // namespace evalframe::native
