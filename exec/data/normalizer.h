// Text as a tokenizer wants it before it cuts words: the step `normalizer` of a Hugging Face
// tokenizer.json.
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

class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  // InputError for steps that are not supported; it names those that are.
  explicit Normalizer(Fields step);

  // Of UTF-8 text. InputError when steps blow the text up.
  std::string normalized(std::string text, Start start) const;
  // Each line becomes what it would be alone, whatever is before and behind it.
  bool lines_are_apart() const { return lines_are_apart_; }

 private:
  using Step = std::function<std::string(std::string text, Start start)>;
  void add(Fields step);
  void add_bert(Fields& step);
  void add_strip(Fields& step);
  void replace(Pattern pattern, std::string with);
  void change(Pattern pattern, std::function<std::string(std::string_view)> with);

  std::string where_;
  std::vector<Step> steps_;
  bool lines_are_apart_ = true;
};

// What steps of a normalizer and of a pre_tokenizer share.

// What a step puts into the text. InputError when it is longer than 256 bytes.
std::string inserted_text(Fields& step, const char* key);
// The expression of {"pattern": {"String": "..."}} or {"pattern": {"Regex": "..."}}.
std::string expression_of(Fields& step);
// Text may become longer (a blank of one byte is often a sign of three), but steps that repeat it
// must not make it endless: InputError where `bytes` are too many for text of `given` bytes.
void check_growth(std::size_t given, std::size_t bytes, const std::string& where);

}  // namespace meshwright
