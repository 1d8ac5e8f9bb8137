#include "common/mechanisms/mechanism_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/mechanisms/mechanism_cost.hpp"
#include "common/outputs/block_output.hpp"
#include "common/outputs/position_boxes.hpp"
#include "common/runs/restart.hpp"
#include "head/operand.hpp"
#include "mechanisms/batch.hpp"
#include "parallel/stop_flag.hpp"
#include "tensor/buffer.hpp"

namespace attn::tools {
namespace {

using mechanisms::Batch;
using mechanisms::Mechanism;
using mechanisms::Sizes;
using mechanisms::TensorForm;
using mechanisms::Tensors;

// Arrays of a piece of the batch.
template <class T>
struct Arrays {
  std::vector<Buffer<T>> buffers;
  std::vector<Shape> own;  // of one sequence, or of a shared tensor

  explicit Arrays(std::size_t count) : buffers(count), own(count) {}

  void make(std::size_t n, const Shape& shape, Index sequences) {
    own[n] = shape;
    buffers[n] = Buffer<T>(std::max<Index>(1, sequences * element_count(shape)));
  }

  template <class Element>
  Tensors<Element> views() const {
    Tensors<Element> made;
    for (std::size_t n = 0; n < buffers.size(); ++n) {
      made.emplace_back();
      if (buffers[n].data() != nullptr) made[n] = {buffers[n].data(), own[n]};
    }
    return made;
  }
};

// Whether a position of a sequence's array lies in its own part.
bool is_own(const Shape& position, const Shape& own) {
  for (std::size_t axis = 0; axis < own.size(); ++axis) {
    if (position[axis] >= own[axis]) return false;
  }
  return true;
}

template <class T>
class MechanismRun {
 public:
  MechanismRun(const cli::Arguments& arguments, const MechanismTask& task,
               const Mechanism<T>& mechanism, MechanismEstimate<T>* estimate,
               io::OutputBundle output, Checkpoint* checkpoint, cli::Progress& progress,
               cli::Report& report)
      : arguments_(arguments),
        task_(task),
        mechanism_(mechanism),
        estimate_(estimate),
        output_(std::move(output)),
        checkpoint_(checkpoint),
        progress_(progress),
        report_(report),
        inputs_(task.form.inputs.size()),
        tokens_(task.form.tokens.size()),
        lengths_(task.form.lengths.size()),
        upstream_(task.form.results.size()),
        results_(task.form.results.size()),
        gradients_(task.form.inputs.size()) {}

  void run() {
    create();
    read_shared();
    const Index most = plan_mechanism(arguments_, task_, mechanism_, estimate_).rows;
    mechanisms::BatchGradients<T> sums(mechanism_, task_.input.own_problems());
    Index first = task_.input.own_first();
    const Index end = first + task_.input.own_problems();
    if (first == end) sums.finish(gradients_.template views<T>());
    while (first < end) {
      Index count = std::min(most, end - first);
      make_results(count);
      if (const Index taken = take(count, end - first); taken > 0) {
        count = taken;
      } else {
        load_sums(sums);
        compute(sums, first, count);
        if (first + count == end) sums.finish(gradients_.template views<T>());
        keep(sums, count, end - first);
      }
      write(first, count);
      progress_.advance(static_cast<double>(count));
      first += count;
    }
    for (std::size_t n = 0; n < task_.form.inputs.size(); ++n) {
      if (!task_.gradients[n] || !is_shared(task_.form.inputs[n])) continue;
      const std::string name = gradient_of(task_.form.inputs[n].name);
      const Shape& own = gradients_.own[n];
      const T* const numbers = gradients_.buffers[n].data();
      require_finite_block(task_.form.inputs[n], name, {}, own, numbers);
      written_.at(name).write(Shape(own.size(), 0), own, numbers);
    }
    report();
  }

 private:
  Shape shape(const TensorForm& one) const { return mechanisms::shape_of(one.axes, task_.sizes); }

  void create(const TensorForm& one, const std::string& name) {
    const Shape own = shape(one);
    const Shape leading = is_shared(one) ? Shape{} : task_.input.leading;
    BlockLayout layout{
        .name = name, .shape = join(leading, own), .axes = first_axes(leading.size())};
    std::vector<std::string>& labels = layout.labels;
    labels.assign(leading.size(), "");
    if (!labels.empty()) labels.back() = "sequence";
    for (const mechanisms::Axis& axis : one.axes) labels.push_back(axis.text);
    const DType type = task_.f64 ? DType::f64 : DType::f32;
    written_.emplace(
        name,
        BlockOutput(output_, type, std::move(layout), task_.input.share.get(), report_).dataset());
  }

