// The layout of functools.lru_cache's objects, which is compared with one before it is relied on.
#include "cpython/lru_caches.h"

#include <utility>

#include "core/c_function.h"
#include "core/made_once.h"

namespace evalframe::cpython {

namespace {

// Not in any header: Modules/_functoolsmodule.c. With a bound, the results are linked in the order of their use.
struct Link {
  PyObject_HEAD
  void *previous, *next;
  Py_hash_t hash;
  PyObject *key, *result;
};
struct Cache {
  Link root;
  void* wrapper;
  int typed;
  PyObject* cache;
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t maxsize, misses;
};

Cache* fields(Borrowed cache) { return cache.as<Cache>(); }

PyObject* give_none(PyObject*, PyObject*, PyObject*) { return Py_NewRef(Py_None); }

// Gives what is to be kept. The cache gets its function back first: what it lets go may call it.
struct Keeping {
  Cache* cache = nullptr;
  PyObject *function = nullptr, *result = nullptr;
} keeping;

PyObject* give_result(PyObject*, PyObject*, PyObject*) {
  keeping.cache->function = keeping.function;
  return Py_NewRef(keeping.result);
}

PyObject* giver_of_none() { return c_function<give_none>("give_none"); }
PyObject* giver_of_result() { return c_function<give_result>("give_result"); }

// The type, and a cache without a bound that tells keys; null: its objects aren't laid out so.
struct Known {
  PyTypeObject* type = nullptr;
  PyObject* tells_keys = nullptr;
};
PyObject* new_cache(PyObject* type, PyObject* bound) { return PyObject_CallFunction(type, "OOOO", giver_of_none(), bound, Py_False, Py_None); }

bool is_laid_out_so(PyObject* cache) {
  const Ref called = Ref::steal(PyObject_CallFunction(cache, "i", 1)), again = Ref::steal(PyObject_CallFunction(cache, "i", 1)), other = Ref::steal(PyObject_CallFunction(cache, "i", 2));
  const Cache* const of = fields(cache);
  return called && again && other && of->maxsize == 7 && of->hits == 1 && of->misses == 2 && of->typed == 0 && of->function == giver_of_none() &&
         of->cache && PyDict_CheckExact(of->cache) && PyDict_GET_SIZE(of->cache) == 2;
}

const Known& known() {
  static MadeOnce<Known> made;
  return made.get([] {
    const Ref module = Ref::steal(PyImport_ImportModule("_functools")), bound = Ref::steal(PyLong_FromLong(7));
    const Ref type = module ? Ref::steal(PyObject_GetAttrString(module.get(), "_lru_cache_wrapper")) : Ref();
    const bool fits = type && bound && PyType_Check(type.get()) && static_cast<size_t>(type.as<PyTypeObject>()->tp_basicsize) > sizeof(Cache);
    const Ref sample = fits ? Ref::steal(new_cache(type.get(), bound.get())) : Ref();
    Known found;
    if (sample && is_laid_out_so(sample.get())) found = {reinterpret_cast<PyTypeObject*>(Ref::borrow(type.get()).release()), new_cache(type.get(), Py_None)};
    PyErr_Clear();
    return found.tells_keys ? found : Known{};
  });
}

}  // namespace

bool is_lru_cache(Borrowed object) { return known().type && Py_IS_TYPE(object.get(), known().type) && fields(object)->maxsize != 0; }

PyObject* function_of_cache(Borrowed cache) { return fields(cache)->function; }

Ref key_of_call(Borrowed cache, Borrowed arguments, PyObject* keywords) {
  Cache* const tells = fields(known().tells_keys);
  tells->typed = fields(cache)->typed;
  PyDict_Clear(tells->cache);
  const Ref called = Ref::steal(PyObject_Call(known().tells_keys, arguments.get(), keywords));
  PyObject* key = nullptr;
  Py_ssize_t at = 0;
  if (called) PyDict_Next(tells->cache, &at, &key, nullptr);
  Ref found = key ? Ref::borrow(key) : Ref();
  PyDict_Clear(tells->cache);
  return found;
}

PyObject* cached_under(Borrowed cache, Borrowed key) {
  PyObject* const found = PyDict_GetItemWithError(fields(cache)->cache, key.get());
  return found && fields(cache)->maxsize > 0 ? reinterpret_cast<Link*>(found)->result : found;
}

PyObject* dict_of_cache(Borrowed cache) { return fields(cache)->cache; }

bool is_full(Borrowed cache) { return fields(cache)->maxsize > 0 && PyDict_GET_SIZE(fields(cache)->cache) >= fields(cache)->maxsize; }

void count_miss(Borrowed cache) { fields(cache)->misses++; }

bool keep_result(Borrowed cache, Borrowed arguments, PyObject* keywords, Borrowed result) {
  Cache* const of = fields(cache);
  const Ref key = key_of_call(cache, arguments, keywords);
  if (!key) return false;
  // Without a bound, what a call of the function's own has left there is replaced; else it stays.
  if (of->maxsize < 0) return PyDict_SetItem(of->cache, key.get(), result.get()) == 0;
  if (cached_under(cache, key.get())) return true;
  if (PyErr_Occurred()) return false;
  const Ref held = Ref::borrow(cache), kept = Ref::borrow(result);
  PyObject* const function = std::exchange(of->function, giver_of_result());
  keeping = {of, function, kept.get()};
  const Ref called = Ref::steal(PyObject_Call(cache.get(), arguments.get(), keywords));
  if (of->function == giver_of_result()) of->function = function;
  of->misses--;
  return static_cast<bool>(called);
}

}  // namespace evalframe::cpython
