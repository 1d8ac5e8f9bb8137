#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "attn_view/half_weights.hpp"
#include "attn_view/head_figures.hpp"
#include "attn_view/view_task.hpp"
#include "common/heads/key_names.hpp"
#include "io/input.hpp"

/// The data of the page, in the format of page/FORMAT.md.
namespace attn::tools {

using Json = nlohmann::ordered_json;

/// `json` as text that ends no element of a page and whose characters print.
std::string text_in_page(const Json& json);

/// The lists of tokens that heads refer to by number; equal lists are one.
class TokenLists {
 public:
  /// The number of the list.
  Index add(std::vector<std::string> tokens);

  Json json() const { return lists_; }

 private:
  std::map<std::vector<std::string>, Index> numbers_;
  Json lists_ = Json::array();
};

/// The root's attributes that are text or one number, without `history`.
Json attributes_json(const io::InputBundle& bundle);

/// The heads of one section, as JSON.
class HeadJson {
 public:
  /// Reads the names of the keys and relative_deviation. Warns of the latter if its shape does not
  /// fit. All arguments but `report` must outlive the object.
  HeadJson(const ViewTask& task, TokenLists& tokens, cli::Report& report);

  /// The n-th head to compute, without weights.
  Json head(Index n, const HeadFigures& figures);

 private:
  Json tokens_of(Index problem);
  Json deviation_of(Index n) const;

  const ViewTask& task_;
  TokenLists& tokens_;
  KeyNames names_;
  std::optional<ArraySource> deviation_;
};

/// Puts the weights into a head's JSON.
void add_weights(const HalfWeights& weights, const AttentionInput& input, Json& head);

}  // namespace attn::tools
