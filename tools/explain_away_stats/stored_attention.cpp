#include "explain_away_stats/stored_attention.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attnkit/error.hpp"
#include "head/matrix_operand.hpp"
#include "pass/stored_weights.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

// One matrix per head, or one vector as a matrix of one row. Results do not broadcast.
Operand result_operand(const io::InputBundle& bundle, const std::string& name,
                       const AttentionInput& input, const Shape& own) {
  const ArraySource dataset = bundle.dataset(name);
  require_floating(dataset);
  const Shape leading = input.stored_axes();
  const Shape expected = join(leading, own);
  if (dataset.shape() != expected) {
    throw Error(Failure::input, dataset.address() + " has shape " + to_string(dataset.shape()) +
                                    ", expected " + to_string(expected));
  }
  return Operand{dataset, leading, own.size() == 2 ? own.front() : 1, own.back(),
                 LeadingMap(input.leading, leading, false, dataset.address())};
}

Operand potential_operand(const io::InputBundle& bundle, const std::string& name,
                          const AttentionInput& input, Index length) {
  try {
    return result_operand(bundle, name, input, {length});
  } catch (const Error& error) {
    if (bundle.has(name)) throw;
    throw Error(error.failure(), error.what(),
                "stored needs what attn-compute writes: potentials or, with --emit weights, "
                "weights; unas and dnas are computed from q and k");
  }
}

}  // namespace

StoredAttention::StoredAttention(const io::InputBundle& bundle, const AttentionInput& input,
                                 std::optional<Scheme> scheme, std::vector<double> hybrid,
                                 std::int64_t dense_limit)
    : input_(input),
      scheme_(scheme.value_or(Scheme::unas)),
      hybrid_(std::move(hybrid)),
      dense_limit_(dense_limit),
      has_marginals_(bundle.text_attribute("attn_marginals") == "given") {
  if (bundle.has("weights")) {
    weights_.emplace(
        result_operand(bundle, "weights", input, {input.stored_queries, input.stored_keys}));
    if (scheme && bundle.has("col_potential")) {
      col_.emplace(potential_operand(bundle, "col_potential", input, input.stored_keys));
    }
    return;
  }
  row_.emplace(potential_operand(bundle, "row_potential", input, input.stored_queries));
  col_.emplace(potential_operand(bundle, "col_potential", input, input.stored_keys));
  if (scheme && description_of(*scheme).is_mixture()) {
    unas_row_.emplace(potential_operand(bundle, "unas_row_potential", input, input.stored_queries));
  }
}

std::vector<double> StoredAttention::vector(const Operand& operand, Index problem, Index first,
                                            Index count) const {
  const auto source = matrix_source<double>(operand, problem, {0, 1, first, count}, dense_limit_);
  std::vector<double> values(static_cast<std::size_t>(count));
  source->read(TileRange{0, 1, 0, count}, MatrixView<double>(values.data(), 1, count));
  return values;
}

template <class T>
void StoredAttention::show(const Head<T>& head, const std::vector<Observer<T>*>& observers,
                           int threads) const {
  const TileRange& own = head.part.range;
  if (weights_) {
    const auto source = matrix_source<T>(*weights_, head.problem, own, dense_limit_);
    naming([&] { return place(head.problem); },
           [&] { show_stored_weights<T>(*source, own.rows, own.cols, observers, threads); });
    return;
  }
  Potentials stored = potentials(head.problem);
  show_weights<T>(head.scores(scheme_), stored, hybrid(head.problem), observers, threads);
}

Potentials StoredAttention::potentials(Index problem) const {
  const TileRange& own = input_.part(problem).range;
  Potentials stored;
  stored.row = vector(*row_, problem, own.row0, own.rows);
  stored.col = vector(*col_, problem, own.col0, own.cols);
  if (unas_row_) stored.unas_row = vector(*unas_row_, problem, own.row0, own.rows);
  return stored;
}

double StoredAttention::hybrid(Index problem) const {
  return unas_row_ ? hybrid_[static_cast<std::size_t>(problem)] : 0;
}

PooledVector<double> StoredAttention::on_sink(Index problem,
                                              std::span<const double> row_sums) const {
  if (!weights_) {
    SchemeOptions options;
    options.scheme = scheme_;
    options.hybrid = hybrid(problem);
    options.sink = input_.sink_of(problem);
    return sink_weights(potentials(problem), options);
  }
  PooledVector<double> missing;
  for (const double sum : row_sums) missing.push_back(sum > 0 ? std::max(0.0, 1 - sum) : 0);
  return missing;
}

std::vector<std::uint8_t> StoredAttention::closed_keys(Index problem) const {
  std::vector<std::uint8_t> closed;
  if (!weights_ || !col_) return closed;
  const TileRange& own = input_.part(problem).range;
  for (const double potential : vector(*col_, problem, own.col0, own.cols)) {
    closed.push_back(std::isinf(potential));
  }
  return closed;
}

std::string StoredAttention::place(Index problem) const {
  return problem_place((weights_ ? weights_ : row_)->dataset.address(), input_.leading, problem);
}

std::int64_t StoredAttention::bytes(const io::InputBundle& bundle, const AttentionInput& input,
                                    std::size_t element_size, std::int64_t dense_limit) {
  if (bundle.has("weights")) {
    const std::int64_t whole = input.queries * input.keys * static_cast<Index>(element_size);
    return (whole <= dense_limit ? whole : 0) + input.keys * static_cast<Index>(sizeof(double));
  }
  return (2 * input.queries + input.keys) * static_cast<Index>(sizeof(double));
}

template void StoredAttention::show(const Head<float>&, const std::vector<Observer<float>*>&,
                                    int) const;
template void StoredAttention::show(const Head<double>&, const std::vector<Observer<double>*>&,
                                    int) const;

}  // namespace attn::tools
