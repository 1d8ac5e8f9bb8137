#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "common/runs/run_identity.hpp"
#include "common/shards/shard_marks.hpp"
#include "io/input.hpp"
#include "io/output.hpp"
#include "tensor_join/piece_join.hpp"

namespace attn::tools {

/// All shards of one run.
class ShardSet {
 public:
  /// Opens the files. Throws Error(usage) for a pipe given twice and, with --virtual, a file that
  /// is not HDF5 or is OUTPUT itself; Error(memory) like read_shard_marks. Throws Error(input) that
  /// names the file or the missing part: a file that is not a shard or lacks objects that its marks
  /// name, a shard of a different run, with the difference, a shard given twice, a missing shard,
  /// and a group of no shard.
  ShardSet(const cli::Arguments& arguments, cli::Report& report,
           const std::vector<std::string>& files);

  std::size_t size() const { return shards_.size(); }

  /// "40 groups", "12 problems": the units of the run.
  std::size_t units() const;
  std::string units_text() const;
  bool divides_problems() const { return shards_.front().marks.divided.has_value(); }

  /// Copies the results of all shards but those `without`, or with --virtual refers to them, and
  /// assembles the datasets whose parts they hold.
  void write(io::OutputBundle& output, const std::vector<std::string>& without) const;

  /// Whether, with --virtual, a shard lies outside the folder of OUTPUT and the folders in it.
  bool refers_outside() const;

  /// The files of the shards whose results had not converged, by the attn_status that the tool
  /// wrote: "a.h5, b.h5 and 3 more". Empty if there are none, or if the tool writes no attn_status.
  std::string not_converged() const;

  /// The tool that wrote the shards, and the inputs that it read.
  const std::string& tool() const { return run_.tool; }
  const std::vector<RunInput>& inputs() const { return run_.inputs; }

  /// The groups of the run, "" for INPUT itself.
  std::vector<std::string> groups() const;

  /// The warnings of an undivided run, except the warnings of the report on all shards.
  struct Warnings {
    /// The warnings before the report on each section, then the others. One list if there is no
    /// report.
    std::vector<std::vector<std::string>> lines;
    std::vector<std::string> unused;                         ///< as in ShardMarks
    std::set<std::pair<std::string, std::string>> outdated;  ///< as in ShardMarks
  };
  Warnings warnings() const;

  /// A shard's notes of the report on a section.
  struct ReportPart {
    std::string file;
    const io::InputBundle* bundle;
    const ReportNotes* notes;
    const std::vector<Index>* heads;  ///< the heads that the shard has; null: all
  };
  /// The parts of all sections, in order; empty if the tool makes no report. Throws Error(input)
  /// for a section or heads without notes in any shard.
  std::vector<std::vector<ReportPart>> report_parts() const;

  /// The objects of INPUT that an undivided run would not copy, besides the datasets of -i.
  std::vector<std::string> left_out() const;

  /// The attributes of INPUT, GROUP/NAME, that an undivided run would remove.
  std::vector<std::string> removed(const io::InputBundle& input) const;

 private:
  struct Part {
    std::string file;
    std::string source;  // as in PieceJoin::Part
    io::InputBundle bundle;
    ShardMarks marks;
  };
  void require_one_run() const;
  void require_each_once() const;
  void require_all_groups() const;
  void require_all_problems() const;
  void take_pieces();
  void write_whole_shard(const Part& one, std::vector<std::string> apart,
                         io::OutputBundle& output) const;
  bool not_converged(const Part& one) const;
  void write_ranked(io::OutputBundle& output) const;
  std::vector<const Part*> by_first_problem() const;  // parts with problems
  std::vector<std::string> all(std::vector<std::string> ShardMarks::*list) const;

  std::vector<Part> shards_;
  RunDescription run_;
  std::vector<PieceJoin> pieces_;  // of divided problems
};

}  // namespace attn::tools
