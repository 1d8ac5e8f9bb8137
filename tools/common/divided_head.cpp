#include "common/divided_head.hpp"

#include <chrono>

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

template class HeadDivision<float>;
template class HeadDivision<double>;

}  // namespace attn::tools
