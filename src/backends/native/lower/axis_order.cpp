// Sorts axes by how far their steps move in memory.
#include "backends/native/lower/axis_order.h"

#include <algorithm>
#include <cstdlib>

namespace evalframe::native {

void sort_axes(const std::vector<const int64_t*>& strides, int rank, int* axes) {
  for (int i = 0; i < rank; i++) {
    const int axis = rank - 1 - i;
    int place = i;
    for (int j = i - 1; j >= 0; j--) {
      bool compared = false, inside = false;
      for (const int64_t* operand : strides) {
        const int64_t ours = std::abs(operand[axis]), other = std::abs(operand[axes[j]]);
        if (!ours || !other) continue;
        if (other <= ours) inside = false;
        else if (!compared) inside = true;
        compared = true;
      }
      if (compared && !inside) break;
      if (compared) place = j;
    }
    std::copy_backward(axes + place, axes + i, axes + i + 1);
    axes[place] = axis;
  }
}

bool sums_in_pieces(const int64_t* strides, const int64_t* sizes, int rank, uint32_t reduced) {
  std::vector<int> axes(static_cast<size_t>(rank));
  std::vector<int64_t> moves(strides, strides + rank);
  for (int i = 0; i < rank; i++) {
    if (sizes[i] == 1) moves[static_cast<size_t>(i)] = 0;
  }
  sort_axes({moves.data()}, rank, axes.data());
  int last = -1;
  for (const int axis : axes) {
    if (sizes[axis] == 1) continue;
    const bool both = last >= 0 && (reduced >> axis & 1) && (reduced >> last & 1);
    if (both && strides[axis] != strides[last] * sizes[last]) return true;
    last = axis;
  }
  return false;
}

}  // namespace evalframe::native
