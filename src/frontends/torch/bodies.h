// What torch's higher-order operators call: the branches of torch.cond, the turns of torch.while_loop. A recording follows each of these functions
// once, between marks, takes what it has recorded there out of its graph, and has a module made of it (python/evalframe/torch/higher_order.py).
#pragma once

#include <string>

#include "core/ref.h"

namespace evalframe::torch {

// begin_body(function), end_body(like, *results): around the call. The first results are to be like the tensors in `like`, a tuple. Nothing is done by them.
PyObject* begin_body();
PyObject* end_body();
// body_input(tensor): what the function is called with in the place of the tensor.
PyObject* body_input();
// take_bodies(make, bodies): (what `make` makes of what is told of each of the last so many, and of the body; what they take from around
// them). None where they weren't recorded.
PyObject* take_bodies();
// What the next call of it gives.
void give_bodies(Ref bodies);
// call_operator(function, operator, *arguments): calls the function with the rest, where the operator can't be in a graph.
PyObject* call_operator();
// follows_body(function): whether no recording has been dropped before because it followed that function, as far as the code in it tells,
// and no checkpoint is open.
PyObject* follows_body();
void follow_body_no_more(PyObject* function, const std::string& why);
// ... by this thread's recording, in which sizes vary, or don't: asked and told from then on.
void expect_sizes_to_vary(bool vary);
// ... what was found in it; empty: nothing.
std::string why_not_followed(PyObject* function);

bool is_of_body(PyObject* callable);
// Raised in a function that can't be a body, in the place of what it would do next. Who calls it asks the operator itself then.
PyObject* body_left();

}  // namespace evalframe::torch
