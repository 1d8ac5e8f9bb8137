#include "common/heads/input_warnings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/words.hpp"
#include "common/options/score_options.hpp"
#include "common/results/result_kinds.hpp"
#include "tensor/pieces.hpp"

namespace attn::tools {
namespace {

constexpr const char* layout_hint =
    "if the axes are (batch, length, heads, depth), use --layout blhd";

// Few models have more heads, and hardly any has twice as many.
constexpr Index most_heads = 64;

// The axis of heads of vectors (…, heads, length, depth).
Index axis_of_heads(const Shape& shape) { return shape.size() < 3 ? 1 : shape[shape.size() - 3]; }

// The names of the schemes that normalise over queries, each once.
std::vector<std::string> column_normalised(const std::vector<Scheme>& schemes) {
  std::vector<std::string> names;
  for (const Scheme scheme : schemes) {
    const std::string name = scheme_name(scheme);
    const bool listed = std::find(names.begin(), names.end(), name) != names.end();
    if (!is_by_query(scheme) && !listed) names.push_back(name);
  }
  return names;
}

// Some rows of a mask's block, spread over all of them.
constexpr Index sampled_rows = 16;

// The numbers of one mask that one problem uses, without padding.
class MaskBlock {
 public:
  MaskBlock(const AttentionInput& input, Index problem)
      : mask_(*input.mask), block_(mask_.block(problem)), own_(input.part(problem).range) {
    rows_ = mask_.rows > 1 ? own_.rows : std::min<Index>(own_.rows, 1);
    const bool by_key = mask_.cols > 1;
    cols_ = by_key ? own_.cols : std::min<Index>(own_.cols, 1);
    row0_ = mask_.rows > 1 ? own_.row0 : 0;
    col0_ = by_key ? own_.col0 : 0;
    values_.resize(static_cast<std::size_t>(cols_));
  }

  // Whether no row allows a key. All rows are read only if a sample of them allows none.
  bool allows_nothing() {
    return every_row(step_of_sample(), [&](Index row) { return !allows_any(row); }) &&
           every_row(1, [&](Index row) { return !allows_any(row); });
  }

  // Whether all queries may attend to the last keys alone.
  bool allows_only_last() {
    if (rows_ != 1 || cols_ < 2) return false;
    read(0, 0, cols_);
    const auto first = std::find_if(values_.begin(), values_.end(), [](auto x) { return x != 0; });
    return first != values_.begin() && first != values_.end() &&
           std::all_of(first, values_.end(), [](auto x) { return x != 0; });
  }

  // Whether a query may attend to the key at its own place and to all later ones, and to no other.
  bool is_causal_transposed() { return is_split(false, true, true); }

  // Whether no query may attend to the key at its own place. Not if it may attend to all earlier
  // keys, or to all others: such masks are meant.
  bool excludes_own_place() {
    if (rows_ < 2 || rows_ != cols_) return false;
    const auto excludes = [&](Index row) { return !allows(row, row); };
    return every_row(step_of_sample(), excludes) && every_row(1, excludes) &&
           !is_split(true, false, false) && !is_split(true, false, true);
  }

 private:
  Index step_of_sample() const { return std::max<Index>(1, rows_ / sampled_rows); }

  // Whether each query may attend, or may not, to the keys before its own place, at it, and after
  // it.
  bool is_split(bool before, bool own, bool after) {
    if (rows_ < 2 || rows_ != cols_) return false;
    const auto is_row_split = [&](Index row) {
      read(row, 0, cols_);
      const auto are = [](auto first, auto last, bool allowed) {
        return std::all_of(first, last, [&](auto x) { return (x != 0) == allowed; });
      };
      const auto place = values_.begin() + row;
      return are(values_.begin(), place, before) && (*place != 0) == own &&
             are(place + 1, values_.end(), after);
    };
    return every_row(step_of_sample(), is_row_split) && every_row(1, is_row_split);
  }

  template <class Condition>
  bool every_row(Index step, const Condition& condition) {
    for (Index row = 0; row < rows_; row += step) {
      if (!condition(row)) return false;
    }
    return true;
  }

  void read(Index row, Index col, Index count) {
    const BlockAxes axes(mask_, block_, row0_ + row, 1, col0_ + col, count);
    mask_.dataset.read(axes.start, axes.count, values_.data());
  }
  bool allows(Index row, Index col) {
    read(row, col, 1);
    return values_[0] != 0;
  }
  bool allows_any(Index row) {
    read(row, 0, cols_);
    return std::any_of(values_.begin(), values_.end(), [](std::uint8_t x) { return x != 0; });
  }

