#include "regions/block.h"

#include <algorithm>

#include "regions/expression.h"
#include "regions/region.h"
#include "regions/views.h"

namespace evalframe::regions {

using Kind = Type::Kind;

namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kMostBytes = int64_t{1} << 40;
// Of the log that are filled with parts of arrays: with more, arrays and log would take turns in a core's first cache.
constexpr int64_t kUsualBytes = int64_t{1} << 13;
// ... of one that is copied or filled: logging more takes longer than a checkpoint. It isn't asked of less whether it was stored before, either.
constexpr int64_t kFewBytes = int64_t{1} << 9;

}  // namespace

std::vector<Term> words_of(const Written& value) {
  if (value.type.is_complex()) return {value.number.real, value.number.imag};
  if (value.type.is_number()) return {value.number.real};
  return value.words;
}

Written written_int(const Term& value) { return {.type = {Kind::kInt}, .number = native::exact(DType::int64, value)}; }
Written written_float(const Term& value) { return {.type = {Kind::kFloat}, .number = native::exact(DType::float64, value)}; }
Written written_bool(const Term& value) { return {.type = {Kind::kBool}, .number = native::exact(DType::bool_, value)}; }
Written written_complex(const Term& real, const Term& imag) { return {.type = {Kind::kComplex}, .number = native::make(DType::complex128, real, imag)}; }
Written written_scalar(const native::Value& value) { return {.type = {Kind::kNumpy, value.dtype}, .number = value}; }

Written written_constant(Emitter& emitter, PyObject* constant) {
  const Type type = type_of(constant);
  Written value{.type = type, .constant = constant, .varies = Varies::kNot};
  int64_t word = 0;
  switch (type.kind) {
    case Kind::kInt: value.number = native::exact(DType::int64, emitter.integer("i64", PyLong_AsLongLong(constant))); break;
    case Kind::kFloat: value.number = native::exact(DType::float64, emitter.number("double", PyFloat_AS_DOUBLE(constant))); break;
    case Kind::kBool: value.number = native::exact(DType::bool_, emitter.integer("i1", constant == Py_True ? -1 : 0)); break;
    case Kind::kNumpy: {
      if (native::is_float(type.dtype) || type.is_complex()) throw Unsupported("a NumPy number that is known");
      unbox(type, constant, &word);
      if (graph::size_of(type.dtype) < 8) word &= (int64_t{1} << graph::size_of(type.dtype) * 8) - 1;
      value.number = native::exact(type.dtype, emitter.integer(native::register_type(type.dtype), word));
      break;
    }
    case Kind::kComplex: {
      const Py_complex parts = PyComplex_AsCComplex(constant);
      value.number = native::make(DType::complex128, emitter.number("double", parts.real), emitter.number("double", parts.imag));
      break;
    }
    default: value.type = {Kind::kObject};
  }
  return value;
}

Written written(const Type& type, std::vector<Term> words) {
  Written value{.type = type};
  switch (type.kind) {
    case Kind::kInt: value.number = native::exact(DType::int64, words[0]); break;
    case Kind::kFloat: value.number = native::exact(DType::float64, words[0]); break;
    case Kind::kBool: value.number = native::exact(DType::bool_, words[0]); break;
    case Kind::kComplex: value.number = native::make(DType::complex128, words[0], words[1]); break;
    case Kind::kNumpy: value.number = type.is_complex() ? native::make(type.dtype, words[0], words[1]) : native::exact(type.dtype, words[0]); break;
    default: value.words = std::move(words);
  }
  return value;
}

void Block::require(const Term& holds) {
  const bool before = std::exchange(is_strict, true);
  leave_unless(holds);
  is_strict = before;
}

void Block::leave_unless(const Term& holds) {
  if ((pass == Pass::kProbe && (!is_strict || peeks)) || native::holds_always(holds)) return;
  const std::string next = new_label();
  emitter.line("br i1 " + holds.ref + ", label %" + next + ", label %" + leave_ + ", !prof !0");
  emitter.label(next);
}

void Block::expect(const Term& holds) {
  if (pass != Pass::kMany) return leave_unless(holds);
  const Term before = emitter.let("i1", "load i1, ptr " + failed), now = before | !holds;
  emitter.line("store i1 " + now.ref + ", ptr " + failed);
}

void Block::watch(const native::Value& result) {
  watch(result.real);
  if (native::is_complex(result.dtype)) watch(result.imag);
}

// The processor's flags say what all of these and what led to them have met; no optimisation looks into the assembly.
void Block::pin() {
  for (const Term& result : watched_) emitter.line("call void asm sideeffect \"\", \"x\"(" + result.type + " " + result.ref + ")");
  meets_conditions_ |= !watched_.empty();
  may_have_met_ |= !watched_.empty();
  watched_.clear();
}

