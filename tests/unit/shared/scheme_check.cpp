#include "scheme_check.hpp"

namespace attn::testing {

template Run<float> run_all(const Problem<float>&, const SchemeOptions&, int);
template Run<double> run_all(const Problem<double>&, const SchemeOptions&, int);
template Run<float> run_output(const Problem<float>&, const SchemeOptions&, int);
template Run<double> run_output(const Problem<double>&, const SchemeOptions&, int);
template void check_against_reference(const Problem<float>&, const SchemeOptions&);
template void check_against_reference(const Problem<double>&, const SchemeOptions&);

}  // namespace attn::testing
