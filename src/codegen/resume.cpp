#include "codegen/resume.h"

#include <algorithm>

#include "codegen/builder.h"
#include "codegen/entry_kinds.h"
#include "codegen/limits.h"
#include "cpython/variables.h"

namespace evalframe::codegen {

using bytecode::Argument;
using bytecode::Code;
using bytecode::ExceptionRegion;
using bytecode::Flow;
using bytecode::Instruction;
using bytecode::Op;

namespace {

// Code with one of these names may look at all variables of its frame.
constexpr const char* kLooksAtFrame[] = {"locals", "vars", "dir", "eval", "exec", "super", "_getframe", "currentframe"};

bool is_cell(Borrowed code, int slot) {
  return cpython::variable_kind(code, slot) & (cpython::kCellVariable | cpython::kFreeVariable);
}

bool looks_at_frame(Borrowed code) {
  PyObject* names = code.as<PyCodeObject>()->co_names;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
    for (const char* name : kLooksAtFrame) {
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), name) == 0) return true;
    }
  }
  return false;
}

// What can run from the given instructions on, handlers included.
std::vector<bool> reachable(const Code& code, std::vector<int32_t> open) {
  std::vector<bool> reached(code.instructions.size());
  const auto add = [&](int32_t index) {
    if (!reached[index]) reached[index] = true, open.push_back(index);
  };
  for (const int32_t index : open) reached[index] = true;
  while (!open.empty()) {
    const int32_t index = open.back();
    open.pop_back();
    const Flow after = bytecode::flow(code.instructions[index].op);
    if (after == Flow::jump || after == Flow::branch) add(code.instructions[index].target);
    if (after == Flow::next || after == Flow::branch) add(index + 1);
    if (const ExceptionRegion* region = code.handler(index)) add(region->target);
  }
  return reached;
}

Ref tuple_of_names(const std::vector<std::string>& names) {
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
  for (size_t i = 0; tuple && i < names.size(); i++) {
    Ref name = text_object(names[i]);
    if (!name) return Ref();
    PyTuple_SET_ITEM(tuple.get(), i, name.release());
  }
  return tuple;
}

class Maker {
 public:
  Maker(const ResumePlace& place, const std::string& name)
      : place_(place), code_(*place.code), name_(name), locals_(cpython::variable_count(code_.code)),
        call_region_(place.calls_first ? code_.handler(place.next - 1) : nullptr) {}

  Resume make() {
    refuse_what_cannot_be();
    std::vector<int32_t> starts{place_.next};
    if (call_region_) starts.push_back(call_region_->target);
    kept_ = reachable(code_, std::move(starts));
    choose_variables();
    if (!choose_checks()) return std::move(resume_);
    Ref base = make_base();
    if (!base) return std::move(resume_);
    Builder builder(std::move(base));
    write(builder);
    resume_.code = builder.finish();
    return std::move(resume_);
  }

 private:
  void refuse_what_cannot_be() const {
    const auto* object = code_.code.as<PyCodeObject>();
    constexpr int kOwnFrame = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    if (object->co_flags & kOwnFrame) throw limit(CodegenLimit::kGenerator);
    if (!(object->co_flags & CO_OPTIMIZED)) throw limit(CodegenLimit::kNamespace);
    const std::vector<std::string> names = variable_names(code_.code);
    const bool in_class = std::find(names.begin(), names.end(), "__class__") != names.end();
    const bool has_first = locals_ > 0 && place_.bound[0] && !is_cell(code_.code, 0);
    if (in_class && object->co_argcount > 0 && !has_first) throw limit(CodegenLimit::kSuper);
  }