void Block::look_at_conditions() {
  if (pass != Pass::kTurn) throw Unsupported("conditions in the midst of many turns");
  pin();
  if (!std::exchange(may_have_met_, false)) return;
  emitter.line("call void asm sideeffect \"stmxcsr $0\", \"=*m\"(ptr elementtype(i32) %conditions)");
  const Term met = emitter.let("i32", "load volatile i32, ptr %conditions");
  const Term reported = {&emitter, "i32", "%reported"};
  leave_unless(compare("eq", met & reported, 0));
}

// even: the number of the load among those that vary evenly, which many turns may have done ahead.
native::Value Block::load_from_memory(DType dtype, const Term& address, std::optional<size_t> even, int holder) {
  if (carries && even && carries->loads.count(*even)) return native::exact(dtype, emitter.let(carries->type, "load " + carries->type + ", ptr " + carries->from));
  const size_t index = even.value_or(loaded_types.size());
  if (index >= loaded_types.size()) return native::load_element(emitter, dtype, address.ref, scope_hint(holder));
  return native::exact(dtype, emitter.let(loaded_types[index], "load " + loaded_types[index] + ", ptr " + loaded + std::to_string(index)));
}

namespace {

// Names of LLVM's metadata: of all scopes, and of a holder's.
constexpr int kScopes = 10'000;
enum Scope : int { kItself, kInside, kOutside };
std::string name_of(int holder, Scope scope) { return "!" + std::to_string(kScopes + 1 + 3 * (holder > 0 ? 2 * holder : 1 - 2 * holder) + scope); }

}  // namespace

std::string scope_hint(int holder) { return holder ? ", !alias.scope " + name_of(holder, kInside) + ", !noalias " + name_of(holder, kOutside) : std::string(); }

std::string scopes_text(const Region& region) {
  std::set<int> holders = region.read;
  holders.insert(region.stored.begin(), region.stored.end());
  const std::string all = "!" + std::to_string(kScopes);
  std::string text = all + " = distinct !{" + all + "}\n";
  for (const int holder : holders) {
    const std::string itself = name_of(holder, kItself);
    std::string others;
    for (const int other : holders) {
      const bool are_apart = other != holder && (region.stored.count(holder) || region.stored.count(other));
      if (are_apart) others += (others.empty() ? "" : ", ") + name_of(other, kItself);
    }
    text += itself + " = distinct !{" + itself + ", " + all + "}\n" + name_of(holder, kInside) + " = !{" + itself + "}\n" + name_of(holder, kOutside) + " = !{" + others + "}\n";
  }
  return text;
}

native::Value Block::load(DType dtype, const Term& address, Varies varies, int holder) {
  if (holder) region_.read.insert(holder);
  const std::optional<size_t> even = varies == Varies::kAnyhow ? std::nullopt : std::optional<size_t>(even_loads_++);
  if (puts_off_rows && !even) throw Unsupported("an element anywhere, in turns that change a row");
  if ((peeks || puts_off_rows) && even) peeked.push_back({dtype, address, holder});
  // Nothing but addresses is of interest.
  if (pass == Pass::kProbe) return native::is_complex(dtype) ? native::make(dtype, native::zero(emitter, native::component(dtype)), native::zero(emitter, native::component(dtype))) : native::exact(dtype, native::zero(emitter, dtype));
  if (stores_arrays()) throw Unsupported("an element behind a store into its array");
  const auto is_there = [&](const Store& store) { return store.address.ref == address.ref && store.value.dtype == dtype; };
  const auto known = std::find_if(stores.rbegin(), stores.rend(), is_there);
  native::Value value = known == stores.rend() ? load_from_memory(dtype, address, even, holder) : known->value;
  for (auto at = known.base(); at != stores.end(); ++at) {
    const Store& store = *at;
    if (holder && store.holder && holder != store.holder) continue;
    const Term here = compare("eq", address, store.address);
    const bool is_same = store.value.dtype == dtype, is_complex = native::is_complex(dtype);
    if (!is_same || is_complex) {
      // Of another type, or of two parts that each are aligned: any other overlap is left to NumPy.
      const Term a = convert("ptrtoint", address, "i64"), b = convert("ptrtoint", store.address, "i64");
      const Term overlaps = compare("ult", b - a + 15.0, 31);
      leave_if(is_same ? overlaps & !here : overlaps);
    }
    if (!is_same) continue;
    value.real = select(here, store.value.real, value.real);
    if (is_complex) value.imag = select(here, store.value.imag, value.imag);
  }
  return value;
}

bool Block::stores_arrays() const {
  return std::any_of(stores.begin(), stores.end(), [](const Store& store) { return store.to != nullptr; });
}

