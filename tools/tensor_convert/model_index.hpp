#pragma once

#include <map>
#include <string>
#include <vector>

namespace attn::tools {

/// The file of each tensor of a checkpoint in parts, by a model.safetensors.index.json; empty if
/// there is no such file. Throws Error(input) if it does not have this form, or names a file of
/// another folder.
std::map<std::string, std::string> read_model_index(const std::string& path);

/// The files of the checkpoint that `file` stands for: the files that an index (".index.json")
/// names, in its folder; else `file` alone.
std::vector<std::string> files_of_checkpoint(const std::string& file);

}  // namespace attn::tools
