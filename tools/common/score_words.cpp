#include "common/score_words.hpp"

#include "attnkit/attention.hpp"

namespace attn::tools {
namespace {

ScoreWords words_of_attention() {
  ScoreWords words;
  words.energies = energy_names();
  words.energy =
      "What scores are made of: scaled-dot <q,k>/sqrt(d), dot <q,k>, gaussian -|q-k|^2/2, bilinear "
      "q'Wk (dataset w), mlp w2'tanh(W1[q;k]+b1) (datasets w1, w2 and, where there is one, b1).";
  words.scale =
      "Multiplies the energy, 1/sqrt(d) of scaled-dot included: PyTorch's scale=X is --energy dot "
      "--scale X.";
  words.relative_bias = "Adds a bias by distance";
  words.softcap = "Caps energies: X tanh(energy/X), before bias and mask.";
  words.sources = {"qk", "projection", "scores"};
  return words;
}

}  // namespace

ScoreWords score_words(ScoreUse use) {
  ScoreWords words = words_of_attention();
  switch (use) {
    case ScoreUse::attention:
      words.energy += " fenchel is of dot unless told otherwise.";
      words.alpha = "Of fenchel: multiplies the energy.";
      words.source_default = "qk";
      words.from =
          "Scores from q and k; from projections, q = x wq, k = y wk, v = y wv by head (y is x "
          "unless given; biases bq, bk, bv where there are); or ready-made from the dataset "
          "scores.";
      words.layout = "Axes of q, k, v and out";
      break;
    case ScoreUse::transport:
      words.energy += " Default: scaled-dot; with --epsilon gaussian.";
      words.sources.push_back("cost");
      words.from =
          "Scores from q and k; from projections, q = x wq, k = y wk by head (y is x unless "
          "given); ready-made from the dataset scores; or of the dataset cost. Default: cost where "
          "there is one and --epsilon is given, else q and k, else scores.";
      words.layout = "Axes of q, k";
      break;
    case ScoreUse::dual:
      words.energies = {"scaled-dot", "dot"};
      words.energy =
          "Templates of qk are k/sqrt(d) (scaled-dot) or k (dot), of projection the same of the "
          "layer's input.";
      words.scale = "Multiplies the templates, 1/sqrt(d) of scaled-dot included.";
      words.relative_bias = "Preferences exp(bias) by distance";
      words.softcap = "";  // capped scores are no inner products
      words.alpha = "How much the evidence weighs against the preferences.";
      words.sources = {"qk", "projection", "templates"};
      words.from =
          "Templates and evidence from k and q; from projections, y and x wq wk' by head (y is x "
          "unless given; biases bq, bv where there are); or as the datasets t and z. Default: "
          "templates where there are t and z, else qk.";
      words.layout = "Axes of q, k, v and out";
      break;
  }
  return words;
}

}  // namespace attn::tools
