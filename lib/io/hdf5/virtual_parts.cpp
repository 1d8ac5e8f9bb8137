#include "io/hdf5/virtual_parts.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "attnkit/error.hpp"
#include "io/hdf5/h5_type.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/input_files.hpp"

namespace attn::io {

struct VirtualParts::Part {
  SourceReference reference;  // its file is "." if the source lies in the same file
  std::string path;           // path of the source
  h5::Handle selection;       // selection in the virtual dataset
  h5::Handle source;          // selection in the source
  std::vector<hsize_t> low;   // bounds of `selection`
  std::vector<hsize_t> high;
};

namespace {

std::string text_of(const std::function<ssize_t(char*, std::size_t)>& get) {
  const ssize_t length = get(nullptr, 0);
  if (length < 0) return {};
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  get(text.data(), text.size());
  text.resize(static_cast<std::size_t>(length));
  return text;
}

/// The name if it is a constant: "%%" stands for a percent sign, and "%b" would be the number of a
/// block.
std::optional<std::string> plain_name(const std::string& pattern) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    name += pattern[i];
    if (pattern[i] != '%') continue;
    if (i + 1 < pattern.size() && pattern[i + 1] == 'b') return {};
    if (i + 1 < pattern.size() && pattern[i + 1] == '%') ++i;
  }
  return name;
}

bool selects_all(hid_t space) { return H5Sget_select_type(space) == H5S_SEL_ALL; }

/// Turns a selection of all elements into one that can be intersected with others.
void make_explicit(hid_t space) {
  if (!selects_all(space)) return;
  const std::vector<hsize_t> extents = h5::extents_of(space);
  if (extents.empty()) return;
  h5::select(space, std::vector<hsize_t>(extents.size(), 0),
             std::vector<hsize_t>(extents.size(), 1), extents);
}

/// `selection` on a space with the extents of `space`; empty handle if it does not fit.
h5::Handle selection_on(hid_t space, hid_t selection) {
  h5::Handle made(H5Scopy(space), H5Sclose);
  if (selects_all(selection)) {
    h5::require(H5Sselect_all(made.get()), "selection");
  } else if (H5Sget_simple_extent_ndims(space) != H5Sget_simple_extent_ndims(selection) ||
             H5Sselect_copy(made.get(), selection) < 0 || H5Sselect_valid(made.get()) <= 0) {
    return {};
  }
  return made;
}

/// The lengths of a box or a dataspace without axes of length 1.
std::vector<hsize_t> squeezed(std::vector<hsize_t> lengths) {
  lengths.erase(std::remove(lengths.begin(), lengths.end(), hsize_t{1}), lengths.end());
  return lengths;
}

bool is_unlimited(hid_t space) {
  const auto rank = static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space)));
  if (H5Sget_select_type(space) != H5S_SEL_HYPERSLABS || H5Sis_regular_hyperslab(space) <= 0) {
    return false;
  }
  std::vector<hsize_t> start(rank), stride(rank), count(rank), block(rank);
  h5::require(
      H5Sget_regular_hyperslab(space, start.data(), stride.data(), count.data(), block.data()),
      "selection");
  return std::count(count.begin(), count.end(), H5S_UNLIMITED) > 0 ||
         std::count(block.begin(), block.end(), H5S_UNLIMITED) > 0;
}

h5::Handle intersection(hid_t source, hid_t target, hid_t with) {
  return h5::made(H5Sselect_project_intersection(source, target, with), H5Sclose, "selection");
}

bool is_empty(hid_t space) { return H5Sget_select_npoints(space) == 0; }

constexpr int deepest = 16;
constexpr std::size_t most_open = 16;

}  // namespace

VirtualParts::VirtualParts(hid_t handle, const std::shared_ptr<const InputFile>& file,
                           const std::string& address, int depth)
    : file_(file),
      address_(address),
      depth_(depth),
      creation_(h5::made(H5Dget_create_plist(handle), H5Pclose, "properties")),
      space_(h5::made(H5Dget_space(handle), H5Sclose, "dataspace")) {
  if (depth > deepest) {
    throw Error(
        Failure::input,
        address + " is virtual, and its sources lead through more than 16 virtual datasets");
  }
  std::size_t count = 0;
  if (H5Pget_virtual_count(creation_.get(), &count) < 0) {
    throw Error(Failure::input, address + " cannot be opened: " + h5::last_reason().text);
  }
  std::vector<std::string> files;
  parts_.reserve(count);  // `recent_` points to them
  for (std::size_t index = 0; index < count; ++index) add(creation_.get(), index, files);
  if (!files.empty()) {
    file->files->followed({FollowedSource::Kind::virtual_dataset, address, std::move(files)});
  }
}

VirtualParts::~VirtualParts() = default;

