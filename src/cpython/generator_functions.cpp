#define Py_BUILD_CORE 1
#include "cpython/generator_functions.h"

#include <unordered_map>

namespace evalframe::cpython {

namespace {

// What such a function alone holds, in its __dict__: it ends with the last generator.
struct Tag {
  PyObject_HEAD
  PyObject* function;  // that holds it: borrowed
  PyObject* original;
  PyObject* owner;
};

struct Made {
  PyObject *function, *original;  // borrowed
};

// The newest of each owner, and all by themselves.
std::unordered_map<PyObject*, Made> newest;
std::unordered_map<PyObject*, Tag*> tags;
HookId installed = 0;

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<Tag*>(self)->original);
  Py_VISIT(reinterpret_cast<Tag*>(self)->owner);
  return 0;
}

void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* const tag = reinterpret_cast<Tag*>(self);
  const Ref original = Ref::steal(tag->original), owner = Ref::steal(tag->owner), type = Ref::steal(Py_TYPE(self));
  tags.erase(tag->function);
  const auto found = newest.find(owner.get());
  if (found != newest.end() && found->second.function == tag->function) newest.erase(found);
  PyObject_GC_Del(self);
  if (tags.empty()) remove_frame_hook(std::exchange(installed, 0));
}

PyTypeObject* tag_type() {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)}, {0, nullptr}};
  static PyType_Spec spec = {"evalframe._core.GeneratorsOf", sizeof(Tag), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return type;
}

PyFunctionObject* fields_of(Borrowed function) { return reinterpret_cast<PyFunctionObject*>(function.get()); }

// All that a call reads, or what it makes shows.
bool is_as(PyFunctionObject* made, PyFunctionObject* function) {
  return made->func_code == function->func_code && serves_as(made, function) && made->func_defaults == function->func_defaults &&
         made->func_kwdefaults == function->func_kwdefaults && made->func_module == function->func_module;
}

Ref copy_of(PyFunctionObject* function) {
  Ref made = function_with_code(function, reinterpret_cast<PyCodeObject*>(function->func_code));
  if (!made) return made;
  PyFunctionObject* const fields = fields_of(made.get());
  fields->func_defaults = Py_XNewRef(function->func_defaults);
  fields->func_kwdefaults = Py_XNewRef(function->func_kwdefaults);
  const Ref module = Ref::steal(std::exchange(fields->func_module, Py_XNewRef(function->func_module)));
  return made;
}

}  // namespace

Ref function_for_generators(Borrowed function, Borrowed owner, const std::shared_ptr<FrameHook>& hook) {
  const auto found = newest.find(owner.get());
  if (found != newest.end() && is_as(fields_of(found->second.function), fields_of(function))) return Ref::borrow(found->second.function);
  Ref made = copy_of(fields_of(function));
  const Ref dict = made ? Ref::steal(PyDict_New()) : Ref();
  Tag* const tag = dict && tag_type() ? PyObject_GC_New(Tag, tag_type()) : nullptr;
  if (!tag) return Ref();
  const Ref held = Ref::steal(tag);
  tag->function = made.get();
  tag->original = Ref::borrow(function).release();
  tag->owner = Ref::borrow(owner).release();
  PyObject_GC_Track(tag);
  tags[made.get()] = tag;
  newest[owner.get()] = {made.get(), function.get()};
  if (PyDict_SetItemString(dict.get(), "generators of", held.get()) < 0) return Ref();
  fields_of(made.get())->func_dict = Ref::borrow(dict.get()).release();
  if (!is_installed(installed)) installed = install_frame_hook(hook, true);
  return installed ? std::move(made) : Ref();
}

Borrowed owner_of_generators(Borrowed function) {
  if (tags.empty()) return Borrowed();
  const auto found = tags.find(function.get());
  return found == tags.end() ? Borrowed() : Borrowed(found->second->owner);
}

Borrowed original_function(Borrowed function) {
  if (tags.empty()) return function;
  const auto found = tags.find(function.get());
  return found == tags.end() ? function : Borrowed(found->second->original);
}

}  // namespace evalframe::cpython
