#include "cli/hosted_run.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include "attnkit/context.hpp"
#include "cli/failed.hpp"
#include "cli/option.hpp"
#include "cli/parse.hpp"
#include "cli/report_impl.hpp"
#include "cli/words.hpp"

namespace attn::cli {

HostedRun run_hosted(const std::vector<std::string>& command_line, const Declaration& declaration,
                     const std::shared_ptr<HostArrays>& host,
                     const std::function<Outcome(const Arguments&, Report&)>& run) {
  const auto start = std::chrono::steady_clock::now();
  const auto report = std::make_shared<Report>();
  report->impl().tool = declaration.impl().tool;
  report->make_quiet();
  HostedRun found;
  std::optional<Failed> failed;
  int threads = 1;
  try {
    Arguments arguments = parse(command_line, declaration, process_environment);
    arguments.host = host;
    report->impl().params = params_of(arguments);
    threads = arguments.threads;
    const Outcome outcome = run(arguments, *report);
    report->impl().note_sources();
    report->impl().note_unsaid();
    if (outcome.failure) failed = failed_by(*outcome.failure);
    if (outcome.commit) outcome.commit();
    found.status = outcome.status;
    found.summary = one_line(outcome.summary);
  } catch (const Stopped&) {
    throw;
  } catch (...) {
    failed = failure_in_flight();
  }
  if (failed) {
    found.status = failed->exit;
    found.message = failed->message;
    found.hint = failed->hint;
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  Report::Impl& impl = report->impl();
  found.report = [report, failed, threads, status = found.status, seconds = wall.count()] {
    return json_text(report->impl(), status, failed ? &*failed : nullptr, seconds, threads);
  };
  found.text = std::move(impl.text);
  found.data = std::move(impl.data);
  found.notes = std::move(impl.notes);
  for (const auto& warning : impl.warnings) found.warnings.push_back(warning.get<std::string>());
  return found;
}

}  // namespace attn::cli