  void choose_variables() {
    const bool all = looks_at_frame(code_.code);
    std::vector<bool> mentioned(locals_);
    for (size_t i = 0; i < kept_.size(); i++) {
      const Instruction& instruction = code_.instructions[i];
      if (kept_[i] && bytecode::argument_kind(instruction.op) == Argument::local) mentioned[instruction.arg] = true;
    }
    const std::vector<std::string> names = variable_names(code_.code);
    std::vector<std::string> rest;
    std::vector<int32_t> rest_slots;
    for (int32_t slot = 0; slot < locals_; slot++) {
      if (is_cell(code_.code, slot)) {
        resume_.cells.push_back(slot);
        free_names_.push_back(names[slot]);
      } else if (place_.bound[slot] && (all || mentioned[slot])) {
        resume_.parameters.push_back(slot);
        variables_.push_back(names[slot]);
      } else {
        rest.push_back(names[slot]);
        rest_slots.push_back(slot);
      }
    }
    for (size_t i = 0; i < place_.stack.size(); i++) {
      if (!place_.stack[i]) continue;
      resume_.parameters.push_back(locals_ + static_cast<int32_t>(i));
      variables_.push_back(unlike("__stack_" + std::to_string(i), names));
    }
    if (place_.calls_first) variables_.push_back(unlike("__callee", names));
    argument_count_ = static_cast<int32_t>(variables_.size());
    place_slots(rest_slots);
    variables_.insert(variables_.end(), rest.begin(), rest.end());
  }

  // A caller by hand may give anything, and the rest of the code runs without a look at what CPython has put there.
  bool choose_checks() {
    const auto depth = static_cast<int32_t>(place_.stack.size());
    std::vector<TakenUp> starts{{place_.next, depth + place_.calls_first, depth}};
    if (call_region_) starts.push_back({call_region_->target, call_region_->depth + call_region_->push_lasti + 1, call_region_->depth});
    std::vector<CheckedParameter> parameters;
    for (size_t i = 0; i < resume_.parameters.size(); i++) {
      const int32_t slot = resume_.parameters[i];
      const EntryKind kind = slot < locals_ ? kind_of_variable(variables_[i]) : kind_of_entry(code_, starts, slot - locals_);
      if (kind == EntryKind::kMade) throw limit(CodegenLimit::kHalfMade);
      if (kind == EntryKind::kAny) continue;
      parameters.push_back({variables_[i], kind});
      resume_.checked.push_back(static_cast<int32_t>(i));
    }
    if (parameters.empty()) return true;
    resume_.check = make_check(name_, parameters);
    return static_cast<bool>(resume_.check);
  }

  // The iterator that a comprehension is called with (3.11).
  static EntryKind kind_of_variable(const std::string& name) { return name == ".0" ? EntryKind::kIterator : EntryKind::kAny; }

  void place_slots(const std::vector<int32_t>& rest) {
    resume_.slot_of.assign(locals_ + place_.stack.size(), -1);
    for (size_t i = 0; i < resume_.parameters.size(); i++) resume_.slot_of[resume_.parameters[i]] = static_cast<int32_t>(i);
    int32_t next = argument_count_;
    for (const int32_t slot : rest) resume_.slot_of[slot] = next++;
    for (const int32_t slot : resume_.cells) resume_.slot_of[slot] = next++;
  }

  Ref make_base() const {
    std::vector<std::pair<const char*, Ref>> changes;
    const int flags = code_.code.as<PyCodeObject>()->co_flags & ~(CO_VARARGS | CO_VARKEYWORDS);
    changes.emplace_back("co_name", text_object(name_));
    changes.emplace_back("co_qualname", text_object(name_));
    changes.emplace_back("co_varnames", tuple_of_names(variables_));
    changes.emplace_back("co_nlocals", Ref::steal(PyLong_FromSize_t(variables_.size())));
    changes.emplace_back("co_cellvars", Ref::steal(PyTuple_New(0)));
    changes.emplace_back("co_freevars", tuple_of_names(free_names_));
    changes.emplace_back("co_argcount", Ref::steal(PyLong_FromLong(argument_count_)));
    changes.emplace_back("co_posonlyargcount", Ref::steal(PyLong_FromLong(0)));
    changes.emplace_back("co_kwonlyargcount", Ref::steal(PyLong_FromLong(0)));
    changes.emplace_back("co_flags", Ref::steal(PyLong_FromLong(flags)));
    return replaced(code_.code, std::move(changes));
  }

