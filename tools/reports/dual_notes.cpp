// The notes of a shard of lambda-solve on its report.

#include <utility>

#include <nlohmann/json.hpp>

#include "common/shards/json_text.hpp"
#include "reports/dual_reporter.hpp"
#include "reports/json_values.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// The lists of a head, by the name of the dataset for all heads.
constexpr std::pair<const char*, std::vector<double> DualHead::*> lists[] = {
    {"relative_deviation", &DualHead::relative_deviation},
    {"out_deviation", &DualHead::out_deviation},
    {"by_query", &DualHead::by_query},
    {"alpha", &DualHead::alpha}};

Json json_of(const DualHead& head) {
  Json json = {{"queries", head.queries},
               {"converged", head.converged},
               {"empty", head.empty},
               {"padded_queries", head.padding.queries},
               {"padded_keys", head.padding.keys},
               {"max_gap", head.max_gap},
               {"max_relative_gap", head.max_relative_gap},
               {"max_gradient_norm", head.max_gradient_norm},
               {"max_certificate_error", head.max_certificate_error},
               {"max_iterations", head.max_iterations},
               {"iterations", head.iterations},
               {"convergence", convergence_json(head.convergence)}};
  for (const auto& [name, list] : lists) json[name] = (head.*list).size();
  return json;
}

DualHead head_of(const CheckedJson& json, const DualHeading& heading) {
  DualHead head;
  head.queries = json.at("queries").count(heading.queries);
  head.empty = json.at("empty").count(head.queries);
  head.converged = json.at("converged").count(head.problems());
  head.padding.queries = json.at("padded_queries").count(heading.queries);
  head.padding.keys = json.at("padded_keys").count(heading.keys);
  head.max_gap = json.at("max_gap").number_or_nan();
  head.max_relative_gap = json.at("max_relative_gap").number_or_nan();
  head.max_gradient_norm = json.at("max_gradient_norm").number_or_nan();
  head.max_certificate_error = json.at("max_certificate_error").number_or_nan();
  // So small that sums over all heads fit.
  constexpr Index most_iterations = Index{1} << 40;
  head.max_iterations = json.at("max_iterations").count(most_iterations);
  head.iterations = json.at("iterations").count(most_iterations);
  head.convergence = convergence_of(json.at("convergence"));
  return head;
}

// Divides the lists of all heads among the heads.
void take_lists(const ReportNotes& notes, const std::vector<CheckedJson>& json, DualNotes& dual) {
  for (const auto& [name, list] : lists) {
    Index all = 0;
    std::vector<Index> counts;
    for (std::size_t n = 0; n < json.size(); ++n) {
      counts.push_back(json[n].at(name).count(dual.heads[n].queries));
      if (__builtin_add_overflow(all, counts.back(), &all)) throw json[n].refused("fewer queries");
    }
    if (json.empty()) continue;
    auto next = numbers_of(notes, name, all).begin();
    for (std::size_t n = 0; n < json.size(); ++n) {
      (dual.heads[n].*list).assign(next, next + counts[n]);
      next += counts[n];
    }
  }
}

}  // namespace

ReportNotes notes_of(const DualNotes& dual) {
  const DualHeading& heading = dual.heading;
  Json json = {{"common",
                {{"label", dual.section.label},
                 {"file", dual.section.file},
                 {"input", dual.input},
                 {"several", dual.several},
                 {"averages", dual.averages},
                 {"leading", heading.leading},
                 {"queries", heading.queries},
                 {"keys", heading.keys},
                 {"axes", heading.axes},
                 {"alpha", heading.alpha},
                 {"radius", heading.radius ? Json(*heading.radius) : Json(nullptr)},
                 {"template_scale", heading.template_scale},
                 {"evidence_scale", heading.evidence_scale}}}};
  ReportNotes notes{.group = dual.section.group, .figures = ""};
  for (const DualHead& head : dual.heads) {
    json["heads"].push_back(json_of(head));
    for (const auto& [name, list] : lists) {
      std::vector<double>& all = notes.numbers[name];
      all.insert(all.end(), (head.*list).begin(), (head.*list).end());
    }
  }
  notes.figures = json_text(json);
  return notes;
}

DualNotes dual_of(const ReportNotes& notes, const std::optional<HeadShare>& share) {
  const CheckedJson json = figures_of(notes);
  const CheckedJson common = json.at("common");
  DualNotes dual;
  dual.section.group = notes.group;
  dual.section.label = common.at("label").text();
  dual.section.file = common.at("file").text();
  dual.input = common.at("input").text();
  dual.several = common.at("several").flag();
  dual.averages = common.at("averages").flag();
  DualHeading& heading = dual.heading;
  heading.leading = common.at("leading").shape();
  heading.queries = common.at("queries").count();
  heading.keys = common.at("keys").count();
  heading.axes = common.at("axes").count();
  heading.alpha = common.at("alpha").number();
  heading.radius = number_or_none(common.at("radius"));
  heading.template_scale = common.at("template_scale").number();
  heading.evidence_scale = common.at("evidence_scale").number();
  const Index heads = own_heads(common.at("leading"), share);
  if (heads == 0) return dual;
  const std::vector<CheckedJson> found = json.at("heads").list(static_cast<std::size_t>(heads));
  for (const CheckedJson& one : found) dual.heads.push_back(head_of(one, heading));
  take_lists(notes, found, dual);
  return dual;
}

}  // namespace attn::tools
