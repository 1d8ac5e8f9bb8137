#include "io/copy_objects.hpp"

#include <vector>

#include "io/copy_dataset.hpp"
#include "io/dataset_creation.hpp"
#include "io/output_attribute.hpp"
#include "tensor/error.hpp"

namespace attn::io {
namespace {

bool nothing(const std::string&) { return false; }

}  // namespace

void ObjectCopier::copy_members(hid_t group, const std::string& address, const std::string& path) {
  copied_.emplace(h5::identity(group), path.empty() ? "/" : path);
  for (const h5::Link& link : h5::links(group, address, true)) {
    const std::string below = path.empty() ? link.name : path + "/" + link.name;
    if (!skip_(below)) copy_link(group, link, address + "/" + link.name, below);
  }
}

void ObjectCopier::copy_link(hid_t group, const h5::Link& link, const std::string& address,
                             const std::string& path) {
  const bool symbolic = link.type != H5L_TYPE_HARD;
  const bool stays = link.type == H5L_TYPE_SOFT && keep_soft_links_;
  if (symbolic && (stays || h5::kind_of(group, link.name) == h5::Kind::absent)) {
    return copy_symbolic(group, link, address, path);
  }
  const h5::Handle object(H5Oopen(group, link.name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object) {
    throw Error(Failure::input, address + " cannot be opened: " + h5::last_reason().text);
  }
  copy_object(object.get(), address, path);
}

void ObjectCopier::copy_object(hid_t object, const std::string& address, const std::string& path) {
  const auto [found, is_new] = copied_.emplace(h5::identity(object), path);
  if (!is_new) {
    output_.check(H5Lcreate_hard(output_.root(), found->second.c_str(), output_.root(),
                                 path.c_str(), link_properties().get(), H5P_DEFAULT),
                  output_.address_of(path), address);
    return;
  }
  if (has_scales(object)) {
    H5Iinc_ref(object);
    scaled_.push_back({h5::Handle(object, H5Oclose), path});
  }
  switch (H5Iget_type(object)) {
    case H5I_GROUP:
      return copy_group(object, address, path);
    case H5I_DATASET:
      return copy_dataset(object, address, output_, path);
    case H5I_DATATYPE:
      return copy_type(object, address, path);
    default:
      throw Error(Failure::input, address + " cannot be copied: it is of an unknown kind");
  }
}

void ObjectCopier::copy_group(hid_t group, const std::string& address, const std::string& path) {
  const h5::Handle creation = h5::made(H5Gget_create_plist(group), H5Pclose, "properties");
  h5::require(H5Pset_obj_track_times(creation.get(), false), "properties");
  const h5::Handle copy =
      output_.own(H5Gcreate2(output_.root(), path.c_str(), link_properties().get(), creation.get(),
                             H5P_DEFAULT),
                  H5Gclose, output_.address_of(path), address);
  copy_attributes(group, address, output_, copy.get(), nothing);
  copy_members(group, address, path);
}

void ObjectCopier::copy_type(hid_t type, const std::string& address, const std::string& path) {
  const h5::Handle creation = h5::properties(H5P_DATATYPE_CREATE);
  h5::require(H5Pset_obj_track_times(creation.get(), false), "properties");
  const h5::Handle copy = output_.own(H5Tcopy(type), H5Tclose, output_.address_of(path));
  output_.check(H5Tcommit2(output_.root(), path.c_str(), copy.get(), link_properties().get(),
                           creation.get(), H5P_DEFAULT),
                output_.address_of(path), address);
  copy_attributes(type, address, output_, copy.get(), nothing);
}

void ObjectCopier::copy_symbolic(hid_t group, const h5::Link& link, const std::string& address,
                                 const std::string& path) {
  H5L_info_t info{};
  if (H5Lget_info(group, link.name.c_str(), &info, H5P_DEFAULT) < 0) {
    throw Error(Failure::input, address + " is a link that cannot be read");
  }
  std::vector<char> value(info.u.val_size + 1);
  if (H5Lget_val(group, link.name.c_str(), value.data(), value.size(), H5P_DEFAULT) < 0) {
    throw Error(Failure::input, address + " is a link that cannot be read");
  }
  herr_t status = 0;
  if (link.type == H5L_TYPE_SOFT) {
    status = H5Lcreate_soft(value.data(), output_.root(), path.c_str(), link_properties().get(),
                            H5P_DEFAULT);
  } else if (link.type == H5L_TYPE_EXTERNAL) {
    const char* file = nullptr;
    const char* object = nullptr;
    h5::require(H5Lunpack_elink_val(value.data(), info.u.val_size, nullptr, &file, &object),
                "link");
    status = H5Lcreate_external(file, object, output_.root(), path.c_str(), link_properties().get(),
                                H5P_DEFAULT);
  }
  // Other links mean something to the program alone that registered their type.
  output_.check(status, output_.address_of(path), address);
}

}  // namespace attn::io
