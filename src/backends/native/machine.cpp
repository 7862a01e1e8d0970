// IR text to callable machine code: through the disk cache, else through llvmlite (python/evalframe/_llvm.py).
#include "backends/native/machine.h"

#include <Python.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <stdexcept>

#include "backends/native/kernel_codegen.h"
#include "backends/native/object_cache.h"
#include "backends/native/sha256.h"
#include "backends/native/vector_library.h"
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

template <class Function> void* address(Function function) { return reinterpret_cast<void*>(function); }

// What generated code may call besides the elementary functions.
const LibraryFunction kFunctions[] = {
    {"evalframe_fmod", address<double (*)(double, double)>(std::fmod)},
    {"evalframe_fmodf", address<float (*)(float, float)>(std::fmod)},
};

bool has(const std::string& features, std::initializer_list<const char*> wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const char* one) { return features.find(one) != std::string::npos; });
}

void add_symbols(Library library) {
  for (const LibraryFunction* f = library.functions; f < library.functions + library.count; ++f) {
    call_llvm("add_symbol", "sK", f->name, reinterpret_cast<unsigned long long>(f->address));
  }
}

struct Target {
  std::string description;
  int vector_bytes;
};

Target find_target() {
  const Ref text = call_llvm("target", nullptr);
  const char* utf8 = PyUnicode_AsUTF8(text.get());
  if (!utf8) throw_python_error("asking for the target");
  Target found{utf8, 0};
  if (has(found.description, {"+avx512f", "+avx512dq", "+avx512vl", "+fma"})) found.vector_bytes = 64;
  else if (has(found.description, {"+avx2", "+fma"})) found.vector_bytes = 32;
  add_symbols({kFunctions, static_cast<int>(std::size(kFunctions))});
  add_symbols(found.vector_bytes == 64 ? avx512_library() : found.vector_bytes == 32 ? avx2_library() : scalar_library());
  return found;
}

const Target& the_target() {
  static const Target target = find_target();
  return target;
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

const std::string& target() { return the_target().description; }

int vector_bytes() { return the_target().vector_bytes; }

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