bool Block::is_own(const std::string& memory) const {
  // What is to be stored yet comes before.
  const auto has = [&](const std::shared_ptr<Strided>& array) { return array && array->memory == memory; };
  return own_.count(memory) > 0 && std::none_of(stores.begin(), stores.end(), [&](const Store& store) { return has(store.to) || has(store.from); });
}

void Block::compute_stores() {
  for (Store& store : stores) {
    if (!store.computes) continue;
    store.from = std::make_shared<Strided>(spread(*this, strided(*this, computed(*this, written_array(store.computes))), *store.to));
    store.computes = nullptr;
  }
}

void Block::store(Store store, const std::string& memory, const Term& base) {
  // What a call has made may be gone before what was stored into it would be put back.
  if (held_.count(base.ref)) mark_done();
  if (store.holder) region_.stored.insert(store.holder);
  compute_stores();
  if (is_own(memory)) return write_store(store);
  // What is stored there before isn't seen any more.
  if (!store.to && !stores_arrays()) std::erase_if(stores, [&](const Store& other) { return other.address.ref == store.address.ref && other.value.dtype == store.value.dtype; });
  stores.push_back(std::move(store));
}

void Block::write_store(const Store& store) {
  kept_counts.clear();
  if (!store.to) return native::store_element(emitter, store.value, store.address.ref, scope_hint(store.holder));
  const Term none = emitter.integer("i64", 0), one = emitter.integer("i64", 1);
  const size_t rank = store.to->sizes.size();
  if (rank > 2) {
    Place from{number_at(0), std::vector<Term>(rank, none)};
    if (store.from) from = {store.from->data, store.from->strides};
    else native::store_element(emitter, store.value, from.data.ref, "");
    return call_over({.kind = Routine::Kind::kMoveSpace, .dtype = store.to->type.dtype, .rank = static_cast<int>(rank)}, store.to->sizes, {from, {store.to->data, store.to->strides}});
  }
  const auto rows_of = [&](const Strided& array) -> Rows { return {array.data, rank == 2 ? array.strides[0] : none, array.strides.back()}; };
  Rows from{number_at(0), none, none};
  if (store.from) from = rows_of(*store.from);
  else native::store_element(emitter, store.value, from.data.ref, "");
  const Rows to = rows_of(*store.to);
  if (rank == 2) return call({.kind = Routine::Kind::kMove, .dtype = store.to->type.dtype}, {from, to}, store.to->sizes[0], store.to->sizes[1], true);
  // What the block has put into memory of its own for this overlaps nothing else.
  const bool is_apart = store.from && taken_.count(store.from->memory) > 0 && store.from->memory != store.to->memory;
  if (is_apart) return copy_row(store.to->type.dtype, from, to, store.to->sizes[0]);
  call({.kind = Routine::Kind::kMoveRow, .dtype = store.to->type.dtype}, {from, to}, one, store.to->sizes[0], true);
}

// Between places that don't overlap.
void Block::copy_row(DType dtype, const Rows& from, const Rows& to, const Term& count) {
  const Term size = emitter.integer("i64", graph::size_of(dtype));
  const std::string whole = new_label(), some = new_label(), each = new_label(), behind = new_label();
  const Term is_whole = compare("eq", from.inner, size) & compare("eq", to.inner, size);
  if (holds_always(is_whole)) return copy_bytes(from.data, to.data, count * size);
  emitter.line("br i1 " + is_whole.ref + ", label %" + whole + ", label %" + some);
  emitter.label(whole);
  copy_bytes(from.data, to.data, count * size);
  emitter.line("br label %" + behind);
  emitter.label(some);
  // Along the target's memory, upwards, as NumPy does: elements of it may overlap each other.
  const Term is_turned = compare("slt", to.inner, 0), last = count - 1.0;
  const auto upwards = [&](const Rows& row) -> Rows {
    const Term offset = select(is_turned, last * row.inner, emitter.integer("i64", 0));
    return {emitter.let("ptr", "getelementptr i8, ptr " + row.data.ref + ", i64 " + offset.ref), {}, select(is_turned, -row.inner, row.inner)};
  };
  const Rows source = upwards(from), target = upwards(to);
  emitter.line("br i1 " + compare("sgt", count, 0).ref + ", label %" + each + ", label %" + behind);
  emitter.label(each);
  const std::string next = "%" + each + ".next";
  const Term at = emitter.let("i64", "phi i64 [ 0, %" + some + " ], [ " + next + ", %" + each + " ]");
  const std::string type = "i" + std::to_string(8 * std::min(graph::size_of(dtype), 8));
  const auto part = [&](const Rows& row, int offset) { return emitter.let("ptr", "getelementptr i8, ptr " + row.data.ref + ", i64 " + (at * row.inner + static_cast<double>(offset)).ref).ref; };
  for (int offset = 0; offset < graph::size_of(dtype); offset += 8) {
    const Term value = emitter.let(type, "load " + type + ", ptr " + part(source, offset) + ", align 1");
    emitter.line("store " + type + " " + value.ref + ", ptr " + part(target, offset) + ", align 1");
  }
  emitter.line(next + " = add nsw i64 " + at.ref + ", 1");
  emitter.line("br i1 " + compare("slt", Term{&emitter, "i64", next}, count).ref + ", label %" + each + ", label %" + behind);
  emitter.label(behind);
}

