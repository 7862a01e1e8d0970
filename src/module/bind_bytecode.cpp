// Bindings of bytecode/: what python/evalframe/bytecode.py and dis.py are made of.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bytecode/operators.h"
#include "bytecode/print.h"
#include "bytecode/verify.h"
#include "cpython/codec.h"
#include "module/bindings.h"

namespace nb = nanobind;

namespace evalframe {
namespace {

using bytecode::Code;
using bytecode::Instruction;

// line, end line, column, end column; -1 = unknown.
using PositionRow = std::tuple<int, int, int, int>;
// name, arg, arg2, target, fused with the next one, position, byte offset (-1: new)
using InstructionRow = std::tuple<std::string, int, int, int, bool, PositionRow, int>;
// start, end, target, depth, pushes lasti
using RegionRow = std::tuple<int, int, int, int, bool>;

std::unique_ptr<Code> decode_or_raise(nb::handle code) {
  auto decoded = cpython::decode(code.ptr());
  if (!decoded) throw nb::python_error();
  return decoded;
}

int verified_stack_size(const Code& code, const bytecode::Operands& operands) {
  bytecode::StackDepths depths;
  if (auto problem = bytecode::verify(code, operands, depths)) {
    throw nb::value_error(bytecode::describe(code, *problem).c_str());
  }
  return depths.maximum;
}

nb::object encode_or_raise(const Code& code, const cpython::EncodeOptions& options = {}) {
  Ref encoded = cpython::encode(code, options);
  if (!encoded) throw nb::python_error();
  return nb::steal(encoded.release());
}

InstructionRow row_of(const Instruction& instruction, const bytecode::Position& at) {
  return {bytecode::name(instruction.op),
          instruction.arg,
          instruction.arg2,
          instruction.target,
          (instruction.flags & Instruction::kFusedWithNext) != 0,
          {at.line, at.end_line, at.column, at.end_column},
          instruction.offset < 0 ? -1 : 2 * instruction.offset};
}

std::tuple<std::vector<InstructionRow>, std::vector<RegionRow>> decode(nb::handle code) {
  const auto decoded = decode_or_raise(code);
  std::vector<InstructionRow> instructions;
  for (size_t i = 0; i < decoded->instructions.size(); ++i) {
    instructions.push_back(row_of(decoded->instructions[i], decoded->positions[i]));
  }
  std::vector<RegionRow> regions;
  for (const auto& region : decoded->regions) {
    regions.emplace_back(region.start, region.end, region.target, region.depth, region.push_lasti);
  }
  return {std::move(instructions), std::move(regions)};
}

Instruction instruction_of(const InstructionRow& row) {
  const auto& [name, arg, arg2, target, fused, position, offset] = row;
  const auto op = bytecode::op_named(name);
  if (!op) {
    throw nb::value_error(("there is no canonical instruction '" + name + "'; evalframe.bytecode.OPNAMES lists them").c_str());
  }
  Instruction instruction;
  instruction.op = *op;
  instruction.arg = arg;
  instruction.arg2 = arg2;
  instruction.target = bytecode::argument_kind(*op) == bytecode::Argument::jump ? target : -1;
  instruction.flags = fused ? Instruction::kFusedWithNext : 0;
  return instruction;
}

bytecode::Position position_of(const PositionRow& row) {
  const auto known = [](int value) { return std::max(value, -1); };
  const auto& [line, end_line, column, end_column] = row;
  return {known(line), known(end_line), known(column), known(end_column)};
}

// A code object of the given instructions that has all else from `base`; verified.
nb::object assemble(nb::handle base, const std::vector<InstructionRow>& instructions, const std::vector<RegionRow>& regions,
                    const nb::tuple& constants, const nb::tuple& names) {
  if (!PyCode_Check(base.ptr())) throw nb::type_error("a code object is needed as base");
  Code code;
  code.code = base.ptr();
  code.keep_alive = Ref::borrow(base.ptr());
  for (const InstructionRow& row : instructions) {
    code.instructions.push_back(instruction_of(row));
    code.positions.push_back(position_of(std::get<PositionRow>(row)));
  }
  for (const auto& [start, end, target, depth, lasti] : regions) {
    code.regions.push_back({start, end, target, depth, lasti});
  }
  const int stack_size = verified_stack_size(code, {constants.ptr(), names.ptr()});
  return encode_or_raise(code, {constants.ptr(), names.ptr(), stack_size});
}

void verify_replacement(nb::handle original, nb::handle replacement) {
  if (!PyCode_Check(original.ptr()) || !PyCode_Check(replacement.ptr())) {
    throw nb::type_error("verify needs two functions or code objects");
  }
  if (auto problem = bytecode::verify_replacement(original.ptr(), replacement.ptr())) {
    throw nb::value_error(problem->c_str());
  }
}

// The canonical names, and what the argument of each means.
nb::dict argument_kinds() {
  constexpr const char* kKinds[] = {"none", "count", "constant", "name", "local", "jump", "flags", "oparg"};
  nb::dict kinds;
  for (size_t i = 0; i < static_cast<size_t>(bytecode::Op::kCount); ++i) {
    const auto op = static_cast<bytecode::Op>(i);
    kinds[bytecode::name(op)] = kKinds[static_cast<size_t>(bytecode::argument_kind(op))];
  }
  return kinds;
}

// (symbol, name in Python's module operator) by the numbers that instructions carry.
nb::dict operators() {
  nb::list binary, unary, compare;
  const auto row = [](const char* symbol, const char* function) { return nb::make_tuple(symbol, function); };
#define EVALFRAME_BINARY(number, name, symbol, function, ufunc) binary.append(row(symbol, function));
#define EVALFRAME_UNARY(name, symbol, function, ufunc) unary.append(row(symbol, function));
#define EVALFRAME_COMPARE(name, symbol, function, ufunc) compare.append(row(symbol, function));
#include "bytecode/operators.def"
  // and_ in place is iand.
  const auto in_place = [](std::string function) { return "i" + function.substr(0, function.find('_')); };
#define EVALFRAME_BINARY(number, name, symbol, function, ufunc) binary.append(row(symbol "=", in_place(function).c_str()));
#include "bytecode/operators.def"
  nb::dict rows;
  rows["binary"] = nb::tuple(binary);
  rows["unary"] = nb::tuple(unary);
  rows["compare"] = nb::tuple(compare);
  return rows;
}

}  // namespace

void bind_bytecode(nb::module_& module) {
  nb::module_ m = module.def_submodule("bytecode", "Code objects as canonical instructions.");
  m.def("decode", &decode, nb::arg("code"));
  m.def("assemble", &assemble, nb::arg("base"), nb::arg("instructions"), nb::arg("regions"), nb::arg("constants"),
        nb::arg("names"),
        nb::sig("def assemble(base: types.CodeType, instructions: typing.Any, regions: typing.Any, constants: tuple[typing.Any, ...], "
                "names: tuple[str, ...]) -> types.CodeType"));
  m.def("verify_replacement", &verify_replacement, nb::arg("original"), nb::arg("replacement"));
  m.def("listing", [](nb::handle code) { return bytecode::print(*decode_or_raise(code)); }, nb::arg("code"));
  // Decodes a code object and encodes it again.
  m.def("round_trip", [](nb::handle code) { return encode_or_raise(*decode_or_raise(code)); }, nb::arg("code"));
  // Verifies a code object and tells the stack depth that it needs.
  m.def(
      "stack_size",
      [](nb::handle code) {
        const auto decoded = decode_or_raise(code);
        return verified_stack_size(*decoded, bytecode::operands_of(*decoded));
      },
      nb::arg("code"));
  m.attr("ARGUMENT_KINDS") = argument_kinds();
  m.attr("OPERATORS") = operators();
}

}  // namespace evalframe
