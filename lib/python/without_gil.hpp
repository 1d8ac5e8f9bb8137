#pragma once

#include <atomic>
#include <functional>

namespace attn::python {

/// To be called when the module is loaded: from then on, processes that fork know of it.
void watch_forks();

/// Runs `body` without the GIL, in which a run obeys `stop`. While the main thread of Python waits
/// here, a signal that Python handles (Ctrl-C) stops the run, too. If the handler raises an
/// exception, it is thrown; if not, the run begins again, since the program goes on. After a fork,
/// `body` runs in a thread of its own: OpenMP's threads of the parent do not exist any more.
/// Returns false if the run was stopped by another than a signal. Passes on what `body` throws.
bool run_without_gil(std::atomic<bool>& stop, const std::function<void()>& body);

}  // namespace attn::python
