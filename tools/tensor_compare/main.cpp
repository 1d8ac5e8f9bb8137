#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "cli/values.hpp"
#include "common/bundles.hpp"
#include "tensor_compare/comparison.hpp"

namespace {

using namespace attn;
using Range = cli::Declaration::Range;

cli::Declaration declare() {
  cli::Declaration tool("tensor-compare", "Compares the datasets of two bundles",
                        cli::Role::compare);
  tool.words("A B",
             "Two bundles: FILE, FILE:/group or \"-\" (standard input, for one of them at most). "
             "Or two datasets: FILE:/group/name, with slices as in a.h5:/q[0]. A dataset against "
             "a bundle is compared with the one of its name there.",
             2, 2)
      .about(
          "Elements are the same where |a - b| <= atol + rtol |b|; unless told otherwise, where "
          "they are equal. Infinities are the same as themselves only, a NaN as nothing. Numbers "
          "of "
          "different types are compared by value, strings byte by byte.")
      .about(
          "Datasets of groups below are compared too, by their paths (text/wiki/layer0/out). One "
          "that is in one of the bundles only makes them differ. Attributes are not compared "
          "unless --attributes asks for it.")
      .section("Comparison")
      .number("rtol", "X", "Tolerated error relative to |b|", Range::non_negative(), 0.0)
      .number("atol", "X", "Tolerated absolute error", Range::non_negative(), 0.0)
      .flag("nan-equal", "A NaN is the same as another NaN.")
      .text("datasets", "LIST", "Compare these datasets only, names or paths separated by commas")
      .allow_external()
      .flag("attributes",
            "Compare the attributes of root, groups and datasets too, within the same tolerances; "
            "not `history` and `attn_result`, nor what HDF5 keeps of axes and their scales.")
      .formula("|a - b| <= atol + rtol |b|")
      .report_member("same", "whether A and B are the same")
      .report_member("datasets",
                     "an array of name, same, shape, max_abs_error with its index, max_rel_error "
                     "with its rel_index, differing (a count) and note for each dataset")
      .report_member("attributes", "with --attributes: the same for each attribute")
      .report_member("only_in_a, only_in_b", "the names of datasets that the other lacks")
      .example("tensor-compare a.h5 b.h5", "Exactly the same?")
      .example("tensor-compare --rtol 1e-5 --atol 1e-8 out.h5:/out reference.h5:/out",
               "Two datasets, as numpy.allclose has it.")
      .exit_status(0, "A and B are the same")
      .exit_status(1, "A and B differ")
      .exit_status(4, "");
  return tool;
}

// "1.19e-07", "nan"; a dash where no numbers were compared.
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
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t k = 0; k < row.size(); ++k) {
      line += fmt::format("{:{}}", row[k], widths[k] + 2);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

// The indices of a position, or null.
nlohmann::ordered_json position_json(Index at, const Shape& shape) {
  if (at < 0) return nullptr;
  return unravel(at, shape);
}

nlohmann::ordered_json json(const tools::Compared& item) {
  const Difference& d = item.difference;
  nlohmann::ordered_json entry = {{"name", item.name}, {"same", item.same()}};
  entry["shape"] = item.shape;
  if (item.comparable && !item.is_text) {
    entry["max_abs_error"] = d.largest_absolute;
    entry["max_rel_error"] = d.largest_relative;
  } else {
    entry["max_abs_error"] = nullptr;
    entry["max_rel_error"] = nullptr;
  }
  entry["index"] = position_json(d.absolute_at, item.shape);
  entry["rel_index"] = position_json(d.relative_at, item.shape);
  entry["differing"] = item.comparable ? nlohmann::ordered_json(d.differing) : nullptr;
  const std::string& note = item.reason.empty() ? item.note : item.reason;
  entry["note"] = note.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(note);
  return entry;
}

cli::Outcome run(const cli::Arguments& arguments, cli::Report& report) {
  const tools::Comparison comparison(arguments, report);
  const std::vector<tools::Compared>& all = comparison.compared();
  const std::vector<tools::Compared>& attributes = comparison.attributes();
  const bool one_sided = !comparison.only_in_a().empty() || !comparison.only_in_b().empty();
  if (all.empty() && attributes.empty() && !one_sided) {
    // Nothing compared must not pass for the same.
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

  // Of attributes those alone that differ: there are many, and most say nothing new.
  std::vector<tools::Compared> shown = all;
  std::remove_copy_if(attributes.begin(), attributes.end(), std::back_inserter(shown), is_same);
  if (!shown.empty()) report.print(table(shown));
  if (arguments.flag("attributes")) {
    report.print(
        fmt::format("{} of {} attributes differ\n", shown.size() - all.size(), attributes.size()));
  }
  for (const std::string& name : comparison.only_in_a()) report.print("only in A: " + name + "\n");
  for (const std::string& name : comparison.only_in_b()) report.print("only in B: " + name + "\n");
  report.print(same ? "same\n" : "different\n");
  return {same ? 0 : 1, ""};
}

}  // namespace

int main(int argc, char** argv) { return attn::tools::tool_main(argc, argv, declare(), run); }
