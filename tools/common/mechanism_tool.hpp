#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/mechanism_run.hpp"
#include "common/section_tool.hpp"

namespace attn::tools {

/// The frame of a tool that computes a mechanism. `Tool` has static functions:
///
///   form(arguments)      the form of the mechanism
///   settings(arguments)  the settings of its results
///   make<T>(arguments)   the mechanism
template <class Tool>
class MechanismTool {
  struct Task : MechanismTask {
    Task(const cli::Arguments& arguments, io::InputBundle section)
        : MechanismTask(arguments, std::move(section), Tool::form(arguments),
                        Tool::settings(arguments)) {}

    static bool suffices(const cli::Arguments& arguments, const io::InputBundle& bundle) {
      return MechanismTask::suffices(bundle, Tool::form(arguments));
    }
  };

  class Sections : public SectionTool<Task> {
    using SectionTool<Task>::SectionTool;
    using SectionTool<Task>::arguments;
    using SectionTool<Task>::report;
    using SectionTool<Task>::sections;
    using SectionTool<Task>::problems;

    void report_cost(const Task& task) override {
      with_mechanism(task, [&](const auto& mechanism) {
        report_mechanism_cost(arguments(), task, mechanism, report());
      });
    }

    void begin(Index count) override {
      progress_.emplace(arguments(), arguments().tool, static_cast<double>(count), "sequences");
    }

    void compute(const Task& task, const std::string& /*group*/,
                 std::optional<io::OutputBundle> results) override {
      with_mechanism(task, [&](const auto& mechanism) {
        run_mechanism(arguments(), task, mechanism, *std::move(results), *progress_, report());
      });
    }

    cli::Outcome conclude(const GroupReport& groups) override {
      groups.conclude(sections().several(), report());
      cli::Outcome outcome;
      outcome.summary = fmt::format("{} sequences", problems());
      if (sections().several()) outcome.summary += fmt::format(" in {} groups", groups.size());
      return outcome;
    }

    template <class Use>
    void with_mechanism(const Task& task, const Use& use) const {
      if (task.f64) {
        use(*Tool::template make<double>(arguments()));
      } else {
        use(*Tool::template make<float>(arguments()));
      }
    }

    std::optional<cli::Progress> progress_;
  };

 public:
  static cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
    return Sections(arguments, report).run();
  }
};

}  // namespace attn::tools
