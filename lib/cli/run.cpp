#include <unistd.h>

#include <chrono>
#include <string_view>

#include "cli/command.hpp"
#include "cli/failed.hpp"
#include "cli/help.hpp"
#include "cli/option.hpp"
#include "cli/parse.hpp"
#include "cli/report_impl.hpp"
#include "cli/terminal.hpp"
#include "cli/text_file.hpp"
#include "cli/words.hpp"

namespace attn::cli {
namespace {

class Session {
 public:
  Session(const Declaration& declaration, std::vector<std::string> command_line, bool silent)
      : declaration_(declaration), command_line_(std::move(command_line)), silent_(silent) {
    report_.impl().tool = declaration.impl().tool;
    report_.impl().quiet = silent;
  }

  int run(const std::function<Outcome(const Arguments&, Report&)>& run,
          const Libraries& libraries) {
    try {
      if (const auto text = information(libraries)) return inform(*text);
      if (!silent_) json_ = json_of_refused(command_line_, declaration_);
      const Arguments arguments = parse(command_line_, declaration_, process_environment);
      if (!silent_) json_ = arguments.json;
      if (arguments.flag("help")) return inform(help_text(declaration_));  // as in -qh
      if (json_) check_text_destination(*json_, "json");
      report_.impl().quiet = arguments.quiet || silent_;
      report_.impl().params = params_of(arguments);
      threads_ = arguments.threads;
      const Outcome outcome = run(arguments, report_);
      if (outcome.status != 0 && outcome.status != 1 && !outcome.stopped) {
        throw std::logic_error("a run ended with status " + std::to_string(outcome.status));
      }
      print(arguments, outcome);
      if (!outcome.failure) return outcome.status;
      say_error();
      return failed_.exit;
    } catch (...) {
      failed_ = failure_in_flight();
    }
    report_failure();
    return failed_.exit;
  }

  FailedRun failed() const { return {failed_.exit, error_lines()}; }

 private:
  int inform(const std::string& text) const {
    if (!silent_) write_all(STDOUT_FILENO, text, "standard output");
    return 0;
  }

  void say_error() const {
    if (!silent_) write_error(error_lines());
  }

  // The text of --help, --help=TOPIC, --version, --man or --completion; absent if none of them is
  // given.
  std::optional<std::string> information(const Libraries& libraries) const {
    if (asks_for(command_line_, "--help", "-h")) return help_text(declaration_);
    if (auto topic = topic_text(command_line_, declaration_)) return topic;
    if (asks_for(command_line_, "--version")) return version_text(declaration_, libraries());
    if (asks_for(command_line_, "--man")) return man_page(declaration_);
    if (const auto shell = completion_shell(command_line_, declaration_)) {
      return completion_script(declaration_, *shell);
    }
    return std::nullopt;
  }

  void print(const Arguments& arguments, const Outcome& outcome) {
    if (outcome.failure) failed_ = failed_by(*outcome.failure);
    if (silent_) {
      if (outcome.commit) outcome.commit();
      return;
    }
    Report::Impl& report = report_.impl();
    report.note_sources();
    report.note_unsaid();
    if (outcome.stopped) report_.status("stopped");
    const bool in_place = (json_ && json_->empty()) || !report.data.empty();
    if (!report.data.empty()) write_all(STDOUT_FILENO, report.data, "standard output");
    if (!report.text.empty() && !in_place && !arguments.quiet) {
      const std::string text = printing(report.text, "\n");
      if (arguments.bundle_to_stdout()) {
        write_error(text);
      } else {
        write_all(STDOUT_FILENO, text, "standard output");
      }
    }
    // Composed before the commit, so that nothing can fail after it.
    std::string summary;
    if (!outcome.summary.empty() && !arguments.quiet) {
      summary = report.tool + ": " + one_line(outcome.summary) + "\n";
    }
    if (json_) {
      write_text(json(outcome.status, outcome.failure ? &failed_ : nullptr), *json_, "json",
                 outcome.commit);
    } else if (outcome.commit) {
      outcome.commit();
    }
    write_error(summary);
  }

  // A failure to report the error is ignored.
  void report_failure() noexcept {
    bool reported = false;
    try {
      say_error();
      reported = true;
      if (!json_ || report_.impl().json_file_spared) return;
      write_text(json(failed_.exit, &failed_), *json_, "json");
    } catch (...) {
      if (!reported && !silent_) report_without_memory();
    }
  }

  void report_without_memory() noexcept {
    for (const std::string_view text :
         {std::string_view(report_.impl().tool), std::string_view(": error: "),
          std::string_view(failed_.message), std::string_view("\n")}) {
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    }
  }

  std::string error_lines() const {
    const std::string tool = declaration_.impl().tool;
    std::string lines = tool + ": error: " + failed_.message + "\n";
    if (!failed_.hint.empty()) lines += tool + ": hint: " + failed_.hint + "\n";
    return lines;
  }

  std::string json(int outcome, const Failed* failed) {
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start_;
    return json_text(report_.impl(), outcome, failed, wall.count(), threads_);
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const Declaration& declaration_;
  std::vector<std::string> command_line_;
  bool silent_;
  Report report_;
  std::optional<std::string> json_;
  int threads_ = 1;
  Failed failed_;
};

}  // namespace

int run_tool(int argc, char** argv, const Declaration& declaration,
             const std::function<Outcome(const Arguments&, Report&)>& run,
             const Libraries& libraries, const std::function<void(const FailedRun&)>& on_failure,
             bool silent) {
  secure_standard_streams();
  Session session(declaration, std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
                  silent);
  const int status = session.run(run, libraries);
  if (status > 1 && on_failure) on_failure(session.failed());
  return status;
}

}  // namespace attn::cli
