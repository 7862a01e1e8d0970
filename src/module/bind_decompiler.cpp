// Bindings of decompiler/: what python/evalframe/decompiler.py is made of.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "cpython/codec.h"
#include "decompiler/compare.h"
#include "decompiler/decompile.h"
#include "module/bindings.h"

namespace nb = nanobind;

namespace evalframe {
namespace {

using Pairs = std::vector<std::pair<int, int>>;
// source or None, rows of (code, status, reason), lines of instructions
using Decompiled = std::tuple<std::optional<std::string>, std::vector<std::tuple<nb::object, std::string, std::string>>, Pairs>;

Decompiled decompile(nb::handle code, std::vector<std::string> defaults, std::vector<std::pair<std::string, std::string>> keyword_defaults,
                     std::map<int, std::string> constant_names, bool generated, bool machines) {
  if (!PyCode_Check(code.ptr())) throw nb::type_error("a code object is needed");
  decompiler::Result result = decompiler::decompile(code.ptr(), {std::move(defaults), std::move(keyword_defaults), std::move(constant_names), generated}, machines);
  Decompiled told;
  if (result.written) std::get<0>(told) = std::move(result.source);
  for (decompiler::Row& row : result.rows) {
    std::get<1>(told).emplace_back(nb::steal(row.code.release()), decompiler::name(row.status), std::move(row.reason));
  }
  std::get<2>(told) = std::move(result.lines);
  return told;
}

// "exact", "equivalent" or "refused" with the first difference: how what was compiled of somebody's source compares with the code object.
std::pair<std::string, std::string> compare(nb::handle code, nb::handle again) {
  if (!PyCode_Check(code.ptr()) || !PyCode_Check(again.ptr())) throw nb::type_error("code objects are needed");
  const auto first = cpython::decode(code.ptr()), second = cpython::decode(again.ptr());
  if (!first || !second) throw nb::python_error();
  const decompiler::Comparison found = decompiler::compare(*first, *second, true);
  return {decompiler::name(found.status), found.difference};
}

}  // namespace

void bind_decompiler(nb::module_& module) {
  nb::module_ m = module.def_submodule("decompiler", "Code objects as Python source.");
  m.def("decompile", &decompile, nb::arg("code"), nb::arg("defaults"), nb::arg("keyword_defaults"), nb::arg("constant_names") = std::map<int, std::string>(), nb::arg("generated") = false,
        nb::arg("machines") = false);
  m.def("compare", &compare, nb::arg("code"), nb::arg("again"));
}

}  // namespace evalframe
