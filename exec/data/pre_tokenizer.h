// Splits text into words, which a tokenizer's model encodes one by one. It performs the steps
// `normalizer` and `pre_tokenizer` of a Hugging Face tokenizer.json.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/data/normalizer.h"
#include "exec/data/pattern.h"
#include "models/core/fields.h"

namespace meshwright::exec {

class PreTokenizer {
 public:
  using Words = std::vector<std::string>;

  // Throws InputError for unsupported steps, with the names of the supported ones.
  explicit PreTokenizer(Fields tokenizer);

  // Returns the words of a text after all steps. If the vocabulary is of byte level, the model
  // spells their bytes as characters, not this function. Throws InputError if the steps make the
  // text too long.
  Words words(std::string_view text, Start start) const;
  bool byte_level() const { return byte_level_; }
  const Normalizer& normalizer() const { return normalizer_; }
  // Returns whether a text may be split between lines without a change of its words. This is taken
  // for granted of byte-level tokenizers that put no blank before words and whose normalizer
  // changes each line by itself.
  bool lines_are_apart() const {
    return byte_level_ && !adds_blanks_ && normalizer_.lines_are_apart();
  }

 private:
  using Step = std::function<Words(Words, Start start)>;
  void add_step(Fields step);
  void add_byte_level(Fields& step);
  void add_split(Fields& step);
  void add_metaspace(Fields& step);
  void cut(Pattern pattern, bool keep_matches, bool keep_rest);

  std::string where_;
  Normalizer normalizer_;
  std::vector<Step> steps_;
  bool byte_level_ = false, adds_blanks_ = false;
};

}  // namespace meshwright::exec
