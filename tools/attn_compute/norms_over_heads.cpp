#include "attn_compute/norms_over_heads.hpp"

#include <algorithm>
#include <chrono>

#include "gradient/projection_gradient.hpp"

namespace attn::tools {
namespace {

// The smallest range that has both; an empty one does not count.
void widen(Index first, Index count, Index& all_first, Index& all_count) {
  if (count == 0) return;
  const Index last = std::max(first + count, all_count == 0 ? 0 : all_first + all_count);
  all_first = all_count == 0 ? first : std::min(first, all_first);
  all_count = last - all_first;
}

// Calls body(vectors) for the queries and the keys that have such gradients.
template <class Body>
void for_sides(const ComputeOptions& options, const AttentionInput& input, const Body& body) {
  for (const bool of_queries : {true, false}) {
    if (!through_all_heads(options.gradients, input, of_queries)) continue;
    body(of_queries ? *input.q : *input.k);
  }
}

// The rows of [first, first + count) whose gradient is not 0 in all heads: no head sees others.
template <class T>
SeenRows rows_with_gradient(MatrixView<const T> all, Index rows, Index first, Index count) {
  const auto has_gradient = [&](Index row) {
    for (Index at = row; at < all.rows; at += rows) {
      if (std::any_of(all.row(at), all.row(at) + all.cols, [](T x) { return x != 0; })) return true;
    }
    return false;
  };
  std::vector<Index> bounds;
  for (Index row = first; row < first + count; ++row) {
    if (has_gradient(row) != (bounds.size() % 2 == 1)) bounds.push_back(row);
  }
  if (bounds.size() % 2 == 1) bounds.push_back(first + count);
  return SeenRows(std::move(bounds));
}

}  // namespace

bool through_all_heads(const std::vector<GradientKind>& kinds, const AttentionInput& input,
                       bool of_queries) {
  const std::optional<Vectors>& from = of_queries ? input.q : input.k;
  if (!from || !from->over_heads()) return false;
  const std::string of_input = of_queries || !input.has_y() ? "grad_x" : "grad_y";
  const auto is_of = [](const GradientKind& kind, const std::optional<Operand>& operand) {
    return kind.of && operand && kind.of->dataset.same_as(operand->dataset);
  };
  return std::any_of(kinds.begin(), kinds.end(), [&](const GradientKind& kind) {
    const bool own = is_of(kind, from->weights) || is_of(kind, from->bias) ||
                     is_of(kind, from->norm) || is_of(kind, from->norm_bias);
    return kind.name == of_input || (kind.of_all_heads() && own);
  });
}

template <class T>
NormsOverHeads<T>::NormsOverHeads(const HeadGradients<T>& gradients, const ComputeOptions& options,
                                  const AttentionInput& input, int threads)
    : gradients_(gradients), input_(input), threads_(threads) {
  for (const bool of_queries : {true, false}) {
    if (!through_all_heads(options.gradients, input, of_queries)) continue;
    Side& side = sides_[of_queries ? 0 : 1];
    (of_queries ? side.alone.q : side.alone.k) = of_queries ? input.q : input.k;
    side.alone.leading = input.leading;
    side.alone.problems = input.problems;
    side.alone.queries = input.queries;
    side.alone.keys = input.keys;
    side.alone.parts = input.parts;
    side.alone.packings = input.packings;
    side.from = of_queries ? &*input.q : &*input.k;
    side.kept = Buffer<T>(side.from->heads() * side.from->rows * side.from->cols);
  }
}

template <class T>
void NormsOverHeads<T>::keep(Side& side, Index problem, const Buffer<T>& normed) const {
  if (problem % input_.heads() == 0) std::fill(side.kept.begin(), side.kept.end(), T{0});
  // Several heads of queries may share one of keys.
  const Index head = side.from->weights->block(problem) % side.from->heads();
  T* const sum = side.kept.data() + head * normed.size();
  for (Index n = 0; n < normed.size(); ++n) sum[n] += normed[n];
}

template <class T>
void NormsOverHeads<T>::complete(bool of_queries, Index problem,
                                 const HeadGradientTargets<T>& targets) {
  Side& side = sides_[of_queries ? 0 : 1];
  side.alone.parts[static_cast<std::size_t>(problem)].range = own_;
  const Index rows = side.from->rows;
  const Index first = of_queries ? own_.row0 : own_.col0;
  const MatrixView<const T> all(side.kept.data(), side.from->heads() * rows, side.from->cols);
  HeadReader<T> reader(side.alone, 0, threads_);
  const SeenRows seen = rows_with_gradient(all, rows, first, of_queries ? own_.rows : own_.cols);
  const HeadPart part{problem, std::nullopt, SeenOfProblem{seen, seen}};
  reader.read({&part, 1}, false);
  Head<T> head;
  reader.make(0, threads_, head);
  const ProjectedFrom<T>& from = of_queries ? head.made_of_q() : head.made_of_k();
  std::vector<MatrixView<const T>> grads;
  for (Index h = 0; h < side.from->heads(); ++h) {
    grads.push_back(all.row_range(h * rows + first, from.input.rows));
  }
  const HeadProjectionTargets<T>& to = targets.projections;
  differentiate_over_heads<T>(
      from, grads,
      of_queries ? ProjectionTargets<T>{to.x, to.wq, to.bq, to.q_norm, to.q_norm_bias}
                 : ProjectionTargets<T>{to.y, to.wk, to.bk, to.k_norm, to.k_norm_bias},
      threads_);
}

template <class T>
void NormsOverHeads<T>::add(Index problem, const std::vector<Buffer<T>>& normed,
                            std::vector<Buffer<T>>& parts) {
  if (sides_[0].from == nullptr && sides_[1].from == nullptr) return;
  const Index head = problem % input_.heads();
  if (head == 0) own_ = {};
  const TileRange& own = input_.part(problem).range;
  widen(own.row0, own.rows, own_.row0, own_.rows);
  widen(own.col0, own.cols, own_.col0, own_.cols);
  for (std::size_t n = 0; n < sides_.size(); ++n) {
    if (sides_[n].from != nullptr) keep(sides_[n], problem, normed[n]);
  }
  if (head < input_.heads() - 1) return;
  gradients_.make_room_for_all_heads(parts);
  if (own_.rows == 0 || own_.cols == 0) return;
  const auto start = std::chrono::steady_clock::now();
  const HeadGradientTargets<T> targets = gradients_.targets(own_, parts);
  naming([&] { return input_.place(problem); },
         [&] {
           for (const bool of_queries : {true, false}) {
             if (sides_[of_queries ? 0 : 1].from == nullptr) continue;
             complete(of_queries, problem, targets);
           }
         });
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t norms_over_heads_kept_bytes(const ComputeOptions& options, const AttentionInput& input,
                                         std::size_t element_size) {
  std::int64_t bytes = 0;
  for_sides(options, input, [&](const Vectors& from) {
    bytes += from.heads() * from.rows * from.cols * static_cast<std::int64_t>(element_size);
  });
  for (const GradientKind& kind : options.gradients) {
    if (kind.of_all_heads()) bytes += kind.size() * static_cast<std::int64_t>(element_size);
  }
  return bytes;
}

std::int64_t norms_over_heads_bytes(const ComputeOptions& options, const AttentionInput& input,
                                    std::size_t element_size, int threads) {
  std::int64_t bytes = 0;
  for_sides(options, input, [&](const Vectors& from) {
    const std::int64_t panels = std::min<Index>(from.rows, 256 * static_cast<Index>(threads)) *
                                from.inner() * static_cast<std::int64_t>(element_size);
    bytes = std::max(bytes, from.bytes(element_size) + panels +
                                differentiate_projected_bytes(from.rows, from.cols, element_size));
  });
  return bytes;
}

double norms_over_heads_flops(const ComputeOptions& options, const AttentionInput& input) {
  double flops = 0;
  for_sides(options, input, [&](const Vectors& from) {
    // The four products of each head, and one more for its moments.
    flops += 2 * static_cast<double>(5 * from.heads()) * static_cast<double>(from.rows) *
             static_cast<double>(from.inner()) * static_cast<double>(from.cols);
  });
  return flops * static_cast<double>(input.own_problems() / input.heads());
}

template class NormsOverHeads<float>;
template class NormsOverHeads<double>;

}  // namespace attn::tools