  void create() {
    for (std::size_t n = 0; n < task_.form.results.size(); ++n) {
      if (task_.results[n]) create(task_.form.results[n], task_.form.results[n].name);
    }
    for (std::size_t n = 0; n < task_.form.inputs.size(); ++n) {
      if (!task_.gradients[n]) continue;
      create(task_.form.inputs[n], gradient_of(task_.form.inputs[n].name));
      if (is_shared(task_.form.inputs[n])) gradients_.make(n, shape(task_.form.inputs[n]), 1);
    }
  }

  void read_shared() {
    for (std::size_t n = 0; n < task_.form.inputs.size(); ++n) {
      if (!task_.inputs[n] || !is_shared(task_.form.inputs[n])) continue;
      const Shape own = shape(task_.form.inputs[n]);
      inputs_.make(n, own, 1);
      const Shape start(own.size(), 0);
      T* const numbers = inputs_.buffers[n].data();
      task_.inputs[n]->read(start, own, numbers);
      require_finite(*task_.inputs[n], start, own, numbers);
    }
  }

  void make_results(Index count) {
    for (std::size_t n = 0; n < task_.form.results.size(); ++n) {
      if (task_.results[n]) results_.make(n, shape(task_.form.results[n]), count);
    }
    for (std::size_t n = 0; n < task_.form.inputs.size(); ++n) {
      if (!task_.gradients[n] || is_shared(task_.form.inputs[n])) continue;
      gradients_.make(n, shape(task_.form.inputs[n]), count);
    }
  }

  // Archives the numbers of a sequence, at place `n` of the arrays; with the last sequence, also
  // the numbers of all together.
  template <class Archive>
  void archive_sequence(Archive& with, Index n, bool last) {
    const auto pass = [&](Arrays<T>& arrays, std::size_t which, Index place) {
      const Index size = element_count(arrays.own[which]);
      with.bytes(arrays.buffers[which].data() + place * size,
                 static_cast<std::size_t>(size) * sizeof(T));
    };
    for (std::size_t which = 0; which < task_.form.results.size(); ++which) {
      if (task_.results[which]) pass(results_, which, n);
    }
    for (std::size_t which = 0; which < task_.form.inputs.size(); ++which) {
      if (!task_.gradients[which]) continue;
      const bool shared = is_shared(task_.form.inputs[which]);
      if (!shared || last) pass(gradients_, which, shared ? 0 : n);
    }
    if (last) archive_estimate(with);
  }

  void archive_estimate(SavingArchive& to) {
    if (estimate_ != nullptr) estimate_->save(to);
  }
  void archive_estimate(LoadingArchive& from) {
    if (estimate_ != nullptr) estimate_->load(from);
  }

  // Takes up to `most` sequences from the checkpoint, of the `left` ones of the section.
  Index take(Index most, Index left) {
    Index taken = 0;
    while (checkpoint_ != nullptr && checkpoint_->has_unit() && taken < most) {
      stop_if_asked();
      checkpoint_->take_unit(
          [&](LoadingArchive& from) { archive_sequence(from, taken, taken + 1 == left); });
      ++taken;
    }
    return taken;
  }

  // Adds the sequences of a block, and the data that the rest of the section needs from them.
  void keep(mechanisms::BatchGradients<T>& sums, Index count, Index left) {
    if (checkpoint_ == nullptr) return;
    for (Index n = 0; n < count; ++n) {
      checkpoint_->add_unit([&](SavingArchive& to) { archive_sequence(to, n, n + 1 == left); });
    }
    if (count < left && (task_.wants_gradients() || estimate_ != nullptr)) {
      checkpoint_->keep_state([&](SavingArchive& to) {
        archive(to, sums.sums());
        archive_estimate(to);
      });
    }
    checkpoint_->write_if_due();
  }

  // Called once all sequences of an earlier run are taken.
  void load_sums(mechanisms::BatchGradients<T>& sums) {
    const bool goes_on = !std::exchange(computes_, true);
    if (checkpoint_ == nullptr || !goes_on || !checkpoint_->has_state()) return;
    checkpoint_->load_state([&](LoadingArchive& from) {
      archive(from, sums.sums());
      archive_estimate(from);
    });
  }

  void compute(mechanisms::BatchGradients<T>& sums, Index first, Index count) {
    read(first, count);
    const Batch<T> batch = {count, task_.sizes, inputs_.template views<const T>(),
                            tokens_.template views<const Index>(),
                            lengths_.template views<const Index>()};
    report_.compute([&] {
      if (std::find(task_.results.begin(), task_.results.end(), true) != task_.results.end()) {
        mechanisms::forward(mechanism_, batch, results_.template views<T>(), arguments_.threads);
      }
      if (estimate_ != nullptr) change_upstream(batch, first);
      if (task_.wants_gradients()) {
        sums.add(batch, first - task_.input.own_first(), upstream_.template views<const T>(),
                 gradients_.template views<T>(), arguments_.threads);
      }
    });
  }

