#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/address.hpp"
#include "tensor/dtype.hpp"
#include "tensor/shape.hpp"

namespace attn::io {

/// One dataset to read, whole or in blocks, after its address' slicing. Cheap to copy; keeps its
/// file open. Reads may come from any thread (they take turns: HDF5 is not re-entrant).
class InputDataset {
 public:
  struct Impl;
  explicit InputDataset(std::shared_ptr<const Impl> impl);

  const std::string& name() const;     ///< as tools know it: "q"
  const std::string& address() const;  ///< for messages: "k.h5:/layer3/Q", "standard input:/q"
  const Shape& shape() const;          ///< after slicing
  DType dtype() const;

  /// Reads the block that starts at `start` and has `count` elements along each axis, row-major,
  /// converted to the type of `out`: float and double take floating and integral datasets
  /// (float16 and bfloat16 are widened exactly; float64 read as float is rounded to nearest and may
  /// become infinite, which callers refuse); uint8_t takes integral ones as non-zero = 1; int64_t
  /// takes integral ones. Other stored types: Error(input) naming the dataset, its type and what
  /// was expected; so too a uint64 that does not fit. Takes 1 MiB of memory beside `out`, and HDF5
  /// its cache of chunks. A block outside of shape() is a bug: std::invalid_argument.
  void read(const Shape& start, const Shape& count, float* out) const;
  void read(const Shape& start, const Shape& count, double* out) const;
  void read(const Shape& start, const Shape& count, std::uint8_t* out) const;
  void read(const Shape& start, const Shape& count, std::int64_t* out) const;

  /// The same without any conversion: size_of(dtype()) bytes per element, in the machine's byte
  /// order, bool as bytes of 0 and 1. Numbers and bool only, else Error(input).
  void read_stored(const Shape& start, const Shape& count, void* out) const;

  /// The least that any read takes, beside `out`: a compressed chunk of an HDF5 dataset is
  /// decompressed as a whole, however large it is. 0 where nothing is.
  std::int64_t bytes_at_once() const;

  /// All elements of a string dataset (fixed or variable length, UTF-8 or ASCII).
  std::vector<std::string> read_strings() const;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// A file other than those the user named from which an input takes values.
struct FollowedSource {
  enum class Kind { virtual_dataset, external_link, raw_storage };
  Kind kind;
  std::string address;             ///< of what leads there: "a.h5:/q"
  std::vector<std::string> files;  ///< real paths
};

/// What a tool reads: one INPUT (a file, a group of one, or the stream "-") and named datasets
/// from elsewhere, which win over INPUT's (DESIGN.md §2, `-i NAME=ADDRESS`). Files are HDF5, .npz
/// or .safetensors, whose arrays are datasets, and for named datasets .npy too; their first bytes
/// say which. Streams are HDF5.
class InputBundle {
 public:
  struct Options {
    std::optional<std::string> input;  ///< an address; "-" is standard input; absent: none
    /// NAME, ADDRESS. Where the address leads to a group or a file, dataset NAME in it is meant;
    /// of several with one NAME the last wins.
    std::vector<std::pair<std::string, std::string>> named;
    /// NAME, STORED: dataset NAME is the one that INPUT, and each group of it, calls STORED (a name
    /// or a path from there). Names that are not listed keep their own.
    std::vector<std::pair<std::string, std::string>> renamed = {};
    std::string tmpdir;  ///< for spools and what is unpacked: this, else $TMPDIR, else /tmp
    /// Virtual datasets, external links and external raw storage may lead to files outside the
    /// folder of the file that the user named. They are always looked for beside the file that
    /// names them, symbolic links resolved, never in the current directory.
    bool allow_external = false;
    /// Called for each link or dataset that leads to other files, when it is opened; possibly more
    /// than once for one address.
    std::function<void(const FollowedSource&)> on_source = {};
  };

  /// Opens everything read-only; standard input and files that are not regular ones (a FIFO, a
  /// process substitution) are spooled to their end. Throws Error(input): missing file, not HDF5,
  /// truncated, an empty stream (with the hint that the command before failed), a lock refused
  /// (with the hint HDF5_USE_FILE_LOCKING), a dataset that is not there (listing what there is);
  /// Error(usage): a terminal as the stream, more than one "-", a selection on INPUT;
  /// Error(output): the spool cannot be written.
  explicit InputBundle(const Options& options);
  ~InputBundle();
  InputBundle(InputBundle&&) noexcept;
  InputBundle& operator=(InputBundle&&) noexcept;

  /// Whether there is a link of that name. A link that does not lead to a dataset that can be
  /// opened is an Error(input): what cannot be read is never taken for absent.
  bool has(const std::string& name) const;

  /// The same for comparisons: false also where `path` leads to something else, such as a group.
  bool is_dataset(const std::string& path) const;

  /// The dataset called `name`. Throws Error(input) listing the datasets there are.
  InputDataset dataset(const std::string& name) const;

  /// Throws as dataset() does for what Options::renamed renames; asks for nothing.
  void require_renamed() const;

  /// The named and the renamed datasets that neither has() nor dataset() was asked for, of this
  /// bundle or of a group() of it: nothing depends on them.
  std::vector<std::string> unused_names() const;

  /// Names of all datasets at the root (of INPUT, and the named ones), sorted. Throws Error(input)
  /// for a link that leads to nothing that can be opened.
  std::vector<std::string> names() const;

  /// Attributes of INPUT's root; absent where there is none. Numbers of any width are given as
  /// double. Throws Error(input) where it is not one number, not one text.
  std::optional<double> number_attribute(const std::string& name) const;
  std::optional<std::string> text_attribute(const std::string& name) const;

  /// Names of the root's attributes, and of the groups in it, sorted: what a format without them
  /// leaves out.
  std::vector<std::string> attribute_names() const;
  std::vector<std::string> group_names() const;

  /// Paths, without a leading slash, of the groups below INPUT's root that `pattern` matches: one
  /// pattern of fnmatch(3) for each level, with slashes between, a leading one optional
  /// ("/text/*/layer*"). Depth first, numbers in the order of their values (layer2 before layer10);
  /// a group that several links lead to stands under the first that matches. Throws Error(input)
  /// listing the groups there are where none matches; Error(usage) where there is no INPUT or the
  /// pattern names no level.
  std::vector<std::string> groups_like(const std::string& pattern) const;

  /// One group below INPUT's root ("" is the root itself) as a bundle of its own, with this one's
  /// named datasets and renamings; it shares the open file. Throws Error(input) where there is no
  /// such group.
  InputBundle group(const std::string& path) const;

  /// INPUT without the named datasets.
  InputBundle without_named() const;

  /// "layer3.h5", "standard input", or "the named datasets": for messages.
  std::string description() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }  ///< for OutputBundle's copying only

 private:
  explicit InputBundle(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn::io
