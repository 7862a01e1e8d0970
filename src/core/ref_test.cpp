// Who owns a reference, and when it is dropped.
#include "core/ref.h"

#include "core/testing.h"

using evalframe::Ref;

TEST(RefBorrowAddsAndDropsOneReference) {
  Ref list = Ref::steal(PyList_New(0));
  const Py_ssize_t before = Py_REFCNT(list.get());
  {
    Ref second = Ref::borrow(list.get());
    EXPECT(Py_REFCNT(list.get()) == before + 1);
    Ref moved = std::move(second);
    EXPECT(!second && Py_REFCNT(list.get()) == before + 1);
  }
  EXPECT(Py_REFCNT(list.get()) == before);
}
