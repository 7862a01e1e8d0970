#include "recorder/store_text.h"

#include "core/object_text.h"

namespace evalframe::recorder {

namespace {

std::string value_text(const Recording& recording, uint32_t index) {
  const Value& value = recording.values[index];
  switch (value.kind) {
    case Value::Kind::kSource: return recording.guards.source_name(value.a);
    case Value::Kind::kNode: return "n" + std::to_string(value.a);
    case Value::Kind::kConstant: return object_text(recording.graph.constants[static_cast<size_t>(value.a)].get());
    case Value::Kind::kList:
    case Value::Kind::kDict: {
      const uint32_t outer = recording.containers[static_cast<size_t>(value.a)].outer;
      return outer ? value_text(recording, outer) : "what is made";
    }
    default: return "what is made";  // many kinds, and none has a name
  }
}

}  // namespace

std::string store_text(const Recording& recording, const Name& name) {
  const auto owner = [&] { return value_text(recording, name.owner); };
  const auto item = [&] { return owner() + "[" + value_text(recording, name.key) + "]"; };
  switch (name.kind) {
    case Name::Kind::kName: return "store " + guards::variable_text(name.dict.get(), name.name.get());
    case Name::Kind::kForget: return "delete " + guards::variable_text(name.dict.get(), name.name.get());
    case Name::Kind::kAttribute: return "store " + owner() + "." + std::string(utf8(name.name.get()));
    case Name::Kind::kAppend: return "append to " + owner();
    case Name::Kind::kItem: return "store " + item();
    case Name::Kind::kDelete: return "delete " + item();
    case Name::Kind::kCell: return "store into the cell " + owner();
    case Name::Kind::kContents: return "change the contents of " + owner();
    case Name::Kind::kCall: return "call a method of " + owner() + " that changes it";
    case Name::Kind::kContext: return "set or reset the context variable " + owner();
  }
  return "";
}

}  // namespace evalframe::recorder