// As a LogEntry.
void Block::log(const Store& store) {
  const int size = graph::size_of(store.value.dtype);
  const std::string on = new_label(), behind = new_label();
  Term logs{&emitter, "i1", "%logs"};
  if (!arrays_are_logged.empty()) logs = logs & !emitter.let("i1", "load i1, ptr " + arrays_are_logged);
  emitter.line("br i1 " + logs.ref + ", label %" + on + ", label %" + behind);
  emitter.label(on);
  for (int part = 0; part < size; part += 8) {
    const std::string type = "i" + std::to_string(8 * std::min(size, 8));
    const Term place = emitter.let("ptr", "getelementptr i8, ptr " + store.address.ref + ", i64 " + std::to_string(part));
    Term old = emitter.let(type, "load " + type + ", ptr " + place.ref + ", align " + std::to_string(std::min(size, 8)));
    if (type != "i64") old = convert("zext", old, "i64");
    const Term where = convert("ptrtoint", place, "i64") | emitter.integer("i64", int64_t{std::min(size, 8)} << kLogSizeShift);
    const Term top = emitter.let("ptr", "load ptr, ptr %log.top");
    emitter.line("store i64 " + where.ref + ", ptr " + top.ref);
    const Term second = emitter.let("ptr", "getelementptr i64, ptr " + top.ref + ", i64 1"), next = emitter.let("ptr", "getelementptr i64, ptr " + top.ref + ", i64 2");
    emitter.line("store i64 " + old.ref + ", ptr " + second.ref);
    emitter.line("store ptr " + next.ref + ", ptr %log.top");
    logged_++;
  }
  emitter.line("br label %" + behind);
  emitter.label(behind);
}

void Block::keep() {
  if (pass == Pass::kTurn) pin();
  if (pass == Pass::kTurn && !done_ && stores.size() == 1 && stores[0].computes) return keep_computed();
  compute_stores();
  if (done_) look_at_conditions();
  else if (stores_arrays()) log_parts();
  else if (done_where_) look_where(*done_where_);
  for (const Store& store : stores) {
    if (!store.to && !done_ && !(pass == Pass::kMany && store.varies != Varies::kAnyhow)) log(store);
    write_store(store);
    if (carries) emitter.line("store " + carries->type + " " + store.value.real.ref + ", ptr " + carries->to);
  }
  stores.clear();
}

// Of an array whose last axis may have gaps, as one whose last axis has one element.
static Strided in_rows(Block& block, Strided array) {
  const Term size = block.emitter.integer("i64", graph::size_of(array.type.dtype));
  if (array.strides.back().ref == size.ref) return array;
  array.sizes.push_back(block.emitter.integer("i64", 1));
  array.strides.push_back(size);
  return array;
}

// If there is no room for all parts that are to be stored, they are only stored where there was no condition, and a checkpoint follows.
void Block::log_parts() {
  if (pass != Pass::kTurn) throw Unsupported("conditions in the midst of many turns");
  const Term may{&emitter, "i1", "%logs"};
  Term unlogged = done_where_.value_or(emitter.integer("i1", 0));
  for (const Store& store : stores) {
    if (store.to) unlogged = !logged_where(may, unlogged, in_rows(*this, *store.to), false);
  }
  look_where(unlogged);
  done_where_ = unlogged;
}

// Computed in the array itself where it may be, and the log has room for what was there. Else it is only stored where there was no condition, and a
// checkpoint follows.
void Block::keep_computed() {
  Store store = std::move(stores[0]);
  stores.clear();
  const Term may = may_compute_in(*this, *store.computes, *store.to);
  const Term in_place = logged_where(may, done_where_.value_or(emitter.integer("i1", 0)), *store.to, true);
  const std::string copies = new_label(), stored = new_label();
  store.from = std::make_shared<Strided>(computed_for(*this, store.computes, *store.to, in_place));
  const bool may_have_met = may_have_met_;
  emitter.line("br i1 " + in_place.ref + ", label %" + stored + ", label %" + copies);
  emitter.label(copies);
  look_at_conditions();
  write_store(store);
  emitter.line("br label %" + stored);
  emitter.label(stored);
  may_have_met_ = may_have_met;
  done_where_ = !in_place;
}

void Block::look_where(const Term& holds) {
  if (!may_have_met_) return;
  const std::string looks = new_label(), behind = new_label();
  emitter.line("br i1 " + holds.ref + ", label %" + looks + ", label %" + behind);
  emitter.label(looks);
  look_at_conditions();
  emitter.line("br label %" + behind);
  emitter.label(behind);
  may_have_met_ = true;
}

