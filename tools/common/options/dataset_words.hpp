#pragma once

#include "cli/command.hpp"

// The parts of the man pages that several tools share. They declare no options.

namespace attn::tools {

/// Declares the datasets from which scores are computed: queries and keys, or projections of a
/// layer's input, with their mask, biases and lengths.
void declare_score_datasets(cli::Declaration& declaration);

/// Declares the datasets of the bilinear and mlp energies, and ready-made scores.
void declare_energy_datasets(cli::Declaration& declaration);

/// Declares v and the projections wv and bv.
void declare_value_datasets(cli::Declaration& declaration);

/// Declares the member `groups` of reports with --each.
void declare_groups_member(cli::Declaration& declaration);

// The publications, as the man pages cite them.
inline constexpr const char* doubly_normalized_reference =
    "Doubly-normalized Attention. Submission to ICLR 2020.";
inline constexpr const char* explain_away_reference =
    "N. Ding, X. Fan, Z. Lan, D. Schuurmans, R. Soricut: Attention that does not Explain Away. "
    "arXiv:2009.14308, 2020.";
inline constexpr const char* mechanisms_reference =
    "M. Tutek: Attention mechanisms in deep neural networks. Notes, 2018.";
inline constexpr const char* scale_invariant_reference =
    "Y. Wang, Y. Liu, Z.-M. Ma: The Scale-Invariant Space for Attention Layer in Neural Network. "
    "Neurocomputing, 2020. doi:10.1016/j.neucom.2020.01.090.";
inline constexpr const char* fenchel_reference =
    "H. Lu, Y. Mao, M. Fraser: Attention as Inference via Fenchel Duality. 2021.";

}  // namespace attn::tools
