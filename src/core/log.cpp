// Channels by name, and writing to Python's stderr.
#include "core/log.h"

#include <Python.h>

#include <string_view>

namespace evalframe::log {

uint32_t enabled_channels = 0;

namespace {

constexpr const char* kNames[] = {
#define EVALFRAME_LOG_CHANNEL(name, text) #name,
#include "core/log_channels.def"
#undef EVALFRAME_LOG_CHANNEL
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

uint32_t bit_of(std::string_view name) {
  if (name == "all") return ~0u;
  uint32_t bit = 1;
  for (const char* known : kNames) {
    if (name == known) return bit;
    bit <<= 1;
  }
  return 0;
}

void refuse(std::string_view name) {
  std::string known;
  for (const char* each : kNames) known += std::string(each) + ", ";
  PySys_FormatStderr("evalframe: EVALFRAME_LOG has no channel '%s'; there are: %sall\n", std::string(name).c_str(), known.c_str());
}

}  // namespace

void configure(const char* channels) {
  enabled_channels = 0;
  std::string_view rest = channels ? channels : "";
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view name = trimmed(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (name.empty()) continue;
    const uint32_t bit = bit_of(name);
    if (!bit) refuse(name);
    enabled_channels |= bit;
  }
}

void write(Channel channel, const std::string& text) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PySys_FormatStderr("[evalframe %s] %s\n", kNames[static_cast<int>(channel)], text.c_str());
  PyErr_Restore(type, value, traceback);
}

}  // namespace evalframe::log