Term Block::has_room_for(const Strided& array, bool is_computed) {
  const Term log{&emitter, "ptr", "%log"}, top = emitter.let("ptr", "load ptr, ptr %log.top");
  const Term used = native::convert("ptrtoint", top, "i64") - native::convert("ptrtoint", log, "i64");
  const Term rows = array.sizes.size() == 2 ? array.sizes[0] : emitter.integer("i64", 1), &columns = array.sizes.back();
  const Term fits = compare("ule", rows, kManyElements) & compare("ule", columns, kManyElements);
  const Term bytes = rows * entries_of(columns * array.strides.back()) * emitter.integer("i64", sizeof(LogEntry));
  const Term has_room = compare("sle", used + bytes, kUsualBytes);
  if (!is_computed) return fits & has_room & compare("sle", bytes, kFewBytes);
  return fits & (has_room | (compare("eq", used, 0) & compare("sle", bytes, kRoomForArrays * static_cast<int64_t>(sizeof(LogEntry)))));
}

// Whether what is there is in the log where it may be, in one way or another. is_due: a checkpoint follows, so that it needn't be.
// A function of the module's does it for all arrays with as many axes: names of its parameters are those that the function has which calls it.
Term Block::logged_where(const Term& may, const Term& is_due, const Strided& array, bool is_computed) {
  Block inner("log", "unused", region_);
  const auto parameter = [&](const char* type, const std::string& name) { return Term{&inner.emitter, type, name}; };
  Strided there{.type = array.type, .base = {}, .data = parameter("ptr", "%array"), .sizes = {}, .strides = {}};
  std::string name = "@log." + std::to_string(graph::size_of(array.type.dtype)) + (is_computed ? ".computed" : ".stored");
  std::string parameters, given;
  const auto add = [&](const Term& value, const std::string& parameter) {
    parameters += ", " + value.type + " " + parameter;
    given += ", " + value.type + " " + value.ref;
  };
  for (size_t axis = 0; axis < array.sizes.size(); axis++) {
    const std::string number = std::to_string(axis);
    there.sizes.push_back(parameter("i64", "%size" + number));
    add(array.sizes[axis], there.sizes.back().ref);
    const bool is_known = array.strides[axis].ref.front() != '%';
    there.strides.push_back(parameter("i64", is_known ? array.strides[axis].ref : "%stride" + number));
    name += "." + (is_known ? array.strides[axis].ref : "x");
    if (!is_known) add(array.strides[axis], there.strides.back().ref);
  }
  const Term is_logged = inner.log_where(parameter("i1", "%may"), parameter("i1", "%due"), there, is_computed);
  emitter.need(inner.emitter.needed());
  emitter.need("define internal { ptr, i1 } " + name + "(ptr %log, ptr %end, ptr %parts, ptr %log.part, ptr %log.rows, ptr %outer, i1 zeroext %may, i1 zeroext %due, ptr %array" + parameters +
               ") #3 {\n  %log.top = alloca ptr\n  store ptr %end, ptr %log.top\n" + inner.emitter.text() +
               "  %new = load ptr, ptr %log.top\n  %given = insertvalue { ptr, i1 } poison, ptr %new, 0\n  %both = insertvalue { ptr, i1 } %given, i1 " + is_logged.ref +
               ", 1\n  ret { ptr, i1 } %both\n}");
  const Term end = emitter.let("ptr", "load ptr, ptr %log.top");
  const Term both = emitter.let("{ ptr, i1 }", "call { ptr, i1 } " + name + "(ptr %log, ptr " + end.ref + ", ptr %parts, ptr %log.part, ptr %log.rows, ptr %outer, i1 zeroext " + may.ref +
                                                   ", i1 zeroext " + is_due.ref + ", ptr " + array.data.ref + given + ") #3");
  emitter.line("store ptr " + emitter.let("ptr", "extractvalue { ptr, i1 } " + both.ref + ", 0").ref + ", ptr %log.top");
  return emitter.let("i1", "extractvalue { ptr, i1 } " + both.ref + ", 1");
}

