// Matches the dimensions of two shapes group by group, each with as few dimensions as can be, as NumPy does.
#include "backends/native/lower/reshape.h"

namespace evalframe::native {

namespace {

// Whether dimensions [first, last) of more than one element lie in memory as one.
bool is_one_dimension(const std::vector<int>& moving, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                      size_t first, size_t last) {
  for (size_t i = first; i + 1 < last; i++) {
    if (strides[moving[i]] != strides[moving[i + 1]] * sizes[moving[i + 1]]) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<Regrouped>> regroup(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                                              const std::vector<int64_t>& shape) {
  std::vector<int> moving;
  for (size_t i = 0; i < sizes.size(); i++) {
    if (sizes[i] != 1) moving.push_back(static_cast<int>(i));
  }
  std::vector<Regrouped> regrouped(shape.size());
  size_t from = 0, to = 0;
  while (from < moving.size() && to < shape.size()) {
    const size_t first_from = from, first_to = to;
    int64_t have = sizes[moving[from++]], want = shape[to++];
    while (have != want) {
      if (want < have) {
        if (to == shape.size()) return std::nullopt;
        want *= shape[to++];
      } else {
        if (from == moving.size()) return std::nullopt;
        have *= sizes[moving[from++]];
      }
    }
    if (!is_one_dimension(moving, sizes, strides, first_from, from)) return std::nullopt;
    for (size_t i = first_to; i < to; i++) {
      if (shape[i] != 1) regrouped[i] = {moving[from - 1], static_cast<int>(to)};
    }
  }
  if (from < moving.size()) return std::nullopt;
  for (; to < shape.size(); to++) {
    if (shape[to] != 1) return std::nullopt;
  }
  return regrouped;
}

}  // namespace evalframe::native
