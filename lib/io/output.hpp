#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/input.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// A dataset being written by blocks. Writes may come from any thread; they take turns. It is open
/// in the file as long as there is a copy of this, so that a bundle of thousands need not have all
/// of them, and their caches, at once.
class OutputDataset {
 public:
  struct Impl;
  explicit OutputDataset(std::shared_ptr<Impl> impl);

  /// Writes the block at `start` of `count` elements per axis from row-major `data` whose last
  /// axis has `row_stride` elements from one row to the next (0: contiguous). Numbers are converted
  /// to the dataset's type; bool takes uint8_t of 0 and 1 alone. Throws Error(output) naming the
  /// file and the reason ("no space left on device"), in a worker thread too, where it has to be
  /// carried out; after it, every call on this bundle throws the same.
  void write(const Shape& start, const Shape& count, const float* data, Index row_stride = 0);
  void write(const Shape& start, const Shape& count, const double* data, Index row_stride = 0);
  void write(const Shape& start, const Shape& count, const std::uint8_t* data,
             Index row_stride = 0);
  void write(const Shape& start, const Shape& count, const std::int64_t* data,
             Index row_stride = 0);

  /// Writes a contiguous block without any conversion: elements as InputDataset::read_stored gives
  /// them, of the type that the dataset was created with.
  void write_stored(const Shape& start, const Shape& count, const void* data);

 private:
  std::shared_ptr<Impl> impl_;
};

/// What a tool writes: a bundle that appears whole or not at all. It is made in a temporary
/// (beside the target; for a stream in tmpdir) and takes the target's name, or flows into the
/// stream, only in commit(). Without commit() nothing is left behind, also on SIGINT and SIGTERM.
class OutputBundle {
 public:
  struct Options {
    std::string target = "-";  ///< a path; "-" is standard output
    bool force = false;        ///< replace an existing regular file
    std::string tmpdir;        ///< for a stream: this, else $TMPDIR, else /tmp
    /// Deflate (after HDF5's shuffle) at this level, 1 to 9, whatever create() makes of 64 KiB or
    /// more; 0: not at all. Copied datasets stay as they are.
    int deflate = 0;
    /// Parts of rows of at least so many bytes go straight to the file. Shorter ones take turns in
    /// a buffer of that size, which is first read: large where parts lie close together, a page
    /// where they are some KiB each.
    std::size_t least_part = 65536;
  };

  /// Refuses at once what would be refused at the end: an existing regular file without force
  /// (Error(output)), a terminal (Error(usage)), a folder that is not there or not writable.
  explicit OutputBundle(const Options& options);
  ~OutputBundle();
  OutputBundle(OutputBundle&&) noexcept;
  OutputBundle& operator=(OutputBundle&&) noexcept;

  /// One group of this bundle, made as needed ("" is the root), as a bundle of its own that shares
  /// the file: what is created, linked and attributed there lies in the group. It must not outlive
  /// this one; copying whole inputs, history and commit() are for this one alone
  /// (std::logic_error).
  OutputBundle group(const std::string& path);

  /// Copies everything in INPUT's root (unknown datasets, groups and attributes too) and the named
  /// datasets under their names (sliced as addressed), except objects listed in `without` by their
  /// paths ("out", "text/layer0/out"), which the tool is about to write itself; what was written
  /// before stays. Links that lead out of what is copied become what they lead to, or stay as they
  /// are where they lead nowhere; references become null. Throws Error(input) naming an object that
  /// cannot be copied.
  void copy_from(const InputBundle& input, const std::vector<std::string>& without);

  /// Copies the attributes of INPUT's root (or of the group it views) alone (--only), `history`
  /// among them; those written before stay.
  void copy_attributes_from(const InputBundle& input);

  /// Copies the named datasets of `input` alone, except those in `without`.
  void copy_named_from(const InputBundle& input, const std::vector<std::string>& without);

  /// Makes `name` here a second name of `path`, which lies below the whole bundle's root. What had
  /// that name is replaced.
  void link(const std::string& name, const std::string& path);

  /// A new dataset, of any type but bfloat16, strings and other. `labels` names its axes (HDF5
  /// dimension labels; may be shorter than shape). `chunk`: empty is contiguous; else the chunk's
  /// shape, all space allocated now so that the bytes of the file do not depend on the order of
  /// writes. A dataset of that name copied before is replaced. Where it is deflated, an empty
  /// `chunk` is one that suits writing in row-major order, and chunks lie in the file in the order
  /// in which they were complete: written by several threads, the elements are the same in every
  /// run, but not the bytes of the file. A chunk that is written in several parts is to be
  /// completed before many others are begun, lest it be deflated more than once. `name` may have
  /// slashes: groups are made as needed ("unas/centre"). Every element is to be written.
  OutputDataset create(const std::string& name, DType type, const Shape& shape,
                       const std::vector<std::string>& labels = {}, const Shape& chunk = {});

  /// A dataset of UTF-8 strings.
  void write_strings(const std::string& name, const std::vector<std::string>& values,
                     const std::vector<std::string>& labels = {});

  /// Attributes of the root, or of the group; they replace copied ones of the same name.
  void attribute(const std::string& name, double value);
  void attribute(const std::string& name, std::int64_t value);
  void attribute(const std::string& name, const std::string& value);
  void remove_attribute(const std::string& name);

  /// A text attribute of the dataset at `path`, which replaces one of the same name. Does nothing
  /// where there is no such dataset.
  void dataset_attribute(const std::string& path, const std::string& name,
                         const std::string& value);

  /// Puts one line "time: command line (version)" in front of the root attribute `history`
  /// (UTC, ISO 8601; SOURCE_DATE_EPOCH where set, so that outputs are byte-identical).
  void add_history(const std::string& command_line, const std::string& version);

  /// Flushes, fsyncs and renames, or streams the bytes out. Throws Error(output).
  void commit();

  /// "out.h5" or "standard output": for messages.
  std::string description() const;

  /// "out.h5:/layer3/out"
  std::string address_of(const std::string& name) const;

 private:
  struct Impl;
  explicit OutputBundle(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Whether an output could not be written. HDF5 is then left with a file that must not be touched
/// again, not even closed: the temporary has been removed, all calls on that bundle throw the same
/// Error, and the process should end by `_exit`, with its streams flushed. (HDF5's own closing of
/// files at exit is off, so that an ordinary return does no harm either.)
bool output_failed() noexcept;

/// Sets handlers that call remove_temporaries (system/temporary.hpp) for SIGINT, SIGTERM, SIGHUP,
/// SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGPIPE and the signals of a crash, unless they are ignored.
/// The process then dies by the same signal; where HDF5 crashed over a damaged input, by exit
/// status 3 after a line that names it. SIGXFSZ is ignored, so that a file above `ulimit -f` is an
/// Error(output). A timer of CPU time (SIGPROF) is started: where one call of HDF5 that does not
/// write takes more than 10 seconds of it, the process ends in the same way, with exit status 3.
/// `memory_was_short`, where given, is asked when HDF5 has crashed: the input is then not at fault,
/// and the exit status is 6.
void install_cleanup_handlers(bool (*memory_was_short)() noexcept = nullptr);

/// Whether the calling thread is inside a sequence of HDF5 calls. For signal handlers too.
bool hdf5_is_busy() noexcept;

/// "1.10.8": for --version.
std::string hdf5_version();

/// Turns HDF5's own error stack on stderr on or off (off at start of a tool; on with -v).
void show_hdf5_errors(bool show);

}  // namespace attn::io
