#include "tensor_compare/comparison.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/progress.hpp"
#include "cli/values.hpp"
#include "common/frame/bundles.hpp"
#include "io/address.hpp"
#include "io/contents.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pieces.hpp"
#include "tensor_compare/attribute_comparison.hpp"

namespace attn::tools {
namespace {

constexpr Index piece_limit = Index{1} << 18;  // elements read at once: two of these fit a cache

/// A, or B: a bundle, or one dataset.
struct Side {
  io::InputBundle bundle;
  std::optional<std::string> single;
};

// The last part of the path, or else the file name without its extension.
std::string dataset_name(const io::Address& address) {
  std::string name = address.path;
  while (!name.empty() && name.back() == '/') name.pop_back();
  if (name.empty()) {
    name = address.file;
    const std::size_t dot = name.rfind('.');
    if (dot != std::string::npos && dot > 0) name.resize(dot);
  }
  return name.substr(name.rfind('/') + 1);
}

Side open_side(const std::string& text, const io::InputBundle::Options& usual) {
  const io::Address address = io::parse_address(text);
  const auto as_bundle = [&] {
    io::InputBundle::Options options = usual;
    options.input = text;
    return Side{io::InputBundle(options), std::nullopt};
  };
  const auto as_dataset = [&] {
    io::InputBundle::Options options = usual;
    const std::string name = dataset_name(address);
    options.named = {{name, text}};
    return Side{io::InputBundle(options), name};
  };
  if (!address.selection.empty()) return as_dataset();
  const bool whole_file = address.path == "/" || address.path.empty();
  // A stream can be read only once: its path can only be tried as one of the two.
  if (address.file == "-") return whole_file ? as_bundle() : as_dataset();
  try {
    return as_bundle();
  } catch (const Error& first) {
    if (first.failure() != Failure::input) throw;
    try {
      return as_dataset();
    } catch (const Error&) {
      if (!whole_file) throw;
    }
    throw;
  }
}

bool is_number(DType type) { return is_floating(type) || is_integral(type); }

template <class T>
void add_blocks(const ArraySource& a, const ArraySource& b, const Tolerance& tolerance,
                Index memory, cli::Progress& progress, Difference& difference) {
  const Index room = memory / 2 / static_cast<Index>(2 * sizeof(T));
  const Index limit = std::min(std::clamp<Index>(room, 1, piece_limit), element_count(a.shape()));
  const Buffer<T> from_a(limit), from_b(limit);
  for_each_piece(a.shape(), std::max<Index>(limit, 1), [&](const Piece& piece) {
    a.read(piece.start, piece.count, from_a.data());
    b.read(piece.start, piece.count, from_b.data());
    difference.add(from_a.data(), from_b.data(), piece.offset, piece.size, tolerance);
    progress.advance(static_cast<double>(piece.size));
  });
}

void add_strings(const ArraySource& a, const ArraySource& b, Difference& difference) {
  const std::vector<std::string> from_a = a.read_strings();
  const std::vector<std::string> from_b = b.read_strings();
  difference.compared += static_cast<Index>(from_a.size());
  for (std::size_t k = 0; k < from_a.size(); ++k) {
    if (from_a[k] == from_b[k]) continue;
    if (difference.differing++ == 0) difference.absolute_at = static_cast<Index>(k);
  }
}

Compared compare(const std::string& name, const ArraySource& a, const ArraySource& b,
                 const Tolerance& tolerance, Index memory, cli::Progress& progress) {
  Compared item;
  item.name = name;
  item.shape = a.shape();
  if (a.dtype() != b.dtype()) {
    item.note = fmt::format("{} against {}", a.type(), b.type());
  }
  if (a.shape() != b.shape()) {
    item.reason = fmt::format("shape {} against {}", to_string(a.shape()), to_string(b.shape()));
    return item;
  }
  if (is_integral(a.dtype()) && is_integral(b.dtype())) {
    add_blocks<std::int64_t>(a, b, tolerance, memory, progress, item.difference);
  } else if (is_number(a.dtype()) && is_number(b.dtype())) {
    add_blocks<double>(a, b, tolerance, memory, progress, item.difference);
  } else if (a.dtype() == DType::string && b.dtype() == DType::string) {
    add_strings(a, b, item.difference);
    item.is_text = true;
  } else if (a.dtype() != DType::other && b.dtype() != DType::other) {
    item.reason = std::exchange(item.note, "");
    return item;
  } else {
    // Types that lib/io does not read count as neither same nor different.
    const ArraySource& unread = a.dtype() == DType::other ? a : b;
    throw Error(Failure::input, unread.address() + " is of a type that cannot be compared",
                "leave it out with --datasets");
  }
  item.comparable = true;
  return item;
}

// Includes datasets in subgroups, by path: "text/wiki/layer0/out".
std::vector<std::string> datasets_of(const Side& side) {
  std::vector<std::string> paths;
  const std::vector<io::Item> items = io::contents(side.bundle);
  io::require_readable(items);
  for (const io::Item& item : items) {
    if (!item.is_group) paths.push_back(item.path);
  }
  return paths;
}

// The datasets of --datasets.
std::set<std::string> chosen(const std::string& list, const Side& a, const Side& b) {
  std::vector<std::string> names = cli::split(list, ',');
  std::sort(names.begin(), names.end());
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (names[k].empty()) throw Error(Failure::usage, "--datasets has an empty item");
    if (k > 0 && names[k] == names[k - 1]) {
      throw Error(Failure::usage, "--datasets lists " + names[k] + " twice");
    }
    if (!a.bundle.has(names[k]) && !b.bundle.has(names[k])) {
      throw Error(Failure::input, "neither A nor B has a dataset " + names[k]);
    }
  }
  return {names.begin(), names.end()};
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Pairs of names in A and in B to be compared.
Pairs pairs_of(const Side& a, const Side& b, const std::optional<std::set<std::string>>& wanted,
               std::vector<std::string>& only_in_a, std::vector<std::string>& only_in_b) {
  if (a.single && b.single) return {{*a.single, *b.single}};
  // Other datasets of the bundle are ignored.
  if (a.single) return {{*a.single, *a.single}};
  if (b.single) return {{*b.single, *b.single}};
  Pairs pairs;
  std::set<std::string> seen;
  // A path that only one side lists may exist on the other side through a second link to a group
  // that is listed under its first link.
  const auto take = [&](const Side& from, const Side& other, std::vector<std::string>& only) {
    const std::vector<std::string> paths =
        wanted ? std::vector<std::string>(wanted->begin(), wanted->end()) : datasets_of(from);
    for (const std::string& path : paths) {
      if (!from.bundle.is_dataset(path) || !seen.insert(path).second) continue;
      if (other.bundle.is_dataset(path)) {
        pairs.emplace_back(path, path);
      } else {
        only.push_back(path);
      }
    }
  };
  take(a, b, only_in_a);
  take(b, a, only_in_b);
  return pairs;
}

}  // namespace

Comparison::Comparison(const cli::Arguments& arguments, cli::Report& report) {
  const std::vector<std::string> words = arguments.words();
  const io::InputBundle::Options options = input_options(arguments, report);
  const Side a = open_side(words[0], options);
  const Side b = open_side(words[1], options);
  std::optional<std::set<std::string>> wanted;
  if (arguments.given("datasets")) wanted = chosen(arguments.text("datasets"), a, b);
  const bool with_attributes = arguments.flag("attributes");
  if (with_attributes && (a.single || b.single)) {
    throw Error(Failure::usage, "--attributes requires two bundles: files or groups",
                "a single dataset is compared without it");
  }

  const Pairs pairs = pairs_of(a, b, wanted, only_in_a_, only_in_b_);
  const Tolerance tolerance{.relative = *arguments.number("rtol"),
                            .absolute = *arguments.number("atol"),
                            .nan_equal = arguments.flag("nan-equal")};
  double elements = 0;
  for (const auto& [name_a, name_b] : pairs) {
    const ArraySource from_a = a.bundle.dataset(name_a);
    elements += static_cast<double>(element_count(from_a.shape()));
    const ArraySource from_b = b.bundle.dataset(name_b);
    for (const ArraySource* dataset : {&from_a, &from_b}) {
      require_readable(*dataset, arguments.memory);
      report_input(report, *dataset);
    }
  }
  cli::Progress progress(arguments, "comparing", elements, "elements");
  // Each dataset is opened again, so that the caches of a whole dump are not held at once.
  for (const auto& [name_a, name_b] : pairs) {
    compared_.push_back(compare(name_a, a.bundle.dataset(name_a), b.bundle.dataset(name_b),
                                tolerance, arguments.memory, progress));
  }
  if (with_attributes) attributes_ = compare_attributes(a.bundle, b.bundle, wanted, tolerance);
}

}  // namespace attn::tools
