// What the scores of attention are made of besides vectors: the weights of the energy, masks,
// biases, sinks, and the part of a problem that is not padding.

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/attention_input.hpp"
#include "common/written_scores.hpp"
#include "head/matrix_operand.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

// Scores that attn-compute wrote contain the terms of the bundle in which they stand. Datasets that
// -i names are the user's own choice.
void require_added_once(const io::InputBundle& bundle, const Operand& scores, const char* term) {
  const io::InputBundle own = bundle.without_named();
  if (!has_written_scores(bundle) || !own.has(term)) return;
  const std::string of_term = bundle.dataset(term).address();
  if (of_term != own.dataset(term).address()) return;
  throw Error(
      Failure::usage,
      scores.dataset.address() + " contains " + of_term + " already, which would be added twice",
      "-i takes scores and v alone: -i scores=FILE:/scores -i v=FILE:/v");
}

}  // namespace

void require_no_sink(const io::InputBundle& bundle, const std::string& who) {
  if (!bundle.has("sink")) return;
  throw Error(
      Failure::usage,
      bundle.dataset("sink").address() + " is an attention sink, which " + who + " does not have",
      "-i takes single datasets, and so leaves the sink out: -i q=FILE:/q -i k=FILE:/k");
}

void AttentionInput::take_energy_operands(const io::InputBundle& bundle) {
  const EnergyDescription& energy_taken = energy();
  const auto matrix = [&](const EnergyOperand& wanted) {
    const ArraySource dataset = bundle.dataset(wanted.name);
    require_vectors(dataset, "(rows, columns)");
    Operand operand = vectors_operand(dataset, leading, false, ScoreOptions::Layout::heads_first);
    const Index rows = length_of(wanted.rows, sizes());
    const Index cols = length_of(wanted.cols, sizes());
    if ((rows > 0 && operand.rows != rows) || operand.cols != cols) {
      throw Error(Failure::input,
                  fmt::format("{} is {} x {}, expected {} x {} for {} and {}", dataset.address(),
                              operand.rows, operand.cols, rows > 0 ? fmt::to_string(rows) : "A",
                              cols, q->address(), k->address()));
    }
    return operand;
  };
  for (const EnergyOperand& wanted : energy_taken.operands()) {
    if (!wanted.required && !bundle.has(wanted.name)) {
      energy_operands.emplace_back();
    } else if (wanted.is_vector()) {
      energy_operands.emplace_back(vector_operand(bundle.dataset(wanted.name), leading, false,
                                                  length_of(wanted.cols, sizes())));
    } else {
      energy_operands.emplace_back(matrix(wanted));
    }
  }
  if (energy_taken.needs_equal_depths() && q->cols != k->cols) {
    throw Error(
        Failure::input,
        fmt::format("{}: last axis is {}, {} has {}", k->address(), k->cols, q->address(), q->cols),
        "slice one of them, or use --energy bilinear with a w of (dq, dk)");
  }
}

void AttentionInput::take_parts(const io::InputBundle& bundle) {
  constexpr Index most_offset = Index{1} << 40;
  PerBound<std::vector<Index>> given;
  const auto read = [&](const char* name, std::vector<Index>& values, Index low, Index high) {
    if (bundle.has(name)) values = integers_per_problem(bundle.dataset(name), leading, low, high);
  };
  read("query_length", given.query_length, 0, queries);
  read("key_length", given.key_length, 0, keys);
  read("query_start", given.query_start, 0, queries);
  read("key_start", given.key_start, 0, keys);
  const bool by_dataset = options.by_position() && !options.query_offset;
  if (by_dataset) read("query_offset", given.query_offset, -most_offset, most_offset);
  causal = resolve_causal(options, queries, keys,
                          options.query_offset.has_value() || !given.query_offset.empty());
  const bool open = options.causal && options.causal->empty() && given.query_offset.empty() &&
                    !options.query_offset;
  for (Index problem = 0; problem < problems; ++problem) {
    SequenceBounds bounds;
    for_bound_pairs(
        given, bounds,
        [&](const char*, const std::vector<Index>& values, std::optional<Index>& bound) {
          if (!values.empty()) bound = values[static_cast<std::size_t>(problem)];
        });
    if (options.query_offset) bounds.query_offset = options.query_offset;
    parts.push_back(naming([&] { return bundle.description(); },
                           [&] { return own_part(bounds, queries, keys, causal); }));
    if (open && parts.back().queries() != parts.back().keys()) {
      refuse_open_causal(parts.back().queries(), parts.back().keys(),
                         problem_place(bundle.description(), leading, problem) + ": ");
    }
  }
}

void AttentionInput::take_terms(const io::InputBundle& bundle) {
  if (bundle.has("mask")) {
    mask.emplace(matrix_operand(bundle.dataset("mask"), leading, queries, keys));
    if (!is_integral(mask->dataset.dtype())) {
      throw Error(Failure::input,
                  fmt::format("{} has type {}, expected bool or an integer type",
                              mask->dataset.address(), mask->dataset.type()),
                  "a mask to be added to the scores is called bias");
    }
  }
  if (scores) {
    require_added_once(bundle, *scores, "bias");
    if (with_preference) require_added_once(bundle, *scores, "preference");
  }
  if (bundle.has("bias")) {
    bias.emplace(matrix_operand(bundle.dataset("bias"), leading, queries, keys));
    require_floating(bias->dataset);
  }
  if (with_preference && bundle.has("preference")) {
    // A preference (…, n), if its axes have these lengths, is the same for all queries of a
    // problem.
    const ArraySource dataset = bundle.dataset("preference");
    const Shape own = join(leading, {keys});
    const bool by_problem = options.source == ScoreOptions::Source::templates && !leading.empty() &&
                            dataset.shape() == own;
    preference.emplace(by_problem
                           ? vector_operand(dataset, leading, false, keys)
                           : matrix_operand(bundle.dataset("preference"), leading, queries, keys));
    require_floating(preference->dataset);
    preference->zero_forbids = true;
  }
  if (options.relative != ScoreOptions::Relative::t5) return;
  const ArraySource table = bundle.dataset("rel_bias");
  require_floating(table);
  const Shape& shape = table.shape();
  if (shape.size() != 2 || shape.back() != heads()) {
    throw Error(Failure::input, fmt::format("{} has shape {}, expected (buckets, {})",
                                            table.address(), to_string(shape), heads()));
  }
  rel_bias.emplace(Operand{
      table, {}, shape.front(), shape.back(), LeadingMap(leading, {}, false, table.address())});
}

void AttentionInput::take_sink(const io::InputBundle& bundle, const std::vector<Scheme>& schemes) {
  if (!bundle.has("sink")) return;
  for (const Scheme scheme : schemes) {
    if (description_of(scheme).is_iterated()) require_no_sink(bundle, scheme_name(scheme));
  }
  const ArraySource dataset = bundle.dataset("sink");
  require_floating(dataset);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double most = std::numeric_limits<double>::max();
  sinks = numbers_per_problem(dataset, leading, -infinity, most);
  sink.emplace(Operand{dataset, dataset.shape(), 1, 1,
                       LeadingMap(leading, dataset.shape(), false, dataset.address())});
}

}  // namespace attn::tools