  void write(Builder& builder) const {
    builder.set_position(code_.positions[place_.calls_first ? place_.next - 1 : place_.next]);
    write_start(builder, resume_);
    restore_stack(builder);
    const int32_t call_start = builder.next();
    if (place_.calls_first) write_call(builder);
    const int32_t call_end = builder.next();
    // The rest of the code stands in its old order, so only the first jump is new.
    const bool falls_in = std::find(kept_.begin(), kept_.end(), true) - kept_.begin() == place_.next;
    const int32_t jump = falls_in ? -1 : builder.emit(Op::JUMP_FORWARD);
    std::vector<int32_t> moved(code_.instructions.size() + 1);
    for (size_t i = 0; i < kept_.size(); i++) {
      moved[i] = builder.next();
      if (kept_[i]) copy(builder, static_cast<int32_t>(i));
    }
    moved[kept_.size()] = builder.next();
    if (jump >= 0) builder.set_target(jump, moved[place_.next]);
    for (size_t i = 0; i < kept_.size(); i++) {
      if (kept_[i] && code_.instructions[i].target >= 0) builder.set_target(moved[i], moved[code_.instructions[i].target]);
    }
    if (call_region_) builder.add_region({call_start, call_end, moved[call_region_->target], call_region_->depth, call_region_->push_lasti});
    for (const ExceptionRegion& region : code_.regions) {
      if (moved[region.start] == moved[region.end]) continue;
      builder.add_region({moved[region.start], moved[region.end], moved[region.target], region.depth, region.push_lasti});
    }
  }

  // Moves the entries onto the stack: the parameter holds nothing afterwards, as the frame's own place didn't.
  void restore_stack(Builder& builder) const {
    for (size_t i = 0; i < place_.stack.size(); i++) {
      const int32_t slot = resume_.slot_of[locals_ + i];
      if (slot < 0) {
        builder.emit(Op::PUSH_NULL);
        continue;
      }
      builder.load(slot);
      builder.emit(Op::DELETE_FAST, slot);
    }
  }

  void write_call(Builder& builder) const {
    builder.begin_call();
    builder.load(argument_count_ - 1);
    builder.emit(Op::DELETE_FAST, argument_count_ - 1);
    builder.end_callable();
    builder.call(0);
  }

  void copy(Builder& builder, int32_t index) const {
    Instruction instruction = code_.instructions[index];
    if (bytecode::argument_kind(instruction.op) == Argument::local) instruction.arg = resume_.slot_of[instruction.arg];
    builder.set_position(code_.positions[index]);
    builder.emit(instruction);
  }

  const ResumePlace& place_;
  const Code& code_;
  const std::string& name_;
  const int32_t locals_;
  const ExceptionRegion* call_region_;
  Resume resume_;
  std::vector<bool> kept_;
  std::vector<std::string> variables_, free_names_;
  int32_t argument_count_ = 0;
};

}  // namespace

void write_start(Builder& builder, const Resume& resume) {
  if (!resume.cells.empty()) builder.emit(Op::COPY_FREE_VARS, static_cast<int32_t>(resume.cells.size()));
  builder.emit(Op::RESUME);
  if (!resume.check) return;
  builder.begin_call();
  builder.load_constant(resume.check.get());
  builder.end_callable();
  for (const int32_t slot : resume.checked) builder.load(slot);
  builder.call(static_cast<int32_t>(resume.checked.size()));
  builder.emit(Op::POP_TOP);
}

Resume make_resume(const ResumePlace& place, const std::string& name) { return Maker(place, name).make(); }

bool is_in_loop(const Code& code, int32_t index) {
  const Flow after = bytecode::flow(code.instructions[index].op);
  std::vector<int32_t> open;
  if (after == Flow::jump || after == Flow::branch) open.push_back(code.instructions[index].target);
  if (after == Flow::next || after == Flow::branch) open.push_back(index + 1);
  if (const ExceptionRegion* region = code.handler(index)) open.push_back(region->target);
  return reachable(code, std::move(open))[index];
}

int32_t first_place(const Code& code) {
  for (int32_t i = 0; i < static_cast<int32_t>(code.instructions.size()); i++) {
    const Op op = code.instructions[i].op;
    if (op == Op::RESUME) return i + 1;
    if (op != Op::COPY_FREE_VARS && op != Op::MAKE_CELL) return i;
  }
  return 0;
}

}  // namespace evalframe::codegen
