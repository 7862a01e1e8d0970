// IR text to callable machine code: through the disk cache, else through LLVM: by llvmlite's library (llvm.h), or, where the program has
// imported llvmlite itself, by its Python functions (python/evalframe/_llvm.py), whose lock all of their users take.
#include "backends/native/machine/machine.h"

#include <Python.h>
#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

#include "backends/native/code/kernel_codegen.h"
#include "backends/native/machine/blake2b.h"
#include "backends/native/machine/llvm.h"
#include "backends/native/machine/object_cache.h"
#include "backends/native/machine/object_loader.h"
#include "backends/native/machine/processor.h"
#include "backends/native/math/power_memory.h"
#include "backends/native/math/vector_library.h"
#include "core/made_once.h"
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

bool is_finalizing() {
  PyObject* function = PySys_GetObject("is_finalizing");
  const Ref answer = Ref::steal(function ? PyObject_CallNoArgs(function) : nullptr);
  if (!answer) PyErr_Clear();
  return answer.get() == Py_True;
}

// On a thread of its own, with a stack that has room, while others run Python. Where all threads have ended, on this one.
template <class Make> auto apart(Make make) {
  if (is_finalizing()) return make();
  std::optional<decltype(make())> made;
  std::exception_ptr failure;
  PyThreadState* const thread = PyEval_SaveThread();
  const auto run = [&] {
    try {
      made = make();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  try {
    std::thread(run).join();
  } catch (const std::system_error&) {  // no thread to be had
    failure = std::current_exception();
  }
  PyEval_RestoreThread(thread);
  if (failure) std::rethrow_exception(failure);
  return *std::move(made);
}

// The same of what calls Python. Handlers of signals run in the main thread, between any two instructions of Python code: what one raised in ours
// would be taken for a failure to compile, and lost to the program.
template <class Make> auto without_signal_handlers(Make make) {
  return apart([&] {
    const Gil gil;
    return make();
  });
}

std::atomic<bool> is_loaded = false;

bool is_imported(const char* module) {
  PyObject* const modules = PyImport_GetModuleDict();
  return PyDict_Check(modules) && PyDict_GetItemString(modules, module) != nullptr;
}

Ref llvm_module() {
  Ref module = Ref::steal(PyImport_ImportModule("evalframe._llvm"));
  if (!module) throw_python_error("loading llvmlite");
  is_loaded = true;
  return module;
}

template <class... Arguments>
Ref call_llvm(const char* function, const char* format, Arguments... arguments) {
  return without_signal_handlers([=] {
    const Ref module = llvm_module();
    Ref result = Ref::steal(PyObject_CallMethod(module.get(), function, format, arguments...));
    if (!result) throw_python_error("compiling a kernel");
    return result;
  });
}

template <class Function> void* address(Function function) { return reinterpret_cast<void*>(function); }

// The largest whole number whose square isn't larger; n: not negative.
int64_t whole_root(int64_t n) {
  auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (root > n / std::max<int64_t>(root, 1)) root--;
  while (root + 1 <= n / (root + 1)) root++;
  return root;
}

// What generated code may call besides the elementary functions.
const LibraryFunction kOtherFunctions[] = {
#define EVALFRAME_MATH1(name, c_name) {"evalframe_c_" #c_name, address<double (*)(double)>(::c_name)}, {"evalframe_c_" #c_name "f", address<float (*)(float)>(::c_name##f)},
#define EVALFRAME_MATH2(name, c_name)
#include "backends/native/math/vector_math.def"
    {"evalframe_gcd", address<int64_t (*)(int64_t, int64_t)>(std::gcd)},
    {"evalframe_isqrt", address(whole_root)},
    {"evalframe_fmod", address<double (*)(double, double)>(std::fmod)},
    {"evalframe_pow_of_whole", address(pow_of_whole)},
    {"evalframe_fmodf", address<float (*)(float, float)>(std::fmod)},
};

Library vector_library() { return vector_bytes() == 64 ? avx512_library() : vector_bytes() == 32 ? avx2_library() : scalar_library(); }

Library other_functions() { return {kOtherFunctions, static_cast<int>(std::size(kOtherFunctions))}; }

// A function that generated code calls: ours, or one of the C library's that LLVM puts in for a loop.
void* resolve(std::string_view name) {
  for (const Library library : {vector_library(), other_functions()}) {
    const LibraryFunction* const end = library.functions + library.count;
    const auto* const found = std::find_if(library.functions, end, [name](const LibraryFunction& f) { return name == f.name; });
    if (found != end) return found->address;
  }
  return dlsym(RTLD_DEFAULT, std::string(name).c_str());
}

// llvmlite's directory, found without importing it. Empty: it isn't installed as usual.
std::string find_llvmlite() {
  const Ref importing = Ref::steal(PyImport_ImportModule("importlib.util"));
  const Ref spec = importing ? Ref::steal(PyObject_CallMethod(importing.get(), "find_spec", "s", "llvmlite")) : Ref();
  if (!spec) throw_python_error("looking for llvmlite");
  const Ref origin = Ref::steal(PyObject_GetAttrString(spec.get(), "origin"));
  const char* const path = origin ? PyUnicode_AsUTF8(origin.get()) : nullptr;
  PyErr_Clear();
  const std::string file = path ? path : "";
  return file.substr(0, file.rfind('/') + 1);
}

const std::string& llvmlite_directory() {
  static MadeOnce<std::string> directory;
  return directory.get([] { return without_signal_handlers(find_llvmlite); });
}

// Where LLVM's library is, if that is called directly; else empty.
std::string library_directory() {
  const std::string& directory = llvmlite_directory();
  return directory.empty() || is_imported("llvmlite.binding") ? std::string() : directory + "binding/";
}

// Tells one installed llvmlite from another; empty where it isn't installed as usual.
std::string llvmlite_identity() {
  const std::string& directory = llvmlite_directory();
  struct stat status;
  if (directory.empty() || stat((directory + "binding/libllvmlite.so").c_str(), &status) != 0) return {};
  std::ifstream version(directory + "_version.py", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(version), std::istreambuf_iterator<char>()};
  if (text.empty()) return {};
  return std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec) + " " + text;
}

std::string find_target() {
  const std::string identity = llvmlite_identity();
  if (!identity.empty()) return processor_description() + " " + identity;
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

// Functions of _llvm.py, and what tells keys apart.
constexpr struct {
  const char *function, *key;
} kinds[] = {{"compile_quickly", " quick\n"}, {"compile_optimised", " optimised\n"}, {"compile_ir", "\n"}};

std::string compile_object(const std::string& ir, Effort effort) {
  if (const std::string directory = library_directory(); !directory.empty()) {
    const std::optional<std::string> object = apart([&] {
      if (!load_llvm(directory)) return std::optional<std::string>();
      is_loaded = true;
      return std::optional(compile_by_llvm(ir, effort));
    });
    if (object) return *object;
  }
  const Ref object = call_llvm(kinds[static_cast<int>(effort)].function, "s#", ir.data(), static_cast<Py_ssize_t>(ir.size()));
  char* bytes;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object.get(), &bytes, &size) < 0) throw_python_error("compiling a kernel");
  return {bytes, static_cast<size_t>(size)};
}

