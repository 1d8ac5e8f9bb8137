#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/frame/section_tool.hpp"
#include "common/mechanisms/mechanism_cost.hpp"
#include "common/mechanisms/mechanism_run.hpp"

namespace attn::tools {

/// The frame of a tool that computes a mechanism. `Tool` has static functions:
///
///   form(arguments)      the form of the mechanism
///   settings(arguments)  the settings of its results
///   make<T>(arguments)   the mechanism
///
/// and may have estimate<T>(arguments), which changes the gradients of a section, or is null.
template <class Tool>
class MechanismTool {
  struct Task : MechanismTask {
    Task(const cli::Arguments& arguments, io::InputBundle section)
        : MechanismTask(arguments, std::move(section), Tool::form(arguments),
                        Tool::settings(arguments)) {
      if constexpr (requires { Tool::template estimate<double>(arguments); }) {
        estimates = Tool::template estimate<double>(arguments) != nullptr;
      }
    }

    ProblemUnits units() const {
      ProblemUnits units = MechanismTask::units();
      if constexpr (requires(const cli::Arguments& a) { Tool::template estimate<double>(a); }) {
        // The figures of an estimate cover all sequences together.
        if (estimates) {
          units.sum("the figures of the estimate",
                    std::vector<Index>(static_cast<std::size_t>(input.problems), 0));
        }
      }
      return units;
    }

    static bool suffices(const cli::Arguments& arguments, const io::InputBundle& bundle) {
      return MechanismTask::suffices(bundle, Tool::form(arguments));
    }

    bool estimates = false;
  };

  class Sections : public SectionTool<Task> {
    using SectionTool<Task>::SectionTool;
    using SectionTool<Task>::arguments;
    using SectionTool<Task>::checkpoint;
    using SectionTool<Task>::print_heading;
    using SectionTool<Task>::report;
    using SectionTool<Task>::sections;
    using SectionTool<Task>::problems;

    std::string unit() const override { return "sequence"; }

    void report_cost(const Task& task) override {
      with_mechanism(task, [&](const auto& mechanism) {
        const auto estimate = estimate_for(mechanism);
        report_mechanism_cost(arguments(), task, mechanism, estimate.get(), report());
      });
    }

    void begin(Index count) override {
      progress_.emplace(arguments(), arguments().tool, static_cast<double>(count), "sequences");
    }

    void compute(const Task& task, const std::string& label,
                 std::optional<io::OutputBundle> results) override {
      with_mechanism(task, [&](const auto& mechanism) {
        const auto estimate = estimate_for(mechanism);
        run_mechanism(arguments(), task, mechanism, estimate.get(), *std::move(results),
                      checkpoint(), *progress_, report());
        if (estimate == nullptr) return;
        print_heading(label);
        report().print(estimate->report(report().result()));
      });
    }

    cli::Outcome conclude(const GroupReport& groups) override {
      groups.conclude(sections().several(), report());
      cli::Outcome outcome;
      outcome.summary = cli::counted(problems(), "sequence");
      if (sections().several()) outcome.summary += " in " + cli::counted(groups.size(), "group");
      return outcome;
    }

    template <class T>
    std::unique_ptr<MechanismEstimate<T>> estimate_for(const mechanisms::Mechanism<T>&) const {
      if constexpr (requires { Tool::template estimate<T>(arguments()); }) {
        return Tool::template estimate<T>(arguments());
      } else {
        return nullptr;
      }
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
