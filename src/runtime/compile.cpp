// Runs the stages behind the recorder in order.
#include "runtime/compile.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <stdexcept>

#include "backends/native/native.h"
#include "backends/python_backend.h"
#include "backends/reference.h"
#include "core/check.h"

namespace evalframe::runtime {

namespace {

struct Backend {
  const char* name;
  std::unique_ptr<backends::Executable> (*make)(const graph::Graph& graph, backends::ExitAt exit_at, backends::Wishes wishes);
};
constexpr Backend kBackends[] = {
#define EVALFRAME_BACKEND(name, make) {#name, make},
#include "backends/backends.def"
#undef EVALFRAME_BACKEND
};

double all_seconds = 0;

std::unique_ptr<backends::Executable> make_executable(const Settings& settings, recorder::Recording& recording, backends::ExitAt exit_at,
                                                      std::string& fallback) {
  const graph::Graph& graph = recording.graph;
  if (settings.is_torch()) {
    const std::vector<Ref> examples = std::move(recording.examples);
    return backends::make_torch(graph, std::move(exit_at), settings.custom.get(), examples, recording.records_gradients);
  }
  if (settings.custom) {
    const std::vector<Ref> examples = std::move(recording.examples);
    return backends::make_python(graph, std::move(exit_at), settings.custom.get(), settings.backend, examples);
  }
  for (const Backend& backend : kBackends) {
    // Nothing is to be compiled of a graph without nodes.
    if (settings.backend != backend.name || graph.nodes.empty()) continue;
    try {
      return backend.make(graph, exit_at, {.exact = settings.exact, .patient = settings.patience != nullptr});
    } catch (const std::runtime_error& error) {
      // Never the program's failure: what a backend can't do, the recorded calls do.
      fallback = error.what();
      PyErr_Clear();
    }
  }
  return backends::make_reference(graph, std::move(exit_at));
}

bool makes_array(const graph::Node& node) {
  return node.meta.kind == graph::Kind::kArray || node.meta.kind == graph::Kind::kNumpyScalar || node.meta.kind == graph::Kind::kTensor;
}

ResultAtHand at_hand(const recorder::Recording& recording, const guards::Program& guards) {
  const bool runs = !recording.graph.nodes.empty() || !recording.names.empty() || recording.iterator >= 0;
  if (runs || !recording.returns || recording.start.size() != 1 || !guards.has_only_slots()) return {};
  const recorder::Value& result = recording.values[recording.result];
  if (result.kind == recorder::Value::Kind::kConstant && !result.b) return {-1, recording.graph.constants[result.a].get()};
  return {result.kind == recorder::Value::Kind::kSource ? recording.guards.sources[result.a].index : -1, nullptr};
}

}  // namespace

void Compilation::take_costs(PyObject* const* const* frames) {
  constexpr uint64_t kLastLook = 64;
  const bool is_due = costs.by_line.empty() || (hits <= kLastLook && std::has_single_bit(hits));
  if (is_due) costs.take(guards.costs(frames));
}

int Compilation::traverse(visitproc visit, void* arg) const {
  if (const int stop = recording->traverse(visit, arg)) return stop;
  return executable ? executable->traverse(visit, arg) : 0;
}

Held<Compilation> compile(std::unique_ptr<recorder::Recording> recording, const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Held<Compilation> compilation(new Compilation(std::move(recording)));
  compilation->backend = settings.backend;
  recorder::Recording* record = compilation->recording.get();
  compilation->array_nodes = static_cast<int32_t>(std::ranges::count_if(record->graph.nodes, makes_array));
  compilation->at_hand = at_hand(*record, compilation->guards);
  DCHECK(graph::verify(record->graph).empty());
  compilation->executable = make_executable(settings, *record, [record](int32_t node) { return record->exit_at(node); },
                                            compilation->fallback);
  if (!compilation->executable) return {};
  const auto end = Clock::now();
  compilation->compile_seconds = std::chrono::duration<double>(end - start).count();
  compilation->made_at = std::chrono::duration<double>(end.time_since_epoch()).count();
  all_seconds += compilation->compile_seconds;
  return compilation;
}

double seconds_compiled() { return all_seconds; }

}  // namespace evalframe::runtime
