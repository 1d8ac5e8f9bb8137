#pragma once

#include <memory>
#include <optional>

#include "attnkit/attention.hpp"
#include "mechanisms/mechanism.hpp"
#include "mechanisms/multi_view_form.hpp"

namespace attn::mechanisms {

/// Multi-view attention (MATHEMATICS.md §8; EA B): each row of a primary view x gathers rows of
/// secondary views S_v, which are used as values without a projection.
///
///   out = LayerNorm(x + Σ_v π_v S_v),  π_v = weights of the queries x W_Q and the keys S_v W_Kv
///
/// The scores are scale·⟨q, k⟩/√A. LayerNorm is over the features of each row, with 1e-5 added to
/// the variance. Views without their own W_Kv share one, which is then required. A view without
/// rows adds nothing. If the view or x has no rows, column sums are 0 and potentials −∞. Under
/// hnas, u is the option `hybrid` or, without it, an input. A u outside [0, 1], D = 0 and A = 0
/// throw Error(input). Sinkhorn that does not converge throws Error(numerical). Memory O((N + Σ
/// M_v)(D + A)), unless the weights are requested; backward repeats the forward pass.
struct MultiView {
  enum Input : std::size_t {
    x,
    view,
    wq = view + most_views,
    wk,
    own_wk,
    gain = own_wk + most_views,
    shift,
    hybrid
  };
  enum Result : std::size_t {
    out,
    weights,
    col_sum = weights + most_views,
    row_potential = col_sum + most_views,
    col_potential = row_potential + most_views,
    unas_row_potential = col_potential + most_views
  };

  struct Options {
    Scheme scheme = Scheme::unas;  ///< neither fenchel nor transport
    double scale = 1;
    std::optional<double> hybrid;  ///< only for hnas
    Stopping stopping;             ///< only for sinkhorn

    HybridForm hybrid_form() const {
      if (scheme != Scheme::hnas) return HybridForm::none;
      return hybrid ? HybridForm::fixed : HybridForm::input;
    }
  };

  static const MechanismForm& form(const Options& options);

  template <class T>
  static std::unique_ptr<Mechanism<T>> make(const Options& options);
};

}  // namespace attn::mechanisms
