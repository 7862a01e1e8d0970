#include "codegen/transform.h"

#include "codegen/transform_parts.h"

namespace evalframe::codegen {

Transformed Transform::make() {
  choose_base();
  if (!base_) return std::move(result_);
  Builder builder(std::move(base_));
  b_ = &builder;
  exit_ = recording_.exit_at(end_);
  if (!recording_.returns) states_ = recording_.state_at(end_);
  write();
  result_.code = resumes_.finished(builder.finish());
  return std::move(result_);
}

// The code object whose frames run the transformed code: the function's own, or the resume function's of the place.
void Transform::choose_base() {
  if (!(code().code.as<PyCodeObject>()->co_flags & CO_OPTIMIZED)) throw limit(CodegenLimit::kNamespace);
  if (recording_.iterator >= 0) throw limit(CodegenLimit::kTurns);
  if (!recording_.generators.empty()) throw limit(CodegenLimit::kGenerator);
  if (recording_.handles) throw limit(CodegenLimit::kHandles);
  if (recording_.needs_frames) throw limit(CodegenLimit::kFrames);
  if (!recording_.classes.empty()) throw limit(CodegenLimit::kClasses);
  if (recording_.hashed) throw limit(CodegenLimit::kKeys);
  const auto is_call = [](const recorder::Name& name) { return name.kind == recorder::Name::Kind::kCall || name.kind == recorder::Name::Kind::kContext; };
  if (std::any_of(recording_.names.begin(), recording_.names.end(), is_call)) throw limit(CodegenLimit::kCalls);
  if (recording_.start.size() != 1) throw limit(CodegenLimit::kInsideCall);
  const recorder::FrameStart& start = recording_.start[0];
  const std::vector<uint32_t>& initial = recording_.initial[0];
  at_start_ = start.next == 0;
  if (at_start_) {
    base_ = Ref::borrow(start.code->code);
    for (int32_t i = 0; i < locals(); i++) slot_of_.push_back(i), given_.push_back(initial[i] != 0);
    return;
  }
  if (start.next < first_place(code())) throw limit(CodegenLimit::kPrefix);
  const ResumeFunction* resume = resumes_.at(start.function.get(), {start.code, start.next, bound_slots(code(), initial), stack_entries(code(), initial)});
  if (!resume) return;
  resumed_ = &resume->resume;
  base_ = Ref::borrow(resume->resume.code.get());
  slot_of_ = resume->resume.slot_of;
  given_.assign(slot_of_.size(), false);
  for (const int32_t slot : resume->resume.parameters) given_[slot] = true;
  for (const int32_t slot : resume->resume.cells) given_[slot] = true;
}

void Transform::write() {
  const int32_t first = recording_.start[0].next;
  b_->set_position(code().positions[at_start_ ? std::max(first_place(code()) - 1, 0) : first]);
  write_start();
  count_uses();
  load_sources();
  const bool calls = end_ > 0;
  const int32_t from = b_->next();
  if (calls) call_graph();
  const int32_t to = calls ? call_end_ : from;
  if (!rebuilt_.empty()) {
    if (changes_dicts()) throw limit(CodegenLimit::kDict);
    rebuild();
  } else {
    make_shared_containers();
  }
  store_names();
  if (recording_.returns) {
    load(recording_.result);
    b_->emit(Op::RETURN_VALUE);
  } else if (states_.size() > 1) {
    break_in_callee();
  } else {
    break_here();
  }
  write_handlers();
  if (calls) write_leave(from, to);
}

void Transform::write_start() {
  if (resumed_) return codegen::write_start(*b_, *resumed_);
  const int32_t free = code().code.as<PyCodeObject>()->co_nfreevars;
  if (free) b_->emit(Op::COPY_FREE_VARS, free);
  b_->emit(Op::RESUME);
}

Transformed transform(const Recording& recording, const Callables& callables, ResumeFunctions& resumes) {
  try {
    return Transform(recording, callables, resumes).make();
  } catch (const PythonRaised&) {
    return {};
  }
}

}  // namespace evalframe::codegen
