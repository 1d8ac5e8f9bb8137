#include "io/input_files.hpp"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <utility>

#include "attnkit/error.hpp"
#include "system/paths.hpp"
#include "system/system_reason.hpp"

namespace attn::io {
namespace {

/// The path with symbolic links resolved; empty, with errno set, if there is no such file.
std::optional<std::string> real_path(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  if (realpath(path.c_str(), buffer.data()) == nullptr) return {};
  return buffer.data();
}

std::string inside(const std::string& folder, const std::string& name) {
  return folder == "/" ? "/" + name : folder + "/" + name;
}

bool lies_in(const std::string& path, const std::string& folder) {
  return folder == "/" || path.compare(0, folder.size() + 1, folder + "/") == 0;
}

[[noreturn]] void refuse(const SourceReference& reference, const std::string& why,
                         const std::string& hint = {}) {
  throw Error(Failure::input, description_of(reference) + ": " + why, hint);
}

}  // namespace

std::string description_of(const SourceReference& reference) {
  switch (reference.kind) {
    case FollowedSource::Kind::virtual_dataset:
      return reference.address + " is virtual and reads " + reference.file;
    case FollowedSource::Kind::external_link:
      return reference.address + " is an external link to " + reference.file;
    case FollowedSource::Kind::raw_storage:
    case FollowedSource::Kind::checkpoint_part:
      break;
  }
  return reference.address + " stores its values in " + reference.file;
}

InputFiles::InputFiles(const InputBundle::Options& options)
    : tmpdir_(options.tmpdir),
      allow_external_(options.allow_external),
      ignores_config_(options.ignores_config),
      on_source_(options.on_source),
      on_written_(options.on_written),
      on_table_(options.on_table) {}

std::shared_ptr<const InputFile> InputFiles::named(const std::string& file) {
  std::weak_ptr<const InputFile>& slot = open_[file];
  if (auto found = slot.lock()) return found;
  InputFile opened = open_input_file(file, tmpdir_, on_table_);
  if (!opened.is_stream) {
    if (const auto path = real_path(file)) opened.folder = opened.limit = folder_of(*path);
  }
  opened.files = shared_from_this();
  if (opened.is_written && on_written_) on_written_(opened.label);
  auto shared = std::make_shared<const InputFile>(std::move(opened));
  slot = shared;
  return shared;
}

std::string InputFiles::source_path(const InputFile& from, const SourceReference& reference) const {
  if (from.folder.empty()) {
    refuse(reference, "a stream has no folder in which to find it",
           "name the file instead of piping it");
  }
  const std::string& name = reference.file;
  const bool absolute = !name.empty() && name.front() == '/';
  const std::optional<std::string> path = real_path(absolute ? name : inside(from.folder, name));
  if (!path) {
    const int error_number = errno;
    refuse(reference, error_number == ENOENT
                          ? "there is no such file" + (absolute ? "" : " in " + from.folder)
                          : system_reason(error_number));
  }
  if (!allow_external_ && !lies_in(*path, from.limit)) {
    refuse(reference, "that file lies outside " + from.limit, "--allow-external follows it");
  }
  struct stat status {};
  if (stat(path->c_str(), &status) != 0) refuse(reference, system_reason(errno));
  if (!S_ISREG(status.st_mode)) refuse(reference, *path + " is not a regular file");
  return *path;
}

std::shared_ptr<const InputFile> InputFiles::source(const InputFile& from,
                                                    const SourceReference& reference) {
  const std::string path = source_path(from, reference);
  // The limit depends on the file that the user named, so it is part of the key.
  std::weak_ptr<const InputFile>& slot = open_[from.limit + '\n' + path];
  if (auto found = slot.lock()) return found;
  InputFile opened;
  try {
    opened = open_input_file(path, tmpdir_);
  } catch (const Error& error) {
    throw error.at(description_of(reference));
  }
  if (opened.is_written && on_written_) on_written_(opened.label);
  if (opened.arrays) refuse(reference, path + " is not an HDF5 file");
  opened.folder = folder_of(path);
  opened.limit = from.limit;
  opened.files = shared_from_this();
  auto shared = std::make_shared<const InputFile>(std::move(opened));
  slot = shared;
  return shared;
}

void InputFiles::followed(const FollowedSource& source) const {
  if (on_source_) on_source_(source);
}

}  // namespace attn::io
