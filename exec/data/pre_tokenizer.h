// Cuts text into the words that byte-pair encoding works inside: the steps `normalizer` and
// `pre_tokenizer` of a Hugging Face tokenizer.json.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/data/normalizer.h"
#include "exec/data/pattern.h"
#include "models/core/fields.h"

namespace meshwright {

class PreTokenizer {
 public:
  using Words = std::vector<std::string>;

  // InputError for steps that are not supported; it names those that are.
  explicit PreTokenizer(Fields tokenizer);

  // Words are as the text has them: what a byte-level vocabulary spells otherwise is the model's
  // business. InputError when steps blow the text up.
  Words words(std::string_view text, Start start) const;
  bool byte_level() const { return byte_level_; }
  const Normalizer& normalizer() const { return normalizer_; }
  // No word goes on from a line into the next one's first sign, and none begins with a blank that
  // the text has not: a text may be cut there. True of the byte-level tokenizers.
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

}  // namespace meshwright
