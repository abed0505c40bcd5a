// Turns tokens into text: the step `decoder` of a Hugging Face tokenizer.json. The text is the one
// that Hugging Face's library gives without special tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/core/fields.h"

namespace meshwright::exec {

class Detokenizer {
 public:
  Detokenizer() = default;                        // every token is a byte
  explicit Detokenizer(const std::string& path);  // tokenizer.json; InputError

  // Returns the text of the tokens, which is UTF-8: bytes that are none become U+FFFD. Special
  // tokens, and numbers that are no token, have no text.
  std::string text(std::span<const std::int32_t> tokens) const;
  // Returns the special tokens that the file puts before a text by itself (`post_processor`), such
  // as Llama's token of the text's beginning.
  const std::vector<std::int32_t>& before_text() const { return before_text_; }

 private:
  using Pieces = std::vector<std::string>;
  using Step = std::function<Pieces(Pieces pieces)>;
  void read_texts(Fields& file);
  void add_step(Fields step);
  void add_word_piece(Fields& step);
  void add_metaspace(Fields& step);
  void add_strip(Fields& step);
  void read_before_text(Fields step);

  bool of_bytes_ = true;
  std::unordered_map<std::int32_t, std::string> texts_;  // without special tokens
  bool has_decoder_ = false;
  std::vector<Step> steps_;
  std::vector<std::int32_t> before_text_;
};

// Returns the text with U+FFFD in place of what is no UTF-8: one for the longest begin of a
// character that is not completed, and one for any other wrong byte.
std::string with_valid_utf8(std::string_view text);

}  // namespace meshwright::exec
