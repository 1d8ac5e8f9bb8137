// What a shard of lambda-solve keeps of its report.

#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "attnkit/error.hpp"
#include "common/json_text.hpp"
#include "reports/dual_reporter.hpp"
#include "reports/json_values.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;

// The lists of a head, by the name of the dataset that holds those of all heads.
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

DualHead head_of(const Json& json) {
  DualHead head;
  json.at("queries").get_to(head.queries);
  json.at("converged").get_to(head.converged);
  json.at("empty").get_to(head.empty);
  json.at("padded_queries").get_to(head.padding.queries);
  json.at("padded_keys").get_to(head.padding.keys);
  head.max_gap = number_or_nan(json.at("max_gap"));
  head.max_relative_gap = number_or_nan(json.at("max_relative_gap"));
  head.max_gradient_norm = number_or_nan(json.at("max_gradient_norm"));
  head.max_certificate_error = number_or_nan(json.at("max_certificate_error"));
  json.at("max_iterations").get_to(head.max_iterations);
  json.at("iterations").get_to(head.iterations);
  head.convergence = convergence_of(json.at("convergence"));
  return head;
}

}  // namespace

ReportNotes notes_of(const DualNotes& dual) {
  const DualHeading& heading = dual.heading;
  Json json = {{"label", dual.section.label},
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
               {"evidence_scale", heading.evidence_scale}};
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

DualNotes dual_of(const ReportNotes& notes) {
  const Json json = Json::parse(notes.figures);
  DualNotes dual;
  dual.section.group = notes.group;
  json.at("label").get_to(dual.section.label);
  json.at("file").get_to(dual.section.file);
  json.at("input").get_to(dual.input);
  json.at("several").get_to(dual.several);
  json.at("averages").get_to(dual.averages);
  DualHeading& heading = dual.heading;
  json.at("leading").get_to(heading.leading);
  json.at("queries").get_to(heading.queries);
  json.at("keys").get_to(heading.keys);
  json.at("axes").get_to(heading.axes);
  json.at("alpha").get_to(heading.alpha);
  if (!json.at("radius").is_null()) heading.radius = json.at("radius").get<double>();
  json.at("template_scale").get_to(heading.template_scale);
  json.at("evidence_scale").get_to(heading.evidence_scale);
  std::size_t next[std::size(lists)] = {};
  for (const Json& one : json.at("heads")) {
    DualHead head = head_of(one);
    for (std::size_t n = 0; n < std::size(lists); ++n) {
      const auto& [name, list] = lists[n];
      const std::vector<double>& all = notes.numbers.at(name);
      const auto count = one.at(name).get<std::size_t>();
      if (count > all.size() - next[n]) {
        throw Error(Failure::input,
                    std::string("the notes of a shard have too few numbers ") + name);
      }
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(next[n]);
      (head.*list).assign(first, first + static_cast<std::ptrdiff_t>(count));
      next[n] += count;
    }
    dual.heads.push_back(std::move(head));
  }
  return dual;
}

}  // namespace attn::tools
