#include "common/heads/foreign_names.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "common/heads/packed_sequences.hpp"
#include "io/input.hpp"
#include "tensor/pieces.hpp"

namespace attn::tools {
namespace {

using Names = std::vector<std::string>;

/// Datasets of other programs with the same meaning.
struct Meaning {
  std::string what;
  Names names;
  Names read;        ///< the datasets that are read in their place
  std::string hint;  ///< {0} is the name
};

Names with(Names names, const Names& more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

// Each of them is about one side.
const Meaning& packing_of_sides() {
  static const Meaning meaning = {
      "packs several sequences into one under a name that is not read",
      {"cu_seqlens_kv", "cu_seq_lens_q", "cu_seq_lens_k"},
      with(packing_names(), {"mask"}),
      "--map cu_seqlens_q=NAME,cu_seqlens_k=NAME takes the names of queries and of keys"};
  return meaning;
}

const Meaning& packing() {
  static const Meaning meaning = {
      "packs several sequences into one under a name that is not read",
      {"cu_seq_lens", "document_id", "document_ids", "doc_ids", "sequence_ids", "seq_idx"},
      with(packing_names(), {"mask"}),
      "--map cu_seqlens={0} if it has where sequences begin, --map segment_ids={0} if it has a "
      "number for each token"};
  return meaning;
}

const Meaning& masks() {
  static const Meaning meaning = {
      "is a mask under a name that is not read",
      {"attention_mask", "attn_mask", "key_padding_mask", "src_key_padding_mask", "padding_mask",
       "encoder_attention_mask", "decoder_attention_mask", "causal_mask", "block_mask", "key_mask",
       "kv_mask", "query_mask"},
      {"mask", "key_length", "key_start"},
      "--map mask={0} if true means may attend, --map bias={0} if it is added to the scores; "
      "key_length if it is padding"};
  return meaning;
}

const Meaning& lengths_of_sequences() {
  static const Meaning meaning = {
      "has lengths under a name that is not read",
      {"length", "lengths", "seqlens", "seqlens_q", "seqlens_k", "seqlens_kv", "seq_len",
       "seq_lens", "seq_lengths", "sequence_length", "sequence_lengths", "seqused_q", "seqused_k",
       "cache_seqlens", "source_length", "target_length"},
      {"key_length", "query_length", "mask"},
      "--map key_length={0}, or query_length={0} for lengths of queries"};
  return meaning;
}

const Meaning& biases() {
  static const Meaning meaning = {
      "is a bias under a name that is not read",
      {"attn_bias", "attention_bias", "position_bias", "relative_position_bias", "alibi_slopes"},
      {"bias"},
      "--map bias={0} if it is added to the scores; --relative-bias has t5 and alibi"};
  return meaning;
}

const Meaning& sinks() {
  static const Meaning meaning = {"is an attention sink under a name that is not read",
                                  {"sinks", "s_aux", "attention_sinks", "learnable_sink"},
                                  {"sink"},
                                  "--map sink={0}"};
  return meaning;
}

/// The names of one option in other programs.
struct OptionName {
  std::string option;
  Names names;
  std::size_t most_axes = 0;  ///< of a dataset that says the same
  std::string hint;
};

const std::vector<OptionName>& option_names() {
  static const std::vector<OptionName> all = {
      {"scale",
       {"scale", "scaling", "softmax_scale", "sm_scale"},
       0,
       "--energy dot --scale X multiplies the products of q and k by X; --scale 1 keeps 1/sqrt(d)"},
      {"causal", {"causal", "is_causal"}, 0, "--causal=top-left, bottom-right or none"},
      {"window", {"window_size", "sliding_window"}, 1, "--window LEFT:RIGHT or none"},
      {"softcap", {"softcap", "logits_soft_cap", "attn_logit_softcapping"}, 0, "--softcap X"},
  };
  return all;
}

bool has_any(const io::InputBundle& bundle, const Names& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return bundle.has(name); });
}

bool is_one_of(const std::string& name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// By --map bias=attn_mask, say.
bool is_bias(const io::InputBundle& bundle, const std::string& name) {
  return bundle.has("bias") && bundle.dataset("bias").address() == bundle.dataset(name).address();
}

void refuse_names(const io::InputBundle& bundle, const Meaning& meaning) {
  if (has_any(bundle, meaning.read)) return;
  for (const std::string& name : meaning.names) {
    if (!bundle.has(name) || is_bias(bundle, name)) continue;
    throw Error(Failure::usage, bundle.dataset(name).address() + " " + meaning.what,
                fmt::format(fmt::runtime(meaning.hint), name));
  }
}

/// Whether the numbers of some row do not rise by 1.
bool begins_anew(const ArraySource& positions) {
  const Shape& shape = positions.shape();
  const Index width = shape.empty() ? 1 : shape.back();
  const Index limit = piece_elements(sizeof(std::int64_t));
  std::vector<std::int64_t> values(static_cast<std::size_t>(limit));
  std::int64_t before = 0;
  bool anew = false;
  for_each_piece(shape, limit, [&](const Piece& piece) {
    positions.read(piece.start, piece.count, values.data());
    for (Index n = 0; n < piece.size; ++n) {
      const std::int64_t value = values[static_cast<std::size_t>(n)];
      anew = anew || ((piece.offset + n) % width != 0 && value - 1 != before);
      before = value;
    }
  });
  return anew;
}

// Above groups, where a requested attribute is warned of, a scale is mostly the 1/√d that is
// applied already: it is not requested.
bool has_setting(const io::InputBundle& bundle, const OptionName& meaning,
                 const std::string& name) {
  if (meaning.option == "scale") return is_one_of(name, bundle.attribute_names());
  return bundle.has_attribute(name);
}

void refuse_options(const io::InputBundle& bundle, const ScoreOptions& options) {
  // There is a separate warning about datasets of -i that nothing reads.
  const io::InputBundle own = bundle.without_named();
  for (const OptionName& meaning : option_names()) {
    if (is_one_of(meaning.option, options.chosen)) continue;
    for (const std::string& name : meaning.names) {
      std::string found;
      if (has_setting(bundle, meaning, name)) found = own.description() + ": attribute " + name;
      if (own.is_dataset(name)) {
        const ArraySource dataset = own.dataset(name);
        if (dataset.shape().size() <= meaning.most_axes) found = dataset.address();
      }
      if (found.empty()) continue;
      throw Error(Failure::usage, found + " is not read: --" + meaning.option + " says it",
                  meaning.hint);
    }
  }
}

}  // namespace

void require_no_foreign_names(const io::InputBundle& bundle, const ScoreOptions& options) {
  refuse_names(bundle, packing_of_sides());
  refuse_names(bundle, packing());
  refuse_names(bundle, masks());
  refuse_names(bundle, lengths_of_sequences());
  refuse_names(bundle, sinks());
  if (options.relative == ScoreOptions::Relative::none) refuse_names(bundle, biases());
  const std::string positions = "position_ids";
  const Names said = with(masks().read, packing_names());
  if (bundle.has(positions) && !has_any(bundle, said)) {
    const ArraySource dataset = bundle.dataset(positions);
    // Others hold no numbers of positions.
    if (is_integral(dataset.dtype()) && begins_anew(dataset)) {
      throw Error(
          Failure::usage,
          dataset.address() + " begins anew within a row: it packs several sequences into one",
          "cu_seqlens or segment_ids says where they begin");
    }
  }
  if (options.source != ScoreOptions::Source::weights) refuse_options(bundle, options);
}

void require_no_masks(const io::InputBundle& bundle, const std::vector<std::string>& lengths) {
  if (has_any(bundle, lengths)) return;
  const std::string hint = fmt::format("it reads lengths: {}", fmt::join(lengths, ", "));
  Meaning own = {
      "is not read by this tool",
      with(packing_names(), {"mask", "key_length", "query_length", "key_start", "query_start"}),
      {},
      hint};
  refuse_names(bundle, own);
  for (const Meaning* meaning :
       {&packing_of_sides(), &packing(), &masks(), &lengths_of_sequences()}) {
    refuse_names(bundle, {meaning->what, meaning->names, {}, hint});
  }
}

void refuse_other_names(const io::InputBundle& bundle, const std::string& name,
                        const std::vector<std::string>& others) {
  const io::InputBundle own = bundle.without_named();
  for (const std::string& other : others) {
    if (!own.is_dataset(other)) continue;
    throw Error(Failure::input,
                fmt::format("{}: no dataset {}, nor q and k", bundle.description(), name),
                fmt::format("--map {}={}", name, other));
  }
}

}  // namespace attn::tools
