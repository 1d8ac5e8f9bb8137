#pragma once

#include <functional>

#include "reference/reference.hpp"

/// Gradients by the formulas of MATHEMATICS.md §2 as plain loops over whole matrices in long
/// double, with a matrix for every half-step of Sinkhorn; and by central differences, which use no
/// formulas.
namespace attn::reference {

struct SchemeGradient {
  Matrix scores;           ///< dS, 0 where s is −inf
  Matrix v;                ///< πᵀ dO
  long double hybrid = 0;  ///< du; hnas only
};

/// For the loss Σ_i ⟨dO_i, o_i⟩, where o is the output of v under a scheme.
SchemeGradient differentiate(const Matrix& scores, Scheme scheme, double hybrid, Index iterations,
                             const Matrix& v, const Matrix& grad_out);

/// For the loss Σ_qt G_qt w_qt of transport_weights, of costs over γ.
struct TransportGradient {
  Matrix scores;
  Matrix preference;  ///< 0 for keys that are masked or can go nowhere, and for rows without any
  Matrix cost;
};
TransportGradient differentiate_transport(const Matrix& scores, const Matrix& preference,
                                          const Matrix& cost, const Matrix& grad_weights);

/// dE from dS: multiplied by the scale and by the slope of the soft cap at scale·energy.
Matrix energy_gradient(const Matrix& grad_scores, const Matrix& energies, const Terms& terms);

struct VectorGradients {
  Matrix q;
  Matrix k;
  Matrix w;   ///< W or W1
  Matrix w2;  ///< (A,1)
  Matrix b1;  ///< (A,1)
};

/// From dE, the gradient with respect to the energies without a scale.
VectorGradients differentiate_energies(EnergyKind kind, const Matrix& q, const Matrix& k,
                                       const Matrix& grad);
VectorGradients differentiate_bilinear(const Matrix& q, const Matrix& k, const Matrix& w,
                                       const Matrix& grad);
VectorGradients differentiate_mlp(const Matrix& q, const Matrix& k, const Matrix& w1,
                                  const Matrix& w2, const Matrix& b1, const Matrix& grad);

/// (loss(x + h) − loss(x − h)) / 2h for every element of x in turn, which `loss` reads; x is
/// restored afterwards. Entries that are not finite get 0.
Matrix central_differences(Matrix& x, const std::function<long double()>& loss, long double step);

}  // namespace attn::reference
