#include "cli/report.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "cli/report_impl.hpp"
#include "cli/terminal.hpp"
#include "cli/words.hpp"

namespace attn::cli {
namespace {

nlohmann::ordered_json entry(const std::string& name, const std::string& address,
                             const Shape& shape, const std::string& type) {
  return {{"name", name}, {"address", address}, {"shape", shape}, {"dtype", type}};
}

}  // namespace

Report::Report() : impl_(std::make_unique<Impl>()) {}
Report::~Report() = default;

void Report::input(const std::string& name, const std::string& address, const Shape& shape,
                   const std::string& type) {
  impl_->inputs.push_back(entry(name, address, shape, type));
}

void Report::output(const std::string& name, const std::string& address, const Shape& shape,
                    DType type) {
  impl_->outputs.push_back(entry(name, address, shape, std::string(attn::name(type))));
}

void Report::source(const std::string& address, const std::string& kind,
                    const std::vector<std::string>& files) {
  nlohmann::ordered_json entry = {{"address", address}, {"kind", kind}, {"files", files}};
  const auto& before = impl_->sources;
  if (std::find(before.begin(), before.end(), entry) != before.end()) return;
  impl_->sources.push_back(std::move(entry));
}

nlohmann::ordered_json& Report::result() { return impl_->result; }
nlohmann::ordered_json& Report::params() { return impl_->params; }
void Report::status(const std::string& status) { impl_->status = status; }
void Report::print(const std::string& text) { impl_->text += text; }
void Report::print_line(const std::string& line) { print(one_line(line) + "\n"); }
void Report::print_data(const std::string& text) { impl_->data += text; }
void Report::drop_text() {
  impl_->text.clear();
  impl_->data.clear();
}

void Report::make_quiet() { impl_->quiet = true; }

void Report::spare_json_file() { impl_->json_file_spared = true; }

void Report::ran_on_ranks(const std::vector<RankCosts>& ranks) {
  for (const RankCosts& rank : ranks) {
    impl_->ranks.push_back(
        {{"sent_bytes", rank.sent_bytes}, {"peak_rss_bytes", rank.peak_rss_bytes}});
  }
}

void Report::add_compute_seconds(double seconds) { impl_->compute_seconds += seconds; }

void Report::compute(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  add_compute_seconds(spent.count());
}

void Report::warn(const std::string& line) { impl_->add_own({line}); }

void Report::warn_of_problem(Index problem, const std::string& line) {
  impl_->add_own({line, problem});
}

void Report::warn_of_largest(const std::string& kind, double figure, const std::string& line) {
  impl_->add_own({line, std::nullopt, kind, figure});
}

void Report::warn_of_whole(const std::string& line) { impl_->add_warning(line); }

const std::vector<Report::OwnWarning>& Report::own_warnings() const { return impl_->own_warnings; }

void Report::note(const std::string& line) { impl_->say_once("note", one_line(line)); }

std::string Report::Impl::add_warning(const std::string& line) {
  std::string squashed = one_line(line);
  if (std::find(warnings.begin(), warnings.end(), squashed) == warnings.end()) {
    warnings.push_back(squashed);
    say_once("warning", squashed);
  }
  return squashed;
}

void Report::Impl::add_own(OwnWarning warning) {
  warning.line = add_warning(warning.line);
  const auto same = [&](const OwnWarning& other) { return other.line == warning.line; };
  if (std::none_of(own_warnings.begin(), own_warnings.end(), same)) {
    own_warnings.push_back(std::move(warning));
  }
}

void Report::Impl::note_sources() {
  std::vector<std::string> files;
  for (const auto& source : sources) {
    for (const auto& file : source["files"]) {
      const auto name = file.get<std::string>();
      if (std::find(files.begin(), files.end(), name) == files.end()) files.push_back(name);
    }
  }
  if (files.empty()) return;
  constexpr std::size_t most = 3;
  std::string named = sources.front()["address"].get<std::string>();
  if (sources.size() > 1) named += " and " + std::to_string(sources.size() - 1) + " more";
  for (std::size_t n = 0; n < std::min(files.size(), most); ++n) {
    named += (n == 0 ? " took values from " : ", ") + files[n];
  }
  if (files.size() > most) named += " and " + std::to_string(files.size() - most) + " more";
  say("note", named);
}

void Report::Impl::say_once(const std::string& kind, const std::string& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const bool has_address = line.substr(0, end).find(":/") != std::string::npos;
  if (has_address && !said.insert(kind + line.substr(end)).second) {
    ++unsaid;
  } else {
    say(kind, line);
  }
}

void Report::Impl::note_unsaid() {
  if (unsaid == 0) return;
  say("note", counted(unsaid, "more line differs", "more lines differ") +
                  " from these in the address only" +
                  (warnings.empty() ? "" : "; --json has all warnings"));
}

void Report::Impl::say(const std::string& kind, const std::string& line) {
  if (kind == "note") notes.push_back(line);
  if (quiet) return;
  // There may be a progress line on the terminal.
  const std::string erase = stderr_is_terminal() ? "\r\x1b[K" : "";
  write_error(erase + tool + ": " + kind + ": " + one_line(line) + "\n");
}

}  // namespace attn::cli
