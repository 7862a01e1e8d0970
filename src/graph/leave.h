// A call in a graph may find that it can't be made there (a lock that another thread has): the graph is left before it.
#pragma once

namespace evalframe::graph {

// For a function in C that a node calls, which has done nothing so far: it gives null then.
void ask_to_leave();
// Whether that is the exception that is set; it isn't set any more then.
bool was_asked_to_leave();

}  // namespace evalframe::graph
