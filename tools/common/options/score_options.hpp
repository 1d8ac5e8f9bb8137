#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attnkit/attention.hpp"
#include "cli/command.hpp"
#include "common/results/settings.hpp"
#include "head/operand.hpp"
#include "io/input.hpp"
#include "io/output.hpp"
#include "scheme/scheme.hpp"
#include "score/energy.hpp"
#include "score/scores.hpp"

namespace attn::tools {

/// The options that define the scores, from the command line or as recorded in a bundle.
struct ScoreOptions {
  enum class Source {
    vectors,     ///< from q and k
    projection,  ///< q, k and v are x (and y) times wq, wk, wv
    scores,      ///< ready-made, from the dataset scores
    cost,        ///< −cost/epsilon, from the dataset cost: only in sinkhorn-iter
    templates,   ///< from templates t and evidence z in the places of k and q: only in lambda-solve
    weights,     ///< no scores, only weights: set by explain-away-stats, not an option
  };
  using Relative = RelativePositions;
  using Layout = HeadLayout;

  Source source = Source::vectors;
  std::string energy = "scaled-dot";  ///< the name of one of lib/energy
  /// For schemes with a preference: the energy was given, or recorded by a run of such a scheme.
  bool energy_chosen = false;
  double scale = 1;
  double epsilon = 1;  ///< for a cost
  double alpha = 1;    ///< for fenchel and transport, multiplies the scale
  double gamma = 1;    ///< for transport, divides the scale and the costs
  std::optional<std::string>
      causal;  ///< "" if the alignment is left open, "top-left", "bottom-right"
  Relative relative = Relative::none;
  Window window;
  std::optional<Index> query_offset;  ///< the position of query 0; else the dataset query_offset
  std::optional<double> softcap;
  Layout layout = Layout::heads_first;
  bool layout_chosen = false;  ///< given or recorded
  /// Packed sequences are problems of their own, along a first leading axis.
  bool by_sequence = false;
  bool bf16 = false;  ///< products of bfloat16 numbers, in float32

  /// Which of scale, causal, window and softcap are given or recorded.
  std::vector<std::string> chosen;

  /// Whether scores depend on the positions of queries and keys.
  bool by_position() const {
    return causal.has_value() || !window.is_open() || relative != Relative::none;
  }

  /// A scheme with a preference has its own default energy (SchemeDescription::usual_energy).
  std::string energy_of(Scheme scheme) const;
};

/// "f32", "f64" or "bf16".
std::string precision_name(const ScoreOptions& options, bool f64);

/// The same in words: "float32", "float64" or "bfloat16".
std::string precision_words(const ScoreOptions& options, bool f64);

/// Whether the recorded precision, attn_precision, is f64; absent if none is recorded. Throws
/// Error(input) for an unknown one.
std::optional<bool> recorded_f64(const io::InputBundle& bundle);

/// The purpose of the scores: attention; attention under unas and dnas only; transport, which may
/// have a cost; the dual, for inner products only.
enum class ScoreUse { attention, unas_and_dnas, transport, dual };

/// Declares the score options. `inherited`: their defaults are the settings recorded in the bundle;
/// for attention, --scale may then have several values.
void declare_score_options(cli::Declaration& declaration, bool inherited,
                           ScoreUse use = ScoreUse::attention);

/// The given options; with `recorded`, other options come from its attn_* attributes, if present.
/// Throws Error(input) for an attribute with an invalid value.
ScoreOptions resolve_score_options(const cli::Arguments& arguments,
                                   const io::InputBundle* recorded);

/// Settings that `recorded` has and `used` does not: "energy dot, scale 0.3"; empty if there are
/// none.
std::string settings_left(const ScoreOptions& recorded, const ScoreOptions& used);

/// Warns that `settings` are not used.
void warn_of_settings_left(const std::string& settings, cli::Report& report);

/// `has_offset`: the position of query 0 is given. Throws Error(usage) if the alignment is left
/// open and Lq ≠ Lk without an offset, and for an offset together with bottom-right, which has its
/// own.
Causal resolve_causal(const ScoreOptions& options, Index queries, Index keys, bool has_offset);

/// Throws Error(usage): --causal without a word does not say how these queries and keys align.
/// `place` begins the message: "a.h5: " or "".
[[noreturn]] void refuse_open_causal(Index queries, Index keys, const std::string& place);

/// The values of score_attributes() (result_kinds.hpp), in the order in which they are written.
std::vector<std::pair<std::string, Setting>> score_settings(const ScoreOptions& options,
                                                            Scheme scheme, Causal causal);

/// Writes these settings to `params`.
void report_score_options(const ScoreOptions& options, Causal causal, cli::Report& report);

/// "unas", ... and back; nullopt for another word.
std::string scheme_name(Scheme scheme);
std::optional<Scheme> scheme_of(const std::string& name);

/// "none", "top-left": the words of the command line and the attributes.
std::string causal_name(Causal causal);

}  // namespace attn::tools
