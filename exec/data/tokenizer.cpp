#include "exec/data/tokenizer.h"

#include <algorithm>

#include "models/core/error.h"
#include "models/core/utf8.h"

namespace meshwright::exec {

Tokenizer::Tokenizer(const std::string& path) {
  Fields file = read_json_file(path);
  words_.emplace(file);
  subwords_ = make_subwords(file.object("model"), words_->byte_level());
  vocabulary_ = subwords_->vocabulary();
  read_added(file);
}

// Reads the tokens that are added to the vocabulary. One expression finds all of them, and the
// longest one if several begin at one place.
void Tokenizer::read_added(Fields& tokenizer) {
  if (!tokenizer.has("added_tokens")) return;
  struct Added {
    std::string text, expression;
  };
  std::vector<Added> all;
  for (Fields& token : tokenizer.objects("added_tokens")) {
    const std::string text = token.required<std::string>("content");
    const int number = token.required<int>("id");
    if (text.empty()) token.fail("content", "is empty");
    if (number < 0) token.fail("id", "must be 0 or more");
    if (token.optional<bool>("single_word", false))
      token.fail("single_word", "is not supported; use false");
    // A `normalized` token belongs to normalized text. It is looked for in the text as it is, which
    // is right only if the normalizer does not change the token.
    if (token.optional<bool>("normalized", false) &&
        words_->normalizer().normalized(text, Start::within) != text)
      token.fail("normalized", "true is not supported for '" + text +
                                   "', which the normalizer changes; use false");
    const bool left = token.optional<bool>("lstrip", false);
    const bool right = token.optional<bool>("rstrip", false);
    added_[text] = number;
    vocabulary_ = std::max<std::int64_t>(vocabulary_, std::int64_t{number} + 1);
    all.push_back({text, (left ? "\\s*" : "") + Pattern::quoted(text) + (right ? "\\s*" : "")});
  }
  std::ranges::stable_sort(
      all, [](const Added& a, const Added& b) { return a.text.size() > b.text.size(); });
  std::string expression;
  for (const Added& token : all) expression += (expression.empty() ? "" : "|") + token.expression;
  if (!all.empty()) added_pattern_.emplace(expression, tokenizer.where() + ": /added_tokens");
}

std::int32_t Tokenizer::token(std::string_view text) const {
  if (!subwords_) return text.size() == 1 ? static_cast<unsigned char>(text[0]) : -1;
  const auto found = added_.find(std::string(text));
  return found == added_.end() ? subwords_->token(text) : found->second;
}

namespace {

constexpr std::size_t block_bytes = 1 << 20;

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Returns where a text may be split after `least` bytes: after a line end between two ASCII
// characters that are not blanks. Returns the size of the text if there is no such place.
std::size_t end_of_block(std::string_view text, std::size_t least) {
  for (std::size_t at = least; at + 1 < text.size(); ++at) {
    const auto next = static_cast<unsigned char>(text[at + 1]);
    const auto before = static_cast<unsigned char>(text[at - 1]);
    const bool plain = next < 0x80 && before < 0x80;  // other blanks are not ASCII
    if (text[at] == '\n' && plain && !is_blank(text[at + 1]) && !is_blank(text[at - 1]))
      return at + 1;
  }
  return text.size();
}

}  // namespace

void Tokenizer::encode_words(std::string_view text, Start start, const Sink& sink) {
  while (!text.empty()) {
    const bool whole = text.size() <= block_bytes || !words_->lines_are_apart();
    const std::size_t end = whole ? text.size() : end_of_block(text, block_bytes);
    block_.clear();
    for (const std::string& word : words_->words(text.substr(0, end), start))
      subwords_->encode(word, block_);
    sink(block_);
    text.remove_prefix(end);
    start = Start::within;
  }
}

// Returns the number of an added token. `found` is the token's text, with the blanks around it that
// the token includes.
std::int32_t Tokenizer::added_token(std::string_view found) const {
  const auto exact = added_.find(std::string(found));
  if (exact != added_.end()) return exact->second;
  std::size_t longest = 0;
  std::int32_t number = -1;
  for (const auto& [text, token] : added_)
    if (text.size() > longest && found.find(text) != std::string_view::npos) {
      longest = text.size();
      number = token;
    }
  return number;
}

void Tokenizer::encode(std::string_view text, const Sink& sink, Start start) {
  if (!subwords_) {
    for (std::size_t begin = 0; begin < text.size(); begin += block_bytes) {
      block_.clear();
      for (const char byte : text.substr(begin, block_bytes))
        block_.push_back(static_cast<unsigned char>(byte));
      sink(block_);
    }
    return;
  }
  const std::size_t valid = valid_utf8(text);
  if (valid < text.size()) throw InputError("byte " + std::to_string(valid) + " is not UTF-8 text");
  if (!added_pattern_) return encode_words(text, start, sink);
  added_pattern_->split(text, [&](std::string_view piece, bool matched) {
    if (!matched)
      return encode_words(piece, piece.data() == text.data() ? start : Start::behind_token, sink);
    const std::int32_t number = added_token(piece);
    sink({&number, 1});
  });
}

}  // namespace meshwright::exec
