#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "cli/command.hpp"

namespace attn::cli {

/// A line on standard error that says how far a long piece of work is: on a terminal, unless -q
/// or --progress=never; with --progress=always anywhere, by whole lines where that is no
/// terminal. Erases itself at the end.
class Progress {
 public:
  /// `total` is in any unit, "heads" or "elements" (empty: no rate is shown); `advance` tells of
  /// more of it done.
  Progress(const Arguments& arguments, const std::string& what, double total,
           std::string unit = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From any thread; cheap enough for every tile.
  void advance(double amount);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(double done, Clock::duration elapsed);

  bool shown_ = false;
  bool terminal_ = false;
  std::string what_;
  std::string unit_;
  double total_ = 0;
  Clock::time_point start_;
  std::atomic<double> done_{0};
  std::atomic<Clock::rep> next_{0};  // ticks after start_ before which nothing is drawn
  std::mutex drawing_;
  bool drawn_ = false;  // guarded by drawing_
};

/// "dnas  43%, 12.3 heads/s, 1 min 12 s left": the line for `done` of `total` (in `unit`) after
/// `elapsed` seconds, of at most 79 columns, `what` being cut where it is long. Neither rate nor
/// time is given before there is something to judge by.
std::string progress_line(const std::string& what, double done, double total, double elapsed,
                          const std::string& unit = {});

}  // namespace attn::cli
