#include "regions/rolls.h"

#include "regions/views.h"

namespace evalframe::regions {

ExpressionRef rolled(Block& block, const Written& array, size_t axis, const Term& by) {
  const ExpressionRef before = leaf(block, array);
  ExpressionRef made = operation(native::ScalarOp::cast, before->dtype, {before->is_rolled() ? before->operands[0] : before});
  made->sizes = before->sizes;
  made->moved = before->moved;
  if (!before->is_rolled()) made->moved.assign(made->sizes.size(), block.emitter.integer("i64", 0));
  // Nothing but this has to have it, unless a variable does.
  before->is_computed = true;
  Term& moved = made->moved[axis];
  const Term &size = made->sizes[axis], sum = moved + by;
  moved = select(compare("slt", sum, size), sum, sum - size);
  return made;
}

namespace {

struct Piece {
  Term from, to, count;
};

std::vector<Piece> pieces_along(Block& block, const Expression& rolled, size_t axis) {
  const Term none = block.emitter.integer("i64", 0), kept = rolled.sizes[axis] - rolled.moved[axis];
  if (rolled.moved[axis].ref == none.ref) return {{none, none, rolled.sizes[axis]}};
  return {{none, rolled.moved[axis], kept}, {kept, none, rolled.moved[axis]}};
}

}  // namespace

Written rolled_copy(Block& block, const Expression& rolled) {
  const Strided from = *rolled.operands[0]->array;
  const size_t rank = rolled.sizes.size();
  Written result{.type = fresh_type(from.type.dtype, static_cast<int>(rank))};
  Term bytes = block.emitter.integer("i64", graph::size_of(from.type.dtype));
  for (const Term& size : rolled.sizes) bytes = bytes * size;
  result.words = {block.allocate(bytes)};
  result.words.insert(result.words.end(), rolled.sizes.begin(), rolled.sizes.end());
  const Strided to = strided(block, result);
  const Term none = block.emitter.integer("i64", 0), one = block.emitter.integer("i64", 1);
  const auto rows_of = [&](const Strided& array, const Term& row, const Term& column) -> Block::Rows {
    Term offset = column * array.strides.back();
    if (rank == 2) offset = offset + row * array.strides[0];
    return {block.emitter.let("ptr", "getelementptr i8, ptr " + array.data.ref + ", i64 " + offset.ref), rank == 2 ? array.strides[0] : none, array.strides.back()};
  };
  const Routine routine{.kind = rank == 2 ? Routine::Kind::kMove : Routine::Kind::kMoveRow, .dtype = from.type.dtype};
  const std::vector<Piece> of_rows = rank == 2 ? pieces_along(block, rolled, 0) : std::vector<Piece>{{none, none, one}};
  for (const Piece& rows : of_rows) {
    for (const Piece& columns : pieces_along(block, rolled, rank - 1)) {
      block.call(routine, {rows_of(from, rows.from, columns.from), rows_of(to, rows.to, columns.to)}, rows.count, columns.count, true);
    }
  }
  return result;
}

}  // namespace evalframe::regions
