#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/arrays/array_format.hpp"
#include "io/input.hpp"
#include "io/virtual_block.hpp"
#include "tensor/dtype.hpp"
#include "tensor/host_arrays.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// A dataset written by blocks. Writes may come from any thread; they take turns. The dataset stays
/// open while a copy of this object exists, so that a bundle of thousands of datasets need not have
/// all of them, and their caches, open at once.
class OutputDataset {
 public:
  struct Impl;
  explicit OutputDataset(std::shared_ptr<Impl> impl);

  /// Writes the block at `start` of `count` elements per axis from row-major `data`, whose rows
  /// along the last axis are `row_stride` elements apart (0: contiguous). Numbers are converted to
  /// the dataset's type; bool takes only uint8_t of 0 and 1. Throws Error(output) naming the file
  /// and the reason ("no space left on device"), also in a worker thread, which must pass it on;
  /// every later call on this bundle throws the same error.
  void write(const Shape& start, const Shape& count, const float* data, Index row_stride = 0);
  void write(const Shape& start, const Shape& count, const double* data, Index row_stride = 0);
  void write(const Shape& start, const Shape& count, const std::uint8_t* data,
             Index row_stride = 0);
  void write(const Shape& start, const Shape& count, const std::int64_t* data,
             Index row_stride = 0);

  /// Writes a contiguous block without any conversion: elements as returned by
  /// ArraySource::read_stored, of the type with which the dataset was created.
  void write_stored(const Shape& start, const Shape& count, const void* data);

 private:
  std::shared_ptr<Impl> impl_;
};

/// The output of a tool: a bundle that appears whole or not at all. It is made in a temporary
/// (beside the target; for a stream in tmpdir). Only commit() renames it to the target or copies it
/// to the stream. Without commit() nothing is left behind, also on SIGINT and SIGTERM.
class OutputBundle {
 public:
  struct Options {
    std::string target = "-";  ///< a path; "-" is standard output
    bool force = false;        ///< replace an existing regular file
    std::string tmpdir;        ///< for a stream: this, else $TMPDIR, else /tmp
    /// Deflate level (after HDF5's shuffle), 1 to 9, for datasets of 64 KiB or more made by
    /// create(); 0: no compression. Copied datasets stay as they are.
    int deflate = 0;
    /// Parts of rows of at least this many bytes are written directly to the file. Shorter ones go
    /// through a buffer of that size, which is read first: use a large value if parts lie close
    /// together, a page if they are some KiB each.
    std::size_t least_part = 65536;
    /// Writes an .npz or a .safetensors in place of HDF5. The bundle is made as usual, in a
    /// temporary that lies beside the file, and its contents move into the file at the end, so that
    /// both need room for a moment. A dataset in a group is an array called "layer0/out"; groups,
    /// attributes and, in a .safetensors, strings are metadata (array_metadata.hpp).
    std::optional<ArrayFormat> arrays = {};
    /// Given: results go to the memory of the program, and nothing above has an effect. copy_from,
    /// create_virtual and results in float16 are then bugs. Other copies, links, marks and history
    /// are left out.
    std::shared_ptr<HostArrays> host = {};
    /// False: numbers that are written to datasets are dropped, so that the bundle takes no space.
    /// Such a bundle must not be committed.
    bool holds_numbers = true;
  };

  struct Impl;

  /// Refuses at once any target that commit() would refuse: an existing regular file without force
  /// (Error(output)), a terminal (Error(usage)), a folder that does not exist or is not writable.
  explicit OutputBundle(const Options& options);
  ~OutputBundle();
  OutputBundle(OutputBundle&&) noexcept;
  OutputBundle& operator=(OutputBundle&&) noexcept;

  /// One group of this bundle, created as needed ("" is the root), as a bundle of its own that
  /// shares the file: datasets, links and attributes made through it lie in the group. It must not
  /// outlive this bundle. Copying whole inputs, history and commit() need the whole bundle
  /// (std::logic_error in a group).
  OutputBundle group(const std::string& path);

  /// Copies everything in INPUT's root (unknown datasets, groups and attributes too) and the named
  /// datasets under their names (sliced as addressed), except the objects whose paths are listed in
  /// `without` ("out", "text/layer0/out"), which the tool is about to write itself. Anything
  /// already written stays, and existing groups get only missing objects. Links that lead out of
  /// the copied group are replaced by their targets, or stay as they are without a target;
  /// references become null. Throws Error(input) naming an object that cannot be copied.
  void copy_from(const InputBundle& input, const std::vector<std::string>& without);

  /// Copies only the attributes of INPUT's root (or of the group it views), including `history`
  /// (--only); those already written stay.
  void copy_attributes_from(const InputBundle& input);

  /// Copies only the named datasets of `input`, except those in `without`.
  void copy_named_from(const InputBundle& input, const std::vector<std::string>& without);

  /// Makes `name` here a second name of `path`, which lies below the whole bundle's root. An
  /// existing object called `name` is replaced.
  void link(const std::string& name, const std::string& path);

