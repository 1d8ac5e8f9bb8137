#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "io/input.hpp"
#include "io/input_file.hpp"

namespace attn::io {

/// An object of an input whose values lie in another file, for messages and for following it.
struct SourceReference {
  FollowedSource::Kind kind;
  std::string address;  ///< of the link or dataset: "a.h5:/q"
  std::string file;     ///< as stored in the object: "part0.h5", "../raw.bin"
};

/// The files that one InputBundle reads: those that the user named, and those that their virtual
/// datasets, external links and external raw storage refer to. Each is opened once and stays open
/// for as long as any part of it is used.
class InputFiles : public std::enable_shared_from_this<InputFiles> {
 public:
  explicit InputFiles(const InputBundle::Options& options);

  /// Opens a file that the user named. Throws what open_input_file throws.
  std::shared_ptr<const InputFile> named(const std::string& file);

  /// The real path of the regular file that `reference` in `from` refers to: looked up relative to
  /// `from` only, with symbolic links resolved, never in the current directory. Throws Error(input)
  /// naming the reference if `from` is a stream, if the file is missing or not a regular one, or if
  /// it lies outside the folder of the file that the user named and external files are not allowed.
  std::string source_path(const InputFile& from, const SourceReference& reference) const;

  /// The same, opened as an HDF5 file.
  std::shared_ptr<const InputFile> source(const InputFile& from, const SourceReference& reference);

  /// Whether config.json is left unread.
  bool ignores_config() const { return ignores_config_; }

  /// To be called once for each link or dataset whose sources are used.
  void followed(const FollowedSource& source) const;

 private:
  std::string tmpdir_;
  bool allow_external_;
  bool ignores_config_;
  std::function<void(const FollowedSource&)> on_source_;
  std::function<void(const std::string&)> on_written_;
  std::function<void(const TableNote&)> on_table_;
  std::map<std::string, std::weak_ptr<const InputFile>> open_;
};

/// The start of a message about `reference`: "a.h5:/q is virtual and reads part0.h5".
std::string description_of(const SourceReference& reference);

}  // namespace attn::io
