#pragma once

#include "scheme/scheme_description.hpp"
#include "tensor/pooled_vector.hpp"

namespace attn {

/// Implements a SchemeDescription's functions for both types by templates of Derived:
///
///   template <class T> void solve_for(const Scores<T>&, const SchemeOptions&,
///                                     const ObserverList<T>&, int, Attention&) const;
///   template <class T> void show_for(const Scores<T>&, const SchemeOptions&, Potentials&,
///                                    const RowSelection&, const ObserverList<T>&,
///                                    int) const;
///   template <class T> PooledVector<WeightAdjoint<T>> differentiate_for(
///       const Forward<T>&, const TileProduct<T>&, int) const;
template <class Derived>
class TypedScheme : public SchemeDescription {
 public:
  void solve(const Scores<float>& scores, const SchemeOptions& options,
             const ObserverList<float>& observers, int threads, Attention& found) const final {
    self().template solve_for<float>(scores, options, observers, threads, found);
  }
  void solve(const Scores<double>& scores, const SchemeOptions& options,
             const ObserverList<double>& observers, int threads, Attention& found) const final {
    self().template solve_for<double>(scores, options, observers, threads, found);
  }
  void show(const Scores<float>& scores, const SchemeOptions& options, Potentials& potentials,
            const RowSelection& rows, const ObserverList<float>& observers,
            int threads) const final {
    self().template show_for<float>(scores, options, potentials, rows, observers, threads);
  }
  void show(const Scores<double>& scores, const SchemeOptions& options, Potentials& potentials,
            const RowSelection& rows, const ObserverList<double>& observers,
            int threads) const final {
    self().template show_for<double>(scores, options, potentials, rows, observers, threads);
  }
  PooledVector<WeightAdjoint<float>> differentiate(const Forward<float>& forward,
                                                   const TileProduct<float>& products,
                                                   int threads) const final {
    return self().template differentiate_for<float>(forward, products, threads);
  }
  PooledVector<WeightAdjoint<double>> differentiate(const Forward<double>& forward,
                                                    const TileProduct<double>& products,
                                                    int threads) const final {
    return self().template differentiate_for<double>(forward, products, threads);
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

}  // namespace attn
