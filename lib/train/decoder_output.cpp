#include "train/decoder_output.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "attnkit/error.hpp"
#include "kernel/tile.hpp"
#include "train/shared_outputs.hpp"

namespace attn::train {
namespace {

// Tokens of an output, </s> included, and Σ log p of them.
struct Prefix {
  std::vector<Index> tokens;
  double log_p = 0;
  Index row = 0;  // of the extended prefix, among all prefixes that were extended

  double per_token() const { return log_p / static_cast<double>(tokens.size()); }
};

// A kept prefix with one more token, or unchanged if it has ended.
struct Extension {
  Index kept = 0;
  Index token = 0;
  double log_p = 0;
};

bool is_ended(const Prefix& prefix, const OutputOptions& options) {
  return !prefix.tokens.empty() && prefix.tokens.back() == options.end;
}

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw Error(Failure::usage, otherwise);
}

void check_options(const Transformer& model, const OutputOptions& options) {
  const TransformerOptions& made = model.options();
  require(made.encoder_layers > 0, "only a model with an encoder has outputs");
  require(made.decoder.causal && made.decoder.generates() && made.cross.generates(),
          "outputs need a decoder whose attention is causal and unas, and cross-attention by unas");
  require(options.length >= 1 && options.length <= made.length,
          "the length of outputs is " + std::to_string(options.length) + ", not in 1 … " +
              std::to_string(made.length));
  require(options.beam >= 1, "the beam is " + std::to_string(options.beam) + ", not at least 1");
  const auto is_token = [&](Index token) { return token >= 0 && token < made.vocabulary; };
  require(is_token(options.start) && is_token(options.end) && options.start != options.end,
          "<s> and </s> are the tokens " + std::to_string(options.start) + " and " +
              std::to_string(options.end) + ", which must be different ones of " +
              std::to_string(made.vocabulary));
}

void check_source(const TransformerOptions& made, const std::vector<Index>& source,
                  std::size_t number) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Failure::input, "source " + std::to_string(number) + " " + why);
  };
  if (source.empty()) refuse("is empty");
  if (std::ssize(source) > made.source_length) {
    refuse("has " + std::to_string(source.size()) + " tokens; the model reads at most " +
           std::to_string(made.source_length));
  }
  for (const Index token : source) {
    if (token < 0 || token >= made.source_vocabulary) {
      refuse("has the token " + std::to_string(token) + "; the vocabulary has " +
             std::to_string(made.source_vocabulary));
    }
  }
}

// The most extensions of a prefix: more cannot be kept.
Index most_extensions(const Transformer& model, const OutputOptions& options) {
  return std::min(options.beam, model.options().vocabulary - 1);
}

// The search for the output of one source.
template <class T>
class Search {
 public:
  Search(const Transformer& model, const Slot<T>& slot, const OutputOptions& options,
         const std::vector<Index>& source)
      : model_(model), slot_(slot), options_(options) {
    const Sequences sequence = {1, std::ssize(source)};
    Stack::Kept<T> kept;
    const MatrixView<const T> rows =
        model.encoder()->forward(slot, sequence, source.data(), {}, kept);
    past_ = model.decoder().no_past<T>(slot, {sequence, rows}, model.options().source_length,
                                       options.length);
  }

  std::vector<Index> output() {
    std::vector<Prefix> kept(1);
    std::vector<Index> tokens = {options_.start};
    for (Index step = 0; step < options_.length && !tokens.empty(); ++step) {
      kept = extended(kept, tokens);
      std::vector<Index> from;
      tokens.clear();
      for (const Prefix& prefix : kept) {
        if (is_ended(prefix, options_)) continue;
        from.push_back(prefix.row);
        tokens.push_back(prefix.tokens.back());
      }
      past_.choose(from);
    }
    const auto is_less = [](const Prefix& a, const Prefix& b) {
      return a.per_token() < b.per_token();
    };
    std::vector<Index> found = std::max_element(kept.begin(), kept.end(), is_less)->tokens;
    if (found.back() == options_.end) found.pop_back();
    return found;
  }

 private:
  // The best of all extensions; `tokens` are the last tokens of the prefixes without </s>.
  std::vector<Prefix> extended(const std::vector<Prefix>& kept, const std::vector<Index>& tokens) {
    const OwnedMatrix<T> last = model_.decoder().extend(slot_, tokens, past_);
    const OwnedMatrix<T> logits = model_.softmax().logits(slot_.weights, last.view());
    std::vector<Extension> all;
    all.reserve(kept.size() * static_cast<std::size_t>(most_extensions(model_, options_)));
    std::vector<Index> rows(kept.size());  // of the kept prefixes, among the extended ones
    Index row = 0;
    for (std::size_t n = 0; n < kept.size(); ++n) {
      if (is_ended(kept[n], options_)) {
        all.push_back({static_cast<Index>(n), options_.end, kept[n].log_p});
      } else {
        add_extensions(static_cast<Index>(n), kept[n].log_p, logits.view().row(row), all);
        rows[n] = row++;
      }
    }
    const auto end = all.begin() + std::min(options_.beam, std::ssize(all));
    std::partial_sort(all.begin(), end, all.end(), [&](const Extension& a, const Extension& b) {
      if (a.log_p != b.log_p) return a.log_p > b.log_p;
      if (a.kept == b.kept) return a.token < b.token;
      return kept[static_cast<std::size_t>(a.kept)].tokens <
             kept[static_cast<std::size_t>(b.kept)].tokens;
    });
    std::vector<Prefix> best;
    for (auto one = all.begin(); one != end; ++one) {
      const auto n = static_cast<std::size_t>(one->kept);
      best.push_back({kept[n].tokens, one->log_p, rows[n]});
      if (!is_ended(kept[n], options_)) best.back().tokens.push_back(one->token);
    }
    return best;
  }

