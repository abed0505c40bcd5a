// The model part of a tokenizer: a word becomes the tokens of its pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/core/fields.h"

namespace meshwright::exec {

class Subwords {
 public:
  Subwords() = default;
  Subwords(const Subwords&) = delete;
  Subwords& operator=(const Subwords&) = delete;
  virtual ~Subwords() = default;

  // Appends the tokens of `word` to `tokens`. Throws InputError if a part of the word has no token
  // and the vocabulary has none for unknown text.
  void encode(std::string_view word, std::vector<std::int32_t>& tokens);

  // Returns the number of the token that the file spells `text`, or -1 if there is none.
  virtual std::int32_t token(std::string_view text) const = 0;
  virtual std::int64_t vocabulary() const = 0;

 private:
  virtual std::vector<std::int32_t> tokens_of(std::string_view word) const = 0;

  std::unordered_map<std::string, std::vector<std::int32_t>> known_words_;
};

// Makes a BPE, Unigram or WordPiece model from the object `model` of a Hugging Face tokenizer.json.
// If `byte_level` is set, its symbols stand for bytes (GPT-2). Throws InputError if it cannot be
// read.
std::unique_ptr<Subwords> make_subwords(Fields model, bool byte_level);

// Reads tokens and their numbers from the object `vocab` of a model. Throws InputError if a number
// is not an integer from 0 to 2^31 - 1.
std::unordered_map<std::string, std::int32_t> read_numbered_tokens(Fields& model);

// Returns the number of bytes of the UTF-8 character that begins with `first`.
inline std::size_t length_of_character(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace meshwright::exec