void VirtualParts::add(hid_t creation, std::size_t index, std::vector<std::string>& files) {
  const std::string file = text_of([&](char* text, std::size_t size) {
    return H5Pget_virtual_filename(creation, index, text, size);
  });
  const std::string path = text_of([&](char* text, std::size_t size) {
    return H5Pget_virtual_dsetname(creation, index, text, size);
  });
  const h5::Handle selection =
      h5::made(H5Pget_virtual_vspace(creation, index), H5Sclose, "dataspace");
  const h5::Handle source =
      h5::made(H5Pget_virtual_srcspace(creation, index), H5Sclose, "dataspace");
  const std::optional<std::string> plain_file = plain_name(file);
  const std::optional<std::string> plain_path = plain_name(path);
  if (!plain_file || !plain_path || is_unlimited(selection.get()) || is_unlimited(source.get())) {
    throw Error(Failure::input,
                address_ + " is virtual with unlimited parts, which are not supported",
                "h5repack -l NAME:CONTI makes a copy that holds the values");
  }
  Part part;
  part.reference = {FollowedSource::Kind::virtual_dataset, address_, *plain_file};
  part.path = *plain_path;
  part.selection = selection_on(space_.get(), selection.get());
  if (!part.selection) {
    throw Error(Failure::input, address_ + " is damaged: a part of it lies outside of its shape");
  }
  part.source = h5::made(H5Scopy(source.get()), H5Sclose, "dataspace");
  const std::shared_ptr<const OpenDataset> dataset = open(part);
  bytes_at_once_ = std::max(bytes_at_once_, dataset->bytes_at_once());
  most_written_ += dataset->most_written();
  check(part, dataset->handle());
  if (*plain_file != ".") {
    const std::string real = file_->files->source_path(*file_, part.reference);
    if (std::find(files.begin(), files.end(), real) == files.end()) files.push_back(real);
  }
  parts_.push_back(std::move(part));
  if (recent_.size() < most_open) recent_.emplace_back(&parts_.back(), dataset);
}

/// Completes the selections of a part once the extents of its source are known.
void VirtualParts::check(Part& part, hid_t source) const {
  const h5::Handle space = h5::made(H5Dget_space(source), H5Sclose, "dataspace");
  const bool whole = selects_all(part.source.get());
  h5::Handle taken = selection_on(space.get(), part.source.get());
  const std::vector<hsize_t> extents = h5::extents_of(space.get());
  const auto rank = static_cast<std::size_t>(H5Sget_simple_extent_ndims(space_.get()));
  part.low.resize(rank);
  part.high.resize(rank);
  make_explicit(part.selection.get());
  const hssize_t elements = H5Sget_select_npoints(part.selection.get());
  std::vector<hsize_t> box;
  hssize_t boxed = 1;
  if (elements > 0) {
    h5::require(H5Sget_select_bounds(part.selection.get(), part.low.data(), part.high.data()),
                "selection");
    for (std::size_t axis = 0; axis < rank; ++axis) {
      box.push_back(part.high[axis] - part.low[axis] + 1);
      boxed *= static_cast<hssize_t>(box.back());
    }
  }
  // A whole source of another shape with as many elements would be read in a different order.
  const bool reshaped = whole && boxed == elements && squeezed(box) != squeezed(extents);
  if (!taken || H5Sget_select_npoints(taken.get()) != elements || (elements > 0 && reshaped)) {
    const std::string shape = to_string(Shape(extents.begin(), extents.end()));
    throw Error(Failure::input, description_of(part.reference) + ":" + part.path + " of shape " +
                                    shape + ", which is not the shape it was made from");
  }
  make_explicit(taken.get());
  part.source = std::move(taken);
}

std::shared_ptr<const OpenDataset> VirtualParts::recent(const Part& part) const {
  for (const auto& [known, dataset] : recent_) {
    if (known == &part) return dataset;
  }
  if (recent_.size() >= most_open) recent_.erase(recent_.begin());
  return recent_.emplace_back(&part, open(part)).second;
}

std::shared_ptr<const OpenDataset> VirtualParts::open(const Part& part) const {
  const bool same_file = part.reference.file == ".";
  const std::shared_ptr<const InputFile> file =
      same_file ? file_ : file_->files->source(*file_, part.reference);
  const std::string path = part.path.front() == '/' ? part.path : "/" + part.path;
  const std::string address = address_text(file->label, path);
  const std::optional<Object> object = open_object(file, file->handle.get(), path, address);
  if (!object || object->kind != h5::Kind::dataset) {
    throw Error(Failure::input, description_of(part.reference) + ": there is no dataset " + path +
                                    (same_file ? "" : " in it"));
  }
  return std::make_shared<OpenDataset>(*object, address, depth_ + 1);
}

void VirtualParts::fill(hid_t type, hid_t memory, void* out) const {
  std::vector<char> value(H5Tget_size(type), '\0');
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  const bool known = H5Pfill_value_defined(creation_.get(), &defined) >= 0;
  const bool readable = known && (defined != H5D_FILL_VALUE_USER_DEFINED ||
                                  H5Pget_fill_value(creation_.get(), type, value.data()) >= 0);
  if (!readable || H5Dfill(value.data(), type, out, type, memory) < 0) {
    throw Error(Failure::input,
                address_ + " is damaged: its fill value cannot be read: " + h5::last_reason().text);
  }
}

void VirtualParts::read(hid_t type, hid_t memory, hid_t selection, void* out) const {
  make_explicit(memory);
  const h5::Handle wanted = h5::made(H5Scopy(selection), H5Sclose, "dataspace");
  make_explicit(wanted.get());
  fill(type, memory, out);
  if (is_empty(wanted.get())) return;
  for (const Part& part : parts_) {
    if (is_empty(part.selection.get()) ||
        H5Sselect_intersect_block(wanted.get(), part.low.data(), part.high.data()) == 0) {
      continue;
    }
    const h5::Handle into = intersection(wanted.get(), memory, part.selection.get());
    const h5::Handle from = intersection(part.selection.get(), part.source.get(), wanted.get());
    if (is_empty(into.get())) continue;
    recent(part)->read(type, into.get(), from.get(), out);
  }
}

}  // namespace attn::io
