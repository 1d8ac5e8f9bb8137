#pragma once

#include <string>
#include <vector>

namespace attn::tools {

/// What the groups of runs in these files are called: by what the files of each group have in
/// common at the beginning of their names, without numbers, separators and "seed" at its end
/// (runs/dnas-seed-0.jsonl and runs/dnas-seed-1.jsonl are dnas), else at the end of their names
/// (0/dnas.jsonl and 1/dnas.jsonl). If neither tells the groups apart: A and B.
std::vector<std::string> names_of_groups(const std::vector<std::vector<std::string>>& groups);

}  // namespace attn::tools
