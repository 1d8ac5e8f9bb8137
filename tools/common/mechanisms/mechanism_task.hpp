#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/results/results.hpp"
#include "common/shards/problem_share.hpp"
#include "io/input.hpp"
#include "mechanisms/form.hpp"

namespace attn::tools {

/// Whether all sequences share the tensor, a weight.
inline bool is_shared(const mechanisms::TensorForm& form) {
  return form.kind == mechanisms::TensorForm::Kind::shared;
}

/// The task of a tool that computes a mechanism, for one section: INPUT, or one group of it. The
/// form of the mechanism says which datasets it reads and writes; datasets of sequences have the
/// same leading axes. The gradient of an input x is the result grad_x, from the inputs grad_RESULT.
struct MechanismTask {
  /// Checks everything but the numbers. `settings` are the settings of its results. Throws
  /// Error(input) for missing and mismatched datasets, Error(usage) for results that cannot be
  /// computed from them.
  MechanismTask(const cli::Arguments& arguments, io::InputBundle section,
                const mechanisms::MechanismForm& form, Settings settings);

  /// Whether `bundle` has all inputs that the mechanism needs.
  static bool suffices(const io::InputBundle& bundle, const mechanisms::MechanismForm& form);

  std::vector<ArraySource> datasets() const;
  RunEffect effect(const cli::Arguments& arguments) const;
  void report_params(cli::Report& report) const;

  bool wants_gradients() const;

  /// Every sequence is a unit, unless a gradient sums over sequences.
  ProblemUnits units() const;

  /// The work of each sequence, which grows with its lengths.
  std::vector<double> work() const;

  struct Input {
    Shape leading;
    Index problems = 1;                   ///< sequences
    std::shared_ptr<ProblemShare> share;  ///< of a shard, sequences that follow each other

    /// The sequences to compute: the first, and their number.
    Index own_first() const { return share ? share->problem(0) : 0; }
    Index own_problems() const { return share ? share->size() : problems; }
  };
  using Found = std::vector<std::optional<ArraySource>>;

  const mechanisms::MechanismForm& form;
  io::InputBundle bundle;
  Input input;
  mechanisms::Sizes sizes;
  bool f64 = false;
  // In the order of the form.
  Found inputs, tokens, lengths, upstream;
  std::vector<bool> results;    ///< whether a result is written
  std::vector<bool> gradients;  ///< whether the gradient of an input is written

 private:
  void find();
  void require_known(const std::vector<std::string>& asked) const;
  void take_results(const cli::Arguments& arguments);

  Settings settings_;
};

/// Declares --emit, the datasets and the results of a mechanism.
void declare_mechanism(cli::Declaration& declaration, const mechanisms::MechanismForm& form);

/// "grad_x".
std::string gradient_of(const std::string& name);

}  // namespace attn::tools
