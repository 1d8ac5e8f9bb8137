#include "common/runs/checkpoint_journal.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "attnkit/error.hpp"
#include "system/paths.hpp"
#include "system/system_reason.hpp"
#include "system/temporary.hpp"
#include "system/unnamed_file.hpp"

namespace attn::tools {
namespace {

constexpr std::size_t journal_piece = std::size_t{1} << 20;
constexpr const char* journal_prefix = ".attn-checkpoint-";

}  // namespace

void refuse_checkpoint(const std::string& target, int error_number) {
  throw Error(Failure::output, "cannot write " + target + ": " + system_reason(error_number));
}

void CheckpointJournal::refuse(int error_number) const { refuse_checkpoint(target_, error_number); }

void CheckpointJournal::open(const std::string& target) {
  target_ = target;
  TemporaryName name;
  file_ = open_unnamed(folder_of(without_links(target)), journal_prefix, name);
  if (!file_) refuse(errno);
  name.remove();  // if it has one: it disappears with the process, however this ends
}

void CheckpointJournal::append(const void* bytes, std::size_t count) {
  const char* const from = static_cast<const char*>(bytes);
  if (behind_.size() + count > journal_piece) {
    store(behind_.data(), behind_.size());
    behind_.clear();
  }
  if (count < journal_piece) {
    behind_.insert(behind_.end(), from, from + count);
  } else {
    store(from, count);
  }
}

void CheckpointJournal::store(const char* from, std::size_t count) {
  while (count > 0) {
    const ssize_t put = ::write(file_.get(), from, count);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) refuse(errno);
    from += put;
    count -= static_cast<std::size_t>(put);
    stored_ += put;
  }
}

void CheckpointJournal::for_pieces(const std::function<void(std::span<char> bytes)>& use) {
  std::vector<char> bytes(std::min(journal_piece, static_cast<std::size_t>(stored_)));
  for (std::int64_t done = 0; done < stored_;) {
    const auto wanted = std::min(stored_ - done, static_cast<std::int64_t>(bytes.size()));
    const ssize_t got = pread(file_.get(), bytes.data(), static_cast<std::size_t>(wanted), done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) refuse(got < 0 ? errno : EIO);
    use(std::span(bytes).first(static_cast<std::size_t>(got)));
    done += got;
  }
  if (!behind_.empty()) use(behind_);
}

void CheckpointJournal::clear() {
  behind_.clear();
  stored_ = 0;
  if (ftruncate(file_.get(), 0) != 0 || lseek(file_.get(), 0, SEEK_SET) != 0) refuse(errno);
}

}  // namespace attn::tools
