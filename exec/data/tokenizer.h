// Turns text into tokens. Each byte is a token, or the tokens are those of a Hugging Face
// tokenizer.json of type BPE (GPT-2, Llama, ...), Unigram (T5, ...) or WordPiece (BERT). They are
// the tokens that Hugging Face's library gives for the text, without the special tokens that it
// adds around it. Added tokens that are spelled in the text are found.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/data/pre_tokenizer.h"
#include "exec/data/subwords.h"

namespace meshwright::exec {

class Tokenizer {
 public:
  Tokenizer() = default;                        // every byte is a token
  explicit Tokenizer(const std::string& path);  // tokenizer.json; InputError

  // Calls `sink` with the tokens of a text, in order, some at a time. Throws InputError with the
  // byte's place if the text is not UTF-8. If every byte is a token, every text is accepted.
  using Sink = std::function<void(std::span<const std::int32_t> tokens)>;
  void encode(std::string_view text, const Sink& sink, Start start = Start::document);

  std::int64_t vocabulary() const { return vocabulary_; }
  // Returns the number of the token with this text, or -1 if there is none. If an added token has
  // this text, returns the number of that one.
  std::int32_t token(std::string_view text) const;

 private:
  void read_added(Fields& tokenizer);
  std::int32_t added_token(std::string_view found) const;
  void encode_words(std::string_view text, Start start, const Sink& sink);

  std::int64_t vocabulary_ = 256;
  std::optional<PreTokenizer> words_;
  std::unique_ptr<Subwords> subwords_;
  std::optional<Pattern> added_pattern_;
  std::unordered_map<std::string, std::int32_t> added_;
  std::vector<std::int32_t> block_;
};

}  // namespace meshwright::exec
