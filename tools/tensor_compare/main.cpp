#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "common/process/tool_main.hpp"
#include "common/tables/column_text.hpp"
#include "common/tables/table_options.hpp"
#include "tensor_compare/comparison.hpp"

namespace {

using namespace attn;
using Range = cli::Declaration::Range;

cli::Declaration declare() {
  cli::Declaration tool("tensor-compare", "Compares the datasets of two bundles",
                        cli::Role::compare);
  tool.words("A B",
             "Two bundles: FILE, FILE:/group or \"-\" (standard input, for one of them at most); "
             "or two datasets: FILE:/group/name, with slices as in a.h5:/q[0]. If only one is a "
             "dataset, it is compared with the dataset of its name in the bundle.",
             2, 2)
      .about(
          "Elements are the same if |a - b| <= atol + rtol |b|; by default, if they are equal. An "
          "infinity is the same only as itself; a NaN differs from everything. Numbers of "
          "different types are compared by value, strings byte by byte.")
      .about(
          "Datasets in subgroups are compared too, by path (text/wiki/layer0/out). The bundles "
          "differ if a dataset is in only one of them. Attributes are compared only with "
          "--attributes.")
      .section("Comparison")
      .number("rtol", "X", "Tolerated error relative to |b|", Range::non_negative(), 0.0)
      .number("atol", "X", "Tolerated absolute error", Range::non_negative(), 0.0)
      .flag("nan-equal", "Treats NaNs as equal to each other.")
      .text("datasets", "LIST", "Compares only these datasets: names or paths, separated by commas")
      .allow_external()
      .flag("attributes",
            "Also compares the attributes of the root, groups and datasets, with the same "
            "tolerances, except `history`, `attn_result` and HDF5's own attributes of axes and "
            "scales.")
      .formula("|a - b| <= atol + rtol |b|")
      .report_member("same", "whether A and B are the same")
      .report_member("datasets",
                     "an array of name, same, shape, max_abs_error with its index, max_rel_error "
                     "with its rel_index, differing (a count) and note for each dataset")
      .report_member("attributes", "with --attributes: the same for each attribute")
      .report_member("only_in_a, only_in_b", "the names of datasets that the other lacks")
      .example("tensor-compare a.h5 b.h5", "Check that two bundles are identical.")
      .example("tensor-compare --rtol 1e-5 --atol 1e-8 out.h5:/out reference.h5:/out",
               "Compare two datasets like numpy.allclose.")
      .exit_status(0, "A and B are the same")
      .exit_status(1, "A and B differ")
      .exit_status(4, "");
  tools::declare_table_options(tool, "dataset, and attribute with --attributes",
                               {.writes_bundle = false});
  tool.column("a, b", "the two bundles as given")
      .column("name", "the dataset by path, or the attribute")
      .column("same", "whether it is the same in both")
      .column("shape, max_abs_error, max_rel_error", "as in the JSON report")
      .column("differing", "the number of elements that differ")
      .column("note", "why it cannot be compared, or is in one of them only");
  return tool;
}

// "1.19e-07", "nan"; a dash if no numbers were compared.
std::string number_text(const tools::Compared& item, double value) {
  return item.comparable && !item.is_text ? fmt::format("{:.4g}", value) : "-";
}

std::string position_text(Index at, const Shape& shape) {
  return at < 0 ? "-" : to_string(unravel(at, shape));
}

std::string verdict(const tools::Compared& item) {
  if (!item.reason.empty()) return item.reason;
  const Index differing = item.difference.differing;
  if (differing == 0) return item.note.empty() ? "same" : "same (" + item.note + ")";
  const std::string share = fmt::format("{} of {} differ", differing, item.difference.compared);
  return item.note.empty() ? share : share + " (" + item.note + ")";
}

std::string table(const std::vector<tools::Compared>& all) {
  std::vector<std::vector<std::string>> rows = {
      {"dataset", "shape", "max |a-b|", "at", "max |a-b|/|b|", "at", ""}};
  for (const tools::Compared& item : all) {
    const Difference& d = item.difference;
    rows.push_back({item.name, to_string(item.shape), number_text(item, d.largest_absolute),
                    position_text(d.absolute_at, item.shape), number_text(item, d.largest_relative),
                    position_text(d.relative_at, item.shape), verdict(item)});
  }
  return tools::aligned(std::move(rows));
}

// The indices of a position, or null.
nlohmann::ordered_json position_json(Index at, const Shape& shape) {
  if (at < 0) return nullptr;
  return unravel(at, shape);
}

const tools::Figures<tools::Compared>& figures() {
  using tools::Cell;
  using Of = const tools::Compared&;
  const auto error = [](double Difference::*largest) {
    return [largest](Of of) {
      return of.comparable && !of.is_text ? Cell(of.difference.*largest) : Cell();
    };
  };
  const auto note = [](Of of) { return of.reason.empty() ? of.note : of.reason; };
  static const tools::Figures<tools::Compared> all = {
      {"name", [](Of of) { return of.name; }},
      {"same", [](Of of) { return of.same(); }},
      {"shape", [](Of of) { return to_string(of.shape); }},
      {"differing", [](Of of) { return of.comparable ? Cell(of.difference.differing) : Cell(); }},
      {"max_abs_error", error(&Difference::largest_absolute)},
      {"max_rel_error", error(&Difference::largest_relative)},
      {"note", [note](Of of) { return note(of).empty() ? Cell() : Cell(note(of)); }}};
  return all;
}

nlohmann::ordered_json json(const tools::Compared& item) {
  const Difference& d = item.difference;
  nlohmann::ordered_json entry;
  add_members(figures(), item, {"name", "same"}, entry);
  entry["shape"] = item.shape;
  add_members(figures(), item, {"max_abs_error", "max_rel_error"}, entry);
  entry["index"] = position_json(d.absolute_at, item.shape);
  entry["rel_index"] = position_json(d.relative_at, item.shape);
  add_members(figures(), item, {"differing", "note"}, entry);
  return entry;
}

std::vector<tools::TableColumn> columns() {
  return columns_of(figures(), {{"a", false}, {"b", false}});
}

// Includes datasets that only one of the bundles has.
void fill(const tools::Comparison& comparison, const std::vector<std::string>& bundles,
          tools::TableOutput& rows) {
  for (const auto* const all : {&comparison.compared(), &comparison.attributes()}) {
    for (const tools::Compared& item : *all) {
      rows.add(cells_of(figures(), item, {bundles[0], bundles[1]}));
    }
  }
  const auto one_sided = [&](const std::vector<std::string>& names, const std::string& where) {
    for (const std::string& name : names) {
      std::vector<tools::Cell> row = {bundles[0], bundles[1], name, false};
      row.resize(columns().size());
      row.back() = "only in " + where;
      rows.add(std::move(row));
    }
  };
  one_sided(comparison.only_in_a(), "A");
  one_sided(comparison.only_in_b(), "B");
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  tools::TableOutput rows(arguments, columns(), {.writes_bundle = false});
  const tools::Comparison comparison(arguments, report);
  const std::vector<tools::Compared>& all = comparison.compared();
  const std::vector<tools::Compared>& attributes = comparison.attributes();
  const bool one_sided = !comparison.only_in_a().empty() || !comparison.only_in_b().empty();
  if (all.empty() && attributes.empty() && !one_sided) {
    // An empty comparison must not count as equal.
    throw Error(Failure::input, "neither A nor B has a dataset");
  }
  const auto is_same = [](const tools::Compared& item) { return item.same(); };
  const bool same = !one_sided && std::all_of(all.begin(), all.end(), is_same) &&
                    std::all_of(attributes.begin(), attributes.end(), is_same);

  nlohmann::ordered_json& result = report.result();
  result["same"] = same;
  result["datasets"] = nlohmann::ordered_json::array();
  for (const tools::Compared& item : all) result["datasets"].push_back(json(item));
  if (arguments.flag("attributes")) {
    result["attributes"] = nlohmann::ordered_json::array();
    for (const tools::Compared& item : attributes) result["attributes"].push_back(json(item));
  }
  result["only_in_a"] = comparison.only_in_a();
  result["only_in_b"] = comparison.only_in_b();

  fill(comparison, arguments.words(), rows);
  rows.print(report);
  cli::Outcome outcome{same ? 0 : 1, "", rows.commit()};
  if (rows.in_place_of_text()) return outcome;
  // Only attributes that differ: most of the many attributes are equal.
  std::vector<tools::Compared> shown = all;
  std::remove_copy_if(attributes.begin(), attributes.end(), std::back_inserter(shown), is_same);
  if (!shown.empty()) report.print(table(shown));
  if (arguments.flag("attributes")) {
    report.print(fmt::format("{} of {} differ\n", shown.size() - all.size(),
                             cli::counted(attributes.size(), "attribute")));
  }
  for (const std::string& name : comparison.only_in_a()) report.print_line("only in A: " + name);
  for (const std::string& name : comparison.only_in_b()) report.print_line("only in B: " + name);
  report.print(same ? "same\n" : "different\n");
  return outcome;
}

}  // namespace

int main(int argc, char** argv) { return attn::tools::tool_main(argc, argv, declare(), run); }
