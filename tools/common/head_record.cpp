#include "common/head_record.hpp"

#include <utility>

#include "system/stop_requests.hpp"

namespace attn::tools {

template <class Archive>
void archive(Archive& with, kernel::LoopRecord::Kept& kept) {
  archive(with, kept.done);
  archive(with, kept.totals);
  archive(with, kept.results);
}

namespace {

// Loops that take less are computed again.
constexpr double least_seconds = 0.02;

kernel::LoopRecord::Options record_options(Checkpoint& checkpoint, std::int64_t bytes, int threads,
                                           std::function<void()> keep) {
  kernel::LoopRecord::Options options = asking(checkpoint, threads);
  options.least_seconds = checkpoint.is_eager() ? 0 : least_seconds;
  if (!checkpoint.writes()) return options;
  // In memory as a record, and once more as bytes.
  options.most_bytes = bytes / 2;
  options.keep = std::move(keep);
  return options;
}

}  // namespace

kernel::LoopRecord::Options asking(Checkpoint& checkpoint, int threads) {
  kernel::LoopRecord::Options options;
  options.threads = threads;
  options.is_due = [&checkpoint] { return checkpoint.is_due(); };
  options.stop = &StopRequests::asked();
  return options;
}

HeadRecord::HeadRecord(Checkpoint& checkpoint, std::int64_t bytes, int threads)
    : checkpoint_(checkpoint),
      threads_(threads),
      loops_(record_options(checkpoint, bytes, threads, [this] {
        keep();
        checkpoint_.write_if_due();
      })) {
  if (!checkpoint.has_state()) return;
  checkpoint.load_state([&](LoadingArchive& from) {
    int threads_before = 0;
    archive(from, threads_before);
    if (threads_before != threads_) return;
    std::uint64_t count = 0;
    archive(from, count);
    for (std::uint64_t n = 0; n < count; ++n) {
      Index number = 0;
      archive(from, number);
      archive(from, loops_.loops()[number]);
    }
  });
}

void HeadRecord::keep() {
  checkpoint_.keep_state([&](SavingArchive& to) {
    archive(to, threads_);
    std::uint64_t count = loops_.loops().size();
    archive(to, count);
    for (auto& [number, kept] : loops_.loops()) {
      Index key = number;
      archive(to, key);
      archive(to, kept);
    }
  });
}

}  // namespace attn::tools
