// The terms of attention scores besides vectors: the weights of the energy, masks, biases, sinks,
// and the part of a problem that is not padding.

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/heads/attention_input.hpp"
#include "common/heads/input_warnings.hpp"
#include "common/heads/packed_sequences.hpp"
#include "common/outputs/written_scores.hpp"
#include "head/packed_problem.hpp"
#include "scheme/scheme_description.hpp"

namespace attn::tools {
namespace {

// Scores that attn-compute wrote contain the terms of their bundle. Datasets of -i are the user's
// own choice.
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

void AttentionInput::take_parts(const io::InputBundle& bundle) {
  constexpr Index most_offset = Index{1} << 40;
  PerBound<std::vector<Index>> given;
  const auto read = [&](const char* name, std::vector<Index>& values, Index low, Index high) {
    if (!bundle.has(name)) return;
    const ArraySource dataset = bundle.dataset(name);
    try {
      values = integers_per_problem(dataset, leading, low, high);
    } catch (const Error& error) {
      const bool is_mask = !dataset.shape().empty() && dataset.shape().back() == high &&
                           dataset.shape().size() > 1 && error.hint().empty();
      if (!is_mask) throw;
      throw Error(error.failure(), error.what(),
                  "lengths of a mask that is true within each sequence: mask.sum(-1)");
    }
  };
  read("query_length", given.query_length, 0, queries);
  read("key_length", given.key_length, 0, keys);
  read("query_start", given.query_start, 0, queries);
  read("key_start", given.key_start, 0, keys);
  const bool by_dataset = by_position() && !options.query_offset;
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
    parts.push_back(naming([&] { return problem_place(bundle.description(), leading, problem); },
                           [&] { return own_part(bounds, queries, keys, causal); }));
    if (open && parts.back().queries() != parts.back().keys()) {
      refuse_open_causal(parts.back().queries(), parts.back().keys(),
                         problem_place(bundle.description(), leading, problem) + ": ");
    }
  }
}

void AttentionInput::take_packings(const PackedSequences& packed, const std::string& where,
                                   const std::vector<Scheme>& schemes) {
  if (options.query_offset) {
    throw Error(Failure::usage, where + ": --query-offset has no effect on packed sequences");
  }
  const auto packed_problems = packed.packings(stored_axes(), queries, keys, causal);
  for (Index problem = 0; problem < problems; ++problem) {
    const auto n = static_cast<std::size_t>(problem);
    const Packing& packing = *packed_problems[n % packed_problems.size()];
    const Index unequal = packing.first_unequal();
    if (unequal < packing.sequences() && options.causal && options.causal->empty()) {
      refuse_open_causal(packing.queries_of(unequal), packing.keys_of(unequal),
                         fmt::format("{}, sequence {}: ", where, unequal));
    }
    if (options.by_sequence) {
      // The first axis is that of the sequences.
      const Index s = problem / (problems / front.front());
      parts[n] = {{0, 0, 0, 0}, 0};
      if (s >= packing.sequences()) continue;  // another problem has more
      parts[n].range = {packing[s].query, packing.queries_of(s), packing[s].key,
                        packing.keys_of(s)};
      parts[n].offset = usual_offset(causal, packing.queries_of(s), packing.keys_of(s));
      continue;
    }
    naming([&] { return where; },
           [&] {
             for (const Scheme scheme : schemes) require_packing(packing, scheme, options.relative);
           });
    parts[n] = {{0, packing.queries(), 0, packing.keys()}, packing.common_offset().value_or(0)};
  }
  if (!options.by_sequence) packings = packed_problems;
}

// No array has an axis of sequences.
void AttentionInput::require_no_front_axis(const io::InputBundle& bundle) const {
  const auto refuse = [&](const ArraySource& dataset) {
    throw Error(
        Failure::input,
        fmt::format("{} has shape {}, expected what broadcasts to the leading axes {}",
                    dataset.address(), to_string(dataset.shape()), to_string(stored_axes())));
  };
  for (const Operand* operand : operands()) {
    if (operand->leading.size() == leading.size()) refuse(operand->dataset);
  }
  for (const char* name : {"hybrid", "sink"}) {
    if (!bundle.has(name)) continue;
    const ArraySource dataset = bundle.dataset(name);
    if (dataset.shape().size() == leading.size()) refuse(dataset);
  }
}

void AttentionInput::take_terms(const io::InputBundle& bundle) {
  if (bundle.has("mask")) take_mask_of(bundle.dataset("mask"));
  if (scores) {
    require_added_once(bundle, *scores, "bias");
    if (with_preference) require_added_once(bundle, *scores, "preference");
  }
  if (bundle.has("bias")) take_bias(bundle.dataset("bias"));
  if (with_preference && bundle.has("preference")) {
    // A preference (…, n), if its axes have these lengths, is the same for all queries of a
    // problem.
    const ArraySource source = bundle.dataset("preference");
    take_preference(source, options.source == ScoreOptions::Source::templates && !leading.empty() &&
                                source.shape() == join(leading, {keys}));
  }
  if (preferring.gamma) take_transport_cost(bundle.dataset("cost"));
  if (options.relative == RelativePositions::t5) take_relative_bias(bundle.dataset("rel_bias"));
}

void AttentionInput::take_mask_of(const ArraySource& source) {
  try {
    take_mask(source);
  } catch (const Error& error) {
    const std::string advice = error.hint().empty() ? advice_on_mask(source.shape(), *this) : "";
    if (advice.empty()) throw;
    throw Error(error.failure(), error.what(), advice);
  }
}

void AttentionInput::take_sink(const io::InputBundle& bundle, const std::vector<Scheme>& schemes) {
  if (!bundle.has("sink")) return;
  for (const Scheme scheme : schemes) {
    if (!description_of(scheme).has_sink()) require_no_sink(bundle, scheme_name(scheme));
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
