#include "python/gil.hpp"

#include <cxxabi.h>
#include <unistd.h>

namespace attn::python {
namespace {

[[noreturn]] void wait_forever() {
  for (;;) pause();
}

// Python ends a thread that asks for the GIL too late, by an exception of the C library that no
// destructor may let through.
template <class Function>
auto taking_gil(const Function& take) {
  try {
    return take();
  } catch (const abi::__forced_unwind&) {
    wait_forever();
  }
}

}  // namespace

WithoutGil::WithoutGil() : state_(PyEval_SaveThread()) {}
WithoutGil::~WithoutGil() {
  taking_gil([&] { PyEval_RestoreThread(state_); });
}

WithGil::WithGil() : state_(taking_gil([] { return PyGILState_Ensure(); })) {}
WithGil::~WithGil() { PyGILState_Release(state_); }

}  // namespace attn::python