  const Operand& mask_;
  Index block_;
  TileRange own_;
  Index rows_, cols_, row0_, col0_;
  std::vector<std::uint8_t> values_;
};

}  // namespace

void warn_of_input(const std::vector<Scheme>& schemes, const io::InputBundle& bundle,
                   const AttentionInput& input, cli::Report& report) {
  warn_of_attributes(bundle, report);
  warn_of_layout(bundle, input, report);
  warn_of_lengths(bundle, input, report);
  warn_of_mask(input, report);
  warn_of_bias(input, report);
  warn_of_scale(schemes, input, report);
}

void warn_of_leak(const std::vector<Scheme>& schemes, const AttentionInput& input,
                  cli::Report& report) {
  const bool by_window = input.options.window.right == Index{0};
  if (input.causal == Causal::none && !by_window) return;
  const std::vector<std::string> leaking = column_normalised(schemes);
  if (leaking.empty()) return;
  report.warn(fmt::format(
      "under {} each query depends on later ones through the column normalisation, even with a "
      "causal mask: fine for analysis, but a leak in an autoregressive model",
      fmt::join(leaking, ", ")));
}

void warn_of_finite_masks(double least_bias, const std::vector<Scheme>& schemes,
                          cli::Report& report) {
  constexpr double as_low_as_a_mask = -9984;  // -1e4 as bfloat16 has it
  if (!(least_bias <= as_low_as_a_mask)) return;
  if (std::find(schemes.begin(), schemes.end(), Scheme::transport) != schemes.end()) {
    report.warn(
        "bias has finite values of -1e4 or less: under transport, keys that they were meant to "
        "mask "
        "keep their preferences, which others receive; only -inf forbids");
  }
  const std::vector<std::string> names = column_normalised(schemes);
  if (names.empty()) return;
  report.warn(fmt::format(
      "bias has finite values of -1e4 or less, which forbid nothing under {}: keys that they were "
      "meant to mask receive as much attention as others; only -inf forbids",
      fmt::join(names, ", ")));
}

void warn_of_layout(const io::InputBundle& bundle, const AttentionInput& input,
                    cli::Report& report) {
  if (input.options.source != ScoreOptions::Source::vectors) return;
  const bool inside = input.options.layout == ScoreOptions::Layout::heads_inside;
  const Operand& k = input.k->input;
  const Index heads = k.leading.empty() ? 1 : k.leading.back();
  const Index tokens = bundle.has("tokens") && !bundle.dataset("tokens").shape().empty()
                           ? bundle.dataset("tokens").shape().back()
                           : 0;
  if (tokens == input.keys) return;
  const auto warn_of_tokens = [&](const std::string& other, const std::string& hint) {
    report.warn(fmt::format("{} has {} and {}, but there are {} tokens: {}", k.dataset.address(),
                            other, cli::counted(input.keys, "key"), tokens, hint));
  };
  if (tokens > 0 && tokens == k.cols && tokens != heads) {
    warn_of_tokens(fmt::format("depth {}", tokens),
                   "if the axes are (..., depth, length), save numpy.swapaxes(x, -1, -2)");
    return;
  }
  if (heads == input.keys || (input.options.layout_chosen && !inside)) return;
  const char* const hint =
      inside ? "if the axes are (batch, heads, length, depth), use --layout bhld" : layout_hint;
  if (tokens == heads) {
    warn_of_tokens(cli::counted(heads, "head"), hint);
    return;
  }
  const std::string unless = inside ? "" : "; if not, --layout bhld";
  const Operand& q = input.q->input;
  if (k.dataset.shape().size() >= (inside ? 3 : 4) && heads > input.keys &&
      heads > (inside ? 2 * most_heads : most_heads)) {
    report.warn(fmt::format("{} has shape {}, {} and {}: {}{}", k.dataset.address(),
                            to_string(k.dataset.shape()), cli::counted(heads, "head"),
                            cli::counted(input.keys, "key"), hint, unless));
  } else if (!inside && q.leading.size() >= 2 && k.leading.size() >= 2 && heads > 1 &&
             q.leading.back() == 1 && input.queries == input.keys) {
    report.warn(fmt::format("{} has one head, {} has {}: {}{}", q.dataset.address(),
                            k.dataset.address(), heads, hint, unless));
  } else if (!inside && q.leading == k.leading && q.leading.size() >= 2 && heads > input.queries &&
             input.queries > input.keys && input.keys > 1 && input.queries % input.keys == 0) {
    // Grouped heads, whose numbers differ between q and k by a factor. A note, because short
    // cross-attention has such shapes, too.
    report.note(fmt::format("{} has shape {}, {} has {}: {}{}", q.dataset.address(),
                            to_string(q.dataset.shape()), k.dataset.address(),
                            to_string(k.dataset.shape()), hint, unless));
  }
}

void warn_of_bias(const AttentionInput& input, cli::Report& report) {
  if (!input.bias || element_count(input.bias->dataset.shape()) == 0) return;
  const ArraySource& bias = input.bias->dataset;
  const Index limit = piece_elements(sizeof(double));
  std::vector<double> values(static_cast<std::size_t>(limit));
  bool zeros = false;
  bool ones = false;
  bool others = false;
  // A bias that is no mask has another number in its first rows, or lacks one of both.
  for_each_piece(bias.shape(), limit, [&](const Piece& piece) {
    if (others || (piece.offset > 0 && !(zeros && ones))) return;
    bias.read(piece.start, piece.count, values.data());
    for (Index n = 0; n < piece.size; ++n) {
      const double value = values[static_cast<std::size_t>(n)];
      zeros = zeros || value == 0;
      ones = ones || value == 1;
      others = others || (value != 0 && value != 1);
    }
  });
  if (others || !zeros || !ones) return;
  report.warn(
      fmt::format("{} has no values but 0 and 1, which are added to the scores: if it is a mask, "
                  "with 1 where a query may attend to a key, store it as the dataset mask",
                  bias.address()));
}

void warn_of_lengths(const io::InputBundle& bundle, const AttentionInput& input,
                     cli::Report& report) {
  const Index hidden = input.keys - input.queries;
  const bool has_offset = input.options.query_offset || bundle.has("query_offset");
  if (input.causal == Causal::top_left && !has_offset && hidden > input.queries) {
    report.warn(fmt::format(
        "under --causal=top-left no query may attend to the last {} of {} keys: if the queries are "
        "the last ones of the sequence, use --causal=bottom-right",
        hidden, input.keys));
  }
  // Starts without the end of the last sequence look like this.
  for (const char* name : {"cu_seqlens", "cu_seqlens_q", "cu_seqlens_k"}) {
    if (!bundle.has(name) || input.parts.empty()) continue;
    const bool of_keys = std::string(name) == "cu_seqlens_k";
    const Index length = of_keys ? input.stored_keys : input.stored_queries;
    Index end = 0;
    for (const OwnPart& part : input.parts) {
      end =
          std::max(end, of_keys ? part.range.col0 + part.keys() : part.range.row0 + part.queries());
    }
    if (end == length) continue;
    report.warn(fmt::format("{} ends at {} of {} {}: the rest counts as padding",
                            bundle.dataset(name).address(), end, length,
                            of_keys ? "keys" : "queries"));
  }
  const bool pads_keys = std::any_of(input.parts.begin(), input.parts.end(), [&](const auto& part) {
    return part.keys() < input.keys && part.queries() == input.queries;
  });
  if (pads_keys && input.queries == input.keys && bundle.has("key_length") &&
      !bundle.has("query_length")) {
    report.note(bundle.dataset("key_length").address() +
                " shortens the keys alone, and queries of padding count: add query_length if this "
                "is self-attention");
  }
}

void warn_of_attributes(const io::InputBundle& bundle, cli::Report& report) {
  const std::string prefix = "attn_";
  std::vector<std::string> known = {"alpha", "hybrid"};
  for (const std::string& name : score_attributes()) known.push_back(name.substr(prefix.size()));
  for (const std::string& name : bundle.attribute_names()) {
    if (!name.starts_with(prefix)) continue;
    const std::string own = name.substr(prefix.size());
    if (std::find(known.begin(), known.end(), own) != known.end()) continue;
    const std::string near = cli::nearest(own, known);
    if (near.empty()) continue;
    report.warn(fmt::format("{}: attribute {} is not read: did you mean {}{}?",
                            bundle.description(), name, prefix, near));
  }
}

void warn_of_scale(const std::vector<Scheme>& schemes, const AttentionInput& input,
                   cli::Report& report) {
  if (!input.q) return;
  const Index depth = input.q->weights ? input.q->weights->cols : input.q->input.cols;
  const double divisor = std::sqrt(static_cast<double>(depth));
  const double scale = input.options.scale;
  if (depth < 2 || !(std::abs(scale * divisor - 1) < 1e-3)) return;
  const bool is_scaled = std::any_of(schemes.begin(), schemes.end(), [&](Scheme scheme) {
    return input.options.energy_of(scheme) == "scaled-dot";
  });
  if (!is_scaled) return;
  report.warn(
      fmt::format("scale {:.6g} is 1/sqrt({}), by which the energy scaled-dot is multiplied "
                  "already: leave out --scale (attribute attn_scale), or use --energy dot",
                  scale, depth));
}

void warn_of_mask(const AttentionInput& input, cli::Report& report) {
  if (!input.mask) return;
  struct Found {
    bool closed = false;
    bool excludes_own = false;
    bool only_last = false;
    bool transposed = false;
  };
  // By block and own part: heads often share a mask.
  std::map<std::array<Index, 5>, Found> known;
  const bool of_self = input.queries == input.keys;
  Index count = 0;
  Index closed = 0;
  Index excludes_own = 0;
  Index only_last = 0;
  Index transposed = 0;
  for (Index n = 0; n < input.own_problems(); ++n) {
    const Index problem = input.own_problem(n);
    const TileRange& own = input.part(problem).range;
    if (own.rows == 0 || own.cols == 0) continue;
    const auto [found, is_new] =
        known.try_emplace({input.mask->block(problem), own.row0, own.rows, own.col0, own.cols});
    if (is_new) {
      MaskBlock block(input, problem);
      found->second = {block.allows_nothing(), of_self && block.excludes_own_place(),
                       block.allows_only_last(), of_self && block.is_causal_transposed()};
    }
    ++count;
    if (found->second.only_last) ++only_last;
    if (found->second.transposed) ++transposed;
    if (found->second.closed) {
      ++closed;
    } else if (found->second.excludes_own) {
      ++excludes_own;
    }
  }
  const auto warn = [&](const std::string& what, Index of) {
    if (of == 0) return;
    report.warn(
        fmt::format("{} {} in {} of {}: a query may attend to a key where the mask is true (not "
                    "0); if yours is "
                    "true where a key is hidden, as key_padding_mask and attn_mask of "
                    "torch.nn.MultiheadAttention are, invert it",
                    input.mask->dataset.address(), what, of, cli::counted(count, "head")));
  };
  warn("allows no pair", closed);
  warn("lets no query attend to the key at its own place", excludes_own);
  if (transposed > 0) {
    report.warn(fmt::format(
        "{} allows each query its own key and later ones alone in {} of {}, the transpose of a "
        "causal mask: if yours has axes (..., keys, queries), save numpy.swapaxes(mask, -1, -2)",
        input.mask->dataset.address(), transposed, cli::counted(count, "head")));
  }
  if (only_last > 0 && only_last + closed == count) {
    report.note(fmt::format(
        "{} allows only the last keys of each sequence, as with padding on the left; if padding "
        "is on the right, invert the mask: a query may attend to a key where it is true",
        input.mask->dataset.address()));
  }
}

std::string advice_on_mask(const Shape& mask, const AttentionInput& input) {
  const Index heads = input.k ? axis_of_heads(input.k->input.dataset.shape()) : 1;
  if (heads > 1 && !mask.empty() && mask.back() == heads && mask.back() != input.keys) {
    return layout_hint;
  }
  const bool by_sequence = input.leading.size() >= 2 && mask.size() >= 2 &&
                           mask.front() == input.leading.front() && mask.back() == input.keys;
  if (by_sequence && mask.size() == 2) {
    return "a padding mask (batch, keys) is mask[:, None, None, :]; or name the number of keys of "
           "each sequence key_length";
  }
  if (by_sequence && mask.size() == 3 && mask[1] == input.queries) {
    return "a mask (batch, queries, keys) for all heads is mask[:, None, :, :]";
  }
  if (mask == join(input.leading, {input.keys})) {
    return "a mask (..., keys) of each head is mask[..., None, :]";
  }
  if (mask.size() < 2) return "";
  const Index rows = mask[mask.size() - 2];
  if (rows == input.keys && mask.back() == input.queries && rows != mask.back()) {
    return "with axes (..., keys, queries), save numpy.swapaxes(mask, -1, -2)";
  }
  const bool is_longer = rows > input.queries || mask.back() > input.keys;
  if (is_longer && (rows == 1 || rows >= input.queries) && mask.back() >= input.keys) {
    return fmt::format("if it is made for longer sequences, save mask[..., :{}, :{}]",
                       rows == 1 ? 1 : input.queries, input.keys);
  }
  return "";
}

}  // namespace attn::tools
