#include <algorithm>
#include <atomic>
#include <utility>

#include "attnkit/attention.hpp"
#include "kernel/parallel.hpp"
#include "plan/attention_arrays.hpp"
#include "plan/gradient_slots.hpp"
#include "plan/head_forward.hpp"
#include "tensor/memory_pool.hpp"

namespace attn {
namespace {

AttentionLayout layout_of(const AttentionShapes& shapes, const AttentionOptions& options,
                          int threads) {
  if (threads < 1) {
    throw Error(Failure::usage, "a plan of " + std::to_string(threads) + " threads");
  }
  AttentionLayout layout(shapes, options);
  layout.scheme.kept_bytes = options.kept_bytes;
  return layout;
}

// Adds room for the gaps that first fit leaves between blocks of different sizes, and for the
// margins of small buffers.
std::int64_t with_gaps(std::int64_t bytes) { return bytes + bytes / 4 + (std::int64_t{64} << 10); }

// Marks a plan as running.
class Running {
 public:
  explicit Running(std::atomic<bool>& running) : running_(running) {
    if (running_.exchange(true)) throw Error(Failure::usage, "this plan is running already");
  }
  ~Running() { running_ = false; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::atomic<bool>& running_;
};

}  // namespace

template <class T>
class AttentionPlan<T>::Impl {
 public:
  Impl(const AttentionShapes& shapes, const AttentionOptions& options, int threads)
      : layout_(layout_of(shapes, options, threads)),
        threads_(threads),
        arrays_(shapes, layout_),
        pools_(static_cast<std::size_t>(over_heads() ? threads : 1)),
        slots_(layout_, wave()) {}

  const AttentionLayout& layout() const { return layout_; }

  std::int64_t run_bytes() const { return arrays_.bytes() + pool_count() * forward_pool_bytes(); }

  std::int64_t gradient_bytes() const {
    return arrays_.bytes() + pool_count() * gradient_pool_bytes() + with_gaps(slots_.bytes());
  }

  AttentionSummary run(const AttentionInputs<T>& inputs, const AttentionOutputs<T>& outputs) {
    const Running running(running_);
    require_outputs(layout_, outputs);
    for (MemoryPool& pool : pools_) pool.reserve(forward_pool_bytes());
    arrays_.bind(inputs, {}, threads_);
    AttentionSummary summary;
    summary.problems.resize(static_cast<std::size_t>(layout_.problems));
    for_heads(0, layout_.problems, [&](Index problem, int threads) {
      HeadWork<T> work;
      forward(problem, outputs, false, work, threads);
      summary.problems[static_cast<std::size_t>(problem)] = summary_of(work);
    });
    return summary;
  }

  AttentionSummary gradients(const AttentionInputs<T>& inputs, const TensorView<const T>& grad_out,
                             const AttentionGradients<T>& wanted,
                             const AttentionOutputs<T>& outputs) {
    const Running running(running_);
    require_outputs(layout_, outputs);
    require_grad_out(grad_out);
    for (MemoryPool& pool : pools_) pool.reserve(gradient_pool_bytes());
    shared_.reserve(with_gaps(slots_.bytes()));
    const MemoryPool::Use use(&shared_);
    slots_.start(wanted);
    const Finish finish{slots_};
    {
      const MemoryPool::Use none(nullptr);
      arrays_.bind(inputs, grad_out, threads_);
    }
    AttentionSummary summary;
    summary.problems.resize(static_cast<std::size_t>(layout_.problems));
    for (Index first = 0; first < layout_.problems; first += wave()) {
      const Index last = std::min(layout_.problems, first + wave());
      for_heads(first, last, [&](Index problem, int threads) {
        HeadWork<T> work;
        forward(problem, outputs, true, work, threads);
        backward(problem, problem - first, work, threads);
        summary.problems[static_cast<std::size_t>(problem)] = summary_of(work);
      });
      for (Index problem = first; problem < last; ++problem) {
        slots_.collect(problem, problem - first);
      }
    }
    return summary;
  }

 private:
  struct Finish {
    GradientSlots<T>& slots;
    ~Finish() { slots.finish(); }
  };

  // Whether threads share the heads; else they share the panels of one head at a time.
  bool over_heads() const { return layout_.problems >= threads_; }
  int threads_of_head() const { return over_heads() ? 1 : threads_; }
  Index wave() const {
    return std::clamp<Index>(over_heads() ? 4 * Index{threads_} : 1, 1,
                             std::max<Index>(1, layout_.problems));
  }
  Index pool_count() const { return static_cast<Index>(pools_.size()); }

  std::int64_t forward_pool_bytes() const {
    return with_gaps(
        HeadScores<T>::bytes(layout_.recipe, static_cast<bool>(layout_.q), layout_.sizes) +
        attend_head_bytes<T>(layout_, false, threads_of_head()));
  }

  std::int64_t gradient_pool_bytes() const {
    const std::int64_t backward = differentiate_head_bytes(
        layout_.recipe, layout_.scheme, static_cast<bool>(layout_.q), layout_.projects(), true,
        layout_.sizes, layout_.v_head_dim, sizeof(T), threads_of_head());
    const std::int64_t out = layout_.queries() * layout_.v_head_dim * static_cast<Index>(sizeof(T));
    return with_gaps(
        HeadScores<T>::bytes(layout_.recipe, static_cast<bool>(layout_.q), layout_.sizes) +
        std::max(attend_head_bytes<T>(layout_, true, threads_of_head()), out + backward));
  }