  // Adds the extensions of a prefix by its most probable tokens, as many as can be kept.
  void add_extensions(Index kept, double log_p, const T* z, std::vector<Extension>& all) const {
    const Index vocabulary = model_.options().vocabulary;
    if (!std::all_of(z, z + vocabulary, [](T x) { return std::isfinite(x); })) {
      throw Error(Failure::numerical, "a logit is not finite");
    }
    const double shift = kernel::row_max(z, vocabulary, nullptr);
    std::vector<T> exponentials(static_cast<std::size_t>(vocabulary));
    const double sum = kernel::exp_row(exponentials.data(), z, vocabulary, nullptr, shift);
    const double log_sum = shift + std::log(sum);
    std::vector<Index> tokens(static_cast<std::size_t>(vocabulary));
    std::iota(tokens.begin(), tokens.end(), Index{0});
    tokens.erase(tokens.begin() + options_.start);
    const auto most = tokens.begin() + most_extensions(model_, options_);
    std::partial_sort(tokens.begin(), most, tokens.end(),
                      [&](Index a, Index b) { return z[a] != z[b] ? z[a] > z[b] : a < b; });
    for (auto token = tokens.begin(); token != most; ++token) {
      all.push_back({kept, *token, log_p + (static_cast<double>(z[*token]) - log_sum)});
    }
  }

  const Transformer& model_;
  const Slot<T>& slot_;
  const OutputOptions& options_;
  Stack::Past<T> past_;
};

}  // namespace

template <class T>
std::vector<std::vector<Index>> decoder_outputs(const Transformer& model, const T* weights,
                                                const std::vector<std::vector<Index>>& sources,
                                                const OutputOptions& options, int threads) {
  check_options(model, options);
  for (std::size_t n = 0; n < sources.size(); ++n) check_source(model.options(), sources[n], n);
  MemoryPool pool;
  const MemoryPool::Use use(&pool);
  std::vector<AttentionPlans<T>> plans(static_cast<std::size_t>(threads));
  return shared_outputs(std::ssize(sources), threads, [&](Index n, int worker) {
    const auto at = static_cast<std::size_t>(n);
    Slot<T> slot;
    slot.weights = weights;
    slot.plans = &plans[static_cast<std::size_t>(worker)];
    try {
      return Search<T>(model, slot, options, sources[at]).output();
    } catch (const Error& error) {
      throw error.at("source " + std::to_string(n));
    }
  });
}

template <class T>
std::int64_t decoder_output_bytes(const Transformer& model, Index source_length,
                                  const OutputOptions& options, int threads) {
  const TransformerOptions& made = model.options();
  const Index width = made.layer.width;
  const Sequences source = {1, source_length};
  const Sequences prefixes = {options.beam, 1};
  const PassBytes read = model.encoder()->bytes<T>(source, {});
  const PassBytes extended = model.decoder().bytes<T>(prefixes, source);
  // Keys and values; for kept prefixes, they are copied layer by layer.
  const std::int64_t past =
      made.decoder_layers * 2 * row_bytes<T>(made.source_length, width) +
      (made.decoder_layers + 1) * 2 * row_bytes<T>(options.beam * options.length, width);
  // The logits; for one prefix, the exponentials and the numbers of all tokens.
  const std::int64_t choice =
      row_bytes<T>(options.beam + 1, made.vocabulary) + row_bytes<Index>(1, made.vocabulary);
  const std::int64_t extensions =
      row_bytes<Extension>(options.beam, most_extensions(model, options)) +
      // The kept prefixes, and their successors; a vector may have twice its size.
      2 * row_bytes<Index>(options.beam, 2 * options.length + 8);
  // One plan of the encoder for each length of a source, two for each number of prefixes.
  std::int64_t plan = 0;
  const auto add_plan = [&](const AttentionLayer* layer, const Sequences& queries,
                            const Sequences& keys) {
    if (layer == nullptr) return;
    plan = std::max(plan, layer->heads().plan_bytes<T>(queries, keys).results);
  };
  const TransformerLayer& decoder = model.decoder().layers().front();
  add_plan(model.encoder()->layers().front().self(), source, source);
  add_plan(decoder.self(), prefixes, {options.beam, options.length});
  add_plan(decoder.cross(), prefixes, {options.beam, made.source_length});
  return threads * (read.kept + read.forward + past + extended.kept + extended.forward + choice +
                    extensions + most_plans * plan);
}

#define ATTN_DECODER_OUTPUT(T)                                                                     \
  template std::vector<std::vector<Index>> decoder_outputs(const Transformer&, const T*,           \
                                                           const std::vector<std::vector<Index>>&, \
                                                           const OutputOptions&, int);             \
  template std::int64_t decoder_output_bytes<T>(const Transformer&, Index, const OutputOptions&,   \
                                                int);
ATTN_DECODER_OUTPUT(float)
ATTN_DECODER_OUTPUT(double)
#undef ATTN_DECODER_OUTPUT

}  // namespace attn::train
