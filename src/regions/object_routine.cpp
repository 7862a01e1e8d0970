#include "regions/object_routine.h"

#include "backends/native/run/float_flags.h"
#include "backends/node_call.h"
#include "core/few.h"
#include "cpython/exceptions.h"
#include "cpython/objects.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/error_state.h"
#include "frontends/numpy/numpy_api.h"

namespace evalframe::regions {

using Kind = Type::Kind;

namespace {

// Held objects from which on the loop is left, so that memory is given back.
constexpr int64_t kMostHeld = 256, kMostHeldBytes = int64_t{4} << 20;

// An array over memory of the loop's. Nobody may keep it.
Ref array_over(const Type& type, const int64_t* words) {
  npy_intp sizes[kMostDimensions];
  std::copy_n(words + 1, type.rank, sizes);
  return Ref::steal(PyArray_SimpleNewFromData(type.rank, sizes, numpy::type_number(type.dtype), std::bit_cast<void*>(words[0])));
}

class Operands {
 public:
  Operands(const ObjectCall& call, const Held& held, const int64_t* words) : call_(call), held_(held), words_(words) {}

  Ref object(const Given& given) {
    switch (given.kind) {
      case Given::Kind::kKnown: return Ref::borrow(call_.graph.constants[static_cast<size_t>(given.known)].get());
      case Given::Kind::kObject: return Ref::borrow(held_.bound[given.known]);
      case Given::Kind::kValue: return value(given.type, words_ + given.word);
      case Given::Kind::kTuple: return packed(given, PyTuple_New, [](PyObject* all, Py_ssize_t i, PyObject* item) { PyTuple_SET_ITEM(all, i, item); });
      case Given::Kind::kList: return packed(given, PyList_New, [](PyObject* all, Py_ssize_t i, PyObject* item) { PyList_SET_ITEM(all, i, item); });
      case Given::Kind::kSlice: {
        const Ref start = object(given.items[0]), stop = object(given.items[1]), step = object(given.items[2]);
        return Ref::steal(start && stop && step ? PySlice_New(start.get(), stop.get(), step.get()) : nullptr);
      }
    }
    return Ref();
  }

  // Whether the result, or anything else, has one of them now.
  bool are_kept() const {
    return std::any_of(lent_.begin(), lent_.end(), [](const Ref& array) { return Py_REFCNT(array.get()) != 1; });
  }
  void let_go() { lent_.clear(); }

 private:
  Ref value(const Type& type, const int64_t* words) {
    if (type.kind != Kind::kFresh && type.kind != Kind::kView) return Boxes().box(type, words);
    Ref array = type.kind == Kind::kFresh ? array_over(type, words) : Boxes().box(type, words);
    if (array) lent_.push_back(Ref::borrow(array.get()));
    return array;
  }

  template <class Make, class Set>
  Ref packed(const Given& given, Make make, Set set) {
    Ref all = Ref::steal(make(static_cast<Py_ssize_t>(given.items.size())));
    for (size_t i = 0; all && i < given.items.size(); i++) {
      Ref item = object(given.items[i]);
      if (!item) return Ref();
      set(all.get(), static_cast<Py_ssize_t>(i), item.release());
    }
    return all;
  }

  const ObjectCall& call_;
  const Held& held_;
  const int64_t* const words_;
  std::vector<Ref> lent_;
};

Ref called(const ObjectCall& call, Held& held, const std::vector<Ref>& operands) {
  Few<PyObject*, 8> borrowed(operands.size());
  for (size_t i = 0; i < operands.size(); i++) borrowed[i] = operands[i].get();
  const auto run = [&] { return backends::call_node(call.graph, call.graph.nodes[0], borrowed.data()); };
  if (!call.may_report) return run();
  // What NumPy would report is raised: the program does it again, at its own place.
  if (!held.raising || held.raising_for != held.reported) held.raising = numpy::raising_state(held.reported), held.raising_for = held.reported;
  const numpy::InErrorState scope(held.raising.get());
  return scope.is_entered() ? run() : Ref();
}

// An interrupt, or the like.
bool is_for_programs_end(const Ref& exception) { return !PyType_IsSubtype(Py_TYPE(exception.get()), reinterpret_cast<PyTypeObject*>(PyExc_Exception)); }

// Null, with no exception: the call raises, as the program's own one will. What isn't raised again when it is done once more was none of its own:
// a signal's handler, or another thread, raised it while Python's code ran.
Ref result_of(const ObjectCall& call, Held& held, const std::vector<Ref>& operands) {
  Ref result = called(call, held, operands);
  if (result) return result;
  Ref raised = cpython::take_raised();
  if (call.may_report) result = called(call, held, operands);
  if (result) {
    cpython::raise_soon(std::move(raised));
    return result;
  }
  Ref again = PyErr_Occurred() ? cpython::take_raised() : Ref();
  if (is_for_programs_end(raised)) cpython::raise_soon(std::move(raised));
  else if (again && (is_for_programs_end(again) || Py_TYPE(again.get()) != Py_TYPE(raised.get()))) cpython::raise_soon(std::move(again));
  return Ref();
}

}  // namespace

void Held::release(size_t to) {
  while (objects.size() > to) objects.pop_back();
  count = static_cast<int64_t>(objects.size());
  if (objects.empty()) bytes = 0;
}

bool run_object_call(const ObjectCall& call, Held& held, int64_t* words) {
  if (held.count >= kMostHeld || held.bytes >= kMostHeldBytes) return false;
  Operands boxes(call, held, words);
  Ref result;
  {
    std::vector<Ref> operands;
    for (const Given& given : call.operands) {
      operands.push_back(boxes.object(given));
      if (!operands.back()) break;
    }
    if (operands.empty() || operands.back()) result = result_of(call, held, operands);
  }
  native::clear_flags();
  if (!result) {
    PyErr_Clear();  // of what couldn't be made for it
    return false;
  }
  if (call.result.kind == Kind::kUnbound) return true;
  const bool is_array = call.result.kind == Kind::kHeld;
  Type type = type_of(result.get());
  if (type.kind == Kind::kArray) type = of_any_strides(std::move(type)), type.kind = Kind::kHeld;
  if (type != call.result || boxes.are_kept()) return false;
  unbox(type, result.get(), words);
  if (!is_array) return true;
  held.bytes += PyArray_NBYTES(result.as<PyArrayObject>());
  held.objects.push_back(std::move(result));
  held.count = static_cast<int64_t>(held.objects.size());
  return true;
}

}  // namespace evalframe::regions
