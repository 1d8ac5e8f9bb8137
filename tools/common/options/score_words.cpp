#include "common/options/score_words.hpp"

#include <fmt/format.h>

#include "attnkit/attention.hpp"
#include "energy/energy_description.hpp"

namespace attn::tools {
namespace {

ScoreWords words_of_attention() {
  ScoreWords words;
  words.energies = energy_names();
  words.energy = "Energy, the similarity of a query and a key:";
  for (const EnergyDescription* energy : energies()) {
    words.energy += fmt::format(" {} {}{}", energy->name(), energy->formula(),
                                energy == energies().back() ? "." : ",");
  }
  words.scale =
      "Multiplies the energy: scaled-dot becomes X <q,k>/sqrt(d). PyTorch's scale=X is "
      "--energy dot --scale X.";
  words.relative_bias = "Adds a bias that depends on the distance i-j";
  words.softcap = "Replaces the energy e by X tanh(e/X) (soft cap), before bias and mask.";
  words.sources = {"qk", "projection", "scores"};
  return words;
}

}  // namespace

ScoreWords score_words(ScoreUse use) {
  ScoreWords words = words_of_attention();
  switch (use) {
    case ScoreUse::attention:
      words.energy_default = "dot with a scheme that has preferences";
      words.alpha = "Multiplies the energy of schemes with preferences.";
      [[fallthrough]];
    case ScoreUse::unas_and_dnas:
      words.source_default = "qk";
      words.from =
          "Source of the scores. qk: the datasets q and k. projection: q = x wq, k = y wk, v = y "
          "wv per head, plus biases bq, bk, bv, norms and rotary positions if present (y defaults "
          "to x). scores: the dataset "
          "scores.";
      words.layout = "Axes of q, k, v and out";
      break;
    case ScoreUse::transport:
      words.energy_default = "gaussian with --epsilon";
      words.sources.push_back("cost");
      words.from =
          "Source of the scores. qk: the datasets q and k. projection: q = x wq, k = y wk per "
          "head, "
          "plus biases, norms and rotary positions if present (y defaults to x). scores: the "
          "dataset scores. cost: the dataset cost.";
      words.source_default_words =
          "cost if that dataset is present and --epsilon is given, else qk if q and k are present, "
          "else scores";
      words.layout = "Axes of q, k";
      break;
    case ScoreUse::dual:
      words.energies = {"scaled-dot", "dot"};
      words.energy =
          "Templates from q and k are k/sqrt(d) (scaled-dot) or k (dot); templates from "
          "projections are the layer's input, scaled in the same way.";
      words.scale = "Multiplies the templates: with scaled-dot they are X k/sqrt(d).";
      words.relative_bias =
          "Multiplies preferences by exp(bias) of a bias that depends on the distance i-j";
      words.softcap =
          "none: leaves out a recorded soft cap. A number is refused: capped scores are not inner "
          "products of templates.";
      words.alpha = "Weight of the evidence relative to the preferences.";
      words.sources = {"qk", "projection", "templates"};
      words.from =
          "Source of templates and evidence. qk: k and q. projection: y and x wq wk' per head (y "
          "defaults to x), plus biases bq, bv if present. templates: the datasets t and z.";
      words.source_default_words = "templates if t and z are present, else qk";
      words.layout = "Axes of q, k, v and out";
      break;
  }
  return words;
}

}  // namespace attn::tools
