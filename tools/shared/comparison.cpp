#include "shared/comparison.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/progress.hpp"
#include "cli/values.hpp"
#include "io/address.hpp"
#include "io/pieces.hpp"
#include "shared/bundles.hpp"
#include "tensor/buffer.hpp"
#include "tensor/error.hpp"

namespace attn::tools {
namespace {

constexpr Index piece_limit = Index{1} << 18;  // elements read at once: two of these fit a cache

/// A, or B: a bundle, or one dataset.
struct Side {
  io::InputBundle bundle;
  std::optional<std::string> single;
};

// The last part of the path, or of the file's name without what follows its last dot.
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

Side open_side(const std::string& text, const std::string& tmpdir) {
  const io::Address address = io::parse_address(text);
  const auto as_bundle = [&] {
    return Side{io::InputBundle({.input = text, .named = {}, .tmpdir = tmpdir}), std::nullopt};
  };
  const auto as_dataset = [&] {
    const std::string name = dataset_name(address);
    return Side{io::InputBundle({.input = {}, .named = {{name, text}}, .tmpdir = tmpdir}), name};
  };
  if (!address.selection.empty()) return as_dataset();
  const bool whole_file = address.path == "/" || address.path.empty();
  // A stream can be read once: a path in it can only be tried as one of the two.
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
void add_blocks(const io::InputDataset& a, const io::InputDataset& b, const Tolerance& tolerance,
                Index memory, cli::Progress& progress, Difference& difference) {
  const Index room = memory / 2 / static_cast<Index>(2 * sizeof(T));
  const Index limit = std::min(std::clamp<Index>(room, 1, piece_limit), element_count(a.shape()));
  const Buffer<T> from_a(limit), from_b(limit);
  io::for_each_piece(a.shape(), std::max<Index>(limit, 1), [&](const io::Piece& piece) {
    a.read(piece.start, piece.count, from_a.data());
    b.read(piece.start, piece.count, from_b.data());
    difference.add(from_a.data(), from_b.data(), piece.offset, piece.size, tolerance);
    progress.advance(static_cast<double>(piece.size));
  });
}

void add_strings(const io::InputDataset& a, const io::InputDataset& b, Difference& difference) {
  const std::vector<std::string> from_a = a.read_strings();
  const std::vector<std::string> from_b = b.read_strings();
  difference.compared += static_cast<Index>(from_a.size());
  for (std::size_t k = 0; k < from_a.size(); ++k) {
    if (from_a[k] == from_b[k]) continue;
    if (difference.differing++ == 0) difference.absolute_at = static_cast<Index>(k);
  }
}

Compared compare(const std::string& name, const io::InputDataset& a, const io::InputDataset& b,
                 const Tolerance& tolerance, Index memory, cli::Progress& progress) {
  Compared item;
  item.name = name;
  item.shape = a.shape();
  if (a.dtype() != b.dtype()) {
    item.note = fmt::format("{} against {}", attn::name(a.dtype()), attn::name(b.dtype()));
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
    // Neither same nor different can be said: the types are ones that io does not read.
    const io::InputDataset& unread = a.dtype() == DType::other ? a : b;
    throw Error(Failure::input, unread.address() + " is of a type that cannot be compared",
                "leave it out with --datasets");
  }
  item.comparable = true;
  return item;
}

std::vector<std::string> chosen(const std::string& list, const std::vector<std::string>& in_a,
                                const std::vector<std::string>& in_b) {
  std::vector<std::string> names = cli::split(list, ',');
  std::sort(names.begin(), names.end());
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (names[k].empty()) throw Error(Failure::usage, "--datasets has an empty item");
    if (k > 0 && names[k] == names[k - 1]) {
      throw Error(Failure::usage, "--datasets lists " + names[k] + " twice");
    }
    if (!std::binary_search(in_a.begin(), in_a.end(), names[k]) &&
        !std::binary_search(in_b.begin(), in_b.end(), names[k])) {
      throw Error(Failure::input, "neither A nor B has a dataset " + names[k]);
    }
  }
  return names;
}

std::vector<std::string> common(const std::vector<std::string>& a,
                                const std::vector<std::string>& b) {
  std::vector<std::string> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

}  // namespace

Comparison::Comparison(const cli::Arguments& arguments, cli::Report& report) {
  const std::vector<std::string> words = arguments.words();
  const Side a = open_side(words[0], arguments.tmpdir);
  const Side b = open_side(words[1], arguments.tmpdir);
  std::vector<std::string> in_a = a.bundle.names();
  std::vector<std::string> in_b = b.bundle.names();
  if (arguments.given("datasets")) {
    const std::vector<std::string> names = chosen(arguments.text("datasets"), in_a, in_b);
    in_a = common(in_a, names);
    in_b = common(in_b, names);
  }

  std::vector<std::pair<std::string, std::string>> pairs;
  if (a.single && b.single) {
    pairs.emplace_back(*a.single, *b.single);
  } else if (a.single || b.single) {
    // The datasets that the bundle holds besides are not asked about.
    const std::string name = a.single ? *a.single : *b.single;
    pairs.emplace_back(name, name);
  } else {
    for (const std::string& name : common(in_a, in_b)) pairs.emplace_back(name, name);
    std::set_difference(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                        std::back_inserter(only_in_a_));
    std::set_difference(in_b.begin(), in_b.end(), in_a.begin(), in_a.end(),
                        std::back_inserter(only_in_b_));
  }

  const Tolerance tolerance{.relative = *arguments.number("rtol"),
                            .absolute = *arguments.number("atol"),
                            .nan_equal = arguments.flag("nan-equal")};
  std::vector<std::pair<io::InputDataset, io::InputDataset>> datasets;
  double elements = 0;
  for (const auto& [name_a, name_b] : pairs) {
    datasets.emplace_back(a.bundle.dataset(name_a), b.bundle.dataset(name_b));
    elements += static_cast<double>(element_count(datasets.back().first.shape()));
    report_input(report, datasets.back().first);
    report_input(report, datasets.back().second);
  }
  cli::Progress progress(arguments, "comparing", elements, "elements");
  for (std::size_t k = 0; k < datasets.size(); ++k) {
    compared_.push_back(compare(pairs[k].first, datasets[k].first, datasets[k].second, tolerance,
                                arguments.memory, progress));
  }
}

}  // namespace attn::tools
