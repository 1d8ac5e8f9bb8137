#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/crc.hpp>

#include "cli/command.hpp"
#include "common/runs/checkpoint_journal.hpp"
#include "common/runs/checkpoint_record.hpp"
#include "common/runs/stored_bytes.hpp"
#include "io/input.hpp"
#include "io/output.hpp"
#include "io/target/sole_writer.hpp"
#include "parallel/ranks.hpp"

namespace attn::tools {

/// Throws Error(usage) if --checkpoint names no file, an input or the output, or if an input is a
/// stream, which cannot be read again.
void require_checkpoint_name(const cli::Arguments& arguments);

/// The file of --checkpoint: what a run has done so far, so that the same command can go on. It
/// holds units of work, such as heads, in the order in which the run does them. It appears whole or
/// not at all (io::OutputBundle), and one process at a time writes it. Among ranks, rank 0 is this
/// process. All ranks do every unit; the others read the file at the start, so they have the same
/// units.
///
/// The file is a bundle: `units` and, of the unit in progress, `state` (bytes), and the attributes
/// attn_checkpoint (what tells runs apart, see run_identity.hpp), attn_checkpoint_units (how many)
/// and attn_checkpoint_crc of the bytes and of that number. The bytes depend on the version of the
/// tool.
class Checkpoint {
 public:
  /// Begins a checkpoint, or continues an earlier run's checkpoint. Throws Error(output) for a file
  /// that is no checkpoint of this run (its inputs, options or version), and while another process
  /// writes it; Error(input) for a damaged file, and if a rank sees another one than rank 0 does.
  Checkpoint(const cli::Arguments& arguments, cli::Report& report);
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  /// Whether this process writes the file.
  bool writes() const { return ranks_ == nullptr || ranks_->own() == 0; }

  /// Whether the earlier run did the next unit.
  bool has_unit() const { return taken_ < known_; }

  /// Reads that unit; `read` takes its parts from the archive in the order in which they were
  /// written. Throws Error(input) if the file has other parts.
  void take_unit(const std::function<void(LoadingArchive&)>& read);

  /// Passes the parts of a result in their order.
  using Save = std::function<void(SavingArchive&)>;

  /// Adds a unit that was done. There must be none left to take.
  void add_unit(const Save& write);

  /// A state of the unit in progress, from which to continue: the earlier run's state, if it left
  /// one and all its units are taken. It is written with the file, until keep_state replaces it or
  /// the unit is added. On ranks only rank 0 has a state that was kept since the start.
  bool has_state() const { return !has_unit() && holds_state(); }
  bool holds_state() const { return stored_state_ || !state_.empty(); }
  void load_state(const std::function<void(LoadingArchive&)>& read) const;
  void keep_state(const Save& write);

  /// Whether units are done one after the other, so that the next one may keep a state; set by the
  /// loop over units.
  bool takes_states() const { return takes_states_; }
  void take_states(bool wanted) { takes_states_ = wanted; }

  /// Whether the file is to be written again: never by ranks other than 0.
  bool is_due() const;

  /// Writes the file if the last write was --checkpoint-every seconds ago, and 50 times as long as
  /// it took; with 0 seconds at every call. Throws Error(output); the file before is then still
  /// there.
  void write_if_due();
  void write();

  /// Removes the file: the run is finished.
  void remove();

  const std::string& file() const { return file_; }

  /// The units done, by the earlier run and by this one.
  std::int64_t units_done() const { return known_ + added_; }

 private:
  using Clock = std::chrono::steady_clock;
  void begin_writing(const cli::Arguments& arguments, cli::Report& report);
  void follow_rank_0(const cli::Arguments& arguments, cli::Report& report);
  void open_next();
  void open_existing(const cli::Arguments& arguments, cli::Report& report);
  void open_units(const io::InputBundle& bundle);
  void open_state(const io::InputBundle& bundle);
  void verify();
  void naming_damage(const std::function<void()>& body) const;
  void drop_state();
  boost::crc_32_type write_state();
  void begin_after_write();
  void copy_units(io::OutputDataset& to);

  Ranks* const ranks_;  // those of the thread; null: one process
  std::string file_;
  std::string run_;
  double every_ = 0;
  bool exists_ = false;
  std::string checksums_;  // of the file
  // Units that lie in the file.
  std::optional<StoredBytes> stored_;
  std::int64_t known_ = 0;
  std::int64_t taken_ = 0;
  CheckpointJournal journal_;  // units since the last write
  std::int64_t added_ = 0;
  std::optional<StoredBytes> stored_state_;  // in the file,
  std::vector<char> state_;                  // or here
  bool state_is_new_ = false;
  bool takes_states_ = false;
  boost::crc_32_type crc_;              // of all units
  std::optional<io::SoleWriter> only_;  // of the process that writes
  std::optional<io::OutputBundle> next_;
  Clock::time_point written_;
  double write_seconds_ = 0;
};

}  // namespace attn::tools
