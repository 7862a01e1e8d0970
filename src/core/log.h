// EVALFRAME_LOG: tells on stderr, by channels, what happens. What is off costs one test of a bit.
#pragma once

#include <cstdint>
#include <string>

namespace evalframe::log {

enum class Channel : uint8_t {
#define EVALFRAME_LOG_CHANNEL(name, text) name,
#include "core/log_channels.def"
#undef EVALFRAME_LOG_CHANNEL
};

// Reads a list such as "graphs,breaks"; "all" is all of them. A name that is none is told on stderr; null: nothing is on.
void configure(const char* channels);

extern uint32_t enabled_channels;
inline bool is_on(Channel channel) { return enabled_channels >> static_cast<int>(channel) & 1; }
inline bool is_any_on() { return enabled_channels != 0; }

// Writes to sys.stderr. May run Python code; an exception that is set stays, and none is added.
void write(Channel channel, const std::string& text);

}  // namespace evalframe::log
