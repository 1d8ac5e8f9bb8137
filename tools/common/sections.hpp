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

/// The parts of INPUT that a tool works on, one after the other: INPUT itself, or with --each every
/// group that matches. Datasets are called as --map says, and -i applies to every section.
class Sections {
 public:
  /// Opens INPUT. Throws what io::InputBundle throws; Error(usage) for a --map that is none or that
  /// names what -i names; Error(input) where no group matches.
  Sections(const cli::Arguments& arguments, cli::Report& report);

  bool each() const { return each_; }
  std::size_t size() const { return groups_.size(); }

  /// "text/wiki/layer0"; "" without --each.
  const std::vector<std::string>& groups() const { return groups_; }

  /// All of INPUT.
  const io::InputBundle& whole() const { return input_; }

  /// By --map: what tools say, and what is stored.
  const std::vector<std::pair<std::string, std::string>>& renamed() const { return renamed_; }

  /// One section. Throws Error(input) where a dataset that --map names is not in it.
  io::InputBundle open(std::size_t section) const;

 private:
  std::vector<std::pair<std::string, std::string>> renamed_;
  io::InputBundle input_;
  bool each_;
  std::vector<std::string> groups_;
};

/// The output of a tool that works on sections: INPUT with results in the same groups, or with
/// --only these alone; -i datasets are stored once, under their names in every section.
class SectionOutput {
 public:
  /// Copies what is to be copied to what open_output makes with `options`: of section n what
  /// `plans[n]` does not leave out. The arguments must outlive it.
  SectionOutput(const cli::Arguments& arguments, const Sections& sections,
                std::vector<ResultPlan> plans, const io::OutputBundle::Options& options = {});

  /// Where the results of one section go; to be asked for in order. What was written to the
  /// sections before is closed.
  io::OutputBundle open(std::size_t section);

  /// All of it, with its results marked, to be committed. Warns of what was left out.
  io::OutputBundle take(cli::Report& report);

 private:
  void fill(std::size_t section, io::OutputBundle& results);

  const cli::Arguments& arguments_;
  const Sections& sections_;
  std::vector<ResultPlan> plans_;
  io::OutputBundle output_;
  std::vector<std::string> shared_;  // names of the -i datasets that every section has
};

}  // namespace attn::tools
