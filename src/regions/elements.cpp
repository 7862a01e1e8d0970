#include "regions/elements.h"

#include <algorithm>

#include "frontends/numpy/numpy_api.h"
#include "guards/guards.h"
#include "regions/numbers.h"
#include "regions/views.h"

namespace evalframe::regions {

using Kind = Type::Kind;

bool is_index(const Written& index) {
  return index.type.kind == Kind::kInt || (index.type.kind == Kind::kNumpy && native::is_integer(index.type.dtype));
}

namespace {

void require_array(const Written& array) {
  if (!array.type.is_array()) throw Unsupported("items of " + (array.is_tuple ? std::string("a tuple") : text_of(array.type)));
}

// The address of what is `index` steps further along an axis.
Term step_along(Block& block, const Term& address, const Term& index, const Term& stride) {
  const Term offset = index * stride;
  return block.emitter.let("ptr", "getelementptr i8, ptr " + address.ref + ", i64 " + offset.ref);
}

struct Address {
  Term address;
  Varies varies = Varies::kNot;
  std::shared_ptr<Strided> in;  // the array
};

// Leaves where an index is out of range, or isn't one element's.
Address address_of(Block& block, const Written& array, const Written& index) {
  require_array(array);
  const std::vector<Written> one = {index};
  const std::vector<Written>& indices = index.is_tuple ? index.items : one;
  if (static_cast<int>(indices.size()) != array.type.rank) throw Unsupported("part of an array: " + text_of(array.type));
  if (!is_computed(array.type.dtype)) throw Unsupported(std::string("elements of ") + graph::name(array.type.dtype));
  if (!(array.type.flags & NPY_ARRAY_ALIGNED)) throw Unsupported("elements that aren't aligned");
  const Strided all = strided(block, array);
  Address result{all.data, block.pass == Pass::kTurn ? Varies::kAnyhow : array.varies, std::make_shared<Strided>(all)};
  std::vector<Term> numbers;
  std::string name = all.data.ref;
  for (int axis = 0; axis < array.type.rank; axis++) {
    if (!is_index(indices[axis])) throw Unsupported("an index that is no int");
    numbers.push_back(as_int(block, indices[axis]));
    result.varies = std::max(result.varies, index_varies(block, array.varies, indices[axis].varies));
    name += " " + numbers.back().ref + " " + all.sizes[axis].ref + " " + all.strides[axis].ref;
  }
  const auto [known, is_new] = block.addresses.try_emplace(name);
  if (!is_new) return {known->second, result.varies, result.in};
  for (int axis = 0; axis < array.type.rank; axis++) {
    const Term &number = numbers[static_cast<size_t>(axis)], &size = all.sizes[axis];
    Term stride = all.strides[axis];
    const Varies varies = index_varies(block, array.varies, indices[axis].varies);
    const Term at = index_in(block, number, size, varies, indices[axis].varies);
    if (varies == Varies::kEvenly && axis == array.type.rank - 1) {
      // One element beside the other, or one turn after the other.
      const Term beside = block.emitter.integer("i64", graph::size_of(array.type.dtype));
      if (block.pass == Pass::kProbe) block.require(compare("eq", stride, beside));
      stride = beside;
    }
    result.address = step_along(block, result.address, at, stride);
  }
  known->second = result.address;
  return result;
}

}  // namespace

Written get_item(Block& block, const Written& owner, const Written& index) {
  if (owner.is_tuple) {
    const Type type = index.constant ? type_of(index.constant) : Type{};
    if (type.kind != Kind::kInt) throw Unsupported("an item of a tuple by an index that varies");
    const auto count = static_cast<int64_t>(owner.items.size());
    int64_t at = PyLong_AsLongLong(index.constant);
    if (at < 0) at += count;
    if (at < 0 || at >= count) throw Unsupported("an item that a tuple doesn't have");
    return owner.items[at];
  }
  const Address at = address_of(block, owner, index);
  return written_scalar(block.load(owner.type.dtype, at.address, at.varies, at.in->holder));
}

void set_item(Block& block, const Written& array, const Written& index, const Written& value) {
  require_array(array);
  if (!(array.type.flags & NPY_ARRAY_WRITEABLE)) throw Unsupported("a store into an array that is read-only");
  const auto [address, varies, in] = address_of(block, array, index);
  const bool is_anywhere = varies == Varies::kAnyhow && array.varies == Varies::kNot;
  block.store({.address = address, .value = as_element(block, value, array.type.dtype), .varies = varies, .in = is_anywhere ? in : nullptr, .holder = in->holder}, in->memory, in->base);
}

Written item_at(Block& block, const Written& array, const Term& index) {
  const Strided all = strided(block, array);
  const Term address = step_along(block, all.data, index, all.strides[0]);
  if (array.type.rank == 1) return written_scalar(block.load(array.type.dtype, address, Varies::kAnyhow, all.holder));
  return view_of(block, {all.type, all.base, address, {all.sizes.begin() + 1, all.sizes.end()}, {all.strides.begin() + 1, all.strides.end()}});
}

Term length_of(Block& block, const Written& owner) {
  if (owner.type.kind == Kind::kRange) return owner.words[2];
  require_array(owner);
  if (owner.type.rank == 0) throw Unsupported("the length of an array without dimensions");
  return sizes_of(block, owner)[0];
}

namespace {

Written part_of(const Written& number, const std::string& name) {
  if (!number.type.is_complex() || (name != "real" && name != "imag")) throw Unsupported("the attribute " + name + " of " + text_of(number.type));
  const Term& part = name == "real" ? number.number.real : number.number.imag;
  if (number.type.kind == Kind::kComplex) return written_float(part);
  return written_scalar(native::exact(native::component(number.type.dtype), part));
}

}  // namespace

Written get_attribute(Block& block, const Written& owner, const std::string& name) {
  if (owner.type.is_number()) return part_of(owner, name);
  require_array(owner);
  if (name == "ndim") return written_int(block.emitter.integer("i64", owner.type.rank));
  if (name != "shape" && name != "size") throw Unsupported("the attribute " + name + " of an array");
  const std::vector<Term> sizes = sizes_of(block, owner);
  // What moves evenly has the same sizes in all turns.
  const Varies varies = owner.varies == Varies::kEvenly ? Varies::kNot : owner.varies;
  Written shape{.is_tuple = true};
  Term product = block.emitter.integer("i64", 1);
  for (int axis = 0; axis < owner.type.rank; axis++) {
    const Term& size = sizes[axis];
    shape.items.push_back(written_int(size));
    shape.items.back().varies = varies;
    product = product * size;
  }
  Written count = written_int(product);
  count.varies = varies;
  return name == "shape" ? shape : count;
}

}  // namespace evalframe::regions