// By LLVM's own loader.
void* link_by_llvm(const std::string& object, const std::string& name) {
  static bool known = false;
  for (const Library library : {vector_library(), other_functions()}) {
    for (const LibraryFunction* f = library.functions; !known && f < library.functions + library.count; ++f) {
      call_llvm("add_symbol", "sK", f->name, reinterpret_cast<unsigned long long>(f->address));
    }
  }
  known = true;
  const Ref address = call_llvm("link", "y#s", object.data(), static_cast<Py_ssize_t>(object.size()), name.c_str());
  void* function = PyLong_AsVoidPtr(address.get());
  if (!function) throw_python_error("linking a kernel");
  return function;
}

void* link(const std::string& object, const std::string& name) {
  void* const function = load_object(object, name, resolve);
  return function ? function : link_by_llvm(object, name);
}

// Of this process, by key: loops that are made again, as more of them was recorded, have most of their kernels already.
std::map<std::string, void*>& known_code() {
  static std::map<std::string, void*> known;
  return known;
}

}  // namespace

thread_local bool CompilesLater::is_on = false;

bool llvm_is_loaded() { return is_loaded; }

void forget_machine_code() { known_code().clear(); }

static std::atomic<Efforts> efforts = Efforts::kAsItPays;
void set_efforts(Efforts wanted) { efforts = wanted; }

