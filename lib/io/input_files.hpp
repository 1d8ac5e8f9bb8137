#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "io/input.hpp"
#include "io/input_file.hpp"

namespace attn::io {

/// Something of an input whose values lie in another file, for messages and for following it.
struct SourceReference {
  FollowedSource::Kind kind;
  std::string address;  ///< of the link or dataset: "a.h5:/q"
  std::string file;     ///< as it stands there: "part0.h5", "../raw.bin"
};

/// The files that one InputBundle reads: those that the user named, and those to which virtual
/// datasets, external links and external raw storage lead from there. Each is opened once, for as
/// long as anything of it is used.
class InputFiles : public std::enable_shared_from_this<InputFiles> {
 public:
  InputFiles(std::string tmpdir, bool allow_external,
             std::function<void(const FollowedSource&)> on_source);

  /// A file that the user named. Throws what open_input_file throws.
  std::shared_ptr<const InputFile> named(const std::string& file);

  /// The real path of a regular file to which `reference` leads from `from`: looked for beside
  /// `from` only, symbolic links resolved, never in the current directory. Throws Error(input)
  /// naming the reference where `from` is a stream, where the file is missing or not a regular
  /// one, and, unless external files are allowed, where it lies outside the folder of the file that
  /// the user named.
  std::string source_path(const InputFile& from, const SourceReference& reference) const;

  /// The same, opened as an HDF5 file.
  std::shared_ptr<const InputFile> source(const InputFile& from, const SourceReference& reference);

  /// To be called once for each link or dataset whose sources are used.
  void followed(const FollowedSource& source) const;

 private:
  std::string tmpdir_;
  bool allow_external_;
  std::function<void(const FollowedSource&)> on_source_;
  std::map<std::string, std::weak_ptr<const InputFile>> open_;
};

/// "a.h5:/q is virtual and reads part0.h5": how a message about `reference` begins.
std::string description_of(const SourceReference& reference);

}  // namespace attn::io
