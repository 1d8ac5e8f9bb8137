#include "tensor_info/inventory.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "attnkit/error.hpp"
#include "cli/progress.hpp"
#include "cli/words.hpp"
#include "common/frame/bundles.hpp"
#include "common/tables/column_text.hpp"
#include "io/input.hpp"
#include "tensor/buffer.hpp"
#include "tensor/pieces.hpp"

namespace attn::tools {
namespace {

constexpr Index strings_read = 100'000;  // enough for a vocabulary; larger datasets are not read
constexpr std::size_t strings_shown = 3;

bool is_number(DType type) { return is_floating(type) || is_integral(type); }

ValueRange range_of(const ArraySource& dataset, cli::Progress& progress) {
  ValueRange range;
  const Index limit =
      std::min(piece_elements(sizeof(double)), std::max<Index>(element_count(dataset.shape()), 1));
  const Buffer<double> values(limit);
  for_each_piece(dataset.shape(), limit, [&](const Piece& piece) {
    dataset.read(piece.start, piece.count, values.data());
    range.add(values.data(), piece.size);
    progress.advance(static_cast<double>(piece.size));
  });
  return range;
}

std::string first_strings(const ArraySource& dataset) {
  const std::vector<std::string> all = dataset.read_strings();
  std::string text;
  for (std::size_t n = 0; n < std::min(all.size(), strings_shown); ++n) {
    text += (n == 0 ? "" : ", ") + cli::shell_quoted(all[n]);
  }
  return all.size() > strings_shown ? text + ", ..." : text;
}

// Integers in full, as far as a double represents them.
std::string number_text(const io::Item& item, double value) {
  constexpr double exact = 9007199254740992.0;
  const bool whole = is_integral(item.dtype) && std::abs(value) <= exact;
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.6g}", value);
}

// "4 x 256 x 16  (head, key, channel)"
std::string shape_text(const io::Item& item) {
  std::string text = times(item.shape);
  for (const auto& attribute : item.attributes) {
    const auto* labels = std::get_if<std::vector<std::string>>(&attribute.value);
    if (attribute.name != axis_labels || labels == nullptr) continue;
    text += fmt::format("  ({})", fmt::join(*labels, ", "));
  }
  return text;
}

std::string range_text(const Inventory::Entry& entry) {
  if (!entry.range) return entry.first;
  const ValueRange& range = *entry.range;
  std::string text = range.finite() == 0      ? (range.count == 0 ? "empty" : "none finite")
                     : range.min == range.max ? "all " + number_text(entry.item, range.min)
                                              : number_text(entry.item, range.min) + " .. " +
                                                    number_text(entry.item, range.max);
  if (range.nan > 0) text += fmt::format(", {} NaN", range.nan);
  if (range.infinite > 0) text += fmt::format(", {} infinite", range.infinite);
  return text;
}

}  // namespace

Inventory::Inventory(const cli::Arguments& arguments, const io::InputBundle& bundle,
                     bool with_values)
    : with_values_(with_values) {
  const auto& named = arguments.named_inputs;
  for (io::Item& item : io::contents(bundle)) {
    const bool replaced = std::any_of(named.begin(), named.end(),
                                      [&](const auto& pair) { return pair.first == item.path; });
    if (!replaced) entries_.push_back({std::move(item), {}, {}});
  }
  for (const auto& pair : named) {
    const ArraySource dataset = bundle.dataset(pair.first);
    io::Item item;
    item.path = pair.first;
    item.shape = dataset.shape();
    item.dtype = dataset.dtype();
    item.type = dataset.type();
    entries_.push_back({std::move(item), {}, {}});
  }
  if (!with_values) return;

  double elements = 0;
  for (const Entry& entry : entries_) {
    if (is_number(entry.item.dtype))
      elements += static_cast<double>(element_count(entry.item.shape));
  }
  cli::Progress progress(arguments, "reading", elements, "elements");
  for (Entry& entry : entries_) {
    if (!entry.item.is_group && entry.item.unreadable.empty()) {
      read_values(bundle, entry, progress);
    }
  }
}

void Inventory::read_values(const io::InputBundle& bundle, Entry& entry, cli::Progress& progress) {
  try {
    if (is_number(entry.item.dtype)) {
      entry.range = range_of(bundle.dataset(entry.item.path), progress);
    } else if (entry.item.dtype == DType::string &&
               element_count(entry.item.shape) <= strings_read) {
      entry.first = first_strings(bundle.dataset(entry.item.path));
    }
  } catch (const Error& error) {
    if (error.failure() != Failure::input) throw;
    entry.item.unreadable = error.what();
  }
}

std::optional<std::string> Inventory::unreadable() const {
  std::optional<std::string> first;
  std::size_t more = 0;
  for (const Entry& entry : entries_) {
    if (entry.item.unreadable.empty()) continue;
    if (first) ++more;
    if (!first) first = entry.item.unreadable;
  }
  if (more > 0) *first += fmt::format(" ({} more cannot be read)", more);
  return first;
}

std::string Inventory::table() const {
  std::vector<std::vector<std::string>> rows = {
      {"dataset", "shape", "type", with_values_ ? "values" : ""}};
  for (const Entry& entry : entries_) {
    if (!entry.item.unreadable.empty()) {
      rows.push_back({entry.item.path, "-", "-", "unreadable"});
    } else if (!entry.item.is_group) {
      rows.push_back({entry.item.path, shape_text(entry.item), entry.item.type, range_text(entry)});
    }
  }
  return rows.size() == 1 ? "no datasets\n" : aligned(std::move(rows));
}

}  // namespace attn::tools
