#include "tensor_convert/model_index.hpp"

#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "tensor_convert/model_config.hpp"

namespace attn::tools {

std::map<std::string, std::string> read_model_index(const std::string& path) {
  const char* const hint = "the .safetensors files can be named in its place";
  const nlohmann::json index = read_json_object(path, hint);
  if (index.is_null()) return {};
  const auto refuse = [&](const std::string& why) {
    throw Error(Failure::input, path + " " + why, hint);
  };
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) refuse("has no object weight_map");
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) refuse("has a weight_map whose values are not names of files");
    files[name] = file.get<std::string>();
    if (files[name].empty() || files[name].find('/') != std::string::npos) {
      refuse("names a file outside of its folder, or none");
    }
  }
  return files;
}

std::vector<std::string> files_of_checkpoint(const std::string& file) {
  if (!file.ends_with(".index.json")) return {file};
  std::set<std::string> names;
  for (const auto& [tensor, name] : read_model_index(file)) names.insert(name);
  std::vector<std::string> files;
  for (const std::string& name : names) {
    files.push_back((std::filesystem::path(file).parent_path() / name).string());
  }
  return files.empty() ? std::vector{file} : files;
}

}  // namespace attn::tools
