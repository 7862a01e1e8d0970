// Texts of the log: one message for each channel that is on.
#include "runtime/log_compilation.h"

#include <cstdio>

#include "core/log.h"
#include "core/object_text.h"

namespace evalframe::runtime {

namespace {

using log::Channel;

std::string title(const bytecode::Code& code, int32_t instruction) {
  const auto* of = code.code.as<PyCodeObject>();
  return std::string(utf8(of->co_qualname)) + " (" + std::string(utf8(of->co_filename)) + ":" + std::to_string(code.positions[instruction].line) + ")";
}

std::string title(const recorder::Recording& recording) {
  const recorder::FrameStart& inner = recording.start.back();
  const std::string text = title(*inner.code, inner.next);
  return inner.next == 0 && recording.start.size() == 1 ? text : text + ", behind a break";
}

std::string indented(const std::string& text) {
  std::string result;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    result += "\n  " + text.substr(begin, end - begin);
    begin = end + 1;
  }
  return result;
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f ms", seconds * 1e3);
  return text;
}

std::string backend_text(const Compilation& compilation) {
  const auto& recording = *compilation.recording;
  std::string text = title(recording) + ": " + std::to_string(recording.graph.nodes.size()) + " nodes, recorded in " +
                     milliseconds(recording.seconds) + ", compiled by " + compilation.backend + " in " + milliseconds(compilation.compile_seconds);
  return compilation.fallback.empty() ? text : text + "; served by the recorded calls: " + compilation.fallback;
}

}  // namespace

std::string failure_of(const Compilation& compilation) {
  const std::string text = compilation.recording->guards.line_text(compilation.failures.last());
  if (text.empty()) return "other variables are set, or its kernels don't serve these sizes or overlaps";
  const std::string& found = compilation.failures.last_found();
  return "not so any more: " + text + (found.empty() ? "" : "; found: " + found);
}

void log_compilation(const Compilation& compilation, const std::vector<Held<Compilation>>& earlier) {
  const recorder::Recording& recording = *compilation.recording;
  if (log::is_on(Channel::recompiles) && !earlier.empty()) {
    std::string text;
    for (const auto& entry : earlier) text += failure_of(*entry) + "\n";
    log::write(Channel::recompiles, title(recording) + " is recorded again, recording " + std::to_string(earlier.size() + 1) + " from there:" +
                                        indented(text));
  }
  if (log::is_on(Channel::graphs)) log::write(Channel::graphs, title(recording) + indented(graph::print(recording.graph)));
  if (log::is_on(Channel::guards)) {
    std::string text;
    for (const std::string& guard : recording.guards.describe()) text += guard + "\n";
    log::write(Channel::guards, title(recording) + indented(text));
  }
  if (log::is_on(Channel::backends)) log::write(Channel::backends, backend_text(compilation));
  if (log::is_on(Channel::kernels)) log::write(Channel::kernels, title(recording) + indented(compilation.executable->text()));
}

void log_limit(const LimitNote& note) {
  log::write(Channel::recompiles, note.function + " (" + note.file + ":" + std::to_string(note.line) + ") isn't recorded again: there are " +
                                      std::to_string(note.entries) + " recordings from there" +
                                      (note.replaced ? ", " + std::to_string(note.replaced) + " more gave way to general ones" : "") + ", and calls that none of them serves run as plain Python" +
                                      "\n  failing most: " + note.guard + "\n  hint: " + note.hint);
}

void log_break(const BreakNote& note) {
  if (!log::is_on(Channel::breaks)) return;
  log::write(Channel::breaks, note.file + ":" + std::to_string(note.position.line) + ":" + std::to_string(note.position.column + 1) + ": in " +
                                  note.function + ": " + recorder::reason(note.why) + (note.detail.empty() ? "" : " (" + note.detail + ")") +
                                  "\n  hint: " + recorder::hint(note.why));
}

// What is in the way, each once.
static std::string text_of(const bytecode::Code& code, const std::vector<regions::Obstacle>& obstacles) {
  std::string text;
  for (const regions::Obstacle& obstacle : obstacles) {
    const std::string line = "\n  line " + std::to_string(code.positions[obstacle.instruction].line) + ": " + obstacle.reason;
    if (text.find(line) == std::string::npos) text += line;
  }
  return text;
}

void log_region(const regions::State& state, const LoopRegion& region) {
  const regions::Region& of = region.region();
  log::write(Channel::regions, "loop in " + title(region.code(), state.instruction) + ": native, " + std::to_string(of.blocks) + " blocks, " + std::to_string(of.lines()) +
                                   " lines of IR, made in " + milliseconds(region.compile_seconds) + text_of(region.code(), of.obstacles));
}

void log_no_region(const bytecode::Code& code, const regions::State& state, const std::vector<regions::Obstacle>& obstacles) {
  log::write(Channel::regions, "loop in " + title(code, state.instruction) + ": not native; at " + bytecode::name(code.instructions[state.instruction].op) +
                                   ", variables and stack: " + regions::text_of(state.types) + text_of(code, obstacles));
}

}  // namespace evalframe::runtime
