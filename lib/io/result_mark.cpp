#include "io/result_mark.hpp"

#include "attnkit/error.hpp"
#include "io/hdf5/h5_attribute.hpp"
#include "io/hdf5/open_dataset.hpp"
#include "io/input_bundle.hpp"

namespace attn::io {
namespace {

std::optional<Object> dataset_at(const InputBundle& bundle, const std::string& path) {
  const std::optional<InputBundle::Impl::Root>& root = bundle.impl().root;
  if (!root || root->file->flat) return std::nullopt;
  try {
    std::optional<Object> found = root->find(path);
    if (found && found->kind == h5::Kind::dataset) return found;
  } catch (const Error& error) {
    if (error.failure() != Failure::input) throw;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> result_mark_of(const InputBundle& bundle, const std::string& path) {
  const h5::Lock lock;
  const std::optional<Object> found = dataset_at(bundle, path);
  if (!found) return std::nullopt;
  const h5::Handle dataset(H5Dopen2(found->parent.get(), found->name.c_str(), H5P_DEFAULT),
                           H5Dclose);
  if (!dataset) return std::nullopt;
  try {
    return h5::text_attribute(dataset.get(), result_mark, path);
  } catch (const Error& error) {
    if (error.failure() != Failure::input) throw;
    return std::nullopt;  // written by another program
  }
}

bool may_be_result(const InputBundle& bundle, const std::string& path) {
  const h5::Lock lock;
  return dataset_at(bundle, path).has_value();
}

}  // namespace attn::io
