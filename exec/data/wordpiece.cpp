#include "exec/data/wordpiece.h"

#include <algorithm>

namespace meshwright::exec {

WordPiece::WordPiece(Fields model)
    : tokens_(read_numbered_tokens(model)),
      prefix_(model.optional<std::string>("continuing_subword_prefix", "##")),
      longest_word_(model.optional<int>("max_input_chars_per_word", 100)) {
  for (const auto& [text, number] : tokens_)
    vocabulary_ = std::max(vocabulary_, std::int64_t{number} + 1);
  const auto unknown = model.optional<std::string>("unk_token", "[UNK]");
  unknown_ = token(unknown);
  if (unknown_ < 0) model.fail("unk_token", "'" + unknown + "' is not in the vocabulary");
}

std::int32_t WordPiece::token(std::string_view text) const {
  const auto found = tokens_.find(std::string(text));
  return found == tokens_.end() ? -1 : found->second;
}

std::vector<std::int32_t> WordPiece::tokens_of(std::string_view word) const {
  std::vector<std::size_t> ends;  // the end of each character
  for (std::size_t at = 0; at < word.size();) {
    at = std::min(word.size(), at + length_of_character(word[at]));
    ends.push_back(at);
  }
  if (std::ssize(ends) > longest_word_) return {unknown_};
  std::vector<std::int32_t> tokens;
  std::size_t begin = 0;
  for (std::size_t first = 0; first < ends.size();) {
    std::int32_t found = -1;
    std::size_t end = ends.size();
    for (; end > first && found < 0; --end) {
      std::string piece(word.substr(begin, ends[end - 1] - begin));
      found = token(begin > 0 ? prefix_ + piece : piece);
    }
    if (found < 0) return {unknown_};
    tokens.push_back(found);
    first = end + 1;
    begin = ends[end];
  }
  return tokens;
}

}  // namespace meshwright::exec
