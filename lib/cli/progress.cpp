#include "cli/progress.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cli/terminal.hpp"
#include "cli/words.hpp"

namespace attn::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto first_after = 500ms;  // quick work shows nothing
constexpr auto between = 200ms;
constexpr auto between_reports = 50ms;  // to a program
constexpr auto between_lines = 2s;      // in a log file

// Some terminals wrap after the last column; the wrapped line would not be erased.
constexpr std::size_t most_columns = 79;

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::ceil(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

/// "12.3 heads/s", "45.6 M elements/s"
std::string rate_text(double rate, const std::string& unit) {
  constexpr std::string_view powers[] = {" ", " k ", " M ", " G ", " T "};
  std::size_t power = 0;
  // 999.5 would be printed as 1000.
  while (rate >= 999.5 && power + 1 < std::size(powers)) {
    rate /= 1000;
    ++power;
  }
  return fmt::format("{:.3g}{}{}/s", rate, powers[power], unit);
}

/// At most `columns` characters of `text`; if some are cut, the last is an ellipsis.
std::string shortened(const std::string& text, std::size_t columns) {
  if (width(text) <= columns) return text;
  std::string_view rest = text;
  for (std::size_t n = 0; n + 1 < columns; ++n) {
    rest.remove_prefix(std::max<std::size_t>(1, printing_character(rest)));
  }
  return text.substr(0, text.size() - rest.size()) + "\u2026";
}

}  // namespace

std::string progress_line(const std::string& task, double done, double total, double elapsed,
                          const std::string& unit) {
  const double share = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 1.0;
  std::string figures = fmt::format(" {:3.0f}%", std::floor(share * 100));
  const bool judged = total > 0 && share > 0.01 && elapsed > 0;
  if (judged && !unit.empty()) figures += ", " + rate_text(done / elapsed, unit);
  const double left = elapsed * (1 - share) / share;
  if (judged && share < 1 && left < 1e9) figures += ", " + duration_text(left) + " left";
  return shortened(task, most_columns - std::min(most_columns - 1, width(figures))) + figures;
}

Progress::Progress(const Arguments& arguments, const std::string& task, double total,
                   std::string unit)
    : host_(arguments.host),
      terminal_(!host_ && stderr_is_terminal()),
      task_(arguments.tool + ": " + one_line(task)),
      unit_(std::move(unit)),
      total_(total),
      start_(Clock::now()) {
  using Wanted = Arguments::Progress;
  shown_ = !host_ && (arguments.progress == Wanted::always ||
                      (arguments.progress == Wanted::automatic && terminal_ && !arguments.quiet));
  next_ = Clock::duration(host_ ? between_reports : terminal_ ? first_after : between).count();
}

Progress::~Progress() {
  if (!shown_) return;
  if (!terminal_) {
    // The last line of a log shows how much was done.
    draw(done_, Clock::now() - start_);
  } else if (drawn_) {
    write_error("\r\x1b[K");
  }
}

void Progress::advance(double amount) {
  if (!shown_ && !host_) return;
  const double done = done_.fetch_add(amount) + amount;
  const Clock::duration elapsed = Clock::now() - start_;
  Clock::rep due = next_;
  if (elapsed.count() < due) return;
  const Clock::duration pause = host_       ? Clock::duration(between_reports)
                                : terminal_ ? Clock::duration(between)
                                            : Clock::duration(between_lines);
  // The thread that updates the time draws the line.
  if (next_.compare_exchange_strong(due, (elapsed + pause).count())) draw(done, elapsed);
}

void Progress::draw(double done, Clock::duration elapsed) {
  const std::lock_guard<std::mutex> lock(drawing_);
  if (host_) return host_->progress(total_ > 0 ? std::clamp(done / total_, 0.0, 1.0) : 1.0);
  const double seconds = std::chrono::duration<double>(elapsed).count();
  const std::string line = progress_line(task_, done, total_, seconds, unit_);
  write_error(terminal_ ? "\r" + line + "\x1b[K" : line + "\n");
  drawn_ = true;
}

}  // namespace attn::cli
