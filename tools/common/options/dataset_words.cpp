#include "common/options/dataset_words.hpp"

#include <fmt/format.h>

#include "energy/energy_description.hpp"

namespace attn::tools {
namespace {

const char* word_of(OperandLength length) {
  switch (length) {
    case OperandLength::query_depth:
      return "dq";
    case OperandLength::key_depth:
      return "dk";
    case OperandLength::both_depths:
      return "dq + dk";
    case OperandLength::one:
    case OperandLength::hidden:
      break;
  }
  return "A";
}

std::string shape_of(const EnergyOperand& operand) {
  if (operand.is_vector()) return fmt::format("({})", word_of(operand.cols));
  return fmt::format("({}, {})", word_of(operand.rows), word_of(operand.cols));
}

}  // namespace

void declare_score_datasets(cli::Declaration& declaration) {
  declaration
      .dataset("q", "(..., Lq, d)",
               "queries; float16, float32 or float64. They may have a multiple of the key heads "
               "(grouped-query attention)")
      .dataset("k", "(..., Lk, d)", "keys; leading axes broadcast against those of q")
      .dataset("x", "(..., L, D)", "with --from projection: the input of the layer")
      .dataset("y", "(..., Lk, D)",
               "with --from projection: the input for keys and values, by default x")
      .dataset("wq, wk", "(H, D, d)", "with --from projection: the projections of each head")
      .dataset("bq, bk", "(H, d)", "with --from projection: their biases, optional")
      .dataset("q_norm, k_norm", "(d), (H, d) or (H*d)",
               "with --from projection: the weights of an RMS norm of projected queries and keys, "
               "for each head, or over all heads (H*d)")
      .dataset("q_layer_norm, k_layer_norm, q_layer_norm_bias, k_layer_norm_bias",
               "(d), (H, d) or (H*d)", "the same for a layer norm; its biases are optional")
      .dataset("norm_epsilon", "scalar", "what these norms add to the variance")
      .dataset(
          "rotary, rotary_interleaved", "(n) or (2, n)",
          "with --from projection: rotary positions, after the norm: the angle per position of "
          "each pair of channels, in radians, and if given the factor of each pair. Pairs are "
          "channels i and i + n, or 2i and 2i + 1 (interleaved); other channels stay")
      .dataset("mask", "broadcastable to (..., Lq, Lk)",
               "boolean or integer; a query may attend to a key where it is non-zero")
      .dataset("bias", "broadcastable to (..., Lq, Lk)", "added to the scores; -inf is allowed")
      .dataset("rel_bias", "(buckets, H)", "with --relative-bias t5: the table of biases")
      .dataset("query_length, key_length", "(B), or broadcastable to the leading axes",
               "the number of real queries and keys of each sequence; all others are padding, "
               "which is never read. Each sequence is computed as if it were alone")
      .dataset("query_start, key_start", "(B), or broadcastable to the leading axes",
               "the first real query and key of each sequence, for padding on the left")
      .dataset(
          "cu_seqlens, cu_seqlens_q, cu_seqlens_k", "(S + 1)",
          "where S packed sequences begin, and their end: 0, ..., L. A query may attend to keys "
          "of its own sequence only, and its position counts from there. _q and _k go together, "
          "for queries and keys that begin elsewhere")
      .dataset("segment_ids, q_segment_ids, kv_segment_ids", "(L), or (B, L)",
               "the same by a number for each token")
      .dataset("query_offset", "(B), or broadcastable to the leading axes",
               "the position of each sequence's first query among its keys, as --query-offset");
}

void declare_energy_datasets(cli::Declaration& declaration) {
  for (const EnergyDescription* energy : energies()) {
    for (const EnergyOperand& operand : energy->operands()) {
      declaration.dataset(operand.name, shape_of(operand),
                          fmt::format("with --energy {}: {}{}", energy->name(), operand.help,
                                      operand.required ? "" : ", optional"));
    }
  }
  declaration.dataset("scores", "(..., Lq, Lk)", "with --from scores: ready-made scores");
}

void declare_value_datasets(cli::Declaration& declaration) {
  declaration.dataset("v", "(..., Lk, dv)", "values; without them there is no output of the layer")
      .dataset("wv", "(H, D, dv)", "with --from projection: the projection of the values")
      .dataset("bv", "(H, dv)", "with --from projection: its bias, optional")
      .dataset("gate", "broadcastable to (..., Lq, dv)",
               "an output gate, in the layout of out: out is multiplied by 1/(1 + exp(-gate))");
}

void declare_groups_member(cli::Declaration& declaration) {
  declaration.report_member("groups",
                            "for several groups or INPUTs: an array with the members of each, its "
                            "name as \"group\" (of several INPUTs, also \"file\"), and the options "
                            "that differ between them as \"params\"");
}

}  // namespace attn::tools