  /// Creates a dataset, of any type but bfloat16, strings and `other`. `labels` names its axes
  /// (HDF5 dimension labels; may be shorter than shape). With an empty `chunk` the dataset is
  /// contiguous; otherwise `chunk` is the chunk shape, and all space is allocated at once so that
  /// the bytes of the file do not depend on the order of writes. A copied dataset of that name is
  /// replaced. With deflate, an empty `chunk` selects a shape that suits writing in row-major
  /// order, and chunks lie in the file in the order in which they became complete: if several
  /// threads write, the elements are the same in every run, but the bytes of the file are not. A
  /// chunk that is written in several parts must be completed before many others are begun, or it
  /// is deflated more than once. `name` may have slashes: groups are made as needed
  /// ("unas/centre"). Every element must be written.
  OutputDataset create(const std::string& name, DType type, const Shape& shape,
                       const std::vector<std::string>& labels = {}, const Shape& chunk = {});

  /// Creates a dataset whose elements stay in other files (HDF5's virtual datasets), of float32,
  /// float64 or int64 numbers and at least one axis. Every element should lie in a block; elements
  /// outside all blocks read as NaN or the least integer. Requires HDF5 as the format.
  void create_virtual(const std::string& name, DType type, const Shape& shape,
                      const std::vector<std::string>& labels,
                      const std::vector<VirtualBlock>& blocks);

  /// Copies the attributes of the dataset at `path` of `input` to the dataset `name`; existing
  /// attributes of the same name are replaced. Without `axes`, the axes are others, and their
  /// labels are not copied.
  void copy_dataset_attributes(const std::string& name, const InputBundle& input,
                               const std::string& path, bool axes);

  /// A dataset of UTF-8 strings.
  void write_strings(const std::string& name, const std::vector<std::string>& values,
                     const std::vector<std::string>& labels = {});

  /// Attributes of the root, or of the group; they replace copied ones of the same name.
  void attribute(const std::string& name, double value);
  void attribute(const std::string& name, std::int64_t value);
  void attribute(const std::string& name, const std::string& value);
  void remove_attribute(const std::string& name);

  /// A text attribute of the dataset at `path`, which replaces one of the same name. Does nothing
  /// if there is no such dataset.
  void dataset_attribute(const std::string& path, const std::string& name,
                         const std::string& value);

  /// Puts one line "time: command line (version)" in front of the root attribute `history` (UTC,
  /// ISO 8601; SOURCE_DATE_EPOCH if set, so that outputs are byte-identical).
  void add_history(const std::string& command_line, const std::string& version);

  /// Makes the file of arrays, if that is the format, so that commit() only has to move it; nothing
  /// can be written afterwards. Returns the objects that the format cannot hold, "NAME" or "PATH:
  /// NAME" for attributes (array_export.hpp). Throws Error(output), and Error(input) for names that
  /// the format cannot hold.
  std::vector<std::string> finish();

  /// Flushes, fsyncs and renames the file, or copies its bytes to the stream. Throws Error(output).
  void commit();

  /// "out.h5" or "standard output": for messages.
  std::string description() const;

  /// "out.h5:/layer3/out", "out.npz:layer3/out"
  std::string address_of(const std::string& name) const;

 private:
  explicit OutputBundle(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Whether an output could not be written. HDF5 then holds a file that must not be touched again,
/// not even closed: the temporary has been removed, all calls on that bundle throw the same Error,
/// and the process should end by `_exit`, with its streams flushed. (HDF5's own closing of files at
/// exit is off, so an ordinary return does no harm either.)
bool output_failed() noexcept;

/// Sets handlers that call remove_temporaries (system/temporary.hpp) for SIGINT, SIGTERM, SIGHUP,
/// SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGPIPE and the signals of a crash, unless they are ignored.
/// The process then dies by the same signal; if HDF5 crashed on a damaged input, it ends with exit
/// status 3 after a line that names the input. SIGXFSZ is ignored, so that a file above `ulimit -f`
/// is an Error(output). A timer of CPU time (SIGPROF) is started: if one call of HDF5 that does not
/// write takes more than 10 seconds of CPU time, the process ends in the same way, with exit status
/// 3. If `memory_was_short` is given, it is called when HDF5 has crashed; if it returns true, the
/// input is not at fault and the exit status is 6.
void install_cleanup_handlers(bool (*memory_was_short)() noexcept = nullptr);

/// Whether the calling thread is inside a sequence of HDF5 calls. For signal handlers too.
bool hdf5_is_busy() noexcept;

/// From then on, a process that forks while another thread is in HDF5 waits for that thread, so
/// that the child can use HDF5. For a program that runs tools within its own process; to be called
/// once, outside of HDF5.
void keep_hdf5_over_forks();

/// "1.10.8": for --version.
std::string hdf5_version();

/// Turns HDF5's own error stack on stderr on or off (off at start of a tool; on with -v).
void show_hdf5_errors(bool show);

}  // namespace attn::io
