#include "attn_view/view_data.hpp"

#include <bit>
#include <cmath>
#include <variant>

#include "attn_view/page.hpp"
#include "cli/words.hpp"
#include "common/options/score_options.hpp"
#include "io/contents.hpp"
#include "io/result_mark.hpp"
#include "reports/distribution.hpp"

namespace attn::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "the page has little-endian arrays");

template <class T>
Json array_json(const char* type, const std::vector<T>& values, const Shape& shape) {
  const auto* const bytes = reinterpret_cast<const char*>(values.data());
  return {{"type", type}, {"shape", shape}, {"base64", base64({bytes, values.size() * sizeof(T)})}};
}

Json figures_json(const SchemeFigures& figures) {
  Json json;
  json["col_sum"] = array_json("float64", figures.col_sum, {std::ssize(figures.col_sum)});
  json["row_entropy"] =
      array_json("float64", figures.row_entropy, {std::ssize(figures.row_entropy)});
  json["share_ignored"] = figures.share_ignored;
  json["least"] = figures.least;
  json["least_per_query"] = figures.least_per_query;
  json["entropy"] = figures.entropy;
  json["first_key_share"] = figures.first_key_share;
  json["sink_share"] = figures.sink_share;
  json["weights"] = nullptr;
  return json;
}

std::optional<ArraySource> deviation_of(const ViewTask& task, cli::Report& report) {
  constexpr const char* name = "relative_deviation";
  if (!task.bundle.has(name)) return std::nullopt;
  ArraySource source = task.bundle.dataset(name);
  const Shape expected = join(task.input.leading, {task.input.queries});
  if (source.shape() == expected) return source;
  report.warn(source.address() + " is not used: it has shape " + to_string(source.shape()) +
              ", expected " + to_string(expected));
  return std::nullopt;
}

}  // namespace

std::string text_in_page(const Json& json) {
  const std::string text =
      cli::printing_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

Index TokenLists::add(std::vector<std::string> tokens) {
  const auto [at, is_new] = numbers_.emplace(std::move(tokens), std::ssize(lists_));
  if (is_new) lists_.push_back(at->first);
  return at->second;
}

Json attributes_json(const io::InputBundle& bundle) {
  Json json = Json::object();
  for (const io::AttributeValue& attribute : io::root_attributes(bundle)) {
    if (attribute.name == "history" || attribute.name == io::result_mark) continue;
    std::visit(
        [&](const auto& held) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(held)>,
                                        io::AttributeValue::Described>) {
            if (held.size() == 1) json[attribute.name] = held.front();
          }
        },
        attribute.value);
  }
  return json;
}

HeadJson::HeadJson(const ViewTask& task, TokenLists& tokens, cli::Report& report)
    : task_(task),
      tokens_(tokens),
      names_(read_key_names(task.bundle, task.input.leading, task.input.keys, report)),
      deviation_(tools::deviation_of(task, report)) {}

Json HeadJson::tokens_of(Index problem) {
  if (names_.names.empty()) return nullptr;
  const auto first = names_.names.begin() + problem / names_.heads_per_list * task_.input.keys;
  return tokens_.add({first, first + task_.input.keys});
}

Json HeadJson::deviation_of(Index n) const {
  if (!deviation_) return nullptr;
  const AttentionInput& input = task_.input;
  const Shape index = input.axes.index(n);
  const OwnPart& part = input.parts[static_cast<std::size_t>(input.own_problem(n))];
  std::vector<double> values(static_cast<std::size_t>(part.queries()));
  deviation_->read(join(index, {part.range.row0}), join(Shape(index.size(), 1), {part.queries()}),
                   values.data());
  // Queries without a solution have none.
  std::erase_if(values, [](double value) { return std::isnan(value); });
  return Distribution(values).mean();
}

Json HeadJson::head(Index n, const HeadFigures& figures) {
  const AttentionInput& input = task_.input;
  const Index problem = input.own_problem(n);
  const OwnPart& part = input.parts[static_cast<std::size_t>(problem)];
  Shape index = input.axes.index(n);
  Json json;
  json["head"] = nullptr;
  if (!index.empty()) {
    json["head"] = index.back();
    index.pop_back();
  }
  json["batch"] = index;
  json["queries"] = input.queries;
  json["keys"] = input.keys;
  json["causal"] = input.causal != Causal::none || !input.options.window.is_open();
  json["min_queries"] = figures.min_queries;
  json["tokens"] = tokens_of(problem);
  const bool one_sequence = input.queries == input.keys && part.range.row0 == part.range.col0 &&
                            part.queries() == part.keys();
  json["query_tokens"] = one_sequence ? json["tokens"] : Json();
  const std::vector<std::int32_t> queries(figures.queries_of_key.begin(),
                                          figures.queries_of_key.end());
  json["queries_of_key"] = array_json("int32", queries, {input.keys});
  for (std::size_t s = 0; s < view_schemes.size(); ++s) {
    json["schemes"][scheme_name(view_schemes[s])] = figures_json(figures.schemes[s]);
  }
  json["relative_deviation"] = deviation_of(n);
  return json;
}

void add_weights(const HalfWeights& weights, const AttentionInput& input, Json& head) {
  for (std::size_t s = 0; s < view_schemes.size(); ++s) {
    head["schemes"][scheme_name(view_schemes[s])]["weights"] =
        array_json("float16", weights[s], {input.queries, input.keys});
  }
}

}  // namespace attn::tools
