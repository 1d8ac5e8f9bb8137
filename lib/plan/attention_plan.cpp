#include <algorithm>
#include <type_traits>
#include <utility>

#include "attnkit/attention.hpp"
#include "head/head_reader.hpp"
#include "pass/partition.hpp"
#include "plan/attention_layout.hpp"
#include "plan/gradient_slots.hpp"
#include "plan/head_forward.hpp"
#include "plan/plan_array.hpp"
#include "plan/problems.hpp"

namespace attn {
namespace {

template <class T>
AttentionLayout layout_of(const AttentionShapes& shapes, const AttentionOptions& options) {
  if (options.tuning.bf16 && !std::is_same_v<T, float>) {
    throw Error(Failure::usage, "bfloat16 products are taken in float32");
  }
  return AttentionLayout(shapes, options, dtype_of<T>());
}

}  // namespace

template <class T>
class AttentionPlan<T>::Impl {
 public:
  Impl(const AttentionShapes& shapes, const AttentionOptions& options, const Context& context)
      : layout_(layout_of<T>(shapes, options)),
        problems_(
            layout_.leading, context,
            attend_parts(layout_.scheme.scheme, true, layout_.queries, layout_.keys, sizeof(T))),
        // Matrices are used where they lie.
        reader_(layout_, 0, context.threads),
        slots_(layout_, wave()),
        kept_bytes_(layout_.kept_bytes() + reader_.list_bytes(layout_.problems)) {}

  const AttentionLayout& layout() const { return layout_; }

  void set_dropout(double rate, const kernel::DropoutStream& stream) {
    if (!(rate >= 0 && rate < 1)) {
      throw Error(Failure::usage, "the rate of dropout is out of range, expected one in [0, 1)");
    }
    dropout_ = {rate, stream, 0, layout_.keys};
  }

  std::int64_t run_bytes() const { return kept_bytes_ + problems_.bytes(forward_bytes()); }

  std::int64_t gradient_bytes() const {
    return kept_bytes_ + problems_.bytes(backward_bytes(), slots_.bytes());
  }

  AttentionSummary run(const AttentionInputs<T>& inputs, const AttentionOutputs<T>& outputs) {
    return problems_.run(forward_bytes(), 0, [&] {
      require_outputs(layout_, outputs);
      read(inputs, {});
      AttentionSummary summary;
      summary.problems.resize(static_cast<std::size_t>(layout_.problems));
      problems_.for_each([&](Index problem, int threads) {
        Head<T> head;
        reader_.make(problem, threads, head);
        HeadWork<T> work;
        begin(head, work);
        attend_planned(layout_, outputs, false, work, threads);
        close_gate(work);
        summary.problems[static_cast<std::size_t>(problem)] = summary_of(layout_, work);
      });
      return summary;
    });
  }

  AttentionSummary gradients(const AttentionInputs<T>& inputs, const TensorView<const T>& grad_out,
                             const AttentionGradients<T>& wanted,
                             const AttentionOutputs<T>& outputs) {
    AttentionSummary summary;
    summary.problems.resize(static_cast<std::size_t>(layout_.problems));
    require_outputs(layout_, outputs);
    differentiate(inputs, grad_out, wanted, [&](HeadWork<T>& work, int threads) {
      attend_planned(layout_, outputs, true, work, threads);
      summary.problems[static_cast<std::size_t>(work.head->problem)] = summary_of(layout_, work);
    });
    return summary;
  }

  void gradients_from(const AttentionInputs<T>& inputs, const AttentionResults<T>& results,
                      const TensorView<const T>& grad_out, const AttentionGradients<T>& wanted) {
    require_results(layout_, results);
    differentiate(inputs, grad_out, wanted,
                  [&](HeadWork<T>& work, int) { take_results(layout_, results, work); });
  }

 private:
  struct Finish {
    GradientSlots<T>& slots;
    ~Finish() { slots.finish(); }
  };

  // The number of heads whose gradients are added up together, in order.
  Index wave() const {
    return std::clamp<Index>(problems_.over_problems() ? 4 * Index{problems_.threads()} : 1, 1,
                             std::max<Index>(1, layout_.problems));
  }

  void read(const AttentionInputs<T>& inputs, const TensorView<const T>& grad_out) {
    layout_.bind(inputs, grad_out);
    reader_.read(layout_.heads_to_read);
  }

  std::int64_t score_bytes() const {
    return HeadScores<T>::bytes(layout_.recipe(), layout_.q.has_value(), layout_.sizes());
  }

  std::int64_t forward_bytes() const {
    return score_bytes() + attend_head_bytes<T>(layout_, false, problems_.inside());
  }

  std::int64_t backward_bytes() const {
    const std::int64_t backward =
        differentiate_head_bytes(layout_.recipe(), layout_.scheme, layout_.repetition,
                                 layout_.q.has_value(), layout_.projects(), true, layout_.sizes(),
                                 layout_.v_head_dim, sizeof(T), problems_.inside());
    const std::int64_t out = layout_.queries * layout_.v_head_dim * static_cast<Index>(sizeof(T));
    const std::int64_t forward = attend_head_bytes<T>(layout_, true, problems_.inside());
    // Repeated attention keeps its intermediate results.
    if (layout_.repetition) return score_bytes() + forward + out + backward;
    return score_bytes() + std::max(forward, out + backward);
  }