const std::string& target() {
  static MadeOnce<std::string> target;
  return target.get(find_target);
}

namespace {

// A loop's module is looked for some times before it is compiled.
std::string digest_of(const std::string& ir) {
  static std::string last_ir, last_digest;  // guarded by the GIL
  if (ir != last_ir) last_digest = blake2b(ir), last_ir = ir;
  return last_digest;
}

// Of a module of such a digest.
std::string key_of(const std::string& digest, Effort effort) { return blake2b(target() + kinds[static_cast<int>(effort)].key + digest); }

std::string name_of(const std::string& key) { return "evalframe_" + hex(key).substr(0, 32); }

// Null: it isn't there.
void* code_at_hand(const std::string& key) {
  if (const auto found = known_code().find(key); found != known_code().end()) return found->second;
  const std::optional<std::string> object = cached_object(key);
  return object ? known_code()[key] = link(*object, name_of(key)) : nullptr;
}

// With no function where none is.
Code best_at_hand(const std::string& digest) {
  for (const Effort effort : {Effort::kFull, Effort::kOptimised, Effort::kQuick}) {
    if (void* const there = code_at_hand(key_of(digest, effort))) return {there, effort};
  }
  return {};
}

}  // namespace

void* machine_code_at_hand(const std::string& ir) {
  const Gil gil;
  return code_at_hand(key_of(digest_of(ir), Effort::kFull));
}

bool is_at_hand(const std::string& ir) {
  const Gil gil;
  try {
    return best_at_hand(digest_of(ir)).function;
  } catch (const std::runtime_error&) {  // no LLVM: who compiles it will be told
    return false;
  }
}

void will_compile(const std::string& ir) {
  const Gil gil;
  try {
    const std::string directory = is_loaded ? std::string() : library_directory();
    if (!directory.empty() && !is_at_hand(ir)) load_llvm_meanwhile(directory);
  } catch (const std::runtime_error&) {
  }
}

static void* code_of(std::string ir, const std::string& digest, Effort effort) {
  if (efforts == Efforts::kQuick) effort = Effort::kQuick;
  const std::string key = key_of(digest, effort);
  if (void* const known = code_at_hand(key)) return known;
  if (CompilesLater::is_on) throw NotCompiled();
  const std::string object = compile_object(with_name(std::move(ir), name_of(key)), effort);
  cache_object(key, object);
  return known_code()[key] = link(object, name_of(key));
}

Code code_at_first(std::string ir) {
  const Gil gil;
  const std::string digest = digest_of(ir);
  if (efforts == Efforts::kFull) return {code_of(std::move(ir), digest, Effort::kFull), Effort::kFull};
  const Code there = best_at_hand(digest);
  return there.function ? there : Code{code_of(std::move(ir), digest, Effort::kQuick), Effort::kQuick};
}

void* machine_code(std::string ir, Effort effort) {
  const Gil gil;
  const std::string digest = digest_of(ir);
  return code_of(std::move(ir), digest, effort);
}

}  // namespace evalframe::native
