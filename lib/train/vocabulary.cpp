#include "train/vocabulary.hpp"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "attnkit/error.hpp"
#include "tensor/utf8.hpp"
#include "train/symbols.hpp"

namespace attn::train {
namespace {

constexpr std::string_view word_mark = " ";

[[noreturn]] void bad_vocabulary(const std::string& message) {
  throw Error(Failure::input, message);
}

void learn_byte_pairs(const SymbolCounts& words, Index size, VocabularyParts& parts) {
  SymbolCounts characters;
  for (const auto& [word, count] : words) {
    characters[word_mark] += count;
    for (const std::string_view point : points_of(word)) characters[point] += count;
  }
  std::unordered_map<std::string_view, Index> tokens;
  for (const std::string_view point : ranked(characters)) {
    tokens.emplace(point, std::ssize(parts.symbols));
    parts.symbols.emplace_back(point);
  }
  if (size > 0 && std::ssize(parts.symbols) > size) {
    bad_vocabulary("a vocabulary of " + std::to_string(size) + " symbols has no room for the " +
                   std::to_string(parts.symbols.size()) +
                   " that are special tokens and characters of the text");
  }
  PairLearner learner(parts.symbols, parts.merges);
  for (const auto& [word, count] : words) {
    std::vector<Index> split = {tokens.at(word_mark)};
    for (const std::string_view point : points_of(word)) split.push_back(tokens.at(point));
    learner.add(split, count);
  }
  while (std::ssize(parts.symbols) != size && learner.join_next()) {
  }
}

// The first symbols, which are special tokens.
VocabularyParts special_parts(const VocabularyOptions& options) {
  VocabularyParts parts;
  parts.kind = options.kind;
  parts.symbols = options.specials;
  parts.line_ends = options.line_ends && options.kind != TokenKind::characters;
  const auto end = std::find(parts.symbols.begin(), parts.symbols.end(), line_end_symbol);
  if (parts.line_ends && end == parts.symbols.end()) parts.symbols.emplace_back(line_end_symbol);
  parts.specials = std::ssize(parts.symbols);
  if (options.size != 0 && options.size <= parts.specials) {
    bad_vocabulary("a vocabulary of " + std::to_string(options.size) +
                   " symbols has no room for more than its special tokens, which are " +
                   std::to_string(parts.specials));
  }
  return parts;
}

void learn_symbols(const SymbolCounts& counts, Index size, VocabularyParts& parts) {
  const std::set<std::string, std::less<>> specials(parts.symbols.begin(), parts.symbols.end());
  for (const std::string_view symbol : ranked(counts)) {
    if (size > 0 && std::ssize(parts.symbols) == size) return;
    // A word that is a special token is in the vocabulary already.
    if (parts.kind == TokenKind::words && specials.contains(symbol)) continue;
    parts.symbols.emplace_back(symbol);
  }
}

// A symbol in a message, which is one short line.
std::string shown(std::string_view symbol) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (symbol.size() <= 40 && std::none_of(symbol.begin(), symbol.end(), is_control)) {
    return "'" + std::string(symbol) + "'";
  }
  return "a symbol of " + std::to_string(symbol.size()) + " bytes";
}

}  // namespace

Vocabulary Vocabulary::learn(std::string_view text, const VocabularyOptions& options) {
  VocabularyParts parts = special_parts(options);
  require_utf8(text);
  const bool characters = options.kind == TokenKind::characters;
  const SymbolCounts counts = counts_of(characters ? points_of(text) : words_of(text, false));
  if (text.empty()) bad_vocabulary("the text is empty");
  if (counts.empty()) bad_vocabulary("the text has no words, only white space");
  const auto learn = options.kind == TokenKind::byte_pairs ? learn_byte_pairs : learn_symbols;
  learn(counts, options.size, parts);
  if (options.exact && std::ssize(parts.symbols) < options.size) {
    bad_vocabulary("a vocabulary of " + std::to_string(options.size) +
                   " symbols is larger than the text's, which has " +
                   std::to_string(std::ssize(parts.symbols) - parts.specials) + " and " +
                   std::to_string(parts.specials) + " special tokens");
  }
  return Vocabulary(std::move(parts));
}

Vocabulary::Vocabulary(VocabularyParts parts) : parts_(std::move(parts)) {
  index_symbols();
  index_merges();
  unknown_ = special(unknown_symbol);
  if (!parts_.line_ends) return;
  line_end_ = special(line_end_symbol);
  if (!line_end_) bad_vocabulary("a vocabulary with line ends lacks the special token <eos>");
}

void Vocabulary::index_symbols() {
  if (parts_.specials < 0 || parts_.specials > size()) {
    bad_vocabulary("a vocabulary of " + std::to_string(size()) + " symbols has " +
                   std::to_string(parts_.specials) + " special tokens");
  }
  std::set<std::string_view> specials;
  for (Index token = 0; token < size(); ++token) {
    const std::string& symbol = parts_.symbols[static_cast<std::size_t>(token)];
    const std::string place = "symbol " + std::to_string(token) + " of the vocabulary ";
    if (symbol.empty() || !is_utf8(symbol)) bad_vocabulary(place + "is empty or not UTF-8");
    const bool is_special = token < parts_.specials;
    const bool in_text = !is_special || parts_.kind == TokenKind::words;
    if ((is_special && !specials.insert(symbol).second) ||
        (in_text && !tokens_.emplace(symbol, token).second)) {
      bad_vocabulary(place + "is there twice");
    }
  }
}

