#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/report.hpp"
#include "common/results/settings.hpp"
#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// The effect of a run on one section, INPUT or one group of it, as far as results depend on it.
/// Datasets have the names that the tool uses.
struct RunEffect {
  std::string tool;  ///< as in result_table(); any other name for a tool that writes no results
  /// The results that the run writes, each with the names of its inputs. Missing optional inputs
  /// count: a mask that is added later changes the result.
  std::map<std::string, std::set<std::string>> results;
  std::set<std::string> replaced;   ///< inputs that it overwrites or removes
  std::set<std::string> changed;    ///< datasets that it does not write but makes outdated
  std::set<std::string> unchanged;  ///< datasets that it writes with unchanged elements
  /// Results that stay valid although their inputs are written, such as path values from which
  /// weights are computed.
  std::set<std::string> still_true;
  std::set<std::string> named;  ///< datasets taken from elsewhere; plan_results adds those of -i
  Settings settings;            ///< settings of its results
  Settings attributes;          ///< root attributes that it sets, or removes if the value is absent
};

/// The fate of the results in one section of INPUT, and of the attributes that describe them.
struct ResultPlan {
  std::vector<std::string> without;             ///< not to be copied: rewritten or left out
  std::map<std::string, std::string> marks;     ///< marks of the results to be written, by name
  std::vector<std::string> removed_attributes;  ///< root attributes to be removed
  std::set<std::pair<std::string, std::string>> left_out;  ///< tool and name, not rewritten
};

/// The rule for all tools. A result of an earlier run stays only while its inputs and settings are
/// unchanged. It is left out if this run
/// - writes one of its inputs or another result that it was computed from, or -i names one;
/// - sets or removes an attribute that it depends on, unless to the same value;
/// - is a run of the same tool with other settings, or reads another dataset under a name that both
/// use (q);
/// - describes out, weights and potentials, and a run of another tool did so before. A result that
/// the run reads is not protected: it is used, but not copied. A dataset is a result if it carries
/// its mark. A dataset without a mark, as older versions of the tools wrote them, is a result if
/// result_table() has its name and the root has an attribute that only a run writes; runs that set
/// that attribute leave it out. With --only nothing is copied, so nothing is left out. `renamed` as
/// in Sections.
ResultPlan plan_results(const cli::Arguments& arguments, const io::InputBundle& section,
                        RunEffect effect,
                        const std::vector<std::pair<std::string, std::string>>& renamed = {});

/// Marks the results that were written to a section; `output` is its root or group.
void write_marks(const ResultPlan& plan, io::OutputBundle& output);

/// Warns, in one line, of results of an earlier run that were not copied: tool and name.
void warn_of_left_out(const std::set<std::pair<std::string, std::string>>& results,
                      cli::Report& report);

/// The same for all sections.
void warn_of_left_out(const std::vector<ResultPlan>& plans, cli::Report& report);

}  // namespace attn::tools
