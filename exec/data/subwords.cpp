#include "exec/data/subwords.h"

#include <fmt/format.h>

#include "exec/data/bpe.h"
#include "exec/data/unigram.h"
#include "exec/data/wordpiece.h"
#include "models/core/json.h"

namespace meshwright::exec {

namespace {

constexpr std::size_t most_known_words = 1 << 18;
constexpr std::size_t longest_known_word = 64;

}  // namespace

void Subwords::encode(std::string_view word, std::vector<std::int32_t>& tokens) {
  const std::string key(word);
  const auto known = known_words_.find(key);
  if (known != known_words_.end()) {
    tokens.insert(tokens.end(), known->second.begin(), known->second.end());
    return;
  }
  std::vector<std::int32_t> found = tokens_of(word);
  tokens.insert(tokens.end(), found.begin(), found.end());
  if (key.size() > longest_known_word) return;
  if (known_words_.size() >= most_known_words) known_words_.clear();
  known_words_.emplace(key, std::move(found));
}

std::unique_ptr<Subwords> make_subwords(Fields model, bool byte_level) {
  const std::string type = model.optional<std::string>("type", "BPE");
  if (type == "BPE") return std::make_unique<Bpe>(model, byte_level);
  if (byte_level) model.fail("type", "'" + type + "' works on characters; ByteLevel is for BPE");
  if (type == "Unigram") return std::make_unique<Unigram>(model);
  if (type == "WordPiece") return std::make_unique<WordPiece>(model);
  model.fail("type", "'" + type + "' is not supported; known: BPE, Unigram and WordPiece");
}

std::unordered_map<std::string, std::int32_t> read_numbered_tokens(Fields& model) {
  const json& vocabulary = model.raw("vocab");
  if (!vocabulary.is_object()) model.fail("vocab", "must be an object of tokens and their numbers");
  std::unordered_map<std::string, std::int32_t> tokens;
  for (const auto& [text, number] : vocabulary.items()) {
    if (!number.is_number_integer() || number.get<std::int64_t>() < 0 ||
        number.get<std::int64_t>() > INT32_MAX)
      model.fail("vocab", fmt::format("token '{}' has no number from 0 on", text));
    tokens[text] = number.get<std::int32_t>();
  }
  return tokens;
}

}  // namespace meshwright::exec
