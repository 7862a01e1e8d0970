// Classes that are made without the hooks of the program's that making one calls.
#pragma once

#include "core/ref.h"

namespace evalframe::cpython {

// type.__new__(metaclass, name, bases, names), but functions of Python's that the bases have for __init_subclass__, and what is
// among the names for __set_name__, aren't called. Null with an exception.
Ref bare_class(Borrowed metaclass, Borrowed name, Borrowed bases, Borrowed names);
// What abc.ABCMeta does with a class that it has made. False with an exception.
bool finish_class(Borrowed type);
// The class gets what its body has left under a name. False with an exception.
bool put_into_class(Borrowed type, Borrowed name, Borrowed value);
// The function of Python's that makes a class of it known to a base, or to what has a name in a class; null: none, or one of C's.
// found: there is one.
PyObject* init_subclass_of(PyTypeObject* base, bool* found);
PyObject* init_subclass_of_object();  // does nothing
PyObject* set_name_of(PyObject* value, bool* found);
// A function in C that runs a class body, a function, with the dict of its names, and gives what that gives: None, or the cell of the class.
PyObject* runner_of_bodies();
// A function in C that raises what a class statement does if that cell isn't the class's: of what the body gave, the class, and its name.
PyObject* checker_of_class_cells();
// A function in C that makes a class so, and finishes it: of metaclass, name, bases and names.
PyObject* maker_of_classes();

// A function in C that makes an enumeration of metaclass, name, bases and names, as a class statement does.
PyObject* maker_of_enums();

}  // namespace evalframe::cpython
