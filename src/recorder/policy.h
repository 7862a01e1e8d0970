// What the author of a program has said of its functions: how calls of them are recorded, and which parameters are inputs. Python code
// is meant by its code object: functions made of it anew are the same to the author.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/ref.h"

namespace evalframe::recorder {

enum class Policy : uint8_t {
#define EVALFRAME_POLICY(enumerator, name) enumerator,
#include "recorder/policy.def"
#undef EVALFRAME_POLICY
};

// Of a function, a method, or any object that can be called. The object, or its code, is held from then on.
void set_policy(Borrowed callable, Policy policy);
Policy policy_of(PyObject* callable);
// Whether the function is of one of torch's own modules.
bool is_in_torch(PyObject* function);
// ... the class.
bool is_of_torch(PyTypeObject* type);
// What torch.compiler.disable is given by a program is uncaptured. torch does so with functions of its own, too, whose originals are
// followed in the place of its wrappers: this one; null: another function.
PyObject* followed_instead(PyObject* function);
// Nothing of these modules, and of those inside of them, is captured or followed.
void skip_module(std::string name);

// The parameters of the code, by index, that were marked, and whether as inputs; else they are constants.
using Marks = std::vector<std::pair<int, bool>>;
void mark_parameter(Borrowed code, int index, bool input);
const Marks& marks_of(PyObject* code);

}  // namespace evalframe::recorder
