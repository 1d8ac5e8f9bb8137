#pragma once

#include <optional>
#include <string>

#include "cli/command.hpp"
#include "io/input.hpp"
#include "io/output.hpp"
#include "scheme/scheme.hpp"
#include "score/energy.hpp"
#include "score/scores.hpp"

namespace attn::tools {

/// How scores are made, as asked for on a command line or recorded in a bundle.
struct ScoreOptions {
  enum class Source {
    vectors,  ///< from q and k
    scores,   ///< ready-made, from the dataset scores
    weights,  ///< there are none, only weights: never asked for, see explain-away-stats
  };
  Source source = Source::vectors;
  EnergyKind energy = EnergyKind::scaled_dot;
  double scale = 1;
  std::optional<std::string>
      causal;  ///< "" where the alignment is left open, "top-left", "bottom-right"
};

/// Declares --energy, --scale, --causal and --from. `inherited`: their defaults are what the bundle
/// says was used to make it.
void declare_score_options(cli::Declaration& declaration, bool inherited);

/// The options given; with `recorded`, those not given come from its attn_* attributes where it has
/// them. Throws Error(input) on an attribute that makes no sense.
ScoreOptions resolve_score_options(const cli::Arguments& arguments,
                                   const io::InputBundle* recorded);

/// Throws Error(usage) where the alignment is open and Lq ≠ Lk.
Causal resolve_causal(const ScoreOptions& options, Index queries, Index keys);

/// Writes attn_energy, attn_scale, attn_causal and attn_source, and their counterparts in `params`.
void record_score_options(const ScoreOptions& options, Causal causal, io::OutputBundle& output);
void report_score_options(const ScoreOptions& options, Causal causal, cli::Report& report);

/// "unas", ... and back; nullopt for another word.
std::string scheme_name(Scheme scheme);
std::optional<Scheme> scheme_of(const std::string& name);

/// "scaled-dot", "none", "top-left": the words of the command line and the attributes.
std::string energy_name(EnergyKind energy);
std::string causal_name(Causal causal);

}  // namespace attn::tools
