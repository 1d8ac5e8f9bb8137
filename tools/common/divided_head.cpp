#include "common/divided_head.hpp"

#include <chrono>
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
  if (wants_.is_end(problem)) return compute_end(problem, show);
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

template <class T>
std::optional<DividedHead> HeadDivision<T>::compute_end(Index problem, const ShownRows<T>& show) {
  const Scheme shown = wants_.hybrid_of(problem) == 1 ? Scheme::dnas : Scheme::unas;
  std::optional<DividedHead> all;
  for (std::size_t n = 0; n < plan_.ends.size(); ++n) {
    const DividedWants wants = wants_.of_end(end_schemes[n], end_schemes[n] == shown);
    HeadDivision division(input_, wants, plan_.ends[n]);
    std::optional<DividedHead> found = division.compute(problem, show);
    seconds_ += division.seconds();
    if (!found) return std::nullopt;
    if (n == 0) {
      all = std::move(found);
      continue;
    }
    all->attention.potentials.unas_row = std::move(found->attention.potentials.row);
    if (end_schemes[n] != shown) continue;
    all->col_sum = std::move(found->col_sum);
    all->row_entropy = std::move(found->row_entropy);
  }
  return all;
}

template class HeadDivision<float>;
template class HeadDivision<double>;

}  // namespace attn::tools