  void change_upstream(const Batch<T>& batch, Index first) {
    Tensors<T> grad_results;
    if (task_.wants_gradients()) {
      for (std::size_t n = 0; n < task_.form.results.size(); ++n) {
        if (task_.upstream[n]) continue;
        const Shape own = shape(task_.form.results[n]);
        upstream_.make(n, own, batch.count);
        std::fill_n(upstream_.buffers[n].data(), batch.count * element_count(own), T{0});
      }
      grad_results = upstream_.template views<T>();
    }
    estimate_->change(batch, first, grad_results, arguments_.threads);
  }

  void read(Index first, Index count) {
    for (std::size_t n = 0; n < task_.form.lengths.size(); ++n) {
      if (task_.lengths[n]) read_lengths(n, first, count);
    }
    for (std::size_t n = 0; n < task_.form.tokens.size(); ++n) {
      if (!task_.tokens[n]) continue;
      tokens_.make(n, shape(task_.form.tokens[n]), count);
      for_position_boxes(task_.input.leading, tokens_.own[n], first, count,
                         [&](const Shape& start, const Shape& block, Index place) {
                           task_.tokens[n]->read(start, block, tokens_.buffers[n].data() + place);
                         });
      require_below(n, first, count);
    }
    for (std::size_t n = 0; n < task_.form.inputs.size(); ++n) {
      if (!task_.inputs[n] || is_shared(task_.form.inputs[n])) continue;
      read_numbers(task_.form.inputs[n], *task_.inputs[n], first, count, n, inputs_);
    }
    for (std::size_t n = 0; n < task_.form.results.size(); ++n) {
      if (!task_.upstream[n]) continue;
      read_numbers(task_.form.results[n], *task_.upstream[n], first, count, n, upstream_);
    }
  }

  // Tokens outside their range are refused, except in padding.
  void require_below(std::size_t n, Index first, Index count) const {
    const TensorForm& form = task_.form.tokens[n];
    if (form.below.empty()) return;
    const Shape& padded = tokens_.own[n];
    const Index size = element_count(padded);
    for (Index sequence = 0; sequence < count; ++sequence) {
      const Sizes sizes = own_sizes(sequence);
      const Shape own = mechanisms::shape_of(form.axes, sizes);
      const Index end = sizes.at(form.below);
      for (Index i = 0; i < size && end > 0; ++i) {
        const Index value = tokens_.buffers[n][sequence * size + i];
        if (value >= 0 && value < end) continue;
        const Shape position = unravel(i, padded);
        if (!is_own(position, own)) continue;
        const Shape place = join(unravel(first + sequence, task_.input.leading), position);
        throw Error(Failure::input,
                    fmt::format("{} has {} at {}, expected an integer in [0, {})",
                                task_.tokens[n]->address(), value,
                                element_text(place, Shape(place.size(), 1), 0), end));
      }
    }
  }

  void read_lengths(std::size_t n, Index first, Index count) {
    const ArraySource& dataset = *task_.lengths[n];
    const Index most = task_.sizes.at(task_.form.lengths[n].symbol);
    lengths_.make(n, {}, count);
    lengths_.own[n] = {count};
    for_position_boxes(task_.input.leading, {}, first, count,
                       [&](const Shape& start, const Shape& block, Index place) {
                         Index* const found = lengths_.buffers[n].data() + place;
                         dataset.read(start, block, found);
                         for (Index i = 0; i < element_count(block); ++i) {
                           if (found[i] >= 0 && found[i] <= most) continue;
                           throw Error(Failure::input,
                                       fmt::format("{} has {} at {}, expected a length in [0, {}]",
                                                   dataset.address(), found[i],
                                                   element_text(start, block, i), most));
                         }
                       });
  }

  Sizes own_sizes(Index sequence) const {
    Sizes sizes = task_.sizes;
    for (std::size_t n = 0; n < task_.form.lengths.size(); ++n) {
      if (!task_.lengths[n]) continue;
      sizes[task_.form.lengths[n].symbol] = lengths_.buffers[n][sequence];
    }
    return sizes;
  }

  void read_numbers(const TensorForm& one, const ArraySource& dataset, Index first, Index count,
                    std::size_t n, Arrays<T>& arrays) {
    arrays.make(n, shape(one), count);
    const Shape& own = arrays.own[n];
    for_position_boxes(task_.input.leading, own, first, count,
                       [&](const Shape& start, const Shape& block, Index place) {
                         dataset.read(start, block, arrays.buffers[n].data() + place);
                       });
    // Padding may hold any numbers.
    const Index size = element_count(own);
    for (Index i = 0; i < count * size; ++i) {
      const T value = arrays.buffers[n][i];
      if (std::isfinite(value)) continue;
      const Index sequence = i / size;
      if (!is_own(unravel(i % size, own), mechanisms::shape_of(one.axes, own_sizes(sequence))))
        continue;
      refuse_element(
          dataset, join(unravel(first + sequence, task_.input.leading), Shape(own.size(), 0)),
          join(Shape(task_.input.leading.size(), 1), own), i % size, value, "finite numbers");
    }
  }

