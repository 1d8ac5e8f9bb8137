#pragma once

#include <utility>
#include <vector>

#include "parallel/stop_flag.hpp"
#include "sinkhorn/sinkhorn.hpp"
#include "sinkhorn/sinkhorn_state.hpp"

namespace attn {

/// The state of a solution by Sinkhorn's iterations, kept where there is a keeper.
class WatchedSolution {
 public:
  /// `keeper` may be null. `errors` has the errors of all iterations so far, which are kept with
  /// the state; null: no errors are kept. Both must outlive the object.
  WatchedSolution(SinkhornProgress* keeper, const std::vector<double>* errors)
      : keeper_(keeper), errors_(errors), start_(keeper == nullptr ? nullptr : keeper->start()) {}

  /// The present state, without errors and iteration.
  SinkhornState now;

  /// The state from which to resume, until it is taken; null: there is none.
  const SinkhornState* start() const { return start_; }
  const SinkhornState* take_start() { return std::exchange(start_, nullptr); }

  /// Calls body(). Keeps the state as the latest iteration began, so that what follows the
  /// iterations may be stopped, too.
  template <class Body>
  void run(const Body& body) {
    try {
      body();
    } catch (const Stopped&) {
      keep();
      throw;
    }
    keep();
  }

  /// For SinkhornIteration::iterate; empty if nothing is kept.
  IterationWatch watch() {
    if (keeper_ == nullptr) return {};
    return [this](IterationState&& state) {
      last_ = now;
      last_.iteration = std::move(state);
      has_begun_ = true;
      if (keeper_->is_due()) keep();
    };
  }

 private:
  // There may be millions of errors: a state has them only while it is kept.
  void keep() {
    if (!has_begun_) return;
    if (errors_ != nullptr) {
      last_.errors.assign(errors_->begin(), errors_->begin() + last_.iterations);
    }
    keeper_->keep(last_);
    last_.errors = {};
  }

  SinkhornProgress* keeper_;
  const std::vector<double>* errors_;
  const SinkhornState* start_;
  SinkhornState last_;  // as the latest iteration began
  bool has_begun_ = false;
};

}  // namespace attn
