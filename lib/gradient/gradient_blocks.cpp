#include "gradient/gradient_blocks.hpp"

#include <utility>

#include "gradient/adjoints.hpp"
#include "gradient/folded_rows.hpp"
#include "pass/own_panels.hpp"

namespace attn {

template <class T>
GradientBlocks<T>::GradientBlocks(const Options& options) : options_(options) {
  const Partition& partition = options_.partition;
  own_ = {partition.first_line(options_.first_slot), partition.first_line(options_.last_slot)};
  keys_ = with_start_of_packed<T>(own_);
  column_sums_.assign(static_cast<std::size_t>(keys_.last - keys_.first), 0.0);
}

template <class T>
Partition GradientBlocks<T>::partition(Scheme scheme, bool scores, Index queries, Index keys) {
  return gradient_partition(queries, keys, sizeof(T), scores && !is_softmax(scheme));
}

template <class T>
void GradientBlocks<T>::use(const Keys& keys) {
  of_keys_ = keys;
  set_to_zero(of_keys_.grad_v);
}

// Calls body(slot, keys of a panel, scratch) for the own panels; slots and keys are counted from
// the first ones.
template <class T>
template <class Body>
void GradientBlocks<T>::for_panels(int threads, const Body& body) const {
  for_panels_of_slots<Scratch>(options_.partition, options_.first_slot, options_.last_slot, threads,
                               [&](Index slot, Index panel, Scratch& work) {
                                 const RowRange lines = options_.partition.lines(panel);
                                 body(slot - options_.first_slot,
                                      RowRange{lines.first - keys_.first, lines.last - keys_.first},
                                      work);
                               });
}

// Of dnas its columns are open.
template <class T>
WeightAdjoint<T> GradientBlocks<T>::first_adjoint(const Block& block) const {
  const PooledVector<double> f(block.f.begin(), block.f.end());
  const PooledVector<double> delta(block.delta.begin(), block.delta.end());
  PooledVector<double> g(of_keys_.g.begin(), of_keys_.g.end());
  g.resize(column_sums_.size(), 0.0);
  if (is_softmax(options_.scheme)) return row_adjoint<T>(f, g, 1, delta);
  const double coefficient = options_.scheme == Scheme::hnas ? options_.hybrid : 1;
  return row_and_column_adjoint<T>(f, g, coefficient, delta);
}

// The softmax of a mixture.
template <class T>
WeightAdjoint<T> GradientBlocks<T>::second_adjoint(const Block& block) const {
  const PooledVector<double> f(block.unas_f.begin(), block.unas_f.end());
  const PooledVector<double> delta(block.unas_delta.begin(), block.unas_delta.end());
  return row_adjoint<T>(f, PooledVector<double>(column_sums_.size(), 0.0), 1 - options_.hybrid,
                        delta);
}

// Calls body(panels), which are of the block and keys().
template <class T>
template <class Body>
void GradientBlocks<T>::with_panels(const Block& block, PooledVector<WeightAdjoint<T>> adjoints,
                                    const GradientTargets<T>& targets, const Body& body) const {
  Forward<T> forward;
  forward.scores = block.scores;
  forward.v = of_keys_.v;
  forward.grad_out = block.grad_out;
  Buffer<T> folded;
  if (of_keys_.folds) {
    fold_rows(block.grad_out, adjoints.front(), folded);
    forward.grad_out = {folded.data(), block.grad_out.rows, block.grad_out.cols};
  }
  const TileProduct<T> products(forward.grad_out, forward.v, T{1});
  GradientPanels<T> panels(forward, products, adjoints, targets);
  body(panels);
}

template <class T>
LineNumbers GradientBlocks<T>::column_sums() {
  auto own = std::span(column_sums_)
                 .subspan(static_cast<std::size_t>(own_.first - keys_.first),
                          static_cast<std::size_t>(own_.last - own_.first));
  return LineNumbers::of(own);
}

template <class T>
void GradientBlocks<T>::add_columns(const Block& block, int threads) {
  with_panels(block, {first_adjoint(block)}, {}, [&](const GradientPanels<T>& panels) {
    for_panels(threads, [&](Index, RowRange keys, Scratch& work) {
      panels.add_columns(keys, work, column_sums_.data() + keys.first);
    });
  });
}

template <class T>
void GradientBlocks<T>::add(const Block& block, const PooledVector<GradientSink<T>*>& energies,
                            int threads) {
  PooledVector<WeightAdjoint<T>> adjoints = {first_adjoint(block)};
  if (needs_columns()) adjoints.front().col = narrow<T>(column_sums_, -1);
  if (options_.scheme == Scheme::hnas) adjoints.push_back(second_adjoint(block));
  GradientTargets<T> targets;
  targets.v = of_keys_.grad_v;
  targets.energies = energies;
  with_panels(block, std::move(adjoints), targets, [&](GradientPanels<T>& panels) {
    for_panels(threads,
               [&](Index slot, RowRange keys, Scratch& work) { panels.run(keys, slot, work); });
  });
}

template <class T>
std::int64_t GradientBlocks<T>::bytes(Scheme scheme, Index queries, Index keys, Index v_head_dim,
                                      int threads) {
  const GradientSizes sizes{queries, keys, v_head_dim, sizeof(T), threads};
  constexpr auto element = static_cast<std::int64_t>(sizeof(T));
  AdjointNeeds needs;
  if (scheme == Scheme::hnas) needs = {.several = true, .sets = 5};
  // Instead of centred copies of values, and of outputs, there is dO once more, folded.
  return differentiate_weights_bytes(sizes, needs) - 2 * keys * v_head_dim * element;
}

template class GradientBlocks<float>;
template class GradientBlocks<double>;

}  // namespace attn
