// From a kernel and the way each operand is walked to the text of one LLVM IR function: two nested loops around the body.
#include "backends/native/code/kernel_codegen.h"

#include <stdexcept>

#include "backends/native/code/emitter.h"
#include "backends/native/code/late.h"
#include "backends/native/code/scalar_lowering.h"

namespace evalframe::native {
namespace {

// Iterations are independent (an output overlaps an input only element on element), which the loop's metadata tells LLVM.
constexpr const char* kAccessGroup = ", !llvm.access.group !2";
// Two vectors for each turn where functions are called: the fewest for which LLVM makes the rest a loop of half vectors, as rows
// are often short and scalar calls dear.
constexpr const char* kLoop = "!0 = distinct !{!0, !1}\n";
constexpr const char* kLoopOfCalls = "!0 = distinct !{!0, !1, !4}\n!4 = !{!\"llvm.loop.interleave.count\", i32 2}\n";
constexpr const char* kLoopOfShortRows = "!0 = distinct !{!0, !1, !4, !5}\n!4 = !{!\"llvm.loop.interleave.count\", i32 1}\n!5 = !{!\"llvm.loop.unroll.disable\"}\n";
// alignstack: vectors that wait on the stack for a call to return must not cross cache lines, which halved the speed.
constexpr const char* kModuleEnd = R"(
attributes #0 = { nounwind alignstack=64 }
attributes #1 = { nounwind willreturn memory(none) }
!1 = !{!"llvm.loop.parallel_accesses", !2}
!2 = distinct !{}
!3 = !{}
)";

DType dtype_of(const Kernel& kernel, int32_t value) {
  const int32_t inputs = static_cast<int32_t>(kernel.inputs.size());
  if (value < 0 || value >= inputs + static_cast<int32_t>(kernel.ops.size())) throw std::runtime_error("kernel: value out of range");
  return value < inputs ? kernel.inputs[value].dtype : kernel.ops[value - inputs].dtype;
}

// Writes the kernel function. Names: %d operand bases, %so/%si strides, %r row bases, %sticky gathered conditions.
class Writer {
 public:
  Writer(const Kernel& kernel, const std::string& access, bool quiet, Rows rows)
      : kernel_(kernel), access_(access), rows_(rows), body_(quiet), entry_(quiet), row_(quiet) {}

  bool may_signal() const { return body_.may_signal() || entry_.may_signal() || row_.may_signal(); }

  std::string write() {
    values_.resize(kernel_.inputs.size());
    write_bases();
    write_body();
    const std::string needed = body_.needed() + entry_.needed(), kept = kept_for_vectors(needed);
    std::string text = needed + kept;
    text += std::string("define i32 ") + kFunctionName + "(ptr %data, ptr %outer, ptr %inner, i64 %rows, i64 %columns) #0 {\nentry:\n";
    text += renamed(entry_.text(), "%v", "%e") + hidden_zeros() + "  br label %row\n";
    text += "row:\n  %o = phi i64 [ 0, %entry ], [ %o.next, %row.end ]\n" + phis("%row.sticky", "%entry", "0", "%row.end", false);
    text += renamed(row_.text(), "%v", "%w") + "  br label %column\n";
    text += "column:\n  %i = phi i64 [ 0, %row ], [ %i.next, %column ]\n" + phis("%sticky", "%row", "%row.sticky", "%column", true);
    text += body_.text();
    text += "  %i.next = add nuw nsw i64 %i, 1\n  %i.done = icmp eq i64 %i.next, %columns\n";
    text += "  br i1 %i.done, label %row.end, label %column, !llvm.loop !0\n";
    text += "row.end:\n  %o.next = add nuw nsw i64 %o, 1\n  %o.done = icmp eq i64 %o.next, %rows\n";
    text += "  br i1 %o.done, label %end, label %row\nend:\n" + returned() + "}\n";
    return with_late_functions(text + kModuleEnd + (!kept.empty() ? kLoopOfCalls : rows_ == Rows::kShort ? kLoopOfShortRows : kLoop));
  }

 private:
  std::string hidden_zeros() const {
    std::string text;
    for (const char* type : kHidden) text += body_.hides(type) ? definition_of_hidden_zero(type) : "";
    return text;
  }
  int operands() const { return static_cast<int>(kernel_.inputs.size() + kernel_.outputs.size()); }
  Access access(int operand) const { return static_cast<Access>(access_[operand]); }
  bool is_input(int operand) const { return operand < static_cast<int>(kernel_.inputs.size()); }
  DType element(int operand) const {
    return is_input(operand) ? kernel_.inputs[operand].dtype : stored_dtype(kernel_, kernel_.outputs[operand - kernel_.inputs.size()]);
  }

