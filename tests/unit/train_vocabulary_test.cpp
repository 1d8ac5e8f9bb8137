// lib/train: vocabularies, their texts there and back, and byte pairs against a plain learner.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "attnkit/error.hpp"
#include "train/vocabulary.hpp"

using namespace attn;
using namespace attn::train;

namespace {

using SymbolList = std::vector<std::string>;

const SymbolList usual_specials = {"<unk>", "[MASK]", "<s>", "</s>"};

VocabularyOptions vocabulary_options(TokenKind kind, Index size = 0) {
  VocabularyOptions options;
  options.kind = kind;
  options.size = size;
  options.specials = usual_specials;
  return options;
}

SymbolList learned_symbols(const Vocabulary& vocabulary) {
  return {vocabulary.symbols().begin() + std::ssize(usual_specials), vocabulary.symbols().end()};
}

// The message of the Error(input) that a call throws; else what is no message.
template <class Call>
std::string input_error(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.failure() == Failure::input ? error.what() : "another failure";
  }
  return "no error";
}

bool message_has(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

// Words of few letters, so that many pairs are equally frequent, in runs, and overlap.
std::string random_words(std::mt19937_64& random, std::size_t words, std::size_t letters) {
  const SymbolList alphabet = {"a", "b", "é", "c", "𝄞", "d"};
  std::string text;
  for (std::size_t n = 0; n < words; ++n) {
    for (std::size_t length = 1 + random() % 9; length > 0; --length) {
      text += alphabet[random() % letters];
    }
    text += random() % 7 == 0 ? "\n" : " ";
  }
  return text;
}

// Byte pairs by counting all pairs anew for each merge.
struct PlainPairs {
  using Pair = std::pair<std::string, std::string>;
  std::map<std::string, Index> counts;
  std::map<std::string, SymbolList> parts;
  SymbolList symbols;
  std::vector<Pair> merges;

  static SymbolList characters(const std::string& word) {
    SymbolList found = {" "};
    for (const char c : word) {
      if ((static_cast<unsigned char>(c) & 0xc0U) == 0x80U) {
        found.back() += c;
      } else {
        found.emplace_back(1, c);
      }
    }
    return found;
  }

  static void join(SymbolList& word, std::size_t at) {
    word[at] += word[at + 1];
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }

  PlainPairs(const std::string& text, std::size_t size) {
    std::istringstream stream(text);
    std::map<std::string, Index> frequency;
    for (std::string word; stream >> word;) ++counts[word];
    for (const auto& [word, count] : counts) {
      parts[word] = characters(word);
      for (const std::string& c : parts[word]) frequency[c] += count;
    }
    for (const auto& [c, count] : frequency) symbols.push_back(c);
    std::stable_sort(symbols.begin(), symbols.end(),
                     [&](const auto& a, const auto& b) { return frequency[a] > frequency[b]; });
    while (symbols.size() < size && join_next()) {
    }
  }

  bool join_next() {
    std::map<Pair, Index> pairs;
    for (const auto& [word, split] : parts) {
      for (std::size_t n = 0; n + 1 < split.size(); ++n) {
        pairs[{split[n], split[n + 1]}] += counts[word];
      }
    }
    Pair best;
    Index most = 1;
    for (const auto& [pair, count] : pairs) {
      if (count > most) {
        best = pair;
        most = count;
      }
    }
    if (most < 2) return false;
    for (auto& [word, split] : parts) {
      for (std::size_t n = 0; n + 1 < split.size(); ++n) {
        if (Pair{split[n], split[n + 1]} == best) join(split, n);
      }
    }
    symbols.push_back(best.first + best.second);
    merges.push_back(best);
    return true;
  }

  SymbolList encode(const std::string& word) const {
    SymbolList split = characters(word);
    for (;;) {
      std::size_t at = split.size();
      auto rank = merges.end();
      for (std::size_t n = 0; n + 1 < split.size(); ++n) {
        const auto found = std::find(merges.begin(), merges.end(), Pair{split[n], split[n + 1]});
        if (found < rank) {
          rank = found;
          at = n;
        }
      }
      if (at == split.size()) return split;
      join(split, at);
    }
  }
};

SymbolList symbols_of(const Vocabulary& vocabulary, const std::vector<Index>& tokens) {
  SymbolList found;
  for (const Index token : tokens) {
    found.push_back(vocabulary.symbols()[static_cast<std::size_t>(token)]);
  }
  return found;
}

}  // namespace

