#include "io/result_mark.hpp"

#include "io/h5_attribute.hpp"
#include "io/input_bundle.hpp"
#include "tensor/error.hpp"

namespace attn::io {

std::optional<std::string> result_mark_of(const InputBundle& bundle, const std::string& path) {
  const std::optional<InputBundle::Impl::Root>& root = bundle.impl().root;
  if (!root || !root->group) return std::nullopt;
  const h5::Lock lock;
  if (h5::kind_of(root->group.get(), path) != h5::Kind::dataset) return std::nullopt;
  const h5::Handle dataset(H5Dopen2(root->group.get(), path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset) return std::nullopt;
  try {
    return h5::text_attribute(dataset.get(), result_mark, path);
  } catch (const Error&) {
    return std::nullopt;  // of somebody else
  }
}

}  // namespace attn::io
