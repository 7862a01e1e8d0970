"""LLVM through llvmlite: IR text to object code for this machine, object code to an address. Called by the C++ core."""

import functools

import llvmlite
import llvmlite.binding as llvm


@functools.cache
def _features() -> str:
    return str(llvm.get_host_cpu_features().flatten())


def _machine() -> llvm.TargetMachine:
    return _machine_of(2)


@functools.cache
def _machine_of(level: int) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(), opt=level, reloc="pic", codemodel="small"
    )


@functools.cache
def _engine() -> llvm.ExecutionEngine:
    # One engine for all kernels of the process; it owns their code.
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())


def target() -> str:
    """Everything besides the IR that object code depends on."""
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{llvm.get_host_cpu_name()} {_features()} llvmlite {llvmlite.__version__} LLVM {version}"


def add_symbol(name: str, address: int) -> None:
    """Makes a function of the core callable from kernels."""
    llvm.add_symbol(name, address)


# Behind it in a module's text: functions that come in when its loops are vectors, see src/backends/native/code/late.h.
_LATE = "; late\n"


def _parsed(ir: str) -> llvm.ModuleRef:
    module = llvm.parse_assembly(ir)
    module.triple = _machine().triple
    module.data_layout = str(_machine().target_data)
    module.verify()
    return module


def _pass_builder() -> llvm.PassBuilder:
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = False
    options.loop_interleaving = True
    options.loop_unrolling = True
    return llvm.create_pass_builder(_machine(), options)


def _with_late(module: llvm.ModuleRef, late: str, builder: llvm.PassBuilder) -> llvm.ModuleRef:
    if late:
        module.link_in(_parsed(late))
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.run(module, builder)
    return module


def _optimized(ir: str) -> llvm.ModuleRef:
    early, _, late = ir.partition(_LATE)
    module, builder = _parsed(early), _pass_builder()
    builder.getModulePassManager().run(module, builder)
    return _with_late(module, late, builder)


def _unoptimized(ir: str) -> llvm.ModuleRef:
    early, _, late = ir.partition(_LATE)
    return _with_late(_parsed(early), late, _pass_builder())


def compile_ir(ir: str) -> bytes:
    """The object code of a module, optimised for this machine."""
    return bytes(_machine().emit_object(_optimized(ir)))


def compile_optimised(ir: str) -> bytes:
    """The same in half of the time: instructions are chosen one by one, of what was optimised."""
    return bytes(_machine_of(0).emit_object(_optimized(ir)))


def compile_quickly(ir: str) -> bytes:
    """The same in a tenth of the time: nothing is optimised, so that variables stay in memory."""
    return bytes(_machine_of(0).emit_object(_unoptimized(ir)))


def assembly(ir: str) -> str:
    """The assembly of a module, for people."""
    return str(_machine().emit_assembly(_optimized(ir)))


def link(code: bytes, name: str) -> int:
    """Loads object code and returns the address of the function `name`."""
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(name)
    if not address:
        raise RuntimeError(f"object code without the function {name}")
    return int(address)