Term Block::log_where(const Term& may, const Term& is_due, const Strided& array, bool is_computed) {
  const std::string before = new_label(), asks = new_label(), logs = new_label(), logged = new_label(), other = new_label(), none = new_label(), parts = new_label(), some = new_label(), behind = new_label();
  emitter.line("br label %" + before);
  emitter.label(before);
  emitter.line("br i1 " + may.ref + ", label %" + asks + ", label %" + behind);
  emitter.label(asks);
  const bool is_small = array.sizes.size() <= (is_computed ? 2 : 1);
  const Term has_room = is_small ? has_room_for(array, is_computed) & !is_due : emitter.integer("i1", 0);
  emitter.line("br i1 " + has_room.ref + ", label %" + logs + ", label %" + other);
  emitter.label(logs);
  if (is_small) log_array(array);
  emitter.line("br label %" + logged);
  emitter.label(logged);
  emitter.line("br label %" + behind);
  emitter.label(other);
  Term bytes = emitter.integer("i64", graph::size_of(array.type.dtype));
  for (const Term& size : array.sizes) bytes = bytes * size;
  const Term asks_parts = compare("sgt", bytes, kFewBytes) & compare("ne", emitter.let("i64", "load i64, ptr " + emitter.let("ptr", "getelementptr i64, ptr %parts, i64 1").ref), 0);
  emitter.line("br i1 " + asks_parts.ref + ", label %" + parts + ", label %" + none);
  emitter.label(none);
  emitter.line("br label %" + behind);
  emitter.label(parts);
  const Term is_kept = logged_part(array, is_due);
  emitter.line("br label %" + some);
  emitter.label(some);
  emitter.line("br label %" + behind);
  emitter.label(behind);
  return emitter.let("i1", "phi i1 [ false, %" + before + " ], [ false, %" + none + " ], [ true, %" + logged + " ], [ " + is_kept.ref + ", %" + some + " ]");
}

Term Block::logged_part(const Strided& array, const Term& is_due) {
  const size_t rank = array.sizes.size();
  for (size_t axis = 0; axis < rank; axis++) {
    put("%outer", axis, array.sizes[axis]);
    put("%outer", rank + axis, array.strides[axis]);
  }
  const Term end = emitter.let("ptr", "load ptr, ptr %log.top");
  const Term made = emitter.let("ptr", "call ptr %log.part(ptr %parts, ptr " + end.ref + ", ptr " + array.data.ref + ", ptr %outer, i64 " + std::to_string(rank) + ", i1 zeroext " + is_due.ref + ")");
  const Term is_kept = compare("ne", native::convert("ptrtoint", made, "i64"), 0);
  emitter.line("store ptr " + select(is_kept, made, end).ref + ", ptr %log.top");
  return is_kept;
}

// Of rows of neighbours. One that ends the log was logged by the turn before, whose statement has stored the very same.
void Block::log_array(const Strided& array) {
  const Term top = emitter.let("ptr", "load ptr, ptr %log.top");
  const auto entry_of = [&](const Term& end, int word) { return emitter.let("ptr", "getelementptr i64, ptr " + end.ref + ", i64 " + std::to_string(word)); };
  const Term bytes = array.sizes.back() * array.strides.back();
  if (array.sizes.size() == 2) {
    const std::string operands = "ptr " + top.ref + ", ptr " + array.data.ref + ", i64 " + array.strides[0].ref + ", i64 " + array.sizes[0].ref + ", i64 " + bytes.ref;
    emitter.line("store ptr " + emitter.let("ptr", "call ptr %log.rows(" + operands + ")").ref + ", ptr %log.top");
    return;
  }
  const Term where = native::convert("ptrtoint", array.data, "i64") | emitter.integer("i64", static_cast<int64_t>(kManyBytes << kLogSizeShift));
  const auto loaded = [&](int word) { return emitter.let("i64", "load i64, ptr " + entry_of(top, word).ref); };
  const std::string logs = new_label(), behind = new_label();
  emitter.line("br i1 " + (compare("eq", loaded(-2), where) & compare("eq", loaded(-1), bytes)).ref + ", label %" + behind + ", label %" + logs);
  emitter.label(logs);
  copy_bytes(array.data, top, bytes);
  const Term end = emitter.let("ptr", "getelementptr [16 x i8], ptr " + top.ref + ", i64 " + entries_of(bytes).ref);
  emitter.line("store i64 " + where.ref + ", ptr " + entry_of(end, -2).ref);
  emitter.line("store i64 " + bytes.ref + ", ptr " + entry_of(end, -1).ref);
  emitter.line("store ptr " + end.ref + ", ptr %log.top");
  emitter.line("br label %" + behind);
  emitter.label(behind);
}

void Block::copy_bytes(const Term& from, const Term& to, const Term& bytes) {
  emitter.need("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)");
  emitter.line("call void @llvm.memcpy.p0.p0.i64(ptr " + to.ref + ", ptr " + from.ref + ", i64 " + bytes.ref + ", i1 false)");
}

Term Block::new_serial() {
  const Term serial = emitter.let("i64", std::string("load i64, ptr ") + kSerial) + 1.0;
  emitter.line("store i64 " + serial.ref + ", ptr " + kSerial);
  return serial;
}

