#include "score/rank_energy.hpp"

#include <stdexcept>
#include <utility>

#include "kernel/ranks.hpp"
#include "score/scores.hpp"

namespace attn {
namespace {

template <class T>
class RankEnergy final : public Energy<T> {
 public:
  RankEnergy(std::unique_ptr<Energy<T>> own, Index first, Index rows)
      : own_(std::move(own)), first_(first), rows_(rows) {
    struct Known {
      ScoreBounds bounds;
      bool same_in_any_range = true;
    };
    Known known;
    if (own_->rows() > 0) {
      known.bounds.intermediate = own_->bound();
      known.bounds.energy = own_->magnitude();
      known.same_in_any_range = own_->same_in_any_range();
    }
    for (const Known& of_rank : kernel::gathered(*kernel::Ranks::current(), known)) {
      bounds_ = bounds_.joined(of_rank.bounds);
      same_in_any_range_ = same_in_any_range_ && of_rank.same_in_any_range;
    }
  }

  Index rows() const override { return rows_; }
  Index cols() const override { return own_->cols(); }

  void fill(const TileRange& range, MatrixView<T> out) const override {
    own_->fill(among_own(range), out);
  }
  bool fill_exponentials(const TileRange& range, MatrixView<T> out, double* row_sum,
                         double* col_sum, double* row_product) const override {
    return own_->fill_exponentials(among_own(range), out, row_sum, col_sum, row_product);
  }

  double bound() const override { return bounds_.intermediate; }
  double magnitude() const override { return bounds_.energy; }
  bool may_forbid() const override { return own_->may_forbid(); }
  bool same_in_any_range() const override { return same_in_any_range_; }

 private:
  TileRange among_own(const TileRange& range) const {
    const Index row0 = range.row0 - first_;
    if (row0 < 0 || row0 + range.rows > own_->rows()) {
      throw std::logic_error("a rank needs energies of queries that it does not have");
    }
    return {row0, range.rows, range.col0, range.cols};
  }

  std::unique_ptr<Energy<T>> own_;
  Index first_;
  Index rows_;
  ScoreBounds bounds_;
  bool same_in_any_range_ = true;
};

}  // namespace

template <class T>
std::unique_ptr<Energy<T>> make_rank_energy(std::unique_ptr<Energy<T>> own, Index first,
                                            Index rows) {
  return std::make_unique<RankEnergy<T>>(std::move(own), first, rows);
}

template std::unique_ptr<Energy<float>> make_rank_energy(std::unique_ptr<Energy<float>>, Index,
                                                         Index);
template std::unique_ptr<Energy<double>> make_rank_energy(std::unique_ptr<Energy<double>>, Index,
                                                          Index);

}  // namespace attn
