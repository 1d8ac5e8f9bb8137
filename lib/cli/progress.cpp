#include "cli/progress.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/terminal.hpp"
#include "cli/words.hpp"

namespace attn::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto first_after = 500ms;  // quick work shows nothing
constexpr auto between = 200ms;
constexpr auto between_lines = 2s;  // in a log file

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace

std::string progress_line(const std::string& what, double done, double total, double elapsed) {
  const double share = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 1.0;
  std::string line = fmt::format("{} {:3.0f}%", what, std::floor(share * 100));
  const double left = elapsed * (1 - share) / share;
  if (share > 0.01 && share < 1 && left < 1e9) line += ", " + duration_text(left) + " left";
  return line;
}

Progress::Progress(const Arguments& arguments, const std::string& what, double total)
    : terminal_(stderr_is_terminal()),
      what_(arguments.tool + ": " + one_line(what)),
      total_(total),
      start_(Clock::now()) {
  using Wanted = Arguments::Progress;
  shown_ = arguments.progress == Wanted::always ||
           (arguments.progress == Wanted::automatic && terminal_ && !arguments.quiet);
  next_ = Clock::duration(terminal_ ? first_after : between).count();
}

Progress::~Progress() {
  if (!shown_) return;
  if (!terminal_) {
    // The last line of a log says how far it came.
    draw(done_, Clock::now() - start_);
  } else if (drawn_) {
    write_error("\r\x1b[K");
  }
}

void Progress::advance(double amount) {
  if (!shown_) return;
  const double done = done_.fetch_add(amount) + amount;
  const Clock::duration elapsed = Clock::now() - start_;
  Clock::rep due = next_;
  if (elapsed.count() < due) return;
  const Clock::duration pause =
      terminal_ ? Clock::duration(between) : Clock::duration(between_lines);
  // Whoever moves the time on is the one to draw.
  if (next_.compare_exchange_strong(due, (elapsed + pause).count())) draw(done, elapsed);
}

void Progress::draw(double done, Clock::duration elapsed) {
  const double seconds = std::chrono::duration<double>(elapsed).count();
  const std::string line = progress_line(what_, done, total_, seconds);
  const std::lock_guard<std::mutex> lock(drawing_);
  write_error(terminal_ ? "\r" + line + "\x1b[K" : line + "\n");
  drawn_ = true;
}

}  // namespace attn::cli
