#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "system/descriptor.hpp"

namespace attn::tools {

/// Bytes that wait to be written to a checkpoint, in a file without a name beside it, which ends
/// with the process. All functions throw Error(output), which names the checkpoint, if that file
/// cannot be used.
class CheckpointJournal {
 public:
  /// Before any other call. `target` is the checkpoint.
  void open(const std::string& target);

  void append(const void* bytes, std::size_t count);
  std::int64_t size() const { return stored_ + static_cast<std::int64_t>(behind_.size()); }

  /// Calls use(bytes) for all, in pieces in their order.
  void for_pieces(const std::function<void(std::span<char> bytes)>& use);
  void clear();

 private:
  void store(const char* from, std::size_t count);
  [[noreturn]] void refuse(int error_number) const;

  std::string target_;
  Descriptor file_;
  std::int64_t stored_ = 0;
  std::vector<char> behind_;  // bytes that are not in the file yet
};

/// Throws Error(output): the checkpoint `target` cannot be written for a reason of the system.
[[noreturn]] void refuse_checkpoint(const std::string& target, int error_number);

}  // namespace attn::tools
