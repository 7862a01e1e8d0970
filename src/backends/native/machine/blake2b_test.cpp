// The digest is Python's own.
#include "backends/native/machine/blake2b.h"

#include "core/ref.h"
#include "core/testing.h"

using evalframe::Ref;

static std::string by_hashlib(const std::string& data) {
  const Ref hashlib = Ref::steal(PyImport_ImportModule("hashlib"));
  const Ref function = Ref::steal(PyObject_GetAttrString(hashlib.get(), "blake2b")), bytes = Ref::steal(PyBytes_FromStringAndSize(data.data(), static_cast<Py_ssize_t>(data.size())));
  const Ref arguments = Ref::steal(PyTuple_Pack(1, bytes.get())), keywords = Ref::steal(Py_BuildValue("{s:i}", "digest_size", 32));
  const Ref hash = Ref::steal(PyObject_Call(function.get(), arguments.get(), keywords.get())), digest = Ref::steal(PyObject_CallMethod(hash.get(), "digest", nullptr));
  return {PyBytes_AsString(digest.get()), static_cast<size_t>(PyBytes_Size(digest.get()))};
}

TEST(Blake2bIsPythons) {
  std::string data;
  for (int size = 0; size < 520; size++) {
    EXPECT(evalframe::native::blake2b(data) == by_hashlib(data));
    data.push_back(static_cast<char>(size * 7 + size / 256));
  }
  data.resize(1'000'000, 'x');
  EXPECT(evalframe::native::blake2b(data) == by_hashlib(data));
}
