// lib/train: what the attentions of a model read, and their column sums.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "reference/reference.hpp"
#include "train/layer_column_sums.hpp"
#include "train_problem.hpp"

using namespace attn;
using namespace attn::train;
using namespace attn::testing;

namespace {

// Weights of a model at its start, W_Q multiplied by `sharpness`.
template <class T>
std::vector<T> sharp_weights(const Transformer& model, double sharpness) {
  std::vector<T> weights(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialise(3, weights.data());
  for (const Parameter& one : model.parameters().all()) {
    if (!one.name.ends_with("wq")) continue;
    for (Index n = 0; n < one.size(); ++n) {
      weights[static_cast<std::size_t>(one.offset + n)] *= static_cast<T>(sharpness);
    }
  }
  return weights;
}

Index own_rows(const Sequences& sequences, Index n) {
  return sequences.lengths == nullptr ? sequences.length : sequences.lengths[n];
}

// The rows of a sequence that are not padding.
template <class T>
reference::Matrix own_part(MatrixView<const T> rows, const Sequences& sequences, Index n) {
  reference::Matrix part(own_rows(sequences, n), rows.cols);
  for (Index i = 0; i < part.rows; ++i) {
    for (Index c = 0; c < part.cols; ++c) part(i, c) = rows(n * sequences.length + i, c);
  }
  return part;
}

// Wᵀ for the rows of a head, by which reference::project multiplies.
template <class T>
reference::Matrix of_head(const MatrixPlace& place, const T* weights, Index head, Index depth) {
  reference::Matrix w(place.cols, depth);
  for (Index c = 0; c < place.cols; ++c) {
    for (Index d = 0; d < depth; ++d) w(c, d) = place.in(weights)(head * depth + d, c);
  }
  return w;
}

// The weights of each sequence and head of a site, by plain loops from what it reads.
template <class T>
std::vector<reference::Matrix> plain_weights(const AttentionSite<T>& site, const T* weights) {
  const AttentionLayerOptions& options = site.layer->options();
  const std::vector<double> shares = site.layer->shares(weights);
  std::vector<reference::Matrix> all;
  for (Index n = 0; n < site.queries.count; ++n) {
    for (Index h = 0; h < options.heads; ++h) {
      const auto q = reference::project(own_part(site.x, site.queries, n),
                                        of_head(site.layer->wq(), weights, h, options.depth()), {});
      const auto k = reference::project(own_part(site.y, site.keys, n),
                                        of_head(site.layer->wk(), weights, h, options.depth()), {});
      const auto scores = reference::scores(EnergyKind::scaled_dot, 1, q, k, {}, {},
                                            options.causal ? Causal::top_left : Causal::none);
      const double share =
          shares.empty() ? 0
                         : shares[options.scheme.share_by_head ? static_cast<std::size_t>(h) : 0];
      all.push_back(
          reference::attend(scores, options.scheme.scheme, share, options.scheme.iterations)
              .weights);
    }
  }
  return all;
}

// The column sums of all heads and sequences of a site.
template <class T>
std::vector<double> plain_column_sums(const AttentionSite<T>& site, const T* weights) {
  std::vector<double> all;
  for (const reference::Matrix& one : plain_weights(site, weights)) {
    const auto sums = reference::column_sums(one);
    all.insert(all.end(), sums.begin(), sums.end());
  }
  return all;
}

// Slots of one pair each as one slot, padded.
SlotBatch merged_pairs(const std::vector<SlotBatch>& slots) {
  SlotBatch all;
  for (const bool source : {true, false}) {
    TokenRows& rows = source ? all.source : all.input;
    for (const SlotBatch& slot : slots) {
      rows.sequences.length =
          std::max(rows.sequences.length, (source ? slot.source : slot.input).sequences.length);
    }
    for (const SlotBatch& slot : slots) {
      const TokenRows& own = source ? slot.source : slot.input;
      ++rows.sequences.count;
      rows.lengths.push_back(own.sequences.length);
      rows.tokens.insert(rows.tokens.end(), own.tokens.begin(), own.tokens.end());
      rows.tokens.resize(static_cast<std::size_t>(rows.sequences.rows()), padding_token);
    }
  }
  return all;
}

// The sites of a slot, with what they are views of.
template <class T>
struct SlotSites {
  AttentionPlans<T> plans;
  Slot<T> slot;
  Transformer::Passed<T> passed;
  std::vector<AttentionSite<T>> sites;

  SlotSites(const Transformer& model, const std::vector<T>& weights, const SlotBatch& batch) {
    slot.weights = weights.data();
    slot.plans = &plans;
    model.forward(slot, batch, passed);
    sites = model.attention_sites(batch, passed);
  }
};

std::vector<std::string> groups_of(const std::vector<LayerColumnSums>& all) {
  std::vector<std::string> groups;
  for (const LayerColumnSums& one : all) groups.push_back(one.group);
  return groups;
}

// The largest |made − W x| over the rows that are not padding: (sequences, heads, positions, d).
template <class T>
double projection_error(const OwnedMatrix<T>& made, MatrixView<const T> x,
                        const Sequences& sequences, const MatrixPlace& place, const T* weights,
                        Index heads) {
  const Index depth = made.cols();
  double worst = 0;
  for (Index n = 0; n < sequences.count; ++n) {
    for (Index h = 0; h < heads; ++h) {
      const auto want =
          reference::project(own_part(x, sequences, n), of_head(place, weights, h, depth), {});
      for (Index i = 0; i < want.rows; ++i) {
        const T* const row = made.data() + ((n * heads + h) * sequences.length + i) * depth;
        for (Index c = 0; c < depth; ++c) {
          const auto error = std::abs(static_cast<double>(row[c] - want(i, c)));
          if (!(error <= worst)) worst = error;
        }
      }
    }
  }
  return worst;
}

}  // namespace

TEST_CASE_TEMPLATE("attention sites show what the projections read", T, float, double) {
  const Index heads = 2;
  // Sums of six products of up to about ten, rounded.
  const double bound = sizeof(T) == sizeof(float) ? 1e-5 : 1e-14;
  for (const bool pair : {false, true}) {
    for (const NormOrder order : {NormOrder::pre, NormOrder::post}) {
      CAPTURE(pair);
      TransformerOptions options =
          pair ? small_pair(Scheme::dnas) : small_stack(Scheme::unas, true);
      options.layer.order = order;
      const Transformer model(options);
      const std::vector<T> weights = sharp_weights<T>(model, 1);
      for (const SlotBatch& batch : token_slots(options, {5, 1, 7, 3, 2, 6, 4, 5, 3}, false)) {
        const SlotSites<T> found(model, weights, batch);
        CHECK(found.sites.size() == (pair ? 6 : 2));
        for (const AttentionSite<T>& site : found.sites) {
          const AttentionLayer& layer = *site.layer;
          const auto error = [&](const OwnedMatrix<T>& made, bool of_query,
                                 const MatrixPlace& place) {
            return projection_error(made, of_query ? site.x : site.y,
                                    of_query ? site.queries : site.keys, place, weights.data(),
                                    heads);
          };
          CHECK(error(site.kept->q, true, layer.wq()) <= bound);
          CHECK(error(site.kept->k, false, layer.wk()) <= bound);
          CHECK(error(site.kept->v, false, layer.wv()) <= bound);
          const bool is_cross = layer.group().ends_with("cross");
          CHECK((site.x.data == site.y.data) != is_cross);
          CHECK(
              site.x.rows ==
              (layer.group().starts_with("encoder") ? batch.source : batch.input).sequences.rows());
          CHECK(site.y.rows == (is_cross ? batch.source.sequences.rows() : site.queries.rows()));
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("column sums of every attention are those of plain loops", T, float, double) {
  // The project's bound for weights, of scores below 100: see gradient_check.hpp.
  const double bound = sizeof(T) == sizeof(float) ? 5e-5 + 800 * std::ldexp(1, -24) : 1e-11;
  Index explained_away = 0;
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn}) {
    for (const bool pair : {false, true}) {
      for (const bool variant : {false, true}) {
        CAPTURE(static_cast<int>(scheme));
        CAPTURE(pair);
        CAPTURE(variant);
        TransformerOptions options = pair ? small_pair(scheme) : small_stack(scheme, variant);
        if (variant) options.layer.order = NormOrder::pre;
        const Transformer model(options);
        const std::vector<T> weights = sharp_weights<T>(model, 4);
        const auto slots = token_slots(options, {5, 1, 7, 3, 2, 6, 4, 5, 3, 1}, false);
        const std::vector<LayerColumnSums> found =
            layer_column_sums(model, weights.data(), slots, 1);
        CHECK(groups_of(found) ==
              (pair ? std::vector<std::string>{"encoder/layer0/self", "encoder/layer1/self",
                                               "decoder/layer0/self", "decoder/layer0/cross",
                                               "decoder/layer1/self", "decoder/layer1/cross"}
                    : std::vector<std::string>{"layer0", "layer1"}));
        std::vector<std::vector<double>> want(found.size());
        for (const SlotBatch& batch : slots) {
          const SlotSites<T> shown(model, weights, batch);
          for (std::size_t n = 0; n < found.size(); ++n) {
            const auto sums = plain_column_sums(shown.sites[n], weights.data());
            want[n].insert(want[n].end(), sums.begin(), sums.end());
          }
        }
        for (std::size_t n = 0; n < found.size(); ++n) {
          CAPTURE(found[n].group);
          const double least = *std::min_element(want[n].begin(), want[n].end());
          const Index below = std::count_if(want[n].begin(), want[n].end(),
                                            [](double c) { return c < explained_away_below; });
          CHECK(found[n].keys == std::ssize(want[n]));
          CHECK(found[n].explained_away == below);
          CHECK(std::abs(found[n].least - least) <= bound * least);
          CHECK(found[n].explained_away_share() ==
                static_cast<double>(below) / static_cast<double>(want[n].size()));
          explained_away += below;
        }
        if (scheme != Scheme::unas && !pair) {
          for (const LayerColumnSums& one : found) CHECK(one.explained_away == 0);
        }
        for (const int threads : {2, 3, 8}) {
          const std::vector<LayerColumnSums> again =
              layer_column_sums(model, weights.data(), slots, threads);
          REQUIRE(again.size() == found.size());
          for (std::size_t n = 0; n < found.size(); ++n) {
            CHECK(again[n].least == found[n].least);
            CHECK(again[n].explained_away == found[n].explained_away);
          }
        }
        CHECK(layer_column_sums<T>(model, weights.data(), {}, 2).empty());
      }
    }
  }
  CHECK(explained_away > 0);
}

TEST_CASE_TEMPLATE("weights of the attention to the source are those of plain loops", T, float,
                   double) {
  // The project's bound for weights: see gradient_check.hpp.
  const double bound = sizeof(T) == sizeof(float) ? 5e-5 + 800 * std::ldexp(1, -24) : 1e-11;
  for (const Scheme scheme : {Scheme::unas, Scheme::dnas, Scheme::hnas, Scheme::sinkhorn}) {
    CAPTURE(static_cast<int>(scheme));
    TransformerOptions options = small_pair(Scheme::unas);
    options.cross = {{scheme, true, 3}, false, 0.3, false};
    options.decoder.left_out = scheme == Scheme::dnas;
    const Transformer model(options);
    const std::vector<T> weights = sharp_weights<T>(model, 4);
    const SlotBatch batch = merged_pairs(token_slots(options, {5, 1, 7}, false));
    const SlotSites<T> shown(model, weights, batch);
    const auto found = model.source_weights(shown.slot, batch);
    REQUIRE(found.size() == 2);
    const Index keys = batch.source.sequences.length;
    const Index queries = batch.input.sequences.length;
    for (const SourceWeights<T>& one : found) {
      const auto site = std::find_if(
          shown.sites.begin(), shown.sites.end(),
          [&](const AttentionSite<T>& other) { return other.layer->group() == one.name; });
      REQUIRE(site != shown.sites.end());
      CHECK(one.name.ends_with("/cross"));
      CHECK(one.heads == 2);
      const auto want = plain_weights(*site, weights.data());
      std::size_t number = 0;
      double worst = 0;
      for (Index n = 0; n < 3; ++n) {
        for (Index h = 0; h < 2; ++h, ++number) {
          const reference::Matrix& plain = want[number];
          for (Index j = 0; j < plain.rows; ++j) {
            for (Index i = 0; i < plain.cols; ++i) {
              const T got = one.weights.view()(n, (h * queries + j) * keys + i);
              const auto error = std::abs(static_cast<double>(got - plain(j, i)));
              if (!(error <= worst)) worst = error;
            }
          }
        }
      }
      CHECK(worst <= bound);
    }
  }
}

TEST_CASE("attentions that are left out have no column sums") {
  TransformerOptions options = small_pair(Scheme::unas);
  options.encoder.left_out = true;
  options.decoder.left_out = true;
  const Transformer model(options);
  const std::vector<double> weights = sharp_weights<double>(model, 1);
  const auto slots = token_slots(options, {5, 1, 7}, false);
  const auto found = layer_column_sums(model, weights.data(), slots, 1);
  CHECK(groups_of(found) ==
        std::vector<std::string>{"decoder/layer0/cross", "decoder/layer1/cross"});
  for (const SlotBatch& batch : slots) {
    const SlotSites<double> shown(model, weights, batch);
    REQUIRE(shown.sites.size() == 2);
    // Without self-attention, cross-attention of the first layer reads the embedding.
    const MatrixView<const double> embedded = shown.passed.decoder.inputs.front().view();
    CHECK(shown.sites.front().x.data == embedded.data);
  }
  options.cross.left_out = true;
  CHECK(layer_column_sums(Transformer(options), weights.data(), slots, 1).empty());
}

TEST_CASE("keys that no query may attend to do not count") {
  const TransformerOptions options = small_pair(Scheme::unas);
  const Transformer model(options);
  const std::vector<double> weights = sharp_weights<double>(model, 1);
  SlotBatch batch;
  batch.source = {{2, 3}, {1, 2, 3, 4, padding_token, padding_token}, {3, 1}};
  batch.input = {{2, 2}, {1, 2, padding_token, padding_token}, {2, 0}};
  const auto found = layer_column_sums(model, weights.data(), {batch}, 1);
  REQUIRE(found.size() == 6);
  for (const LayerColumnSums& one : found) {
    CAPTURE(one.group);
    const bool encoder = one.group.starts_with("encoder");
    const bool cross = one.group.ends_with("cross");
    // Two heads; the second sequence has one key of the source, and no queries of its own.
    CHECK(one.keys == 2 * (encoder ? 4 : cross ? 3 : 2));
    CHECK(one.least > 0);
  }
  CHECK(std::isnan(LayerColumnSums{}.explained_away_share()));
}
