#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "attn_train/mechanism_model_task.hpp"

namespace attn::tools {

/// The common part of objectives whose examples are sequences of many lengths with one question
/// each. Their metrics are loss and accuracy. A derived class adds its splits. Base is the task of
/// a model.
template <class T, class Base = MechanismModelTask<T>>
class ExampleTask : public Base {
 public:
  Index cut_pairs() const override { return cut_; }

 protected:
  using Base::Base;

  nlohmann::ordered_json metrics(const train::Prediction& found) const override {
    return common_metrics(found);
  }
  bool has_many_lengths() const override { return true; }
  std::pair<Index, Index> longest() const override { return longest_; }

  /// The batches of a split, whose sources and inputs have at most these tokens; `cut` of them were
  /// cut.
  void add_batches(Split split, std::unique_ptr<train::Batches> batches,
                   std::pair<Index, Index> longest, Index cut = 0) {
    longest_ = {std::max(longest_.first, longest.first), std::max(longest_.second, longest.second)};
    cut_ += cut;
    this->set_batches(split, std::move(batches));
  }

 private:
  std::pair<Index, Index> longest_;
  Index cut_ = 0;
};

}  // namespace attn::tools
