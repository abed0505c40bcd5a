// Text to tokens: every byte is one, or as a Hugging Face tokenizer.json says, of type BPE (GPT-2,
// Llama, ...), Unigram (T5, ...) or WordPiece (BERT). The tokens of a text are those of the file's
// own library without special tokens around it; special tokens spelled in the text are found.
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

namespace meshwright {

class Tokenizer {
 public:
  Tokenizer() = default;                        // byte level
  explicit Tokenizer(const std::string& path);  // tokenizer.json; InputError

  // Gives the tokens of a document, in order, some at a time. Text that is not UTF-8 is an
  // InputError with the byte's place; at byte level every text is good.
  using Sink = std::function<void(std::span<const std::int32_t> tokens)>;
  void encode(std::string_view text, const Sink& sink, Start start = Start::document);

  std::int64_t vocabulary() const { return vocabulary_; }
  // The number of a token by its text, added tokens first; -1: none.
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

}  // namespace meshwright
