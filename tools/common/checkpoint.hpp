#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/crc.hpp>

#include "cli/command.hpp"
#include "common/checkpoint_record.hpp"
#include "io/input.hpp"
#include "io/output.hpp"
#include "system/descriptor.hpp"
#include "system/temporary.hpp"

namespace attn::tools {

/// Throws Error(usage) if --checkpoint names no file, an input or the output, or if an input is a
/// stream, which cannot be read again.
void require_checkpoint_name(const cli::Arguments& arguments);

/// The file of --checkpoint: what a run has done so far, so that the same command can go on. It
/// holds units of work, such as heads, in the order in which the run does them. It appears whole or
/// not at all (io::OutputBundle), and one process at a time writes it.
///
/// The file is a bundle: `units` (bytes), and the attributes attn_checkpoint (what tells runs
/// apart, see run_identity.hpp), attn_checkpoint_units (how many) and attn_checkpoint_crc of the
/// bytes. The bytes depend on the version of the tool.
class Checkpoint {
 public:
  /// Begins a checkpoint, or goes on with that of an earlier run. Throws Error(output) for a file
  /// that is no checkpoint of this run (its inputs, options or version), and while another process
  /// writes it; Error(input) for a damaged file.
  Checkpoint(const cli::Arguments& arguments, cli::Report& report);
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  /// Whether the earlier run did the next unit.
  bool has_unit() const { return taken_ < known_; }

  /// Reads that unit; `read` takes its parts from the archive in the order in which they were
  /// written. Throws Error(input) if the file has other parts.
  void take_unit(const std::function<void(LoadingArchive&)>& read);

  /// Adds a unit that was done. There must be none left to take.
  void add_unit(const std::function<void(SavingArchive&)>& write);

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
  void open_next();
  void open_existing(const cli::Arguments& arguments, cli::Report& report);
  void open_units(const io::InputBundle& bundle);
  void verify(const std::string& checksum);
  void read(void* bytes, std::size_t count);
  void append(const void* bytes, std::size_t count);
  void flush();
  void write_journal(const char* from, std::size_t count);
  void begin_after_write();
  [[noreturn]] void refuse(int error_number) const;
  void copy_units(io::OutputDataset& to);

  std::string file_;
  std::string run_;
  double every_ = 0;
  bool exists_ = false;
  // Units that lie in the file.
  std::optional<io::InputDataset> stored_;
  std::int64_t stored_bytes_ = 0;
  std::int64_t known_ = 0;
  std::int64_t taken_ = 0;
  std::int64_t position_ = 0;
  std::vector<char> ahead_;  // bytes before `position_` that were not taken yet
  std::size_t ahead_at_ = 0;
  // Units since the last write, in a file without a name.
  TemporaryName journal_name_;
  Descriptor journal_;
  std::int64_t journal_bytes_ = 0;
  std::vector<char> behind_;  // bytes that are not in the journal yet
  std::int64_t added_ = 0;
  boost::crc_32_type crc_;  // of all units
  std::optional<io::OutputBundle> next_;
  Clock::time_point written_;
  double write_seconds_ = 0;
};

}  // namespace attn::tools
