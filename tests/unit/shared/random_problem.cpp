#include "random_problem.hpp"

namespace attn::testing {

template class Problem<float>;
template class Problem<double>;

}  // namespace attn::testing
