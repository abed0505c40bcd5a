#include "exec/data/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "models/core/error.h"
#include "models/core/json.h"

namespace meshwright::exec {

namespace {

constexpr double unknown_penalty = 10;  // below the lowest score, as in SentencePiece

}  // namespace

Unigram::Unigram(Fields model) {
  const json& vocabulary = model.raw("vocab");
  if (!vocabulary.is_array() || vocabulary.empty())
    model.fail("vocab", "must be a list of pairs of a token and its score");
  for (const json& pair : vocabulary) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number())
      model.fail("vocab",
                 fmt::format("element {} is no pair of a token and its score", scores_.size()));
    const auto text = pair[0].get<std::string>();
    longest_ = std::max(longest_, text.size());
    tokens_[text] = static_cast<std::int32_t>(scores_.size());
    scores_.push_back(pair[1].get<double>());
  }
  unknown_score_ = *std::ranges::min_element(scores_) - unknown_penalty;
  if (model.has("unk_id") && !model.raw("unk_id").is_null()) {
    unknown_ = model.required<int>("unk_id");
    if (unknown_ < 0 || unknown_ >= std::ssize(scores_))
      model.fail("unk_id",
                 fmt::format("{} is no token; tokens are 0 to {}", unknown_, scores_.size() - 1));
  }
  byte_fallback_ = model.optional<bool>("byte_fallback", false);
}

std::int32_t Unigram::token(std::string_view text) const {
  const auto found = tokens_.find(std::string(text));
  return found == tokens_.end() ? -1 : found->second;
}

// Appends one token for all of `text`, which is consecutive unknown characters. With
// `byte_fallback_` it appends the tokens of the bytes instead, if all bytes have one.
void Unigram::add_unknown(std::string_view text, std::vector<std::int32_t>& tokens) const {
  std::vector<std::int32_t> bytes;
  for (const char byte : text)
    if (byte_fallback_)
      bytes.push_back(token(fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte))));
  if (byte_fallback_ && std::ranges::find(bytes, -1) == bytes.end()) {
    tokens.insert(tokens.end(), bytes.begin(), bytes.end());
  } else if (unknown_ >= 0) {
    tokens.push_back(unknown_);
  } else {
    throw InputError(fmt::format(
        "'{}' is not in the tokenizer's vocabulary, which has no token for unknown text", text));
  }
}

// Finds the best split of a word by Viterbi's algorithm, in which the best split of a prefix
// follows from those of shorter prefixes.
std::vector<std::int32_t> Unigram::tokens_of(std::string_view word) const {
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    std::size_t begin = 0;
    std::int32_t token = -1;  // -1: unknown
  };
  std::vector<Best> best(word.size() + 1);
  best[0].score = 0;
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t character = std::min(length_of_character(word[begin]), word.size() - begin);
    bool is_token = false;
    const auto consider = [&](std::size_t end, double score, std::int32_t token) {
      if (best[begin].score + score > best[end].score)
        best[end] = {best[begin].score + score, begin, token};
    };
    const std::size_t last = std::min(word.size(), begin + longest_);
    for (std::size_t end = begin + character; end <= last;) {
      const std::int32_t found = token(word.substr(begin, end - begin));
      if (found >= 0) {
        consider(end, scores_[found], found);
        is_token = is_token || end == begin + character;
      }
      if (end == word.size()) break;
      end += length_of_character(word[end]);
    }
    if (!is_token) consider(begin + character, unknown_score_, -1);
    begin += character;
  }
  std::vector<const Best*> cut;
  for (std::size_t end = word.size(); end > 0; end = best[end].begin) cut.push_back(&best[end]);
  std::ranges::reverse(cut);
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < cut.size();) {
    if (cut[i]->token >= 0) {
      tokens.push_back(cut[i++]->token);
      continue;
    }
    const std::size_t begin = cut[i]->begin;
    while (i < cut.size() && cut[i]->token < 0) ++i;
    const std::size_t end = i < cut.size() ? cut[i]->begin : word.size();
    add_unknown(word.substr(begin, end - begin), tokens);
  }
  return tokens;
}

}  // namespace meshwright::exec
