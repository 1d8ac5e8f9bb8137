#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tensor/shape.hpp"

namespace attn::tools {

/// Numbers in ascending order, NaN last. Every figure of no numbers is NaN.
class Distribution {
 public:
  explicit Distribution(std::vector<double> numbers);

  double mean() const;
  double quantile(double probability) const;
  double min() const { return quantile(0); }
  double median() const { return quantile(0.5); }
  double max() const { return quantile(1); }

  Index below(double limit) const;

 private:
  std::vector<double> sorted_;
};

/// The numbers of step `step`, from numbers (sets, times).
Distribution numbers_of_step(const std::vector<double>& numbers, Index times, Index step);

/// {"min", "median", "max"}
nlohmann::ordered_json range_json(const Distribution& numbers);

/// Whether a table of `times` steps shows `step`: at most about 40 lines, with the first and the
/// last.
bool is_shown(Index step, Index times);

/// Right-aligned in ten columns, "-" for a NaN.
std::string figure_text(double value);

}  // namespace attn::tools
