// LLVM, by the C functions of llvmlite's library, as llvmlite.binding declares them.
#include "backends/native/machine/llvm.h"

#include <dlfcn.h>

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <type_traits>

#include "backends/native/code/late.h"
#include "backends/native/machine/machine.h"

namespace evalframe::native {
namespace {

struct Context;
struct Module;
struct Target;
struct TargetMachine;
struct TargetData;
struct Options;
struct PassBuilder;
struct Passes;
struct Buffer;

// Texts that a function gives are llvmlite's, to be given back (`text_of`).
struct Functions {
  void (*InitializeNativeTarget)();
  void (*InitializeNativeAsmPrinter)();
  void (*InitializeNativeAsmParser)();
  void (*GetDefaultTargetTriple)(char** text);
  void (*GetHostCPUName)(char** text);
  int (*GetHostCPUFeatures)(char** text);
  void (*DisposeString)(char* text);
  Context* (*ContextCreate)();
  void (*ContextDispose)(Context*);
  Module* (*ParseAssembly)(Context*, const char* ir, char** message);
  void (*SetTarget)(Module*, const char* triple);
  void (*SetDataLayout)(Module*, const char* layout);
  bool (*VerifyModule)(Module*, char** message);
  void (*DisposeModule)(Module*);
  int (*LinkModules)(Module*, Module* from, char** message);  // uses up what it takes from
  Target* (*GetTargetFromTriple)(const char* triple, char** message);
  TargetMachine* (*CreateTargetMachine)(Target*, const char* triple, const char* cpu, const char* features, int level, const char* reloc, const char* code_model, int prints, int jit, const char* abi);
  void (*DisposeTargetMachine)(TargetMachine*);
  TargetData* (*CreateTargetMachineData)(TargetMachine*);
  void (*CopyStringRepOfTargetData)(TargetData*, char** text);
  void (*DisposeTargetData)(TargetData*);
  Options* (*CreatePipelineTuningOptions)();
  void (*PTOSetLoopInterleaving)(Options*, bool);
  void (*PTOSetLoopVectorization)(Options*, bool);
  void (*PTOSetSLPVectorization)(Options*, bool);
  void (*PTOSetLoopUnrolling)(Options*, bool);
  void (*DisposePipelineTuningOptions)(Options*);
  PassBuilder* (*CreatePassBuilder)(TargetMachine*, Options*);
  void (*DisposePassBuilder)(PassBuilder*);
  Passes* (*buildPerModuleDefaultPipeline)(PassBuilder*, int level);
  Passes* (*CreateNewModulePassManager)();
  void (*module_AddAlwaysInlinerPass)(Passes*);
  void (*RunNewModulePassManager)(Passes*, Module*, PassBuilder*);
  void (*DisposeNewModulePassManger)(Passes*);
  Buffer* (*TargetMachineEmitToMemory)(TargetMachine*, Module*, int is_object, char** message);
  const char* (*GetBufferStart)(Buffer*);
  size_t (*GetBufferSize)(Buffer*);
  void (*DisposeMemoryBuffer)(Buffer*);
};

// What the process has for good.
struct Llvm {
  Functions call;
  std::string triple, cpu, features;
};
const Llvm* llvm = nullptr;

std::string text_of(const Functions& call, char* text) {
  const std::string copy = text ? text : "";
  if (text) call.DisposeString(text);
  return copy;
}

[[noreturn]] void fail(const char* doing, const std::string& message) { throw std::runtime_error(std::string("compiling a kernel: ") + doing + ": " + message); }

template <class T> using Owned = std::unique_ptr<T, void (*)(T*)>;

std::optional<Functions> functions_of(void* handle) {
  Functions call;
  bool has_all = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, (std::string("LLVMPY_") + name).c_str()));
    has_all &= function != nullptr;
  };
#define FIND(name) find(call.name, #name)
  FIND(InitializeNativeTarget), FIND(InitializeNativeAsmPrinter), FIND(InitializeNativeAsmParser);
  FIND(GetDefaultTargetTriple), FIND(GetHostCPUName), FIND(GetHostCPUFeatures), FIND(DisposeString);
  FIND(ContextCreate), FIND(ContextDispose);
  FIND(ParseAssembly), FIND(SetTarget), FIND(SetDataLayout), FIND(VerifyModule), FIND(DisposeModule), FIND(LinkModules);
  FIND(GetTargetFromTriple), FIND(CreateTargetMachine), FIND(DisposeTargetMachine);
  FIND(CreateTargetMachineData), FIND(CopyStringRepOfTargetData), FIND(DisposeTargetData);
  FIND(CreatePipelineTuningOptions), FIND(DisposePipelineTuningOptions);
  FIND(PTOSetLoopInterleaving), FIND(PTOSetLoopVectorization), FIND(PTOSetSLPVectorization), FIND(PTOSetLoopUnrolling);
  FIND(CreatePassBuilder), FIND(DisposePassBuilder), FIND(buildPerModuleDefaultPipeline);
  FIND(CreateNewModulePassManager), FIND(module_AddAlwaysInlinerPass);
  FIND(RunNewModulePassManager), FIND(DisposeNewModulePassManger);
  FIND(TargetMachineEmitToMemory), FIND(GetBufferStart), FIND(GetBufferSize), FIND(DisposeMemoryBuffer);
#undef FIND
  return has_all ? std::optional(call) : std::nullopt;
}

