#include "io/hdf5/lookup.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "attnkit/error.hpp"
#include "io/address.hpp"
#include "tensor/utf8.hpp"

namespace attn::io {

std::string joined_path(const std::string& path, const std::string& name) {
  return path == "/" ? "/" + name : path + "/" + name;
}

std::string address_text(const std::string& label, const std::string& path) {
  return path == "/" ? label : label + ":" + path;
}

std::string path_there(const Object& group, const std::string& path, h5::Kind kind,
                       const std::string& address) {
  const auto is_there = [&](const std::string& tried) {
    const auto found = open_object(group.file, group.handle.get(), tried, address + "/" + tried);
    return found && found->kind == kind;
  };
  if (path.find('.') == std::string::npos || is_there(path)) return path;
  const std::string slashed = with_slashes(path);
  return is_there(slashed) ? slashed : path;
}

std::vector<std::string> names_of(h5::Kind kind, const Object& group, const std::string& address) {
  std::vector<std::string> names;
  for (h5::Link& link : h5::links(group.handle.get(), address)) {
    const auto object =
        open_object(group.file, group.handle.get(), link.name, address + "/" + link.name);
    if (object && object->kind == kind) names.push_back(std::move(link.name));
  }
  return names;
}

namespace {

/// "(there are: k, tokens, v)", or another beginning.
std::string listing(const std::vector<std::string>& names,
                    const std::string& beginning = "there are: ") {
  constexpr std::size_t most = 20;
  if (names.empty()) return "(there are none)";
  std::string text = "(" + beginning + names[0];
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
                    const std::vector<std::string>& there, const std::string& hint) {
  const auto near = std::find_if(there.begin(), there.end(), [&](const std::string& stored) {
    return same_but_case(stored, name);
  });
  throw Error(Failure::input, where + ": no " + word_for(kind) + " " + name + " " + listing(there),
              hint.empty() && near != there.end() ? "did you mean " + *near + "?" : hint);
}

void refuse_missing(const std::string& where, h5::Kind kind, const std::string& name,
                    const Object& group, const std::string& hint) {
  std::vector<std::string> there;
  std::vector<std::string> groups;
  for (h5::Link& link : h5::links(group.handle.get(), where)) {
    h5::Kind found = kind;
    try {
      const auto object = open_object(group.file, group.handle.get(), link.name, where);
      if (object) found = object->kind;
    } catch (const Error&) {
      // The link exists, whatever it leads to.
    }
    if (found == h5::Kind::group) groups.push_back(link.name);
    if (found == kind) there.push_back(std::move(link.name));
  }
  if (there.empty() && !groups.empty()) {
    const std::string below = where + (where.find(":/") == std::string::npos ? ":/" : "/");
    throw Error(Failure::input,
                where + ": no dataset " + name + " " + listing(groups, "there are only groups: "),
                hint.empty() ? below + groups.front() + " is the first of them" : hint);
  }
  refuse_missing(where, kind, name, there, hint);
}

void refuse_kind(const std::string& address, h5::Kind found, h5::Kind wanted) {
  throw Error(Failure::input,
              address + " is " + described(found) + ", expected " + described(wanted));
}

namespace {

/// The way to a missing object: a dot separates groups if the first of them exists.
std::string walked_path(const std::shared_ptr<const InputFile>& file, const std::string& path) {
  const std::string slashed = with_slashes(path);
  const std::string first = slashed.substr(0, slashed.find('/', 1));
  if (path.starts_with(first + "/")) return path;
  const auto group = open_object(file, file->handle.get(), first, address_text(file->label, first));
  return group && group->kind == h5::Kind::group ? slashed : path;
}

}  // namespace

Object require_object(const std::shared_ptr<const InputFile>& file, const std::string& path,
                      h5::Kind wanted) {
  const std::string address = address_text(file->label, path);
  std::optional<Object> found = open_object(file, file->handle.get(), path, address);
  if (found && found->kind != wanted) refuse_kind(address, found->kind, wanted);
  if (found) return std::move(*found);
  const std::string way = walked_path(file, path);
  std::string group = "/";
  for (std::size_t end = 0;;) {
    end = way.find('/', end + 1);
    const std::string upto = way.substr(0, end);
    const h5::Kind expected = end == std::string::npos ? wanted : h5::Kind::group;
    const std::string where = address_text(file->label, upto);
    auto part = open_object(file, file->handle.get(), upto, where);
    if (part && part->kind != expected) refuse_kind(where, part->kind, expected);
    if (part && end == std::string::npos) return std::move(*part);
    if (!part) {
      const std::string parent = address_text(file->label, group);
      refuse_missing(parent, expected, upto.substr(group == "/" ? 1 : group.size() + 1),
                     *open_object(file, file->handle.get(), group, parent));
    }
    group = upto;
  }
}

}  // namespace attn::io