TEST_CASE("characters of a text, by count and then by code point") {
  const std::string text = "éa𝄞 b\na\tb é€\n";
  const Vocabulary vocabulary = Vocabulary::learn(text, vocabulary_options(TokenKind::characters));
  CHECK(learned_symbols(vocabulary) == SymbolList{"\n", " ", "a", "b", "é", "\t", "€", "𝄞"});
  CHECK(vocabulary.special("</s>") == 3);
  CHECK_FALSE(vocabulary.special("a").has_value());
  CHECK(vocabulary.decode(vocabulary.encode(text)) == text);
  CHECK(vocabulary.encode("bß") == std::vector<Index>{7, 0});
  CHECK(vocabulary.encode("").empty());
  const Vocabulary small = Vocabulary::learn(text, vocabulary_options(TokenKind::characters, 6));
  CHECK(learned_symbols(small) == SymbolList{"\n", " "});
}

TEST_CASE("words of a text, by count and then by bytes") {
  const std::string text = " the cat\tsaw the  dog\r\nand a cat <unk> \n\nsaw";
  VocabularyOptions options = vocabulary_options(TokenKind::words, 8);
  const Vocabulary vocabulary = Vocabulary::learn(text, options);
  CHECK(learned_symbols(vocabulary) == SymbolList{"cat", "saw", "the", "a"});
  CHECK(vocabulary.encode("the dog saw\n</s> a") == std::vector<Index>{6, 0, 5, 3, 7});
  CHECK(vocabulary.decode(vocabulary.encode("\n the cat \n saw dog")) == "the cat saw <unk>");

  options.size = 0;
  options.line_ends = true;
  const Vocabulary lines = Vocabulary::learn(text, options);
  CHECK(lines.special("<eos>") == 4);
  CHECK(lines.size() == 5 + 6);
  CHECK(lines.decode(lines.encode(text)) == "the cat saw the dog\nand a cat <unk>\n\nsaw");
  CHECK(lines.encode("\n\n") == std::vector<Index>{4, 4});
}

TEST_CASE("a size that the text does not fill is an error only if asked") {
  for (const TokenKind kind : {TokenKind::characters, TokenKind::words, TokenKind::byte_pairs}) {
    VocabularyOptions options = vocabulary_options(kind, 50);
    const Vocabulary vocabulary = Vocabulary::learn("to be or not to be", options);
    CHECK(vocabulary.size() < 50);
    options.exact = true;
    const std::string message =
        input_error([&] { Vocabulary::learn("to be or not to be", options); });
    CHECK(message_has(message, "50"));
    CHECK(message_has(message, std::to_string(vocabulary.size() - 4)));
    options.size = vocabulary.size();
    CHECK(Vocabulary::learn("to be or not to be", options).size() == options.size);
  }
}

TEST_CASE("byte pairs are those of a plain learner") {
  std::mt19937_64 random(5);
  for (int n = 0; n < 60; ++n) {
    const std::string text = random_words(random, 5 + random() % 120, 2 + random() % 5);
    const std::size_t size = n % 3 == 0 ? 1000 : 8 + random() % 40;
    const PlainPairs plain(text, size);
    const Vocabulary vocabulary = Vocabulary::learn(
        text, vocabulary_options(TokenKind::byte_pairs, static_cast<Index>(size) + 4));
    CAPTURE(text);
    CHECK(learned_symbols(vocabulary) == plain.symbols);
    REQUIRE(vocabulary.merges().size() == plain.merges.size());
    for (std::size_t m = 0; m < plain.merges.size(); ++m) {
      const Merge& merge = vocabulary.merges()[m];
      const SymbolList pair = symbols_of(vocabulary, {merge.left, merge.right});
      CHECK((pair[0] == plain.merges[m].first && pair[1] == plain.merges[m].second));
    }
    for (const auto& [word, count] : plain.counts) {
      CHECK(symbols_of(vocabulary, vocabulary.encode(word)) == plain.encode(word));
    }
  }
}

TEST_CASE("byte pairs there and back") {
  std::mt19937_64 random(6);
  const std::string text = random_words(random, 300, 6) + "<s> x</s>";
  VocabularyOptions options = vocabulary_options(TokenKind::byte_pairs, 60);
  const Vocabulary vocabulary = Vocabulary::learn(text, options);
  CHECK(vocabulary.size() == 60);
  CHECK(vocabulary.decode(vocabulary.encode("  ab\n\nbéd ca\t")) == "ab béd ca");
  // What looks like a special token is text.
  const std::vector<Index> tokens = vocabulary.encode("</s>");
  CHECK(*std::min_element(tokens.begin(), tokens.end()) >= 4);
  CHECK(vocabulary.decode(tokens) == "</s>");
  CHECK(vocabulary.decode(vocabulary.encode("aßa 𝄞")) == "a<unk>a 𝄞");

  options.line_ends = true;
  const Vocabulary lines = Vocabulary::learn(text, options);
  CHECK(lines.decode(lines.encode(" ab \n\n béd  ca")) == "ab\n\nbéd ca");

  const Vocabulary restored(lines.parts());
  CHECK(restored.symbols() == lines.symbols());
  CHECK(restored.encode(text) == lines.encode(text));
}