  // `attend(work, threads)` fills in the results of a head.
  template <class Attend>
  void differentiate(const AttentionInputs<T>& inputs, const TensorView<const T>& grad_out,
                     const AttentionGradients<T>& wanted, const Attend& attend) {
    problems_.run(backward_bytes(), slots_.bytes(wanted), [&] {
      require_grad_out(grad_out);
      const Finish finish{slots_};
      slots_.start(wanted);
      read(inputs, grad_out);
      for (Index first = 0; first < layout_.problems; first += wave()) {
        const Index last = std::min(layout_.problems, first + wave());
        problems_.for_each(first, last, [&](Index problem, int threads) {
          Head<T> head;
          reader_.make(problem, threads, head);
          HeadWork<T> work;
          begin(head, work);
          attend(work, threads);
          backward(problem - first, work, threads);
          close_gate(work);
        });
        for (Index problem = first; problem < last; ++problem) {
          slots_.collect(problem, problem - first);
        }
      }
      return 0;
    });
  }

  void begin(const Head<T>& head, HeadWork<T>& work) const {
    begin_head(work, head, layout_, layout_.scheme, layout_.hybrid_of(head.problem),
               layout_.repetition);
    const TileRange& own = head.part.range;
    work.dropout = dropout_;
    work.dropout.first = (head.problem * layout_.queries + own.row0) * layout_.keys + own.col0;
  }

  void backward(Index at, const HeadWork<T>& work, int threads) const {
    const Index problem = work.head->problem;
    const OwnPart& part = work.head->part;
    const bool empty = part.queries() == 0 || part.keys() == 0;
    if (empty || !part.is_whole(layout_.queries, layout_.keys)) slots_.clear(problem, at);
    if (empty) return;
    differentiate_head(forward_of<T>(work), slots_.targets(problem, at, part.range), threads);
    slots_.require_finite(problem, at);
  }

  void require_grad_out(const TensorView<const T>& grad_out) const {
    if (!layout_.v) throw Error(Failure::usage, "there is no v, and so no out to differentiate");
    const Shape expected = join(layout_.leading, {layout_.queries, layout_.v_head_dim});
    if (grad_out.shape != expected) {
      throw Error(Failure::input, "grad_out has shape " + to_string(grad_out.shape) +
                                      ", expected " + to_string(expected) + " as out");
    }
    if (grad_out.data == nullptr && element_count(expected) > 0) {
      throw Error(Failure::input, "grad_out has no data");
    }
  }

  AttentionLayout layout_;
  plan::Problems problems_;
  HeadReader<T> reader_;
  GradientSlots<T> slots_;
  std::int64_t kept_bytes_;  // from run to run, besides the pools
  WeightDropout dropout_;
};

template <class T>
AttentionPlan<T>::AttentionPlan(const AttentionShapes& shapes, const AttentionOptions& options,
                                const Context& context)
    : impl_(plan::make<Impl>(shapes, options, context)) {}

template <class T>
AttentionPlan<T>::~AttentionPlan() = default;
template <class T>
AttentionPlan<T>::AttentionPlan(AttentionPlan&&) noexcept = default;
template <class T>
AttentionPlan<T>& AttentionPlan<T>::operator=(AttentionPlan&&) noexcept = default;

template <class T>
void AttentionPlan<T>::set_dropout(double rate, std::uint64_t seed, std::uint64_t stream) {
  plan::alive(impl_).set_dropout(rate, {seed, stream});
}

template <class T>
const Shape& AttentionPlan<T>::leading() const {
  return plan::alive(impl_).layout().leading;
}

template <class T>
Shape AttentionPlan<T>::out_shape() const {
  return join(query_shape(), {plan::alive(impl_).layout().v_head_dim});
}

template <class T>
Shape AttentionPlan<T>::query_shape() const {
  return join(leading(), {plan::alive(impl_).layout().queries});
}

template <class T>
Shape AttentionPlan<T>::key_shape() const {
  return join(leading(), {plan::alive(impl_).layout().keys});
}

template <class T>
std::int64_t AttentionPlan<T>::workspace_bytes() const {
  return plan::alive(impl_).run_bytes();
}

template <class T>
std::int64_t AttentionPlan<T>::gradient_workspace_bytes() const {
  return plan::alive(impl_).gradient_bytes();
}

template <class T>
AttentionSummary AttentionPlan<T>::run(const AttentionInputs<T>& inputs,
                                       const AttentionOutputs<T>& outputs) {
  return plan::alive(impl_).run(inputs, outputs);
}

template <class T>
AttentionSummary AttentionPlan<T>::gradients(const AttentionInputs<T>& inputs,
                                             TensorView<const T> grad_out,
                                             const AttentionGradients<T>& gradients,
                                             const AttentionOutputs<T>& outputs) {
  return plan::alive(impl_).gradients(inputs, grad_out, gradients, outputs);
}

template <class T>
void AttentionPlan<T>::gradients_from(const AttentionInputs<T>& inputs,
                                      const AttentionResults<T>& results,
                                      TensorView<const T> grad_out,
                                      const AttentionGradients<T>& gradients) {
  plan::alive(impl_).gradients_from(inputs, results, grad_out, gradients);
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

Index AttentionSummary::padded_queries() const {
  Index sum = 0;
  for (const ProblemSummary& problem : problems) sum += problem.padded_queries;
  return sum;
}

Index AttentionSummary::padded_keys() const {
  Index sum = 0;
  for (const ProblemSummary& problem : problems) sum += problem.padded_keys;
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
