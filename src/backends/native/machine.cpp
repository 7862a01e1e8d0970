// IR text to callable machine code: through the disk cache, else through llvmlite (python/evalframe/_llvm.py).
#include "backends/native/machine.h"

#include <Python.h>

#include <cmath>
#include <stdexcept>

#include "backends/native/kernel_codegen.h"
#include "backends/native/object_cache.h"
#include "backends/native/sha256.h"
#include "core/ref.h"

namespace evalframe::native {
namespace {

struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Gil() { PyGILState_Release(state); }
};

// The pending Python exception as text; clears it.
[[noreturn]] void throw_python_error(const char* doing) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const Ref owned[] = {Ref::steal(type), Ref::steal(value), Ref::steal(traceback)};
  const Ref text = Ref::steal(value ? PyObject_Str(value) : nullptr);
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  throw std::runtime_error(std::string(doing) + ": " + (utf8 ? utf8 : "unknown error"));
}

Ref llvm_module() {
  Ref module = Ref::steal(PyImport_ImportModule("evalframe._llvm"));
  if (!module) throw_python_error("loading llvmlite");
  return module;
}

template <class... Arguments>
Ref call_llvm(const char* function, const char* format, Arguments... arguments) {
  const Ref module = llvm_module();
  Ref result = Ref::steal(PyObject_CallMethod(module.get(), function, format, arguments...));
  if (!result) throw_python_error("compiling a kernel");
  return result;
}

double erf(double x) { return std::erf(x); }

struct LibraryFunction {
  const char* name;
  void* address;
};
using Unary = double (*)(double);
using Binary = double (*)(double, double);
template <class Function> void* address(Function function) { return reinterpret_cast<void*>(function); }

// What generated code may call.
const LibraryFunction kLibrary[] = {
    {"evalframe_exp", address<Unary>(std::exp)},       {"evalframe_exp2", address<Unary>(std::exp2)},
    {"evalframe_expm1", address<Unary>(std::expm1)},   {"evalframe_log", address<Unary>(std::log)},
    {"evalframe_log2", address<Unary>(std::log2)},     {"evalframe_log10", address<Unary>(std::log10)},
    {"evalframe_log1p", address<Unary>(std::log1p)},   {"evalframe_sin", address<Unary>(std::sin)},
    {"evalframe_cos", address<Unary>(std::cos)},       {"evalframe_tan", address<Unary>(std::tan)},
    {"evalframe_arcsin", address<Unary>(std::asin)},   {"evalframe_arccos", address<Unary>(std::acos)},
    {"evalframe_arctan", address<Unary>(std::atan)},   {"evalframe_arctan2", address<Binary>(std::atan2)},
    {"evalframe_sinh", address<Unary>(std::sinh)},     {"evalframe_cosh", address<Unary>(std::cosh)},
    {"evalframe_tanh", address<Unary>(std::tanh)},     {"evalframe_hypot", address<Binary>(std::hypot)},
    {"evalframe_pow", address<Binary>(std::pow)},      {"evalframe_cbrt", address<Unary>(std::cbrt)},
    {"evalframe_erf", address<Unary>(erf)},            {"evalframe_fmod", address<Binary>(std::fmod)},
    {"evalframe_fmodf", address<float (*)(float, float)>(std::fmod)},
};

std::string describe_target() {
  for (const LibraryFunction& function : kLibrary) {
    call_llvm("add_symbol", "sK", function.name, reinterpret_cast<unsigned long long>(function.address));
  }
  const Ref text = call_llvm("target", nullptr);
  const char* utf8 = PyUnicode_AsUTF8(text.get());
  if (!utf8) throw_python_error("asking for the target");
  return utf8;
}

std::string with_name(std::string ir, const std::string& name) {
  const std::string placeholder = kFunctionName;
  for (size_t at = ir.find(placeholder); at != std::string::npos; at = ir.find(placeholder, at)) ir.replace(at, placeholder.size(), "@" + name);
  return ir;
}

std::string compile_object(const std::string& ir) {
  const Ref object = call_llvm("compile_ir", "s#", ir.data(), static_cast<Py_ssize_t>(ir.size()));
  char* bytes;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object.get(), &bytes, &size) < 0) throw_python_error("compiling a kernel");
  return {bytes, static_cast<size_t>(size)};
}

KernelFunction link(const std::string& object, const std::string& name) {
  const Ref address = call_llvm("link", "y#s", object.data(), static_cast<Py_ssize_t>(object.size()), name.c_str());
  void* function = PyLong_AsVoidPtr(address.get());
  if (!function) throw_python_error("linking a kernel");
  return reinterpret_cast<KernelFunction>(function);
}

}  // namespace

const std::string& target() {
  static const std::string description = describe_target();
  return description;
}

bool target_has_fma() { return target().find("+fma") != std::string::npos; }

KernelFunction machine_code(std::string ir) {
  const Gil gil;
  const std::string key = sha256(target() + "\n" + ir);
  const std::string name = "evalframe_" + hex(key).substr(0, 32);
  if (const auto object = cached_object(key)) return link(*object, name);
  const std::string object = compile_object(with_name(std::move(ir), name));
  cache_object(key, object);
  return link(object, name);
}

}  // namespace evalframe::native
