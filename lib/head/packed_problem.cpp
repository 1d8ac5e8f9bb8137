#include "head/packed_problem.hpp"

#include <string>

#include "attnkit/error.hpp"
#include "scheme/scheme_description.hpp"

namespace attn {

void require_packing(const Packing& packing, Scheme scheme, RelativePositions relative) {
  const SchemeDescription& description = description_of(scheme);
  const auto refuse = [](const std::string& who) { throw Error(Failure::usage, who); };
  if (description.is_transport())
    refuse("the scheme transport does not keep packed sequences apart");
  const Index unequal = packing.first_unequal();
  if (unequal == packing.sequences()) return;
  const std::string only = " takes packed sequences only with as many keys as queries; sequence " +
                           std::to_string(unequal) + " has " +
                           std::to_string(packing.keys_of(unequal)) + " keys and " +
                           std::to_string(packing.queries_of(unequal)) + " queries";
  if (description.is_iterated()) refuse("the scheme " + std::string(description.name()) + only);
  const bool by_position = relative != RelativePositions::none;
  if (by_position && !packing.common_offset()) refuse("a bias of positions" + only);
}

}  // namespace attn
