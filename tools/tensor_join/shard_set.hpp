#pragma once

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/shard_marks.hpp"
#include "io/input.hpp"

namespace attn::tools {

/// All shards of one run.
class ShardSet {
 public:
  /// Opens the files. Throws Error(input) that names the file or what is missing: a file that is no
  /// shard or lacks what its marks name, a shard of another run than the first one, with what
  /// differs, a shard that is there twice, one that is missing, and a group of no shard.
  ShardSet(const cli::Arguments& arguments, cli::Report& report,
           const std::vector<std::string>& files);

  std::size_t size() const { return shards_.size(); }
  /// In the order of their numbers.
  const io::InputBundle& bundle(std::size_t n) const { return shards_[n].bundle; }
  std::size_t groups() const { return shards_.front().marks.groups.size(); }

  /// What an undivided run would not copy of INPUT, and the attributes that it would remove.
  std::vector<std::string> left_out() const;
  std::vector<std::string> removed() const;

 private:
  struct Part {
    std::string file;
    io::InputBundle bundle;
    ShardMarks marks;
  };
  void require_one_run() const;
  void require_each_once() const;
  void require_all_groups() const;
  std::vector<std::string> all(std::vector<std::string> ShardMarks::*list) const;

  std::vector<Part> shards_;
};

}  // namespace attn::tools