// What is written again and again is a function of the module's: a statement on arrays has each of these, and LLVM takes its time for every line.
// Where free memory goes on behind so many bytes; null: there are less. Each array has a cache line of its own, so that even those without
// elements are told apart. More than can be is less than none.
static std::string text_of_behind() {
  Emitter emitter(false, "%v");
  const Term top{&emitter, "ptr", "%top"}, end{&emitter, "ptr", "%end"}, bytes{&emitter, "i64", "%bytes"};
  const Term room = (bytes + static_cast<double>(kCacheLine)) & emitter.integer("i64", -kCacheLine);
  const Term left = native::convert("ptrtoint", end, "i64") - native::convert("ptrtoint", top, "i64");
  const Term fits = compare("ult", bytes, kMostBytes) & compare("sle", room, left);
  const Term next = emitter.let("ptr", "getelementptr i8, ptr %top, i64 " + room.ref);
  const Term given = emitter.let("ptr", "select i1 " + fits.ref + ", ptr " + next.ref + ", ptr null");
  return "define internal ptr @behind(ptr %top, ptr %end, i64 %bytes) #5 {\n" + emitter.text() + "  ret ptr " + given.ref + "\n}";
}

Term Block::allocate(const Term& bytes) {
  if (pass != Pass::kTurn) throw Unsupported("new arrays in many turns");
  const Term top = emitter.let("ptr", std::string("load ptr, ptr ") + kTop);
  static const std::string behind = text_of_behind();
  emitter.need(behind);
  const Term end = emitter.let("ptr", "load ptr, ptr %half.end");
  const Term next = emitter.let("ptr", "call ptr @behind(ptr " + top.ref + ", ptr " + end.ref + ", i64 " + bytes.ref + ")");
  leave_unless(compare("ne", native::convert("ptrtoint", next, "i64"), 0));
  emitter.line("store ptr " + next.ref + ", ptr " + kTop);
  taken_.insert(top.ref);
  own_.insert(top.ref);
  return top;
}

void Block::begin_memory() {
  top_ = emitter.let("ptr", std::string("load ptr, ptr ") + kTop);
  held_before_ = emitter.let("i64", "load i64, ptr %held");
}

void Block::end_memory(const std::vector<Term>& in_variables, const std::vector<Term>& arrays) {
  const auto keeps = [&](const std::set<std::string>& some) { return std::any_of(in_variables.begin(), in_variables.end(), [&](const Term& word) { return some.count(word.ref) > 0; }); };
  if (!taken_.empty() && !keeps(taken_)) emitter.line("store ptr " + top_.ref + ", ptr " + kTop);
  else if (!taken_.empty() && done_) change_halves(arrays);
  if (!held_.empty() && !keeps(held_)) call({.kind = Routine::Kind::kRelease}, {}, emitter.integer("i64", 1), held_before_, false);
}

void Block::change_halves(const std::vector<Term>& arrays) {
  const auto load = [&](const char* place) { return emitter.let("ptr", std::string("load ptr, ptr ") + place); };
  const auto as_number = [](const Term& address) { return native::convert("ptrtoint", address, "i64"); };
  const Term begin = load("%half"), end = load("%half.end"), top = load(kTop);
  Term all = emitter.integer("i1", -1);
  for (const Term& array : arrays) all = all & compare("uge", as_number(array), as_number(begin)) & compare("ult", as_number(array), as_number(end));
  const Term low{&emitter, "ptr", "%arena"}, middle{&emitter, "ptr", "%arena.middle"}, high{&emitter, "ptr", "%arena.end"};
  const Term is_low = compare("eq", as_number(begin), as_number(low));
  const auto store = [&](const Term& value, const char* place) { emitter.line("store ptr " + value.ref + ", ptr " + place); };
  store(select(all, select(is_low, middle, low), top), kTop);
  store(select(all, select(is_low, high, middle), end), "%half.end");
  store(select(all, select(is_low, middle, low), begin), "%half");
}

Term Block::number_at(int index) { return emitter.let("ptr", "getelementptr [" + std::to_string(kBytesOfNumber) + " x i8], ptr %numbers, i64 " + std::to_string(index)); }

void Block::call(const Routine& routine, const std::vector<Rows>& operands, const Term& rows, const Term& columns, bool skips_empty, const std::optional<Term>& has_done) {
  const Term given = called(routine, operands, rows, columns, skips_empty);
  if (!routine.may_refuse()) return;
  const Term is_made = compare("eq", given, 0);
  if (!has_done) return leave_unless(is_made);
  const std::string made = new_label(), refused = new_label();
  emitter.line("br i1 " + is_made.ref + ", label %" + made + ", label %" + refused + ", !prof !0");
  emitter.label(refused);
  emitter.line("br i1 " + has_done->ref + ", label %rollback, label %" + leave_);
  emitter.label(made);
}