  static std::string renamed(std::string text, const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
    return text;
  }

  static Value renamed(Value value, const std::string& to) {
    value.real.ref = renamed(value.real.ref, "%v", to);
    value.imag.ref = renamed(value.imag.ref, "%v", to);
    return value;
  }

  // A load and its element's address from one of the function's argument arrays.
  void read(const std::string& name, const char* type, const char* array, int index) {
    entry_.line(name + ".at = getelementptr " + type + ", ptr " + array + ", i64 " + std::to_string(index));
    entry_.line(name + " = load " + type + ", ptr " + name + ".at");
  }

  void write_bases() {
    for (int operand = 0; operand < operands(); ++operand) {
      const std::string id = std::to_string(operand);
      read("%d" + id, "ptr", "%data", operand);
      if (access(operand) == Access::kScalar) {
        values_[operand] = adopt(renamed(load_element(entry_, element(operand), "%d" + id, ""), "%e"));
        continue;
      }
      read("%so" + id, "i64", "%outer", operand);
      if (access(operand) == Access::kStrided) read("%si" + id, "i64", "%inner", operand);
      row_.line("%ro" + id + " = mul i64 %o, %so" + id);
      row_.line("%r" + id + " = getelementptr i8, ptr %d" + id + ", i64 %ro" + id);
      if (access(operand) == Access::kBroadcast && is_input(operand)) {
        values_[operand] = adopt(renamed(load_element(row_, element(operand), "%r" + id, ""), "%w"));
      }
    }
  }

  // Values made outside the body are used through the body's emitter.
  Value adopt(Value value) {
    value.real.emitter = &body_;
    value.imag.emitter = &body_;
    return value;
  }

  std::string address(int operand) {
    const std::string id = std::to_string(operand);
    const int64_t size = graph::size_of(element(operand));
    const auto by = [&](const std::string& stride) {
      const std::string offset = body_.let("i64", "mul i64 %i, " + stride).ref;
      return body_.let("ptr", "getelementptr i8, ptr %r" + id + ", i64 " + offset).ref;
    };
    switch (access(operand)) {
      case Access::kStrided: return by("%si" + id);
      case Access::kSecond: return by(std::to_string(2 * size));
      case Access::kBackwards: return by(std::to_string(-size));
      case Access::kScalar:
      case Access::kBroadcast:
      case Access::kUnit: break;
    }
    return body_.let("ptr", "getelementptr [" + std::to_string(size) + " x i8], ptr %r" + id + ", i64 %i").ref;
  }

  const Value& value(int32_t index) const {
    if (index < 0 || index >= static_cast<int32_t>(values_.size())) throw std::runtime_error("kernel: operand out of range");
    return values_[index];
  }

  void write_body() {
    for (int operand = 0; operand < static_cast<int>(kernel_.inputs.size()); ++operand) {
      if (values_[operand].dtype != DType::kNone) continue;
      values_[operand] = load_element(body_, element(operand), address(operand), kAccessGroup);
    }
    const std::vector<bool> needed = needed_values();
    for (const KernelOp& op : kernel_.ops) {
      Operands in;
      const int32_t used[] = {op.a, op.b, op.c};
      for (int k = 0; k < 3; ++k) {
        if (used[k] >= 0) in[k] = value(used[k]);
      }
      values_.push_back(is_by_fixed(op) ? exact(op.dtype, quotient_by_fixed(in[0].real, in[1].real)) : lower(body_, op.op, op.dtype, in));
      if (!needed[values_.size() - 1] && raises_flags(op)) compute_everywhere(values_.back());
    }
    for (int operand = static_cast<int>(kernel_.inputs.size()); operand < operands(); ++operand) {
      const KernelOutput& output = kernel_.outputs[operand - kernel_.inputs.size()];
      store_element(body_, cast(value(output.value), element(operand)), address(operand), kAccessGroup);
    }
  }

  // A quotient whose divisor is the same for the elements of a row, if these are more than what that takes to prepare.
  bool is_by_fixed(const KernelOp& op) const {
    if (op.op != ScalarOp::divide || op.dtype != DType::float64 || !is_input(op.b) || rows_ == Rows::kShort) return false;
    return access(op.b) == Access::kScalar || access(op.b) == Access::kBroadcast;
  }

  // Where the processor notes something of floats.
  bool raises_flags(const KernelOp& op) const {
    const Flags flags = flags_of(op.op);
    if (flags != Flags::raises && flags != Flags::picks) return false;
    if (is_float(component(op.dtype))) return true;
    if (op.op == ScalarOp::reciprocal) return true;  // by way of doubles
    return op.op == ScalarOp::cast && is_integer(op.dtype) && is_float(component(dtype_of(kernel_, op.a)));
  }

