#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "common/frame/section_name.hpp"
#include "common/results/results.hpp"
#include "io/input.hpp"
#include "io/output.hpp"

namespace attn::tools {

/// Declares --each and --map. `use` continues the sentence that the groups are processed.
void declare_groups(cli::Declaration& declaration, const std::string& use = "");

/// Declares --each, --map and --shard. `units` are what --shard divides if there are no groups,
/// "heads"; empty: nothing.
void declare_sections(cli::Declaration& declaration, const std::string& units = "");

/// Whether a bundle holds datasets from which a tool can compute.
using Suffices = std::function<bool(const io::InputBundle&)>;

/// The parts of the INPUTs that a tool processes in turn: an INPUT itself; with --each every
/// matching group; or, if INPUT itself does not suffice, every group that does. Datasets are
/// renamed by --map, and -i applies to every section.
class Sections {
 public:
  /// Opens every INPUT, and notes which groups stand in for one. Throws what io::InputBundle
  /// throws; Error(usage) for a --map that is malformed or names a dataset of -i; Error(input) if
  /// no group matches.
  Sections(const cli::Arguments& arguments, cli::Report& report, const Suffices& suffices);

  /// Whether the report has a part for each section: INPUT itself is not the only one.
  bool several() const { return several_; }
  std::size_t size() const { return parts_.size(); }
  const SectionName& name(std::size_t section) const { return parts_[section].name; }

  /// Drops all but the sections [first, last), which are then numbered from 0. There may be none.
  void keep(std::size_t first, std::size_t last);

  /// All of the first INPUT, the only one for a tool that writes a bundle.
  const io::InputBundle& whole() const { return inputs_.front(); }

  /// "dump.h5", "2 files".
  std::string description() const;

  /// Pairs of --map: the tool's name and the stored name.
  const std::vector<std::pair<std::string, std::string>>& renamed() const { return renamed_; }

  /// One section. Throws Error(input) if it lacks a dataset that --map names.
  io::InputBundle open(std::size_t section) const;

  /// Warns of datasets and attributes that some group lacks and INPUT has outside its groups, if
  /// INPUT has nothing to compute from there: a group does not inherit them. To be called when
  /// every section has requested what it reads.
  void warn_of_root(const cli::Arguments& arguments, cli::Report& report) const;

 private:
  struct Part {
    std::size_t input;
    SectionName name;
  };
  void add(const std::string& file, io::InputBundle input, const cli::Arguments& arguments,
           const Suffices& suffices, cli::Report& report);
  bool every_group(std::size_t input, const std::function<bool(const io::InputBundle&)>& has) const;

  std::vector<std::pair<std::string, std::string>> renamed_;
  std::vector<io::InputBundle> inputs_;
  std::vector<bool> of_groups_;  // by input: whether only its groups hold something to compute from
  bool several_ = false;
  std::vector<Part> parts_;
};

/// The output of a tool that processes sections: INPUT with results in the same groups, or with
/// --only just the results; -i datasets are stored once and linked under their names in every
/// section.
class SectionOutput {
 public:
  /// Makes the output by open_output with `options` and copies every section n except the objects
  /// that `plans[n]` leaves out. The arguments must outlive the object.
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
