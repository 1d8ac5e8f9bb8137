#include "io/lookup.hpp"

#include <algorithm>
#include <utility>

#include "tensor/error.hpp"

namespace attn::io {

std::string joined_path(const std::string& path, const std::string& name) {
  return path == "/" ? "/" + name : path + "/" + name;
}

std::string address_text(const std::string& label, const std::string& path) {
  return path == "/" ? label : label + ":" + path;
}

std::vector<std::string> names_of(h5::Kind kind, hid_t group, const std::string& what) {
  std::vector<std::string> names;
  for (h5::Link& link : h5::links(group, what)) {
    if (h5::kind_of(group, link.name) == kind) names.push_back(std::move(link.name));
  }
  return names;
}

namespace {

/// "(there are: k, tokens, v)"
std::string listing(const std::vector<std::string>& names) {
  constexpr std::size_t most = 20;
  if (names.empty()) return "(there are none)";
  std::string text = "(there are: " + names[0];
  for (std::size_t i = 1; i < std::min(names.size(), most); ++i) text += ", " + names[i];
  if (names.size() > most) text += ", and " + std::to_string(names.size() - most) + " more";
  return text + ")";
}

const char* described(h5::Kind kind) {
  switch (kind) {
    case h5::Kind::group:
      return "a group";
    case h5::Kind::dataset:
      return "a dataset";
    default:
      return "neither a dataset nor a group";
  }
}

const char* word_for(h5::Kind kind) { return kind == h5::Kind::group ? "group" : "dataset"; }

}  // namespace

void refuse_missing(const std::string& where, h5::Kind kind, const std::string& name,
                    const std::vector<std::string>& there) {
  throw Error(Failure::input, where + ": no " + word_for(kind) + " " + name + " " + listing(there));
}

void refuse_path(const InputFile& file, const std::string& path, h5::Kind wanted) {
  std::string group = "/";
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string upto = path.substr(0, end);
    const std::string where = address_text(file.label, upto);
    const h5::Kind expected = end == std::string::npos ? wanted : h5::Kind::group;
    const h5::Kind found = h5::kind_of(file.handle.get(), upto);
    if (found == h5::Kind::absent) {
      const h5::Handle parent(H5Oopen(file.handle.get(), group.c_str(), H5P_DEFAULT), H5Oclose);
      if (h5::linked(file.handle.get(), upto)) {
        throw Error(Failure::input, where + " is a link that leads nowhere");
      }
      refuse_missing(address_text(file.label, group), expected,
                     upto.substr(group == "/" ? 1 : group.size() + 1),
                     names_of(expected, parent.get(), address_text(file.label, group)));
    }
    if (found != expected) {
      throw Error(Failure::input,
                  where + " is " + described(found) + ", expected " + described(expected));
    }
    group = upto;
  }
  throw Error(Failure::input, address_text(file.label, path) + " cannot be opened");
}

}  // namespace attn::io
