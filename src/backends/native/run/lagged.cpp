// Stores a kernel's slices one slice late.
#include "backends/native/run/lagged.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "backends/native/run/thread_pool.h"

namespace evalframe::native {
namespace {

constexpr int64_t kBytesOfSlice = 64 << 10;   // of the value: with what it is computed of and what was there, part of a second-level cache
constexpr int64_t kFewestBytes = 32 << 20;  // of a value that no cache has any more when it is stored as a whole
constexpr int64_t kFewestSlices = 4;        // of a part: its first and last ones are stored when all are computed
constexpr int kPartsPerThread = 4;          // so that a thread that was held up doesn't hold up the others

int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// The bytes that one row touches, from its first element on.
std::pair<int64_t, int64_t> extent_of_row(const KernelOperand& operand, const int64_t* extents, int rank, int64_t element) {
  int64_t begin = 0, end = element;
  for (int d = 1; d < rank; d++) (operand.strides[d] < 0 ? begin : end) += (extents[d] - 1) * operand.strides[d];
  return {begin, end};
}

// Memory that isn't read again soon needn't go through the caches. to: at a multiple of 8.
void copy_past_caches(char* to, const char* from, size_t bytes) {
  const size_t head = std::min(bytes, -reinterpret_cast<uintptr_t>(to) & 15);
  std::memcpy(to, from, head);
  size_t at = head;
  for (; at + 16 <= bytes; at += 16) _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace

int64_t Lagged::element() const {
  const Kernel& kernel = call_.kernel->kernel();
  return graph::size_of(kernel.outputs[output_ - kernel.inputs.size()].dtype);
}

std::optional<Lagged> Lagged::of(const KernelCall& call, size_t output, const KernelOperand& target) {
  Lagged made(call, output, target);
  const int rank = made.rank();
  const int64_t rows = rank ? call.extents[0] : 0, bytes = rows ? made.row_bytes() : 0;
  if (bytes <= 0 || rows * bytes < kFewestBytes || target.strides[rank - 1] != made.element()) return std::nullopt;
  const std::optional<int64_t> reach = made.reach();
  if (!reach) return std::nullopt;
  // Twice: slices of nearly the same number of rows may have a little less than that.
  const int64_t rows_of_slice = std::max(kBytesOfSlice / bytes, 2 * *reach + 1);
  const int64_t slices = rows / rows_of_slice;
  if (slices < kFewestSlices) return std::nullopt;
  const int threads = threads_here();
  made.parts_ = threads == 1 ? 1 : static_cast<int>(std::min<int64_t>(threads * kPartsPerThread, slices / kFewestSlices));
  made.slices_ = slices / made.parts_;
  std::vector<int64_t> extents(call.extents, call.extents + rank);
  for (const int64_t more : {0, 1}) {
    extents[0] = rows / (made.parts_ * made.slices_) + more;
    call.kernel->make_ready(extents.data(), call.operands);
  }
  return made;
}

std::optional<int64_t> Lagged::reach() const {
  const Kernel& kernel = call_.kernel->kernel();
  const int64_t step = target_.strides[0], last = (call_.extents[0] - 1) * step;
  const auto [begin, end] = extent_of_row(target_, call_.extents, rank(), element());
  if (step < end - begin) return std::nullopt;
  int64_t reach = 0;
  for (size_t i = 0; i < kernel.inputs.size() + kernel.outputs.size(); i++) {
    const bool is_input = i < kernel.inputs.size();
    if (i == output_ || (is_input && kernel.inputs[i].scalar)) continue;
    const KernelOperand& operand = call_.operands[i];
    const auto [low, high] = extent_of_row(operand, call_.extents, rank(), graph::size_of(is_input ? kernel.inputs[i].dtype : kernel.outputs[i - kernel.inputs.size()].dtype));
    const int64_t offset = operand.data - target_.data, way = (call_.extents[0] - 1) * operand.strides[0];
    const bool is_apart = offset + high + std::max<int64_t>(way, 0) <= begin || last + end <= offset + low + std::min<int64_t>(way, 0);
    if (is_apart) continue;
    if (!is_input || operand.strides[0] != step) return std::nullopt;
    const int64_t down = -floor_of(-(offset + high - begin), step) - 1, up = floor_of(offset + low - end, step) + 1;
    reach = std::max({reach, down, -up});
  }
  return reach;
}

int64_t Lagged::border(int part, int64_t slice) const {
  const int64_t begin = call_.extents[0] * part / parts_, end = call_.extents[0] * (part + 1) / parts_;
  return begin + (end - begin) * slice / slices_;
}

FloatFlags Lagged::compute(int64_t begin, int64_t count, char* to) const {
  Arena::Scope scope(Arena::current());
  const size_t ports = call_.kernel->kernel().inputs.size() + call_.kernel->kernel().outputs.size();
  int64_t* const extents = scope.take<int64_t>(static_cast<size_t>(rank()));
  KernelOperand* const operands = scope.take<KernelOperand>(ports);
  std::copy_n(call_.extents, rank(), extents);
  extents[0] = count;
  for (size_t i = 0; i < ports; i++) operands[i] = {call_.operands[i].data + begin * call_.operands[i].strides[0], call_.operands[i].strides};
  operands[output_].data = to;
  return call_.kernel->run(extents, operands);
}

// Visits runs of neighbours in the target: their places there, and relative to the first of these rows in the value.
template <class Visit>
void Lagged::for_each_line(int64_t begin, int64_t count, Visit visit) const {
  const int last = rank() - 1;
  const int64_t* const steps = call_.operands[output_].strides;
  if (last == 0) return visit(target_.data + begin * target_.strides[0], 0, count * element());
  std::vector<int64_t> index(static_cast<size_t>(last), 0);
  for (int d = 0; d >= 0;) {
    char* to = target_.data + begin * target_.strides[0];
    int64_t from = 0;
    for (int i = 0; i < last; i++) to += index[i] * target_.strides[i], from += index[i] * steps[i];
    visit(to, from, call_.extents[last] * element());
    for (d = last - 1; d >= 0 && ++index[d] == (d == 0 ? count : call_.extents[d]); d--) index[d] = 0;
  }
}

void Lagged::store(int64_t begin, int64_t count, const char* from) const {
  char* const kept = call_.operands[output_].data + begin * row_bytes();
  for_each_line(begin, count, [&](char* to, int64_t at, int64_t bytes) {
    copy_past_caches(kept + at, to, static_cast<size_t>(bytes));
    std::memcpy(to, from + at, static_cast<size_t>(bytes));
  });
}

FloatFlags Lagged::run(Arena::Scope& scope) const {
  const auto size = static_cast<size_t>((call_.extents[0] / (parts_ * slices_) + 1) * row_bytes());
  // Of each part the first slice and the last one, which others may read.
  char* const ends = scope.take<char>(2 * static_cast<size_t>(parts_) * size);
  const auto end_of = [&](int part, bool is_last) { return ends + static_cast<size_t>(2 * part + is_last) * size; };
  const auto store_slice = [&](int part, int64_t slice, const char* from) { store(border(part, slice), border(part, slice + 1) - border(part, slice), from); };
  // What was read, and is computed again by calls if something is to be told, mustn't be asked for again here.
  call_.kernel->be_quiet();
  std::atomic<FloatFlags> flags = 0;
  parallel_for(parts_, [&](int part) {
    Arena::Scope own(Arena::current());
    char* const between = own.take<char>(2 * size);
    FloatFlags met = 0;
    for (int64_t slice = 0; slice < slices_; slice++) {
      const bool is_end = slice == 0 || slice == slices_ - 1;
      met |= compute(border(part, slice), border(part, slice + 1) - border(part, slice), is_end ? end_of(part, slice != 0) : between + static_cast<size_t>(slice % 2) * size);
      if (slice >= 2) store_slice(part, slice - 1, between + static_cast<size_t>((slice - 1) % 2) * size);
    }
    _mm_sfence();
    flags |= met;
  });
  parallel_for(parts_, [&](int part) {
    store_slice(part, 0, end_of(part, false));
    store_slice(part, slices_ - 1, end_of(part, true));
    _mm_sfence();
  });
  if (parts_ > 1) call_.kernel->count_run(call_.extents);
  return flags;
}

void Lagged::restore() const {
  const char* const kept = call_.operands[output_].data;
  for_each_line(0, call_.extents[0], [&](char* to, int64_t at, int64_t bytes) { std::memcpy(to, kept + at, static_cast<size_t>(bytes)); });
}

}  // namespace evalframe::native