// Merges make the last symbols, each its own; those before are characters.
void Vocabulary::index_merges() {
  const Index first = size() - std::ssize(parts_.merges);
  const auto name = [&](Index token) { return parts_.symbols[static_cast<std::size_t>(token)]; };
  for (Index token = parts_.specials; token < size(); ++token) {
    const bool is_merged = token >= first && parts_.kind == TokenKind::byte_pairs;
    if (is_merged || parts_.kind == TokenKind::words) continue;
    if (points_of(name(token)).size() > 1) {
      bad_vocabulary("symbol " + std::to_string(token) + " of the vocabulary, " +
                     shown(name(token)) + ", is no character, and no merge makes it");
    }
  }
  for (std::size_t n = 0; n < parts_.merges.size(); ++n) {
    const Merge& merge = parts_.merges[n];
    const Index joined = first + static_cast<Index>(n);
    const auto is_earlier = [&](Index t) { return t >= parts_.specials && t < joined; };
    if (parts_.kind != TokenKind::byte_pairs || !is_earlier(merge.left) ||
        !is_earlier(merge.right) || name(merge.left) + name(merge.right) != name(joined) ||
        !joined_.emplace(merge, Joined{static_cast<Index>(n), joined}).second) {
      bad_vocabulary("merge " + std::to_string(n) + " does not make symbol " +
                     std::to_string(joined) + " of the vocabulary");
    }
  }
}

std::optional<Index> Vocabulary::special(std::string_view name) const {
  const auto end = parts_.symbols.begin() + parts_.specials;
  const auto found = std::find(parts_.symbols.begin(), end, name);
  return found == end ? std::nullopt : std::optional<Index>(found - parts_.symbols.begin());
}

Index Vocabulary::token_of(std::string_view symbol) const {
  const auto found = tokens_.find(symbol);
  if (found != tokens_.end()) return found->second;
  if (unknown_) return *unknown_;
  bad_vocabulary(shown(symbol) + " is not in the vocabulary, which has no <unk>");
}

std::vector<Index> Vocabulary::pieces_of(std::string_view word) const {
  SymbolChain chain;
  chain.add(token_of(word_mark), true);
  for (const std::string_view point : points_of(word)) chain.add(token_of(point), false);
  using Candidate = std::pair<Index, Index>;  // rank and place
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto joined = [&](Index at) {
    const std::optional<Merge> pair = chain.pair(at);
    return pair ? joined_.find(*pair) : joined_.end();
  };
  const auto offer = [&](Index at) {
    const auto found = joined(at);
    if (found != joined_.end()) queue.emplace(found->second.rank, at);
  };
  for (Index at = 0; at < chain.size(); ++at) offer(at);
  while (!queue.empty()) {
    const auto [rank, at] = queue.top();
    queue.pop();
    const auto found = joined(at);
    if (found == joined_.end() || found->second.rank != rank) continue;
    chain.join(at, found->second.token);
    offer(chain.before(at));
    offer(at);
  }
  std::vector<Index> pieces;
  for (Index at = 0; at != no_place; at = chain.after(at)) pieces.push_back(chain.symbol(at));
  return pieces;
}

std::vector<Index> Vocabulary::encode(std::string_view text) const {
  require_utf8(text);
  std::vector<Index> tokens;
  if (parts_.kind == TokenKind::characters) {
    for (const std::string_view point : points_of(text)) tokens.push_back(token_of(point));
    return tokens;
  }
  std::unordered_map<std::string_view, std::vector<Index>> pieces;  // by word
  for (const std::string_view word : words_of(text, parts_.line_ends)) {
    const auto [found, is_new] = pieces.try_emplace(word);
    if (is_new && word == line_end) {
      found->second = {*line_end_};
    } else if (is_new) {
      found->second =
          parts_.kind == TokenKind::words ? std::vector<Index>{token_of(word)} : pieces_of(word);
    }
    tokens.insert(tokens.end(), found->second.begin(), found->second.end());
  }
  return tokens;
}

std::string Vocabulary::decode(const std::vector<Index>& tokens) const {
  std::string text;
  for (const Index token : tokens) {
    if (token < 0 || token >= size()) {
      bad_vocabulary("token " + std::to_string(token) + " is not in the vocabulary of " +
                     std::to_string(size()) + " symbols");
    }
    const std::string_view symbol = parts_.symbols[static_cast<std::size_t>(token)];
    const bool begins_line = text.empty() || text.back() == '\n';
    if (token == line_end_) {
      text += line_end;
    } else if (parts_.kind == TokenKind::words && !begins_line) {
      text.append(word_mark).append(symbol);
    } else if (parts_.kind == TokenKind::byte_pairs && begins_line &&
               symbol.starts_with(word_mark)) {
      text.append(symbol.substr(word_mark.size()));
    } else {
      text.append(symbol);
    }
  }
  return text;
}

}  // namespace attn::train
