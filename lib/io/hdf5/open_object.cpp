#include "io/hdf5/open_object.hpp"

#include <utility>
#include <vector>

#include "attnkit/error.hpp"
#include "io/input_files.hpp"

namespace attn::io {
namespace {

[[noreturn]] void refuse_address(const std::string& address, const std::string& why) {
  throw Error(Failure::input, address + " " + why);
}

[[noreturn]] void refuse_unopened(const std::string& address) {
  refuse_address(address, "cannot be opened: " + h5::last_reason().text);
}

/// A second owner of the same identifier.
h5::Handle shared(hid_t id) {
  if (id < 0) return {};
  h5::require(H5Iinc_ref(id) < 0 ? -1 : 0, "object");
  return h5::Handle(id, H5Idec_ref);
}

h5::Kind kind_of_link(hid_t group, const std::string& name, const std::string& address) {
#if H5_VERSION_GE(1, 12, 0)
  H5O_info2_t info;
  const herr_t status =
      H5Oget_info_by_name3(group, name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT);
#else
  H5O_info_t info;
  const herr_t status =
      H5Oget_info_by_name2(group, name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT);
#endif
  if (status < 0) refuse_unopened(address);
  switch (info.type) {
    case H5O_TYPE_GROUP:
      return h5::Kind::group;
    case H5O_TYPE_DATASET:
      return h5::Kind::dataset;
    default:
      return h5::Kind::other;
  }
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start < path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string part = path.substr(start, end - start);
    if (!part.empty() && part != ".") parts.push_back(part);
    start = end + 1;
  }
  return parts;
}

class Follower {
 public:
  explicit Follower(const std::string& address) : address_(address) {}

  std::optional<Object> follow(std::shared_ptr<const InputFile> file, hid_t location,
                               const std::string& path) {
    const bool from_root = !path.empty() && path.front() == '/';
    h5::Handle here = shared(from_root ? file->handle.get() : location);
    const std::vector<std::string> parts = parts_of(path);
    if (parts.empty()) return itself(std::move(file), std::move(here));
    for (std::size_t n = 0;; ++n) {
      std::optional<Object> next = step(file, here, parts[n]);
      if (!next || n + 1 == parts.size()) return next;
      // Nothing can lie below a dataset.
      if (next->kind != h5::Kind::group) return {};
      file = std::move(next->file);
      here = std::move(next->handle);
    }
  }

 private:
  std::optional<Object> itself(std::shared_ptr<const InputFile> file, h5::Handle here) {
    Object object;
    object.handle = h5::Handle(H5Oopen(here.get(), ".", H5P_DEFAULT), H5Oclose);
    if (!object.handle) refuse_unopened(address_);
    object.kind = H5Iget_type(object.handle.get()) == H5I_GROUP ? h5::Kind::group : h5::Kind::other;
    object.file = std::move(file);
    object.parent = std::move(here);
    object.name = ".";
    return object;
  }

  std::optional<Object> step(const std::shared_ptr<const InputFile>& file, const h5::Handle& here,
                             const std::string& name) {
    const htri_t exists = H5Lexists(here.get(), name.c_str(), H5P_DEFAULT);
    if (exists < 0) refuse_unopened(address_);
    if (exists == 0) return {};
    const LinkTarget target = link_target(here.get(), name, address_);
    switch (target.type) {
      case H5L_TYPE_HARD:
        return behind_hard_link(file, here, name);
      case H5L_TYPE_SOFT:
        return behind(target, follow_link(file, here.get(), target.path));
      default:
        return behind(target, follow_external(file, target));
    }
  }

  Object behind_hard_link(const std::shared_ptr<const InputFile>& file, const h5::Handle& here,
                          const std::string& name) {
    Object object;
    object.kind = kind_of_link(here.get(), name, address_);
    object.file = file;
    object.parent = shared(here.get());
    object.name = name;
    if (object.kind == h5::Kind::dataset) return object;
    object.handle = h5::Handle(H5Oopen(here.get(), name.c_str(), H5P_DEFAULT), H5Oclose);
    if (!object.handle) refuse_unopened(address_);
    return object;
  }

  std::optional<Object> follow_link(std::shared_ptr<const InputFile> file, hid_t here,
                                    const std::string& path) {
    constexpr int most = 40;  // the limit of Linux
    if (++links_ > most) refuse_address(address_, "leads through more than 40 links");
    return follow(std::move(file), here, path);
  }

  std::optional<Object> follow_external(const std::shared_ptr<const InputFile>& file,
                                        const LinkTarget& target) {
    const SourceReference reference = {FollowedSource::Kind::external_link, address_, target.file};
    const std::shared_ptr<const InputFile> other = file->files->source(*file, reference);
    std::optional<Object> found = follow_link(other, other->handle.get(), "/" + target.path);
    if (found) file->files->followed({reference.kind, address_, {other->label}});
    return found;
  }

  Object behind(const LinkTarget& target, std::optional<Object> found) const {
    if (found) return std::move(*found);
    const std::string where = target.file.empty() ? target.path : target.file + ":" + target.path;
    refuse_address(address_, "is a link that leads nowhere: there is no " + where);
  }

  const std::string& address_;
  int links_ = 0;
};

}  // namespace

Object Object::again() const {
  return {file, kind, shared(handle.get()), shared(parent.get()), name};
}

LinkTarget link_target(hid_t group, const std::string& name, const std::string& address) {
  H5L_info_t info{};
  if (H5Lget_info(group, name.c_str(), &info, H5P_DEFAULT) < 0) refuse_unopened(address);
  LinkTarget target{info.type, {}, {}};
  if (info.type == H5L_TYPE_HARD) return target;
  if (info.type != H5L_TYPE_SOFT && info.type != H5L_TYPE_EXTERNAL) {
    refuse_address(address, "is a link of an unknown type");
  }
  std::vector<char> value(info.u.val_size + 1);
  if (H5Lget_val(group, name.c_str(), value.data(), value.size(), H5P_DEFAULT) < 0) {
    refuse_unopened(address);
  }
  if (info.type == H5L_TYPE_SOFT) {
    target.path = value.data();
    return target;
  }
  const char* file = nullptr;
  const char* path = nullptr;
  if (H5Lunpack_elink_val(value.data(), info.u.val_size, nullptr, &file, &path) < 0) {
    refuse_unopened(address);
  }
  target.file = file;
  target.path = path;
  return target;
}

std::optional<Object> open_object(const std::shared_ptr<const InputFile>& file, hid_t location,
                                  const std::string& path, const std::string& address) {
  return Follower(address).follow(file, location, path);
}

}  // namespace attn::io
