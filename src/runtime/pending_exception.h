// The exception that is set, put aside.
#pragma once

#include <Python.h>

namespace evalframe::runtime {

// Keeps an exception that is set through code that may clear or set others.
class PendingException {
 public:
  PendingException() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~PendingException() {
    if (type_) PyErr_Restore(type_, value_, traceback_);
  }
  PendingException(const PendingException&) = delete;
  PendingException& operator=(const PendingException&) = delete;

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

}  // namespace evalframe::runtime
