#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "cli/command.hpp"

namespace attn::cli {

/// A line on standard error that shows the progress of long work. On a terminal it is shown unless
/// -q or --progress=never is given, and is erased at the end; elsewhere --progress=always shows it
/// as successive lines. If a program runs the tool within its own process, HostArrays::progress is
/// called with the share of the work that is done, and nothing is shown.
class Progress {
 public:
  /// `task` begins the line; `total` is the amount of work in `unit`, "heads" or "elements" (empty:
  /// no rate is shown).
  Progress(const Arguments& arguments, const std::string& task, double total,
           std::string unit = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Adds to the work done. May be called from any thread, and is cheap enough for every tile.
  void advance(double amount);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(double done, Clock::duration elapsed);

  std::shared_ptr<HostArrays> host_;
  bool shown_ = false;
  bool terminal_ = false;
  std::string task_;
  std::string unit_;
  double total_ = 0;
  Clock::time_point start_;
  std::atomic<double> done_{0};
  std::atomic<Clock::rep> next_{0};  // the line is not drawn before this time after start_
  std::mutex drawing_;
  bool drawn_ = false;  // guarded by drawing_
};

/// The line for `done` of `total` (in `unit`) after `elapsed` seconds, such as
/// "dnas  43%, 12.3 heads/s, 1 min 12 s left". It has at most 79 columns; a long `task` is cut.
/// Rate and time left are omitted until 1% of the work is done.
std::string progress_line(const std::string& task, double done, double total, double elapsed,
                          const std::string& unit = {});

}  // namespace attn::cli
