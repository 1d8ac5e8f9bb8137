#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "basis_paths/path_numbers.hpp"
#include "basis_paths/path_task.hpp"
#include "cli/progress.hpp"
#include "cli/report.hpp"
#include "common/outputs/head_outputs.hpp"
#include "common/runs/checkpoint.hpp"
#include "io/output.hpp"
#include "parallel/stop_flag.hpp"
#include "tensor/buffer.hpp"
#include "tensor/memory_pool.hpp"

namespace attn::tools {

/// The results of a part of the work: blocks held until the part is done.
class PathPart {
 public:
  /// Adds a block of result `name`, of the type with which it was created.
  template <class T>
  void add(const std::string& name, const PathBlock& block, Buffer<T> values) {
    blocks_.push_back({name, block, std::move(values)});
  }

  void write(const HeadOutputs& outputs) const;

  /// For a checkpoint. Throws Error(memory) for a part larger than `memory`; parts of an earlier
  /// run may be.
  void save(SavingArchive& to);
  void load(LoadingArchive& from, std::int64_t memory);

 private:
  using Numbers =
      std::variant<Buffer<float>, Buffer<double>, Buffer<std::int32_t>, Buffer<std::byte>>;
  struct Block {
    std::string name;
    PathBlock place;
    Numbers numbers;
  };
  std::vector<Block> blocks_;
};

/// Numbers of a skeleton or of paths as they are stored.
Buffer<std::int32_t> stored_indices(const std::vector<Index>& indices);

/// The summary of a step, for columns (StepSummary) or nodes (ReluStepSummary).
template <class Archive, class Summary>
requires requires(Summary& found) { found.singular, found.inconsistency; }
void archive(Archive& with, Summary& found) {
  archive(with, found.singular);
  archive(with, found.least_ratio);
  archive(with, found.largest_ratio);
  archive(with, found.inconsistency);
}

/// The result of `find()`, or an earlier run's result in `checkpoint` (null: none). Throws
/// Stopped if the run is asked to stop.
template <class Found, class Find>
Found find_or_take(Checkpoint* checkpoint, const Find& find) {
  if (checkpoint == nullptr) return find();
  stop_if_asked();
  Found found;
  if (checkpoint->has_unit()) {
    checkpoint->take_unit([&](LoadingArchive& from) { archive(from, found); });
    return found;
  }
  found = find();
  checkpoint->add_unit([&](SavingArchive& to) { archive(to, found); });
  checkpoint->write_if_due();
  return found;
}

/// Data that several parts need, made at its first use; not made if an earlier run did these parts.
template <class T>
class OnFirstUse {
 public:
  explicit OnFirstUse(std::function<T()> make) : make_(std::move(make)) {}

  const T& get() {
    if (!made_) made_.emplace(make_());
    return *made_;
  }

 private:
  std::function<T()> make_;
  std::optional<T> made_;
};

/// The results of one section of basis-paths, made part by part. With a checkpoint, the parts that
/// an earlier run made are taken from it.
class PathWork {
 public:
  /// All but `output` must outlive the object; `checkpoint` may be null. `unit` is the task's unit.
  PathWork(io::OutputBundle output, const PathProblems& problems, const std::string& unit,
           std::int64_t memory, Checkpoint* checkpoint, cli::Progress& progress, cli::Report& to)
      : bundle(std::move(output)),
        outputs(bundle, problems.leading, to, problems.share.get(), unit),
        report(to),
        problems_(problems),
        memory_(memory),
        checkpoint_(checkpoint),
        progress_(progress) {}

  io::OutputBundle bundle;
  HeadOutputs outputs;
  cli::Report& report;

  /// Calls `body` for every problem in turn.
  void for_each_problem(const std::function<void(Index problem)>& body);

  /// Writes numbers that all problems share; the shard with the first problem writes them.
  void write_once(const std::string& name, DType type, const Shape& shape,
                  const std::int64_t* numbers);

  /// Makes a part: items [first, first + count).
  using Make = std::function<void(Index first, Index count, PathPart& part)>;

  /// Makes `items` in order, at most `most` at a time, and writes each part when it is done, or
  /// `beside` the making of the next one. `make` may add to `found`, which the checkpoint keeps.
  /// Throws Stopped between parts.
  template <class Found>
  void in_parts(Index items, Index most, Found& found, const Make& make, bool beside = false) {
    std::future<void> writing;
    for (Index first = 0; first < items;) {
      Index count = std::min(most, items - first);
      PathPart part;
      if (checkpoint_ != nullptr) stop_if_asked();
      if (checkpoint_ != nullptr && checkpoint_->has_unit()) {
        checkpoint_->take_unit([&](LoadingArchive& from) {
          archive(from, count);
          archive(from, found);
          part.load(from, memory_);
        });
        part.write(outputs);
      } else {
        make(first, count, part);
        if (writing.valid()) writing.get();
        if (beside && checkpoint_ == nullptr) {
          writing = write_later(std::move(part));
        } else {
          part.write(outputs);
          keep(count, found, part);
        }
      }
      first += count;
    }
    if (writing.valid()) writing.get();
  }
  void in_parts(Index items, Index most, const Make& make) {
    char nothing = 0;
    in_parts(items, most, nothing, make);
  }

 protected:
  /// Room for parts, which use the same pages one after the other.
  MemoryPool pool_;

 private:
  /// Writes in a separate thread; without one, when the result is requested.
  std::future<void> write_later(PathPart part);

  template <class Found>
  void keep(Index count, Found& found, PathPart& part) {
    if (checkpoint_ == nullptr) return;
    checkpoint_->add_unit([&](SavingArchive& to) {
      archive(to, count);
      archive(to, found);
      part.save(to);
    });
    checkpoint_->write_if_due();
  }

  MemoryPool::Use use_{&pool_};
  const PathProblems& problems_;
  std::int64_t memory_;
  Checkpoint* checkpoint_;
  cli::Progress& progress_;
};

}  // namespace attn::tools
