#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/address.hpp"
#include "tensor/array_source.hpp"
#include "tensor/host_arrays.hpp"

namespace attn::io {

struct InputFile;

/// A file, other than those the user named, that holds values of an input.
struct FollowedSource {
  enum class Kind { virtual_dataset, external_link, raw_storage, checkpoint_part };
  Kind kind;
  std::string address;             ///< of the link or dataset that refers to it: "a.h5:/q"
  std::vector<std::string> files;  ///< real paths
};

/// What a reader should know about a table of text, as one line.
struct TableNote {
  std::string line;
  bool doubtful;  ///< whether the numbers are probably not what the user means
};

/// The input of a tool: one INPUT (a file, a group of a file, or the stream "-") and named datasets
/// from elsewhere, which take precedence over INPUT's (tools/README.md, `-i NAME=ADDRESS`). Files
/// are HDF5, .npz or .safetensors, whose arrays are datasets; named datasets may also be .npy, and
/// tables of text if the tool reads them. In names and paths, a dot separates groups as a slash
/// does, unless an object has the name with its dot. File formats are detected from their first
/// bytes, tables by their ending. Streams are HDF5.
class InputBundle {
 public:
  struct Options {
    std::optional<std::string> input;  ///< an address; "-" is standard input; absent: none
    /// NAME, ADDRESS. If the address leads to a group or a file, its dataset NAME is meant; if a
    /// NAME is repeated, the last one wins.
    std::vector<std::pair<std::string, std::string>> named;
    /// NAME, STORED: dataset NAME is called STORED (a name or a relative path) in INPUT and in each
    /// group of it. Names that are not listed are unchanged.
    std::vector<std::pair<std::string, std::string>> renamed = {};
    /// Given: its arrays are the datasets of `named`, whose ADDRESS is not looked at. Datasets that
    /// it does not have are files.
    std::shared_ptr<const HostArrays> host = {};
    std::string tmpdir;  ///< for spools and unpacked members: this, else $TMPDIR, else /tmp
    /// Whether virtual datasets, external links and external raw storage may refer to files outside
    /// the folder of the file that the user named. Such files are always looked up relative to the
    /// file that refers to them, with symbolic links resolved, never in the current directory.
    bool allow_external = false;
    /// Whether the config.json beside a checkpoint is left unread, which may say how many numbers
    /// of 8 bits share a scale.
    bool ignores_config = false;
    /// Set by a tool that reads tables of text (.csv, .tsv): called with a line about each whose
    /// first line needs one. Other tools refuse them, and name tensor-convert.
    std::function<void(const TableNote&)> on_table = {};
    /// Called for each link or dataset that refers to other files, when it is opened; possibly more
    /// than once per address.
    std::function<void(const FollowedSource&)> on_source = {};
    /// Called with the name of each file that another process is writing.
    std::function<void(const std::string&)> on_written = {};
  };

  /// Opens everything read-only; standard input and files that are not regular (a FIFO, a process
  /// substitution) are spooled to their end. Throws Error(input) for a missing file, a file that is
  /// not HDF5 or is truncated, an empty stream (with the hint that the command before it failed), a
  /// refused lock (with the hint HDF5_USE_FILE_LOCKING), a file that a writer has not closed
  /// (unless it writes so that others can read, SWMR), a missing dataset (listing those present);
  /// Error(usage) for a terminal as the stream, more than one "-", a selection on INPUT;
  /// Error(output) if the spool cannot be written.
  explicit InputBundle(const Options& options);
  ~InputBundle();
  InputBundle(InputBundle&&) noexcept;
  InputBundle& operator=(InputBundle&&) noexcept;

  /// Whether there is a link of that name. Throws Error(input) if it does not lead to a dataset
  /// that can be opened: an unreadable dataset must not be mistaken for a missing one.
  bool has(const std::string& name) const;

  /// The same for comparisons, but false if `path` leads to something else, such as a group.
  bool is_dataset(const std::string& path) const;

  /// The dataset called `name`. Throws Error(input) listing the datasets that exist.
  ArraySource dataset(const std::string& name) const;

  /// Throws as dataset() does for the datasets that Options::renamed renames, without counting them
  /// as used.
  void require_renamed() const;

  /// The named and renamed datasets that were never passed to has() or dataset() of this bundle or
  /// of a group() of it, so no result depends on them.
  std::vector<std::string> unused_names() const;

  /// Names of all datasets at the root (of INPUT, and the named ones), sorted. Throws Error(input)
  /// for a link whose target cannot be opened.
  std::vector<std::string> names() const;

  /// Attributes of INPUT's root; empty if there is none of that name. Numbers of any width are
  /// returned as double. Throws Error(input) if the attribute is not one number, or not one string.
  std::optional<double> number_attribute(const std::string& name) const;
  std::optional<std::string> text_attribute(const std::string& name) const;

  /// Whether the root has an attribute of that name, of any type.
  bool has_attribute(const std::string& name) const;

  /// Names of INPUT's own datasets, without those of -i, that were passed to has() or dataset() of
  /// this bundle or of a group() of it, sorted; and the same for attributes. If only groups are
  /// processed, these are what a group may have been meant to have.
  std::vector<std::string> requested_datasets() const;
  std::vector<std::string> requested_attributes() const;

  /// Names of the root's attributes and of its groups, sorted.
  std::vector<std::string> attribute_names() const;
  std::vector<std::string> group_names() const;

  /// Paths, without a leading slash, of the groups below INPUT's root that `pattern` matches: one
  /// pattern of fnmatch(3) for each level, separated by slashes, with an optional leading slash
  /// ("/text/*/layer*"). If none matches, dots in the pattern are slashes, too. Depth first, with
  /// numbers in numerical order (layer2 before layer10); a group that several links lead to is
  /// listed under the first that matches. Throws Error(input) listing the existing groups if none
  /// matches; Error(usage) if there is no INPUT or the pattern names no level.
  std::vector<std::string> groups_like(const std::string& pattern) const;

  /// Paths, without a leading slash, of all groups below INPUT's root, a group before those in it,
  /// with numbers in numerical order; a group that several links lead to is listed once.
  std::vector<std::string> all_groups() const;

  /// The names of the arrays of a file that says nothing about groups (.npz and .safetensors of
  /// other programs), as stored: "blocks.0.attn.hook_q". Empty for other files, and for a group.
  std::vector<std::string> flat_names() const;

  /// One group below INPUT's root ("" is the root itself) as a bundle of its own, with the same
  /// named datasets and renamings; it shares the open file. Throws Error(input) if there is no such
  /// group.
  InputBundle group(const std::string& path) const;

  /// INPUT without the named datasets.
  InputBundle without_named() const;

  /// "layer3.h5", "standard input", "the named datasets" or "the arrays": for messages.
  std::string description() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }  ///< for OutputBundle's copying only

 private:
  friend InputBundle bundle_in(const std::shared_ptr<const InputFile>& file);
  explicit InputBundle(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attn::io
