#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "common/results.hpp"
#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// Declares --each and --map.
void declare_sections(cli::Declaration& declaration);

/// The parts of INPUT that a tool processes in turn: INPUT itself, or with --each every matching
/// group. Datasets are renamed by --map, and -i applies to every section.
class Sections {
 public:
  /// Opens INPUT. Throws what io::InputBundle throws; Error(usage) for a malformed --map or one
  /// that names a dataset of -i; Error(input) if no group matches.
  Sections(const cli::Arguments& arguments, cli::Report& report);

  bool each() const { return each_; }
  std::size_t size() const { return groups_.size(); }

  /// "text/wiki/layer0"; "" without --each.
  const std::vector<std::string>& groups() const { return groups_; }

  /// All of INPUT.
  const io::InputBundle& whole() const { return input_; }

  /// Pairs of --map: the tool's name and the stored name.
  const std::vector<std::pair<std::string, std::string>>& renamed() const { return renamed_; }

  /// One section. Throws Error(input) if it lacks a dataset that --map names.
  io::InputBundle open(std::size_t section) const;

 private:
  std::vector<std::pair<std::string, std::string>> renamed_;
  io::InputBundle input_;
  bool each_;
  std::vector<std::string> groups_;
};

/// The output of a tool that processes sections: INPUT with results in the same groups, or with
/// --only just the results; -i datasets are stored once and linked under their names in every
/// section.
class SectionOutput {
 public:
  /// Makes the output by open_output with `options` and copies every section n except the objects
  /// that `plans[n]` leaves out. The arguments must outlive it.
  SectionOutput(const cli::Arguments& arguments, const Sections& sections,
                std::vector<ResultPlan> plans, const io::OutputBundle::Options& options = {});

  /// The output for the results of one section; must be requested in order. Closes the datasets of
  /// earlier sections.
  io::OutputBundle open(std::size_t section);

  /// The complete output with its results marked, ready to be committed. Warns of results that were
  /// left out.
  io::OutputBundle take(cli::Report& report);

 private:
  void fill(std::size_t section, io::OutputBundle& results);

  const cli::Arguments& arguments_;
  const Sections& sections_;
  std::vector<ResultPlan> plans_;
  io::OutputBundle output_;
  std::vector<std::string> shared_;  // names of the -i datasets, which every section has
};

}  // namespace attn::tools
