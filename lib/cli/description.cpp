#include "cli/description.hpp"

#include <nlohmann/json.hpp>

#include "cli/option.hpp"

namespace attn::cli {
namespace {

using nlohmann::ordered_json;

const char* kind_name(Option::Kind kind) {
  using Kind = Option::Kind;
  switch (kind) {
    case Kind::flag:
      return "flag";
    case Kind::text:
      return "text";
    case Kind::optional_text:
      return "optional_text";
    case Kind::texts:
      return "texts";
    case Kind::assignment:
      return "assignment";
    case Kind::choice:
      return "choice";
    case Kind::choices:
      return "choices";
    case Kind::optional_choice:
      return "optional_choice";
    case Kind::number:
      return "number";
    case Kind::numbers:
      return "numbers";
    case Kind::integer:
      return "integer";
    case Kind::integers:
      return "integers";
    case Kind::points:
      return "points";
    case Kind::size:
      return "size";
    case Kind::seed:
      return "seed";
    case Kind::compression:
      return "compression";
  }
  return "";
}

ordered_json described(const Option& option) {
  ordered_json json = {{"name", option.name},
                       {"kind", kind_name(option.kind)},
                       {"help", option.help},
                       {"verbs", option.verbs},
                       {"common", option.section == common_heading}};
  if (!option.values.empty()) json["values"] = option.values;
  if (option.fallback) json["default"] = *option.fallback;
  if (!option.default_words.empty()) json["default_words"] = option.default_words;
  return json;
}

ordered_json described(const std::vector<Declaration::Impl::Dataset>& datasets) {
  ordered_json all = ordered_json::array();
  for (const auto& dataset : datasets) {
    all.push_back({{"name", dataset.name}, {"shape", dataset.shape}, {"meaning", dataset.meaning}});
  }
  return all;
}

}  // namespace

std::string description_json(const Declaration& declaration) {
  const Declaration::Impl& impl = declaration.impl();
  ordered_json json = {{"tool", impl.tool}, {"summary", impl.summary}, {"about", impl.about}};
  json["verbs"] = ordered_json::array();
  for (const auto& verb : impl.verbs) {
    json["verbs"].push_back({{"name", verb.name}, {"help", verb.help}});
  }
  json["options"] = ordered_json::array();
  for (const Option& option : all_options(impl)) json["options"].push_back(described(option));
  json["datasets"] = described(impl.datasets);
  json["results"] = described(impl.results);
  json["report"] = described(impl.report_members);
  json["formulas"] = impl.formulas;
  json["references"] = impl.references;
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace attn::cli