  // Whether an operation can't be computed without all of its operands' values. Of integers LLVM knows what cancels out.
  bool needs_operands(const KernelOp& op) const {
    if (op.op == ScalarOp::cast) return op.dtype != DType::bool_ && is_complex(op.dtype) == is_complex(dtype_of(kernel_, op.a));
    const Flags flags = flags_of(op.op);
    return is_float(component(op.dtype)) && (flags == Flags::raises || flags == Flags::passes);
  }

  // The values that LLVM computes for every element because they are stored, or because another needs them that is computed.
  std::vector<bool> needed_values() const {
    const size_t inputs = kernel_.inputs.size();
    std::vector<bool> needed(inputs + kernel_.ops.size());
    for (size_t i = 0; i < kernel_.outputs.size(); ++i) {
      const DType stored = element(static_cast<int>(inputs + i));
      const DType dtype = dtype_of(kernel_, kernel_.outputs[i].value);
      if (stored != DType::bool_ && is_complex(stored) >= is_complex(dtype)) needed[kernel_.outputs[i].value] = true;
    }
    for (size_t i = kernel_.ops.size(); i-- > 0;) {
      const KernelOp& op = kernel_.ops[i];
      if (!needs_operands(op) || !(needed[inputs + i] || raises_flags(op))) continue;
      for (const int32_t operand : {op.a, op.b, op.c}) {
        if (operand >= 0) needed[operand] = true;
      }
    }
    return needed;
  }

  void compute_everywhere(const Value& x) {
    body_.compute_everywhere(x.real);
    if (is_complex(x.dtype)) body_.compute_everywhere(x.imag);
  }

  std::string phis(const std::string& name, const std::string& from, const std::string& start, const std::string& back, bool in_loop) const {
    std::string text;
    for (int which = 0; which < kAllGathered; ++which) {
      const std::string& gathered = body_.gathered(which);
      if (gathered.empty()) continue;
      const std::string id = std::to_string(which);
      const std::string first = in_loop ? start + id : start;
      text += "  " + name + id + " = phi " + kGathered[which] + " [ " + first + ", " + from + " ], [ " + gathered + ", " + back + " ]\n";
    }
    return text;
  }

  std::string returned() const {
    constexpr int kBits[kConditions] = {1, 2, 8, kByPlace};
    std::string text;
    std::string sum = "0";
    for (int c = 0; c < kConditions; ++c) {
      const std::string& gathered = body_.gathered(c);
      if (gathered.empty()) continue;
      const std::string id = std::to_string(c);
      text += "  %bit" + id + " = select i1 " + gathered + ", i32 " + std::to_string(kBits[c]) + ", i32 0\n";
      text += "  %sum" + id + " = or i32 " + sum + ", %bit" + id + "\n";
      sum = "%sum" + id;
    }
    for (int which = kConditions; which < kAllGathered; ++which) {  // used, as far as LLVM knows
      if (body_.gathered(which).empty()) continue;
      text += std::string("  call void asm sideeffect \"\", \"r\"(") + kGathered[which] + " " + body_.gathered(which) + ")\n";
    }
    return text + "  ret i32 " + sum + "\n";
  }

  const Kernel& kernel_;
  const std::string& access_;
  const Rows rows_;
  Emitter body_;
  Emitter entry_;
  Emitter row_;
  std::vector<Value> values_;
};

}  // namespace

Access access_for(int64_t stride, int64_t size) {
  if (stride == size) return Access::kUnit;
  if (stride == -size) return Access::kBackwards;
  return stride == 2 * size && size != 2 ? Access::kSecond : Access::kStrided;
}

DType stored_dtype(const Kernel& kernel, const KernelOutput& output) {
  switch (output.reduce) {
    case ReduceOp::kNone: return output.dtype;
    case ReduceOp::kAny:
    case ReduceOp::kAll: return DType::bool_;
    case ReduceOp::kArgMin:
    case ReduceOp::kArgMax: return dtype_of(kernel, output.value);
    case ReduceOp::kAdd:
    case ReduceOp::kMultiply:
    case ReduceOp::kMinimum:
    case ReduceOp::kMaximum: return output.dtype;
  }
  return output.dtype;
}

Generated generate(const Kernel& kernel, const std::string& access, bool quiet, Rows rows) {
  Writer writer(kernel, access, quiet, rows);
  std::string ir = writer.write();
  return {std::move(ir), writer.may_signal()};
}

}  // namespace evalframe::native
