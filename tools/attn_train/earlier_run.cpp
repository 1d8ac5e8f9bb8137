#include "attn_train/earlier_run.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <boost/crc.hpp>

#include "attn_train/checked_datasets.hpp"
#include "attn_train/run_tensors.hpp"
#include "attn_train/special_tokens.hpp"
#include "system/system_reason.hpp"

namespace attn::tools {
namespace {

using Json = nlohmann::ordered_json;
using train::Parameter;

// The first symbols of a vocabulary that are special tokens. A text has no such characters or byte
// pairs, and a word of the same bytes is the special token.
Index count_specials(const std::vector<std::string>& symbols) {
  const auto end = std::find_if(symbols.begin(), symbols.end(), [](const std::string& symbol) {
    return std::count(special_tokens().begin(), special_tokens().end(), symbol) == 0;
  });
  return end - symbols.begin();
}

std::vector<std::string> strings_in(const ArraySource& dataset) {
  if (dataset.dtype() != DType::string) {
    throw Error(Failure::input, dataset.address() + " is " + dataset.type() + ", expected strings");
  }
  if (dataset.shape().size() != 1 || dataset.shape().front() == 0) {
    throw Error(Failure::input, fmt::format("{} has shape {}, expected a list of strings",
                                            dataset.address(), to_string(dataset.shape())));
  }
  return dataset.read_strings();
}

std::vector<train::Merge> merges_in(const ArraySource& dataset) {
  const Shape shape = dataset.shape();
  if (dataset.dtype() != DType::i64 || shape.size() != 2 || shape.back() != 2) {
    throw Error(Failure::input, dataset.address() + " is no list of pairs of tokens");
  }
  std::vector<std::int64_t> pairs(static_cast<std::size_t>(shape.front() * 2));
  dataset.read({0, 0}, shape, pairs.data());
  std::vector<train::Merge> merges;
  for (std::size_t n = 0; n < pairs.size(); n += 2) merges.push_back({pairs[n], pairs[n + 1]});
  return merges;
}

train::TokenKind kind_of(const std::string& tokens) {
  return tokens == "words"        ? train::TokenKind::words
         : tokens == "byte-pairs" ? train::TokenKind::byte_pairs
                                  : train::TokenKind::characters;
}

}  // namespace

std::string print_of_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  boost::crc_32_type sum;
  std::uintmax_t size = 0;
  std::vector<char> block(std::size_t{1} << 20);
  while (stream) {
    stream.read(block.data(), static_cast<std::streamsize>(block.size()));
    sum.process_bytes(block.data(), static_cast<std::size_t>(stream.gcount()));
    size += static_cast<std::uintmax_t>(stream.gcount());
  }
  if (!stream.eof()) throw Error(Failure::input, file + ": " + system_reason(errno));
  return fmt::format("{}-{:08x}", size, sum.checksum());
}

EarlierRun::EarlierRun(io::InputBundle bundle, std::string file)
    : bundle_(std::move(bundle)), file_(std::move(file)) {
  const auto recipe = bundle_.text_attribute("train_recipe");
  if (recipe) recipe_ = Json::parse(*recipe, nullptr, false);
  if (!recipe_.is_object()) {
    throw Error(Failure::input, file_ + " is no checkpoint of attn-train");
  }
}

bool EarlierRun::is_language_model() const {
  const Json kind = recipe_.value("objective.kind", Json());
  return kind == "masked" || kind == "causal";
}

