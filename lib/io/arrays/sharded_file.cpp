#include "io/arrays/sharded_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "system/descriptor.hpp"
#include "system/system_reason.hpp"

namespace attn::io {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse_index(const std::string& label, const std::string& why) {
  throw Error(Failure::input, label + " is not an index of a checkpoint: " + why,
              "the .safetensors files can be named in its place");
}

Json parsed_index(const std::string& text, const std::string& label) {
  constexpr int most_levels = 8;
  std::vector<std::set<std::string>> names;  // of the open object at each depth
  // A name that occurs twice would silently be that of the last.
  const auto check = [&](int depth, Json::parse_event_t event, const Json& value) {
    if (depth > most_levels) refuse_index(label, "it is nested too deeply");
    if (event != Json::parse_event_t::key) return true;
    names.resize(static_cast<std::size_t>(depth));
    if (!names.back().insert(value.get<std::string>()).second) {
      refuse_index(label, "it has two entries called " + value.get<std::string>().substr(0, 80));
    }
    return true;
  };
  return Json::parse(text, check, false);
}

}  // namespace

bool is_called_index(const std::string& file) {
  return file.ends_with(".json") && file.find(".index.", file.rfind('/') + 1) != std::string::npos;
}

ShardedFile::ShardedFile(const std::string& text, std::string label, std::string tmpdir)
    : label_(std::move(label)), tmpdir_(std::move(tmpdir)) {
  const Json index = parsed_index(text, label_);
  if (!index.is_object()) refuse_index(label_, "it is not a JSON object");
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) refuse_index(label_, "it has no object weight_map");
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string())
      refuse_index(label_, "its weight_map has a value that is no name of a file");
    const auto& given = file.get_ref<const std::string&>();
    if (given.empty() || given.find('/') != std::string::npos ||
        given.find('\0') != std::string::npos) {
      refuse_index(label_,
                   "it names a file outside of its folder, or none: '" + given.substr(0, 80) + "'");
    }
    if (name.empty()) refuse_index(label_, "it has an array without a name");
    files_[name] = given;
  }
}

std::vector<std::string> ShardedFile::names() const {
  std::vector<std::string> all;
  for (const auto& [name, file] : files_) all.push_back(name);
  return all;
}

// The index itself may be a symbolic link: its parts lie beside the link.
std::string ShardedFile::part_of(const std::string& name) const {
  return label_.substr(0, label_.rfind('/') + 1) + files_.at(name);
}

std::shared_ptr<const ArrayFile> ShardedFile::part(const std::string& name) const {
  const std::string path = part_of(name);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<const ArrayFile>& part = parts_[path];
  if (part) return part;
  const auto refuse_part = [&](const std::string& why, const std::string& hint = {}) {
    throw Error(Failure::input, label_ + " says that " + name + " is in " + path + ": " + why,
                hint);
  };
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    refuse_part(errno == ENOENT ? "there is no such file" : system_reason(errno),
                "a part of the checkpoint is missing; fetch it into the same folder");
  }
  if (!S_ISREG(status.st_mode)) refuse_part("it is not a regular file");
  const Descriptor descriptor = open_descriptor(path, O_RDONLY | O_NOCTTY);
  if (!descriptor) refuse_part(system_reason(errno));
  if (!path.ends_with(".safetensors")) refuse_part("expected a .safetensors file");
  part = open_array_file(descriptor.get(), path, tmpdir_);
  return part;
}

StoredArray ShardedFile::array(const std::string& name, const std::string& address) const {
  const std::shared_ptr<const ArrayFile> file = part(name);
  if (!file->has(name)) {
    throw Error(Failure::input, label_ + " says that " + name + " is in " + part_of(name) +
                                    ", which does not have it");
  }
  return file->array(name, address);
}

}  // namespace attn::io
