#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/mechanisms/mechanism_estimate.hpp"
#include "hard_attention/sampling_options.hpp"
#include "mechanisms/hard_moments.hpp"

namespace attn::tools {

/// Variance and bias of a single sample under some of the devices, over the sequences of a section.
class EstimateRow {
 public:
  EstimateRow(std::string devices, const mechanisms::HardSampling& sampling, bool has_baseline);

  /// Throws Error(numerical) for moments beyond the range of float64.
  void add(const mechanisms::HardStep& step, const mechanisms::HardDraw& draw, double baseline);

  const std::string& devices() const { return devices_; }

  // NaN if there is none.
  double variance() const { return variance_ / sequences_; }
  double exact_variance() const { return exact_variance_ / sequences_; }
  double exact_bias() const { return exact_bias_ / sequences_; }
  double baseline() const { return baseline_ / sequences_; }
  double best() const { return best_ / with_best_; }
  double bias() const { return bias_; }  ///< in standard errors

  template <class Archive>
  friend void archive(Archive& with, EstimateRow& row) {
    for (double* const sum :
         {&row.sequences_, &row.variance_, &row.exact_variance_, &row.exact_bias_, &row.baseline_,
          &row.best_, &row.with_best_, &row.bias_}) {
      archive(with, *sum);
    }
  }

 private:
  void add_bias(const mechanisms::HardStep& step, const mechanisms::HardMoments& exact,
                const mechanisms::HardMoments& sampled, double baseline);

  std::string devices_;
  mechanisms::HardSampling sampling_;
  bool has_baseline_;
  // Sums over the sequences.
  double sequences_ = 0, variance_ = 0, exact_variance_ = 0, exact_bias_ = 0, baseline_ = 0;
  double best_ = 0, with_best_ = 0;
  double bias_ = 0;
};

/// Samples for the sequences of a section, and the gradients that they estimate.
template <class T>
class SampledGradients : public MechanismEstimate<T> {
 public:
  explicit SampledGradients(const SamplingOptions& options);

  std::int64_t sequence_bytes(const mechanisms::Sizes& sizes) const override;
  std::int64_t working_bytes(const mechanisms::Sizes& sizes, Index count,
                             int threads) const override;
  void change(const mechanisms::Batch<T>& piece, Index first,
              const mechanisms::Tensors<T>& grad_results, int threads) override;
  void save(SavingArchive& to) override { archive_all(to); }
  void load(LoadingArchive& from) override { archive_all(from); }
  std::string report(nlohmann::ordered_json& result) const override;

 private:
  double baseline_of(const mechanisms::HardStep& step) const;

  template <class Archive>
  void archive_all(Archive& with) {
    archive(with, running_);
    for (EstimateRow& row : rows_) archive(with, row);
  }

  const SamplingOptions options_;
  double running_ = 0;
  std::vector<EstimateRow> rows_;
};

}  // namespace attn::tools