  // Calls body(problem, threads) for problems [first, last). Each uses a pool of its own while it
  // runs. An error names its problem.
  template <class Body>
  void for_heads(Index first, Index last, const Body& body) {
    const auto one = [&](Index problem, int pool) {
      const MemoryPool::Use use(&pools_[static_cast<std::size_t>(pool)]);
      try {
        body(problem, threads_of_head());
      } catch (const Error& error) {
        if (layout_.leading.empty()) throw;
        throw error.at("problem " + to_string(unravel(problem, layout_.leading)));
      }
    };
    if (over_heads()) {
      kernel::parallel_for(last - first, threads_,
                           [&](Index n, int worker) { one(first + n, worker); });
    } else {
      for (Index problem = first; problem < last; ++problem) one(problem, 0);
    }
  }

  void forward(Index problem, const AttentionOutputs<T>& outputs, bool needs_out, HeadWork<T>& work,
               int threads) const {
    arrays_.head(problem, work.head);
    work.scheme = layout_.scheme;
    work.scheme.hybrid = arrays_.hybrid(problem);
    attend_head(layout_, outputs, needs_out, work, threads);
  }

  void backward(Index problem, Index at, const HeadWork<T>& work, int threads) const {
    if (!work.scores) {
      slots_.clear(problem, at);
      return;
    }
    HeadForward<T> head;
    head.recipe = &layout_.recipe;
    head.arrays = &work.head.arrays;
    head.scores = &work.scores->scores();
    head.options = work.scheme;
    head.attention = &work.attention;
    head.out = work.out;
    head.grad_out = arrays_.grad_out(problem);
    head.q = arrays_.q().made_of(problem);
    head.k = arrays_.k().made_of(problem);
    head.v = arrays_.v().made_of(problem);
    differentiate_head(head, slots_.targets(problem, at), threads);
    slots_.require_finite(problem, at);
  }

  void require_grad_out(const TensorView<const T>& grad_out) const {
    if (!layout_.v) throw Error(Failure::usage, "there is no v, and so no out to differentiate");
    const Shape expected = join(layout_.leading, {layout_.queries(), layout_.v_head_dim});
    if (grad_out.shape != expected) {
      throw Error(Failure::input, "grad_out has shape " + to_string(grad_out.shape) +
                                      ", expected " + to_string(expected) + " as out");
    }
    const Index size = element_count(expected);
    if (grad_out.data == nullptr && size > 0) throw Error(Failure::input, "grad_out has no data");
    if (all_finite(grad_out.data, size)) return;
    throw Error(Failure::input, "grad_out has numbers that are not finite");
  }

  const AttentionLayout layout_;
  int threads_;
  AttentionArrays<T> arrays_;
  std::vector<MemoryPool> pools_;  // one for each head that is computed at a time
  MemoryPool shared_;              // sums over heads and their parts
  GradientSlots<T> slots_;
  std::atomic<bool> running_{false};
};

template <class T>
AttentionPlan<T>::AttentionPlan(const AttentionShapes& shapes, const AttentionOptions& options,
                                int threads)
    : impl_(std::make_unique<Impl>(shapes, options, threads)) {}

template <class T>
AttentionPlan<T>::~AttentionPlan() = default;
template <class T>
AttentionPlan<T>::AttentionPlan(AttentionPlan&&) noexcept = default;
template <class T>
AttentionPlan<T>& AttentionPlan<T>::operator=(AttentionPlan&&) noexcept = default;

template <class T>
const Shape& AttentionPlan<T>::leading() const {
  return impl_->layout().leading;
}

template <class T>
Shape AttentionPlan<T>::out_shape() const {
  return join(query_shape(), {impl_->layout().v_head_dim});
}

template <class T>
Shape AttentionPlan<T>::query_shape() const {
  return join(leading(), {impl_->layout().queries()});
}

template <class T>
Shape AttentionPlan<T>::key_shape() const {
  return join(leading(), {impl_->layout().keys()});
}

template <class T>
std::int64_t AttentionPlan<T>::workspace_bytes() const {
  return impl_->run_bytes();
}

template <class T>
std::int64_t AttentionPlan<T>::gradient_workspace_bytes() const {
  return impl_->gradient_bytes();
}

template <class T>
AttentionSummary AttentionPlan<T>::run(const AttentionInputs<T>& inputs,
                                       const AttentionOutputs<T>& outputs) {
  return impl_->run(inputs, outputs);
}

template <class T>
AttentionSummary AttentionPlan<T>::gradients(const AttentionInputs<T>& inputs,
                                             TensorView<const T> grad_out,
                                             const AttentionGradients<T>& gradients,
                                             const AttentionOutputs<T>& outputs) {
  return impl_->gradients(inputs, grad_out, gradients, outputs);
}

SolveStatus AttentionSummary::status() const {
  SolveStatus worst = SolveStatus::done;
  for (const ProblemSummary& problem : problems) worst = std::max(worst, problem.status);
  return worst;
}

Index AttentionSummary::iterations() const {
  Index most = 0;
  for (const ProblemSummary& problem : problems) most = std::max(most, problem.iterations);
  return most;
}

Index AttentionSummary::empty_queries() const {
  Index sum = 0;
  for (const ProblemSummary& problem : problems) sum += problem.empty_queries;
  return sum;
}

Index AttentionSummary::empty_keys() const {
  Index sum = 0;
  for (const ProblemSummary& problem : problems) sum += problem.empty_keys;
  return sum;
}

std::vector<std::string> energy_names() {
  std::vector<std::string> names;
  for (const EnergyDescription* energy : energies()) names.emplace_back(energy->name());
  return names;
}

template class AttentionPlan<float>;
template class AttentionPlan<double>;

}  // namespace attn
