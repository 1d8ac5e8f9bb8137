#include "common/divided_head.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "common/divided_columns.hpp"
#include "common/divided_rows.hpp"
#include "common/divided_small.hpp"
#include "gradient/adjoints.hpp"

namespace attn::tools {

template <class T>
HeadDivision<T>::HeadDivision(const AttentionInput& input, const DividedWants& wants,
                              const DividedPlan& plan, Checkpoint* checkpoint)
    : input_(input),
      wants_(wants),
      plan_(plan),
      reader_(input, plan.dense_limit, plan.threads),
      checkpoint_(checkpoint) {}

template <class T>
std::optional<DividedHead> HeadDivision<T>::compute(Index problem, const ShownRows<T>& show,
                                                    const DividedProgress& progress) {
  if (wants_.is_end(problem)) return compute_end(problem, show, progress);
  const OwnPart& part = input_.part(problem);
  const bool empty = part.queries() == 0 || part.keys() == 0;
  if (wants_.gradients() && !empty && is_small(part.queries(), part.keys())) {
    const auto head = reader_.read(problem);
    const auto start = std::chrono::steady_clock::now();
    DividedHead found = compute_small(input_, wants_, *head, show);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return found;
  }
  const auto find = [&](auto run) {
    std::optional<DividedHead> found = run.run(show);
    seconds_ += run.seconds();
    return found;
  };
  if (divided_steps(wants_).back() == DividedStep::columns) {
    return find(DividedColumns<T>(input_, wants_, plan_, reader_, checkpoint_, problem, progress));
  }
  return find(DividedRows<T>(input_, wants_, plan_, reader_, checkpoint_, problem, progress));
}

// The potentials of the other end come first: what is shown is complete at the end.
template <class T>
std::optional<DividedHead> HeadDivision<T>::compute_end(Index problem, const ShownRows<T>& show,
                                                        DividedProgress progress) {
  const Scheme shown = wants_.scheme_of(problem);
  if (!wants_.both_ends) return compute_as(shown, true, problem, show, progress);
  Potentials other;
  const auto archive_other = [&](auto& with) {
    archive(with, other.row);
    archive(with, other.col);
  };
  const auto before = checkpoint_ ? divided_progress(*checkpoint_) : std::nullopt;
  if (before && before->part > 0) {
    load_archived(before->results, archive_other);
  } else {
    const Scheme scheme = shown == Scheme::dnas ? Scheme::unas : Scheme::dnas;
    std::optional<DividedHead> found = compute_as(scheme, false, problem, {}, progress);
    if (!found) return std::nullopt;
    other = std::move(found->attention.potentials);
  }
  progress.part = 1;
  if (checkpoint_ && checkpoint_->writes()) progress.results = archived_bytes(archive_other);
  std::optional<DividedHead> all = compute_as(shown, true, problem, show, progress);
  if (!all) return std::nullopt;
  Potentials& potentials = all->attention.potentials;
  potentials.unas_row = shown == Scheme::dnas ? std::move(other.row) : std::move(potentials.row);
  if (shown == Scheme::dnas) return all;
  potentials.row = std::move(other.row);
  potentials.col = std::move(other.col);
  return all;
}

// A head at an end of hnas, under one of its schemes.
template <class T>
std::optional<DividedHead> HeadDivision<T>::compute_as(Scheme scheme, bool all, Index problem,
                                                       const ShownRows<T>& show,
                                                       const DividedProgress& progress) {
  const DividedWants wants = wants_.of_end(scheme, all);
  const auto plan = std::find(std::begin(end_schemes), std::end(end_schemes), scheme);
  HeadDivision division(input_, wants,
                        plan_.ends[static_cast<std::size_t>(plan - std::begin(end_schemes))],
                        checkpoint_);
  std::optional<DividedHead> found = division.compute(problem, show, progress);
  seconds_ += division.seconds();
  return found;
}

template class HeadDivision<float>;
template class HeadDivision<double>;

}  // namespace attn::tools
