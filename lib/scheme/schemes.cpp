#include <algorithm>

#include "attnkit/error.hpp"
#include "scheme/scheme_description.hpp"
#include "scheme/table.hpp"

namespace attn {
namespace {

template <class Condition>
const SchemeDescription* first_with(const Condition& condition) {
  const auto found = std::find_if(schemes().begin(), schemes().end(), condition);
  return found == schemes().end() ? nullptr : *found;
}

}  // namespace

const std::vector<const SchemeDescription*>& schemes() {
  static const std::vector<const SchemeDescription*> all = {&unas_scheme(),    &dnas_scheme(),
                                                            &hnas_scheme(),    &sinkhorn_scheme(),
                                                            &fenchel_scheme(), &transport_scheme()};
  return all;
}

const SchemeDescription& description_of(Scheme scheme) {
  const auto* const found =
      first_with([&](const SchemeDescription* one) { return one->scheme() == scheme; });
  if (found == nullptr) throw Error(Failure::usage, "there is no such scheme");
  return *found;
}

const SchemeDescription* scheme_called(std::string_view name) {
  return first_with([&](const SchemeDescription* one) { return one->name() == name; });
}

}  // namespace attn