  // `leading`: the position of the block among all, empty if there is one.
  void require_finite_block(const TensorForm& form, const std::string& name, const Shape& leading,
                            const Shape& own, const T* numbers) const {
    for (Index i = 0; i < element_count(own); ++i) {
      if (std::isfinite(numbers[i]) || numbers[i] == static_cast<T>(form.padding)) continue;
      const std::string place =
          element_text(join(leading, Shape(own.size(), 0)), join(Shape(leading.size(), 1), own), i);
      throw Error(Failure::numerical, fmt::format("{} is {} at {}", name, numbers[i], place),
                  task_.f64 ? "" : "--precision f64");
    }
  }

  void write(Index first, Index count) {
    const auto each = [&](const TensorForm& one, const std::string& name, const Arrays<T>& arrays,
                          std::size_t n) {
      if (is_shared(one)) return;
      // A shard's dataset holds its own sequences, one after the other.
      const Shape& own = arrays.own[n];
      for (Index sequence = 0; sequence < count; ++sequence) {
        require_finite_block(one, name, unravel(first + sequence, task_.input.leading), own,
                             arrays.buffers[n].data() + sequence * element_count(own));
      }
      const Shape leading =
          task_.input.share ? Shape{task_.input.own_problems()} : task_.input.leading;
      for_position_boxes(leading, own, first - task_.input.own_first(), count,
                         [&](const Shape& start, const Shape& block, Index place) {
                           written_.at(name).write(start, block, arrays.buffers[n].data() + place);
                         });
    };
    for (std::size_t n = 0; n < task_.form.results.size(); ++n) {
      if (!task_.results[n]) continue;
      each(task_.form.results[n], task_.form.results[n].name, results_, n);
      if (!task_.form.results[n].axes.empty()) continue;
      Figure& figure = figures_[task_.form.results[n].name];
      for (Index i = 0; i < count; ++i) figure.add(results_.buffers[n][i]);
    }
    for (std::size_t n = 0; n < task_.form.inputs.size(); ++n) {
      if (!task_.gradients[n]) continue;
      each(task_.form.inputs[n], gradient_of(task_.form.inputs[n].name), gradients_, n);
    }
  }

  void report() {
    auto& result = report_.result();
    result["sequences"] = task_.input.own_problems();
    for (const auto& [symbol, length] : task_.sizes) result["axes"][symbol] = length;
    for (const auto& [name, figure] : figures_) {
      if (figure.count == 0) continue;
      result[name] = {{"mean", figure.sum / static_cast<double>(figure.count)},
                      {"least", figure.least},
                      {"largest", figure.largest}};
    }
  }

  // A result that is one number for each sequence.
  struct Figure {
    Index count = 0;
    double sum = 0;
    double least = std::numeric_limits<double>::infinity();
    double largest = -std::numeric_limits<double>::infinity();

    void add(T value) {
      const auto one = static_cast<double>(value);
      ++count;
      sum += one;
      least = std::min(least, one);
      largest = std::max(largest, one);
    }
  };

  const cli::Arguments& arguments_;
  const MechanismTask& task_;
  const Mechanism<T>& mechanism_;
  MechanismEstimate<T>* const estimate_;  // null: none
  io::OutputBundle output_;
  Checkpoint* const checkpoint_;  // null: none
  cli::Progress& progress_;
  cli::Report& report_;
  Arrays<T> inputs_;
  Arrays<Index> tokens_, lengths_;
  Arrays<T> upstream_, results_, gradients_;
  bool computes_ = false;
  std::map<std::string, io::OutputDataset> written_;
  std::map<std::string, Figure> figures_;
};

}  // namespace

template <class T>
void run_mechanism(const cli::Arguments& arguments, const MechanismTask& task,
                   const Mechanism<T>& mechanism, MechanismEstimate<T>* estimate,
                   io::OutputBundle output, Checkpoint* checkpoint, cli::Progress& progress,
                   cli::Report& report) {
  MechanismRun<T>(arguments, task, mechanism, estimate, std::move(output), checkpoint, progress,
                  report)
      .run();
}

#define ATTN_MECHANISM_RUN(T)                                                                   \
  template void run_mechanism(const cli::Arguments&, const MechanismTask&, const Mechanism<T>&, \
                              MechanismEstimate<T>*, io::OutputBundle, Checkpoint*,             \
                              cli::Progress&, cli::Report&);
ATTN_MECHANISM_RUN(float)
ATTN_MECHANISM_RUN(double)
#undef ATTN_MECHANISM_RUN

}  // namespace attn::tools
