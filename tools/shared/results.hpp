#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/report.hpp"
#include "io/input.hpp"
#include "io/output.hpp"
#include "shared/settings.hpp"

namespace attn::tools {

/// What a run does to one section, INPUT or one group of it, as far as results depend on it.
/// Datasets are named as the tool knows them.
struct RunEffect {
  std::string tool;  ///< of result_table(); another name for a tool that writes no results
  /// Results that it writes, each with what it is made from. Names of optional inputs that are not
  /// there belong to it too: to add a mask later makes another result.
  std::map<std::string, std::set<std::string>> results;
  std::set<std::string> replaced;   ///< inputs that it writes anew, or uses up
  std::set<std::string> changed;    ///< what else is no longer what it was
  std::set<std::string> unchanged;  ///< of all these, what has the same elements as before
  std::set<std::string> read;       ///< never left out
  std::set<std::string> named;      ///< taken from elsewhere: what -i names, and more
  Settings settings;                ///< how its results are made
  Settings attributes;              ///< of the root, that it sets, or removes where absent
};

/// What becomes of the results that one section of INPUT holds, and of the attributes about them.
struct ResultPlan {
  std::vector<std::string> without;             ///< not to be copied: written anew, or left out
  std::map<std::string, std::string> marks;     ///< of the results to be written, by name
  std::vector<std::string> removed_attributes;  ///< of the root
  std::set<std::pair<std::string, std::string>> left_out;  ///< tool, name: what is not written anew
};

/// Results of earlier runs stay where the run leaves everything that they were made from and with
/// as it is. They are left out where it writes or -i names (`arguments`) one of their inputs or
/// another result that they were made from, where it sets an attribute to another value, where it
/// belongs to the same tool and has other settings, or where out, weights and potentials become
/// those of another tool. What counts as a result: datasets that carry its mark, and in bundles of
/// tools that did not mark them yet those of result_table() beside a root attribute that only a run
/// leaves. `renamed` as Sections has it.
ResultPlan plan_results(const cli::Arguments& arguments, const io::InputBundle& section,
                        RunEffect effect,
                        const std::vector<std::pair<std::string, std::string>>& renamed = {});

/// Marks the results that were written to a section, whose root or group `output` is.
void write_marks(const ResultPlan& plan, io::OutputBundle& output);

/// One line about what was left out of all sections; none with --only, where nothing is copied.
void warn_of_left_out(const cli::Arguments& arguments, const std::vector<ResultPlan>& plans,
                      cli::Report& report);

}  // namespace attn::tools
