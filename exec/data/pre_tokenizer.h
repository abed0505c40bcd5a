// Cuts text into the words that byte-pair encoding works inside: the steps `normalizer` and
// `pre_tokenizer` of a Hugging Face tokenizer.json.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/data/pattern.h"
#include "models/core/fields.h"

namespace meshwright {

// Where a text begins. Steps that put a blank before a text do so by it.
enum class Start : std::uint8_t {
  document,
  behind_token,  // of a special token
  within,        // a word may go on from what is before it
};

class PreTokenizer {
 public:
  using Words = std::vector<std::string>;

  // InputError for steps that are not supported; it names those that are.
  explicit PreTokenizer(Fields tokenizer);

  // Words are as the text has them: what a byte-level vocabulary spells otherwise is the model's
  // business. InputError when steps blow the text up.
  Words words(std::string_view text, Start start) const;
  bool byte_level() const { return byte_level_; }
  // No word goes on from a line into the next one's first sign, and none begins with a blank that
  // the text has not: a text may be cut there. True of the byte-level tokenizers.
  bool lines_are_apart() const { return byte_level_ && !adds_blanks_; }

 private:
  using Step = std::function<Words(Words, Start start)>;
  void add_normalizer(Fields step);
  void add_step(Fields step);
  void add_byte_level(Fields& step);
  void add_split(Fields& step);
  void add_metaspace(Fields& step);
  void add_bert_normalizer(Fields& step);
  void replace(Pattern pattern, std::string with);
  void change(Pattern pattern, std::function<std::string(std::string_view)> with);
  void cut(Pattern pattern, bool keep_matches, bool keep_rest);

  std::string where_;
  std::vector<Step> steps_;
  bool byte_level_ = false, adds_blanks_ = false;
};

}  // namespace meshwright
