#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/report.hpp"
#include "common/settings.hpp"
#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// What a run does to one section, INPUT or one group of it, as far as results depend on it.
/// Datasets are named as the tool knows them.
struct RunEffect {
  std::string tool;  ///< of result_table(); another name for a tool that writes no results
  /// Results that it writes, each with the names of its inputs. Optional inputs that are not there
  /// count: a mask that is added later changes the result.
  std::map<std::string, std::set<std::string>> results;
  std::set<std::string> replaced;   ///< inputs that it writes anew, or uses up
  std::set<std::string> changed;    ///< datasets that it does not write, but makes untrue
  std::set<std::string> unchanged;  ///< datasets that it writes with the same elements as before
  /// Results that hold whatever it writes: the values of paths, from which it makes weights.
  std::set<std::string> still_true;
  std::set<std::string> named;  ///< taken from elsewhere; plan_results adds what -i names
  Settings settings;            ///< how its results are made
  Settings attributes;          ///< of the root, that it sets, or removes where absent
};

/// What becomes of the results that one section of INPUT holds, and of the attributes about them.
struct ResultPlan {
  std::vector<std::string> without;             ///< not to be copied: written anew, or left out
  std::map<std::string, std::string> marks;     ///< of the results to be written, by name
  std::vector<std::string> removed_attributes;  ///< of the root
  std::set<std::pair<std::string, std::string>> left_out;  ///< tool, name: what is not written anew
};

/// The rule for all tools. A result of an earlier run stays only while what it was made from and
/// with is unchanged. It is left out where this run
///  - writes one of its inputs, or another result that it was made from, or -i names one;
///  - sets or removes an attribute that it was made with, unless to the same value;
///  - is one of the same tool with other settings, or reads other datasets as what both call by one
///    name (q);
///  - says what out, weights and potentials are, and another tool's run said so before.
/// Being read by the run protects no result: it is used, and not copied. A dataset is a result
/// where it carries its mark. One without a mark, as tools wrote them before there were marks, is a
/// result where result_table() has its name and the root has an attribute that only a run leaves;
/// runs that set that attribute leave it out. With --only, where nothing is copied, nothing is left
/// out. `renamed` as Sections has it.
ResultPlan plan_results(const cli::Arguments& arguments, const io::InputBundle& section,
                        RunEffect effect,
                        const std::vector<std::pair<std::string, std::string>>& renamed = {});

/// Marks the results that were written to a section, whose root or group `output` is.
void write_marks(const ResultPlan& plan, io::OutputBundle& output);

/// One line about what was left out of all sections.
void warn_of_left_out(const std::vector<ResultPlan>& plans, cli::Report& report);

}  // namespace attn::tools
