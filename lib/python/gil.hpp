#pragma once

#include <Python.h>

namespace attn::python {

/// Lets other threads of Python run while it exists. If Python has ended meanwhile, the thread
/// waits forever: it cannot have the GIL any more, and the process is about to end.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// Holds the GIL, in any thread. Waits forever likewise.
class WithGil {
 public:
  WithGil();
  ~WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace attn::python
