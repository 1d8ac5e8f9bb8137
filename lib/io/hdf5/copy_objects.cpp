#include "io/hdf5/copy_objects.hpp"

#include "attnkit/error.hpp"
#include "io/hdf5/dataset_creation.hpp"
#include "io/hdf5/output_attribute.hpp"

namespace attn::io {
namespace {

bool nothing(const std::string&) { return false; }

}  // namespace

void ObjectCopier::copy_members(const Object& group, const std::string& address) {
  copied_.emplace(h5::identity(group.handle.get()), "/");
  GroupWalk walk;
  walk.links = [](hid_t listed, const std::string& what) { return h5::links(listed, what, true); };
  walk.visit = [&](const GroupWalk::Member& member) { return copy_member(member); };
  walk.leave = [&] { groups_.pop_back(); };
  walk.run(group.again(), address);
  attach_scales(scaled_, copied_, output_);
}

/// Copies a member; returns it if it is a group whose members must be copied next.
std::optional<Object> ObjectCopier::copy_member(const GroupWalk::Member& member) {
  if (skip_(member.path)) return {};
  const hid_t group = groups_.empty() ? output_.root() : groups_.back().get();
  const bool is_there = h5::linked(group, member.link.name);
  if (is_there && h5::kind_of(group, member.link.name) != h5::Kind::group) return {};
  std::optional<Object> object;
  try {
    object =
        open_object(member.group.file, member.group.handle.get(), member.link.name, member.address);
  } catch (const Error& error) {
    if (error.failure() != Failure::input || !error.hint().empty()) throw;
    throw Error(Failure::input, error.what(), "use --only, which copies nothing from INPUT");
  }
  if (!object) return {};
  if (is_there && object->kind != h5::Kind::group) return {};
  const CopyTarget target = {group, member.link.name, member.path};
  if (member.link.type == H5L_TYPE_SOFT && keep_soft_links_ && !is_there) {
    const LinkTarget link =
        link_target(member.group.handle.get(), member.link.name, member.address);
    output_.check(
        H5Lcreate_soft(link.path.c_str(), group, target.name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
        output_.address_of(target.path), member.address);
    return {};
  }
  if (object->kind == h5::Kind::dataset) {
    const OpenDataset dataset(*object, member.address);
    if (is_copied(h5::identity(dataset.handle()), member.address, target)) return {};
    keep_scales(dataset.handle(), member.path);
    copy_dataset(dataset, output_, target);
    return {};
  }
  const hid_t opened = object->handle.get();
  if (is_there) {
    join_group(*object, member.address, target);
    return object;
  }
  if (is_copied(h5::identity(opened), member.address, target)) return {};
  if (object->kind == h5::Kind::group) {
    copy_group(*object, member.address, target);
    return object;
  }
  copy_type(opened, member.address, target);
  return {};
}

/// Whether the object was copied before; if so, a link to that copy is made.
bool ObjectCopier::is_copied(const std::string& identity, const std::string& address,
                             const CopyTarget& target) {
  const auto [found, is_new] = copied_.emplace(identity, target.path);
  if (is_new) return false;
  output_.check(H5Lcreate_hard(output_.root(), found->second.c_str(), target.group,
                               target.name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                output_.address_of(target.path), address);
  return true;
}

void ObjectCopier::keep_scales(hid_t dataset, const std::string& path) {
  if (!has_scales(dataset)) return;
  H5Iinc_ref(dataset);
  scaled_.push_back({h5::Handle(dataset, H5Dclose), path});
}

void ObjectCopier::copy_group(const Object& group, const std::string& address,
                              const CopyTarget& target) {
  const h5::Handle creation =
      h5::made(H5Gget_create_plist(group.handle.get()), H5Pclose, "properties");
  h5::require(H5Pset_obj_track_times(creation.get(), false), "properties");
  h5::Handle copy = output_.own(
      H5Gcreate2(target.group, target.name.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      H5Gclose, output_.address_of(target.path), address);
  copy_attributes(group.handle.get(), address, output_, copy.get(), nothing);
  groups_.push_back(std::move(copy));
}

// What the group of the output lacks is added to it.
void ObjectCopier::join_group(const Object& group, const std::string& address,
                              const CopyTarget& target) {
  copied_.emplace(h5::identity(group.handle.get()), target.path);
  h5::Handle there = output_.own(H5Gopen2(target.group, target.name.c_str(), H5P_DEFAULT), H5Gclose,
                                 output_.address_of(target.path), address);
  const hid_t id = there.get();
  copy_attributes(group.handle.get(), address, output_, id,
                  [&](const std::string& name) { return H5Aexists(id, name.c_str()) > 0; });
  groups_.push_back(std::move(there));
}

void ObjectCopier::copy_type(hid_t type, const std::string& address, const CopyTarget& target) {
  const h5::Handle creation = h5::properties(H5P_DATATYPE_CREATE);
  h5::require(H5Pset_obj_track_times(creation.get(), false), "properties");
  const h5::Handle copy = output_.own(H5Tcopy(type), H5Tclose, output_.address_of(target.path));
  output_.check(H5Tcommit2(target.group, target.name.c_str(), copy.get(), H5P_DEFAULT,
                           creation.get(), H5P_DEFAULT),
                output_.address_of(target.path), address);
  copy_attributes(type, address, output_, copy.get(), nothing);
}

}  // namespace attn::io