// Instructions are chosen one by one at level 0.
Owned<TargetMachine> machine_of(int level) {
  const auto& [call, triple, cpu, features] = *llvm;
  char* message = nullptr;
  Target* const target = call.GetTargetFromTriple(triple.c_str(), &message);
  const std::string told = text_of(call, message);
  if (!target) fail("finding the target", told);
  TargetMachine* const machine = call.CreateTargetMachine(target, triple.c_str(), cpu.c_str(), features.c_str(), level, "pic", "small", 0, 0, "");
  if (!machine) fail("making the target's machine", triple);
  return {machine, call.DisposeTargetMachine};
}

Owned<Module> parsed(Context* context, std::string ir, TargetMachine* machine) {
  const Functions& call = llvm->call;
  char* message = nullptr;
  Owned<Module> module(call.ParseAssembly(context, ir.c_str(), &message), call.DisposeModule);
  if (const std::string told = text_of(call, message); !module || !told.empty()) fail("LLVM IR parsing error", told);
  call.SetTarget(module.get(), llvm->triple.c_str());
  const Owned<TargetData> data(call.CreateTargetMachineData(machine), call.DisposeTargetData);
  char* layout = nullptr;
  call.CopyStringRepOfTargetData(data.get(), &layout);
  call.SetDataLayout(module.get(), text_of(call, layout).c_str());
  char* faults = nullptr;
  const bool is_broken = call.VerifyModule(module.get(), &faults);
  if (const std::string told = text_of(call, faults); is_broken) fail("LLVM's verifier", told);
  return module;
}

Owned<PassBuilder> pass_builder(TargetMachine* machine) {
  const Functions& call = llvm->call;
  const Owned<Options> options(call.CreatePipelineTuningOptions(), call.DisposePipelineTuningOptions);
  call.PTOSetLoopVectorization(options.get(), true);
  call.PTOSetSLPVectorization(options.get(), false);
  call.PTOSetLoopInterleaving(options.get(), true);
  call.PTOSetLoopUnrolling(options.get(), true);
  return {call.CreatePassBuilder(machine, options.get()), call.DisposePassBuilder};
}

void optimise(Module* module, PassBuilder* builder) {
  const Owned<Passes> passes(llvm->call.buildPerModuleDefaultPipeline(builder, 2), llvm->call.DisposeNewModulePassManger);
  llvm->call.RunNewModulePassManager(passes.get(), module, builder);
}

// Functions that are called, and their code in the place of the calls.
void add_late(Module* module, Owned<Module> late, PassBuilder* builder) {
  const Functions& call = llvm->call;
  char* message = nullptr;
  const bool fails = call.LinkModules(module, late.release(), &message) != 0;
  if (const std::string told = text_of(call, message); fails) fail("LLVM's linker", told);
  const Owned<Passes> passes(call.CreateNewModulePassManager(), call.DisposeNewModulePassManger);
  call.module_AddAlwaysInlinerPass(passes.get());
  call.RunNewModulePassManager(passes.get(), module, builder);
}

std::optional<Llvm> loaded(const std::string& directory) {
  void* const handle = dlopen((directory + "libllvmlite.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::optional<Functions> found = handle ? functions_of(handle) : std::nullopt;
  if (!found) return {};
  const Functions& call = *found;
  call.InitializeNativeTarget();
  call.InitializeNativeAsmPrinter();
  call.InitializeNativeAsmParser();
  char *triple = nullptr, *cpu = nullptr, *features = nullptr;
  call.GetDefaultTargetTriple(&triple);
  call.GetHostCPUName(&cpu);
  call.GetHostCPUFeatures(&features);
  return Llvm{call, text_of(call, triple), text_of(call, cpu), text_of(call, features)};
}

}  // namespace

bool load_llvm(const std::string& directory) {
  static std::once_flag once;
  static std::optional<Llvm> made;
  std::call_once(once, [&] {
    made = loaded(directory);
    if (made) llvm = &*made;
  });
  return llvm != nullptr;
}

// Never destroyed: that would wait.
static std::future<bool>& loading() {
  static auto& loading = *new std::future<bool>;
  return loading;
}

void load_llvm_meanwhile(const std::string& directory) {
  if (loading().valid()) return;
  try {
    loading() = std::async(std::launch::async, load_llvm, directory);
  } catch (const std::system_error&) {  // no thread to be had
  }
}

void wait_for_llvm() {
  if (loading().valid()) loading().wait();
}

std::string compile_by_llvm(const std::string& ir, Effort effort) {
  const Functions& call = llvm->call;
  const Owned<Context> context(call.ContextCreate(), call.ContextDispose);
  const Owned<TargetMachine> machine = machine_of(effort == Effort::kFull ? 2 : 0);
  const auto [early, late] = parts_of(ir);
  const Owned<Module> module = parsed(context.get(), std::string(early), machine.get());
  const Owned<PassBuilder> builder = pass_builder(machine.get());
  if (effort != Effort::kQuick) optimise(module.get(), builder.get());
  if (!late.empty()) add_late(module.get(), parsed(context.get(), std::string(late), machine.get()), builder.get());
  char* message = nullptr;
  const Owned<Buffer> buffer(call.TargetMachineEmitToMemory(machine.get(), module.get(), 1, &message), call.DisposeMemoryBuffer);
  if (const std::string told = text_of(call, message); !buffer) fail("LLVM's code generation", told);
  return {call.GetBufferStart(buffer.get()), call.GetBufferSize(buffer.get())};
}

}  // namespace evalframe::native