std::optional<train::Vocabulary> EarlierRun::vocabulary(
    const Recipe& recipe, const std::string& wanted,
    const std::vector<std::string>& specials) const {
  const bool begins_pairs = is_language_model() && recipe.text("objective.kind") == "pairs";
  if (begins_pairs && wanted == "target_vocabulary" && !recipe.flag("data.joint")) return {};
  const std::string name = begins_pairs ? "vocabulary" : wanted;
  const std::string tokens = recipe.text("data.tokens");
  const Json before = recipe_.value("data.tokens", Json());
  if (before != tokens) {
    throw recipe.refusal("data.tokens",
                         fmt::format("is {}, but {} has {}", tokens, file_,
                                     before.is_string() ? before.get<std::string>() : "no text"));
  }
  if (!bundle_.is_dataset(name)) {
    throw Error(Failure::input,
                fmt::format("{} has no {}, the tokens of this objective", file_, name));
  }
  const bool joins = wanted == "target_vocabulary" && recipe.flag("data.joint");
  if (joins && !begins_pairs && recipe_.value("data.joint", Json()) != true) {
    throw recipe.refusal("data.joint",
                         "is true, but " + file_ + " has a vocabulary for each column");
  }
  train::VocabularyParts parts;
  parts.kind = kind_of(tokens);
  parts.symbols = strings_in(bundle_.dataset(name));
  parts.specials = count_specials(parts.symbols);
  const auto has = [&](const std::string& special) {
    const auto end = parts.symbols.begin() + parts.specials;
    return std::find(parts.symbols.begin(), end, special) != end;
  };
  for (const std::string& special : specials) {
    if (has(special)) continue;
    throw Error(Failure::input,
                fmt::format("the {} of {} lacks the special token {}", name, file_, special));
  }
  const Index size = recipe.integer("data.vocabulary");
  if (size > 0 && size != std::ssize(parts.symbols)) {
    throw recipe.refusal("data.vocabulary", fmt::format("is {}, but the {} of {} has {} symbols",
                                                        size, name, file_, parts.symbols.size()));
  }
  parts.line_ends = has_line_ends(recipe);
  if (parts.line_ends && !has(std::string(train::line_end_symbol))) {
    throw recipe.refusal("data.line-ends", fmt::format("is true, but the {} of {} has no {}", name,
                                                       file_, train::line_end_symbol));
  }
  if (bundle_.is_dataset(name + "_merges")) {
    parts.merges = merges_in(bundle_.dataset(name + "_merges"));
  }
  try {
    return train::Vocabulary(std::move(parts));
  } catch (const Error& error) {
    throw error.at(file_ + ":/" + name);
  }
}

// The dataset that a tensor of the new run is taken from; empty if there is none.
template <class T>
std::string EarlierRun::taken_name(const Task<T>& task, const Parameter& one) const {
  std::string name = one.name;
  const std::string encoder = "encoder/";
  const auto& all = task.parameters().all();
  const bool has_encoder = std::any_of(all.begin(), all.end(), [&](const Parameter& other) {
    return other.name.starts_with(encoder);
  });
  if (has_encoder && is_language_model()) {
    if (!name.starts_with(encoder)) return {};
    name.erase(0, encoder.size());
    const std::string self = "self/";
    if (const auto at = name.find("/" + self); at != std::string::npos) {
      name.erase(at + 1, self.size());
    }
  }
  if (!has_tensor(task, one, bundle_, name)) return {};
  const bool over_classes = !task.classes().empty() &&
                            (one.name.ends_with("/softmax") || one.name.ends_with("/softmax_bias"));
  const bool same_classes =
      !over_classes ||
      (bundle_.is_dataset("classes") && strings_in(bundle_.dataset("classes")) == task.classes());
  return same_classes ? name : "";
}

template <class T>
Json EarlierRun::shared_with(const Task<T>& task) const {
  const std::vector<std::string> stored = checked_datasets(bundle_, file_);
  std::set<std::string> taken;
  bool has_matrix = false;
  Json added = Json::array();
  for (const Parameter& one : task.parameters().all()) {
    if (const std::string name = taken_name(task, one); !name.empty()) {
      taken.insert(name);
      has_matrix = has_matrix || one.shape.size() > 1;
    } else {
      added.push_back(one.name);
    }
  }
  // A vector alone, such as a bias of the same size, says nothing.
  if (!has_matrix) {
    throw Error(Failure::input, file_ + " has no matrix with a name and a shape of this model");
  }
  Json left = Json::array();
  for (const std::string& name : stored) {
    if (!name.starts_with(state_group + "/") && taken.count(name) == 0) left.push_back(name);
  }
  return {{"taken", taken.size()}, {"new", added}, {"not_taken", left}};
}

template <class T>
void EarlierRun::read(const Task<T>& task, T* weights) const {
  read_tensors(task, bundle_, weights, [&](const Parameter& one) { return taken_name(task, one); });
}

#define ATTN_EARLIER_RUN(T)                                    \
  template Json EarlierRun::shared_with(const Task<T>&) const; \
  template void EarlierRun::read(const Task<T>&, T*) const;
ATTN_EARLIER_RUN(float)
ATTN_EARLIER_RUN(double)
#undef ATTN_EARLIER_RUN

}  // namespace attn::tools
