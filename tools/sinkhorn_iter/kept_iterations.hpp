#pragma once

#include <optional>

#include "common/runs/checkpoint.hpp"
#include "sinkhorn/sinkhorn_state.hpp"

namespace attn::tools {

template <class Archive>
void archive(Archive& with, IterationState& state) {
  archive(with, state.refers_to_zero);
  for (PooledVector<double>* const values :
       {&state.row_reference, &state.col_reference, &state.row_factor, &state.col_factor,
        &state.row, &state.col}) {
    archive(with, *values);
  }
  archive(with, state.relaxation);
  archive(with, state.have_row);
}

template <class Archive>
void archive(Archive& with, SinkhornState& state) {
  archive(with, state.temperature);
  archive(with, state.closer);
  archive(with, state.aim);
  archive(with, state.most);
  archive(with, state.iterations);
  archive(with, state.last_error);
  archive(with, state.fall);
  archive(with, state.relaxation);
  archive(with, state.errors);
  archive(with, state.iteration);
}

/// The iterations of the problem in progress, as the state of a checkpoint.
class KeptIterations final : public SinkhornProgress {
 public:
  explicit KeptIterations(Checkpoint& checkpoint) : checkpoint_(checkpoint) {
    if (!checkpoint.has_state()) return;
    from_.emplace();
    checkpoint.load_state([&](LoadingArchive& with) { archive(with, *from_); });
  }

  const SinkhornState* start() const override { return from_ ? &*from_ : nullptr; }
  bool is_due() override { return checkpoint_.is_due(); }
  void keep(SinkhornState& state) override {
    checkpoint_.keep_state([&](SavingArchive& with) { archive(with, state); });
    checkpoint_.write_if_due();
  }

 private:
  Checkpoint& checkpoint_;
  std::optional<SinkhornState> from_;
};

}  // namespace attn::tools