void Block::call_over(const Routine& routine, const std::vector<Term>& sizes, const std::vector<Place>& operands, const std::optional<Term>& has_done) {
  if (operands.size() > kMostOperands || sizes.size() > static_cast<size_t>(kMostDimensions)) throw Unsupported("an operation on so many arrays");
  size_t at = 0;
  Term count = emitter.integer("i64", 1);
  for (const Term& size : sizes) {
    put("%outer", at++, size);
    count = count * size;
  }
  for (size_t i = 0; i < operands.size(); i++) {
    put("%data", i, operands[i].data);
    for (const Term& stride : operands[i].strides) put("%outer", at++, stride);
  }
  call(routine, {}, count, emitter.integer("i64", 1), true, has_done);
}

void Block::put(const char* list, size_t index, const Term& value) {
  const Term at = index ? emitter.let("ptr", std::string("getelementptr i64, ptr ") + list + ", i64 " + std::to_string(index)) : Term{&emitter, "ptr", list};
  emitter.line("store " + value.type + " " + value.ref + ", ptr " + at.ref);
}

void Block::count_calls() {
  if (std::exchange(counts_calls_, true)) return;
  const Term due = emitter.let("i64", std::string("load i64, ptr ") + kDue) - Term{&emitter, "i64", kTurnsOfCalls};
  emitter.line("store i64 " + due.ref + ", ptr " + kDue);
}

// Of a RoutineEntry.
static constexpr const char* kCallOfRoutine = R"(define internal i32 @routine(ptr %entry, ptr %data, ptr %outer, ptr %inner, i64 %rows, i64 %columns, i1 zeroext %any, i1 zeroext %neighbours) #3 {
  br i1 %any, label %calls, label %nothing
nothing:
  ret i32 0
calls:
  %kernel.at = getelementptr { ptr, ptr, ptr }, ptr %entry, i64 0, i32 2
  %routine.at = getelementptr { ptr, ptr, ptr }, ptr %entry, i64 0, i32 1
  br i1 %neighbours, label %of.neighbours, label %of.any, !prof !0
of.neighbours:
  %kernel = load ptr, ptr %kernel.at
  %of.kernel = tail call i32 %kernel(ptr %data, ptr %outer, ptr %inner, i64 %rows, i64 %columns)
  ret i32 %of.kernel
of.any:
  %routine = load ptr, ptr %routine.at
  %function = load ptr, ptr %entry
  %of.routine = tail call i32 %function(ptr %routine, ptr %data, ptr %outer, ptr %inner, i64 %rows, i64 %columns)
  ret i32 %of.routine
})";

Term Block::called(const Routine& routine, const std::vector<Rows>& operands, const Term& rows, const Term& columns, bool skips_empty) {
  if (pass != Pass::kTurn) throw Unsupported("calls in many turns");
  if (operands.size() > kMostOperands) throw Unsupported("an operation on so many arrays");
  const auto found = std::find(region_.routines.begin(), region_.routines.end(), routine);
  const std::string number = std::to_string(found - region_.routines.begin());
  if (found == region_.routines.end()) region_.routines.push_back(routine);
  count_calls();
  if (routine.kind != Routine::Kind::kCount) kept_counts.clear();
  for (size_t i = 0; i < operands.size(); i++) {
    put("%data", i, operands[i].data);
    put("%outer", i, operands[i].outer);
    put("%inner", i, operands[i].inner);
  }
  const Term any = skips_empty ? compare("sgt", rows, 0) & compare("sgt", columns, 0) : emitter.integer("i1", -1);
  const Term neighbours = routine.has_kernel_of_neighbours() ? are_neighbours(routine, operands, rows, columns) : emitter.integer("i1", 0);
  const Term entry = emitter.let("ptr", "getelementptr { ptr, ptr, ptr }, ptr %routines, i64 " + number);
  emitter.need(kCallOfRoutine);
  meets_conditions_ |= routine.reports();
  may_have_met_ |= routine.reports();
  return emitter.let("i32", "call i32 @routine(ptr " + entry.ref + ", ptr %data, ptr %outer, ptr %inner, i64 " + rows.ref + ", i64 " + columns.ref + ", i1 zeroext " + any.ref + ", i1 zeroext " +
                                neighbours.ref + ") #3");
}

// Whether a kernel's inputs are rows of neighbours, as most are, and not too many of them.
Term Block::are_neighbours(const Routine& routine, const std::vector<Rows>& operands, const Term& rows, const Term& columns) {
  Term all = compare("ule", rows, kManyElements) & compare("ule", columns, kManyElements) & compare("ule", rows * columns, kManyElements);
  for (size_t i = 0; i < routine.kernel->inputs.size(); i++) {
    const native::KernelInput& input = routine.kernel->inputs[i];
    if (!input.scalar) all = all & compare("eq", operands[i].inner, graph::size_of(input.dtype));
  }
  return all;
}

}  // namespace evalframe::regions
