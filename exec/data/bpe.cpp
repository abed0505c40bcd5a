#include "exec/data/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "models/core/error.h"
#include "models/core/json.h"

namespace meshwright::exec {

namespace {

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

std::string utf8(std::uint32_t code) {  // below U+0800 is all that is needed here
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

void refuse_if_set(Fields& model, const char* key) {
  if (model.has(key) && !model.raw(key).is_null() && model.raw(key) != "")
    model.fail(key, "subwords with a prefix or suffix are not supported; leave it empty");
}

bool flag(Fields& model, const char* key) {
  return model.has(key) && !model.raw(key).is_null() && model.required<bool>(key);
}

// Returns the two tokens of a merge, which is written "a b" or ["a", "b"]. `place` is its index,
// for the error.
std::pair<std::string, std::string> two_parts(const Fields& model, const json& merge,
                                              std::size_t place) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0], merge[1]};
  if (merge.is_string()) {
    const std::string text = merge;
    const std::size_t blank = text.find(' ');
    if (blank != std::string::npos && blank > 0 && blank + 1 < text.size())
      return {text.substr(0, blank), text.substr(blank + 1)};
  }
  model.fail("merges", fmt::format("element {} is not a pair of tokens", place));
}

}  // namespace

// Bytes that are visible characters of Latin-1 are spelled as these, the others as the characters
// from U+0100 on, in order.
std::string spelling_of_byte(unsigned char byte) {
  if (stands_for_itself(byte)) return utf8(byte);
  std::uint32_t code = 0x100;
  for (unsigned other = 0; other < byte; ++other)
    if (!stands_for_itself(other)) ++code;
  return utf8(code);
}

Bpe::Bpe(Fields model, bool byte_level) : byte_level_(byte_level) {
  refuse_if_set(model, "continuing_subword_prefix");
  refuse_if_set(model, "end_of_word_suffix");
  if (model.has("dropout") && !model.raw("dropout").is_null() &&
      model.required<double>("dropout") != 0)
    model.fail("dropout", "would make tokens depend on chance; use null");
  ignore_merges_ = flag(model, "ignore_merges");
  tokens_ = read_numbered_tokens(model);
  for (const auto& [text, number] : tokens_)
    vocabulary_ = std::max(vocabulary_, std::int64_t{number} + 1);
  read_merges(model);
  read_unknown(model);
}

std::int32_t Bpe::token(std::string_view text) const {
  const auto found = tokens_.find(std::string(text));
  return found == tokens_.end() ? -1 : found->second;
}

std::int32_t Bpe::required_token(const Fields& model, const std::string& text) const {
  const std::int32_t found = token(text);
  if (found < 0) model.fail("merges", fmt::format("'{}' is not in the vocabulary", text));
  return found;
}

void Bpe::read_merges(Fields& model) {
  const json& merges = model.raw("merges");
  if (!merges.is_array()) model.fail("merges", "must be an array of pairs of tokens");
  int rank = 0;
  for (const json& merge : merges) {
    const auto [left, right] = two_parts(model, merge, rank);
    const std::int32_t first = required_token(model, left), second = required_token(model, right);
    merges_.emplace(pair_of(first, second), Merge{rank, required_token(model, left + right)});
    ++rank;
  }
}

void Bpe::read_unknown(Fields& model) {
  fuse_unknown_ = flag(model, "fuse_unk");
  if (model.has("unk_token") && !model.raw("unk_token").is_null())
    unknown_ = token(model.required<std::string>("unk_token"));
  const bool fallback = flag(model, "byte_fallback");
  for (unsigned byte = 0; byte < 256; ++byte)
    byte_token_[byte] = byte_level_ ? token(spelling_of_byte(static_cast<unsigned char>(byte)))
                        : fallback  ? token(fmt::format("<0x{:02X}>", byte))
                                    : -1;
}

std::string Bpe::spelled(std::string_view word) const {
  if (!byte_level_) return std::string(word);
  std::string text;
  for (const char byte : word) text += spelling_of_byte(static_cast<unsigned char>(byte));
  return text;
}

void Bpe::add_character(std::string_view character, std::vector<std::int32_t>& symbols) const {
  const std::int32_t whole =
      byte_level_ ? byte_token_[static_cast<unsigned char>(character[0])] : token(character);
  if (whole >= 0) return symbols.push_back(whole);
  bool by_bytes = !byte_level_;
  for (const char byte : character)
    by_bytes = by_bytes && byte_token_[static_cast<unsigned char>(byte)] >= 0;
  if (by_bytes) {
    for (const char byte : character)
      symbols.push_back(byte_token_[static_cast<unsigned char>(byte)]);
  } else if (unknown_ >= 0) {
    if (!fuse_unknown_ || symbols.empty() || symbols.back() != unknown_)
      symbols.push_back(unknown_);
  } else {
    throw InputError(fmt::format(
        "'{}' is not in the tokenizer's vocabulary, which has no token for unknown text",
        spelled(character)));
  }
}

std::vector<std::int32_t> Bpe::symbols(std::string_view word) const {
  std::vector<std::int32_t> symbols;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = byte_level_ ? 1 : length_of_character(word[at]);
    add_character(word.substr(at, length), symbols);
    at += length;
  }
  return symbols;
}

// Merges neighbours until none can merge. Symbols are a linked list and candidates a priority
// queue, because a merge changes only two neighbours. A candidate whose symbols have changed since
// it was queued is dropped when it comes up.
void Bpe::merge(std::vector<std::int32_t>& symbols) const {
  struct Candidate {
    int rank;
    std::size_t left, right;
    std::uint64_t pair;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  const std::size_t count = symbols.size();
  std::vector<std::size_t> next(count), previous(count);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](std::size_t left, std::size_t right) {
    const std::uint64_t pair = pair_of(symbols[left], symbols[right]);
    const auto found = merges_.find(pair);
    if (found != merges_.end()) queue.push({found->second.rank, left, right, pair});
  };
  for (std::size_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i == 0 ? count : i - 1;
    if (i + 1 < count) consider(i, i + 1);
  }
  constexpr std::int32_t gone = -1;
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    if (symbols[best.left] == gone || symbols[best.right] == gone ||
        pair_of(symbols[best.left], symbols[best.right]) != best.pair)
      continue;
    symbols[best.left] = merges_.at(best.pair).merged;
    symbols[best.right] = gone;
    next[best.left] = next[best.right];
    if (next[best.right] < count) previous[next[best.right]] = best.left;
    if (previous[best.left] < count) consider(previous[best.left], best.left);
    if (next[best.left] < count) consider(best.left, next[best.left]);
  }
  std::erase(symbols, gone);
}

std::vector<std::int32_t> Bpe::tokens_of(std::string_view word) const {
  const std::int32_t whole = ignore_merges_ ? token(spelled(word)) : -1;
  if (whole >= 0) return {whole};
  std::vector<std::int32_t> found = symbols(word);
  merge(found);
  return found;
}

}  // namespace meshwright::exec
