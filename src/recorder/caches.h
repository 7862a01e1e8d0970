// Functions in C for the Python function that stands in for calls of what functools.lru_cache has made.
#pragma once

#include "core/ref.h"
#include "graph/graph.h"

namespace evalframe::recorder {

// is_cached(cache, call), cached(cache, call), count_hit(cache, call), count_miss(cache), keep(cache, call, result).
enum class CacheStep : uint8_t { kIsCached, kCached, kCountHit, kCountMiss, kKeep, kCount };
const char* name_of(CacheStep which);
PyObject* cache_function(CacheStep which);
// Whether the node checks what seldom comes true again, once it doesn't hold: that nothing is cached yet, or that no class has been registered
// with an abstract base since.
bool expects_the_past(const graph::Graph& graph, int32_t node);

}  // namespace evalframe::recorder
