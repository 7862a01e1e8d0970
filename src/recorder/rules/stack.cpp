// Rules for constants, locals and shuffling the stack: labels move as the objects do.
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

Plan nothing(const Site&) { return {}; }
bool always(const Site&) { return true; }

void clear_popped(const Site& site, const Plan&) {
  for (int i = site.frame.depth(); i < site.depth; i++) site.recorder.set_label(i, 0);
}

void push_null(const Site& site, const Plan&) { site.recorder.set_label(site.depth, 0); }

void load_const(const Site& site, const Plan&) {
  site.recorder.set_label(site.depth, site.recorder.constant(site.frame.slot(site.depth)));
}

bool is_bound(const Site& site) { return site.frame.slot(site.instruction.arg); }
Plan load_fast_bound(const Site& site) { return is_bound(site) ? Plan{} : plan_raise(); }

void load_fast(const Site& site, const Plan&) {
  site.recorder.set_label(site.depth, site.recorder.label(site.instruction.arg));
}

void load_fast_and_clear(const Site& site, const Plan& plan) {
  load_fast(site, plan);
  site.recorder.set_label(site.instruction.arg, 0);
}

void store_fast(const Site& site, const Plan&) {
  site.recorder.set_label(site.instruction.arg, site.recorder.label(site.depth - 1));
  site.recorder.set_label(site.depth - 1, 0);
}

void delete_fast(const Site& site, const Plan&) { site.recorder.set_label(site.instruction.arg, 0); }

void copy(const Site& site, const Plan&) {
  site.recorder.set_label(site.depth, site.recorder.label(site.depth - site.instruction.arg));
}

void swap(const Site& site, const Plan&) {
  const int top = site.depth - 1, other = site.depth - site.instruction.arg;
  const uint32_t value = site.recorder.label(top);
  site.recorder.set_label(top, site.recorder.label(other));
  site.recorder.set_label(other, value);
}

}  // namespace

void add_stack_rules(RuleTable& table) {
  auto add = [&](bytecode::Op op, void (*after)(const Site&, const Plan&)) { table[static_cast<size_t>(op)] = {nothing, after, always}; };
  using enum bytecode::Op;
  add(NOP, clear_popped);
  add(RESUME, clear_popped);
  add(POP_TOP, clear_popped);
  table[static_cast<size_t>(END_FOR)] = {nothing, clear_popped};
  add(PUSH_NULL, push_null);
  add(LOAD_CONST, load_const);
  table[static_cast<size_t>(LOAD_FAST)] = {load_fast_bound, load_fast, is_bound};
  table[static_cast<size_t>(LOAD_FAST_CHECK)] = {load_fast_bound, load_fast, is_bound};
  table[static_cast<size_t>(LOAD_FAST_AND_CLEAR)] = {nothing, load_fast_and_clear};
  add(STORE_FAST, store_fast);
  table[static_cast<size_t>(DELETE_FAST)] = {nothing, delete_fast};
  add(COPY, copy);
  add(SWAP, swap);
}

}  // namespace evalframe::recorder
