// Rules for torch.nn.Module. A model asks for a parameter or a layer by Module.__getattr__ at each step, which is a quarter of the
// instructions that it runs: the rule looks where that does, and asks for the same guards.
#include "recorder/rules/torch_modules.h"

#include <algorithm>

#include "frontends/torch/modules.h"

namespace evalframe::recorder {

namespace {

// Whether the recorded code has changed a list or dict from outside: then it is known under another label.
bool has_changed_containers(const Recording& recording) {
  return std::any_of(recording.names.begin(), recording.names.end(), [](const Name& name) {
    switch (name.kind) {
      case Name::Kind::kAppend:
      case Name::Kind::kItem:
      case Name::Kind::kDelete:
      case Name::Kind::kContents:
      case Name::Kind::kCall: return true;
      case Name::Kind::kName:
      case Name::Kind::kForget:
      case Name::Kind::kAttribute:
      case Name::Kind::kCell:
      case Name::Kind::kContext: return false;
    }
    return true;
  });
}

// What the dict, a source, has under the name: no object where it has nothing. None: that isn't known.
std::optional<Operated> item_under(Recorder& recorder, const Operated& dict, PyObject* name) {
  const Value of = recorder.value(dict.label);
  if (of.kind != Value::Kind::kSource || !PyDict_CheckExact(dict.object) || !recorder.may_touch_dict(of.a, dict.object, false, name)) return std::nullopt;
  const Operated key{recorder.constant(name), name};
  const std::optional<bool> there = has_key(recorder, dict, key);
  if (!there) return std::nullopt;
  if (!*there) return Operated{0, nullptr};
  const Plan item = item_of_dict(recorder, dict, key);
  return item.kind == Plan::Kind::kValue ? std::optional<Operated>({item.label, PyDict_GetItemWithError(dict.object, name)}) : std::nullopt;
}

}  // namespace

std::optional<Plan> attribute_of_module(Recorder& recorder, const Asked& asked, PyObject* hook) {
  static PyObject* const attributes = PyUnicode_InternFromString("__dict__");
  static PyObject* const keepers[] = {PyUnicode_InternFromString("_parameters"), PyUnicode_InternFromString("_buffers"), PyUnicode_InternFromString("_modules")};
  const bool from_outside = recorder.value(asked.label).kind == Value::Kind::kSource;
  if (!from_outside || !torch::is_module_getattr(hook) || has_changed_containers(recorder.recorded())) return std::nullopt;
  const std::optional<Plan> own = attributes_as_dict(recorder, {asked.label, asked.object, attributes});
  const Ref dict = own && own->kind == Plan::Kind::kValue ? Ref::steal(PyObject_GenericGetDict(asked.object, nullptr)) : Ref();
  if (!dict) return PyErr_Clear(), std::nullopt;
  recorder.require_function(hook);
  for (PyObject* const keeper : keepers) {
    const std::optional<Operated> kept = item_under(recorder, {own->label, dict.get()}, keeper);
    if (!kept) return std::nullopt;
    const std::optional<Operated> found = kept->object ? item_under(recorder, *kept, asked.name) : kept;
    if (!found) return std::nullopt;
    if (found->object) return plan_value(found->label);
  }
  return std::nullopt;  // it raises
}

}  // namespace evalframe::recorder