TEST_CASE("the space of a word and a long word without end") {
  const Vocabulary one = Vocabulary::learn("aaaaa", vocabulary_options(TokenKind::byte_pairs));
  CHECK(learned_symbols(one) == SymbolList{"a", " ", "aa"});
  CHECK(symbols_of(one, one.encode("aaa a")) == SymbolList{" ", "aa", "a", " ", "a"});
  std::string word;
  for (int n = 0; n < 40000; ++n) word += static_cast<char>('a' + n * n % 7);
  const Vocabulary longest = Vocabulary::learn(word, vocabulary_options(TokenKind::byte_pairs));
  CHECK(longest.decode(longest.encode(word)) == word);
}

TEST_CASE("texts and sizes that no vocabulary can have") {
  const auto learn = [](const std::string& text, TokenKind kind, Index size) {
    return input_error([&] { Vocabulary::learn(text, vocabulary_options(kind, size)); });
  };
  for (const TokenKind kind : {TokenKind::characters, TokenKind::words, TokenKind::byte_pairs}) {
    CHECK(learn("", kind, 0) == "the text is empty");
    CHECK(message_has(learn("aé \xc3(", kind, 0), "UTF-8 at byte 4"));
    CHECK(message_has(learn("ab\xff", kind, 0), "UTF-8 at byte 2"));
    CHECK(message_has(learn("ab\xe2\x82", kind, 0), "UTF-8 at byte 2"));
    for (const Index size : {-1, 1, 4}) CHECK(message_has(learn("ab", kind, size), "no room"));
  }
  CHECK(message_has(learn(" \n\t", TokenKind::words, 0), "no words"));
  CHECK(message_has(learn(" \n", TokenKind::byte_pairs, 0), "no words"));
  CHECK(learn(" \n", TokenKind::characters, 0) == "no error");
  CHECK(learn("ab", TokenKind::characters, 5) == "no error");
  // A space, a and b must have tokens.
  CHECK(message_has(learn("ab", TokenKind::byte_pairs, 6), "7"));
  CHECK(learn("ab", TokenKind::byte_pairs, 7) == "no error");
}

TEST_CASE("what a vocabulary cannot encode, decode or restore") {
  VocabularyOptions options = vocabulary_options(TokenKind::words);
  options.specials = {"<s>"};
  const Vocabulary vocabulary = Vocabulary::learn("a b", options);
  CHECK(message_has(input_error([&] { vocabulary.encode("a c"); }), "'c'"));
  CHECK(message_has(input_error([&] { vocabulary.encode("a \x01"); }), "a symbol of 1 byte"));
  CHECK(message_has(input_error([&] { vocabulary.encode("a \xff"); }), "byte 2"));
  CHECK(message_has(input_error([&] { vocabulary.decode({0, 3}); }), "token 3"));
  CHECK(message_has(input_error([&] { vocabulary.decode({-1}); }), "token -1"));

  const VocabularyParts good = {TokenKind::byte_pairs, 1, false, {"<s>", " ", "a", " a"}, {{1, 2}}};
  CHECK(Vocabulary(good).encode("aa") == std::vector<Index>{3, 2});
  const auto refused = [&](const auto& change) {
    VocabularyParts parts = good;
    change(parts);
    return input_error([&] { const Vocabulary restored(parts); }) != "no error";
  };
  CHECK(refused([](VocabularyParts& parts) { parts.symbols[3] = "a"; }));
  CHECK(refused([](VocabularyParts& parts) { parts.symbols[0] = ""; }));
  CHECK(refused([](VocabularyParts& parts) { parts.symbols[2] = "\xff"; }));
  CHECK(refused([](VocabularyParts& parts) { parts.specials = 5; }));
  CHECK(refused([](VocabularyParts& parts) { parts.specials = -1; }));
  CHECK(refused([](VocabularyParts& parts) { parts.specials = 2; }));
  CHECK(refused([](VocabularyParts& parts) { parts.line_ends = true; }));
  CHECK(refused([](VocabularyParts& parts) { parts.kind = TokenKind::words; }));
  CHECK(refused([](VocabularyParts& parts) { parts.merges.push_back({1, 2}); }));
  CHECK(refused([](VocabularyParts& parts) { parts.merges[0] = {2, 2}; }));
  CHECK(refused([](VocabularyParts& parts) { parts.merges[0] = {1, 9}; }));
  CHECK(refused([](VocabularyParts& parts) { parts.merges.clear(); }));
  CHECK(refused([](VocabularyParts& parts) { std::swap(parts.symbols[2], parts.symbols[3]); }));
}
