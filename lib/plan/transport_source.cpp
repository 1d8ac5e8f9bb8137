#include "plan/transport_source.hpp"

#include "gradient/energy_gradient.hpp"
#include "gradient/gradient.hpp"
#include "score/energy.hpp"

namespace attn::plan {

void TransportSource::require_one() {
  const bool points = x_.present() && y_.present();
  const int sources = int{cost_.present()} + int{scores_.present()} + int{points};
  if (sources != 1 || x_.present() != y_.present()) {
    throw Error(Failure::input, "expected exactly one of cost, scores, and x with y");
  }
  if (points) {
    rows_ = x_.axis(0);
    cols_ = y_.axis(0);
    y_.require_block({cols_, x_.axis(1)});
  } else {
    const PlanArray& matrix = cost_.present() ? cost_ : scores_;
    rows_ = matrix.axis(0);
    cols_ = matrix.axis(1);
  }
  if (scores_.present() && epsilon_ != 1) {
    throw Error(Failure::usage, "epsilon requires a cost or points: scores are taken as they are");
  }
}

std::int64_t TransportSource::bytes(std::size_t element_size, int threads) const {
  if (!has_points()) return 0;
  return product_energy_bytes(EnergyKind::gaussian, rows_, cols_, depth(), element_size) +
         product_gradient_bytes(EnergyKind::gaussian, rows_, cols_, depth(), element_size,
                                gradient_lanes(cols_, threads));
}

template <class T>
SourceScores<T>::SourceScores(const TransportSource& source, const T* cost, const T* scores,
                              const TransportPoints<T>& points,
                              const MatrixSource<std::uint8_t>* mask) {
  const Index rows = source.rows();
  const Index cols = source.cols();
  if (source.has_points()) {
    energy_ = points.energy->make(points.from);
  } else {
    matrix_.emplace(source.has_cost() ? source.cost_.name() : source.scores_.name(),
                    source.has_cost() ? cost : scores, rows, cols, source.of_cost());
    energy_ = make_stored_energy<T>(*matrix_, rows, cols, 1, source.unit());
  }
  typename Scores<T>::Terms terms;
  terms.energy = energy_.get();
  terms.mask = mask;
  scores_.emplace(terms);
}

template class SourceScores<float>;
template class SourceScores<double>;

}  // namespace attn::plan
