// Prepares text before a tokenizer splits it into words: the step `normalizer` of a Hugging Face
// tokenizer.json.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/data/pattern.h"
#include "models/core/fields.h"

namespace meshwright::exec {

// The position at which a text begins. Steps that put a blank before a text depend on it.
enum class Start : std::uint8_t {
  document,
  behind_token,  // directly after a special token
  within,        // within a text: the word before may continue here
};

class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  // Throws InputError for unsupported steps, with the names of the supported ones.
  explicit Normalizer(Fields step);

  // Returns the normalized form of `text`, which is UTF-8. Throws InputError if the steps make the
  // text too long.
  std::string normalized(std::string text, Start start) const;
  // Returns whether each line is normalized independently of the text before and after it.
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

// The functions below are shared by the steps of a normalizer and of a pre_tokenizer.

// Returns the text that a step inserts. Throws InputError if it is longer than 256 bytes.
std::string inserted_text(Fields& step, const char* key);
// Returns the regular expression that {"pattern": {"String": "..."}} or {"pattern": {"Regex":
// "..."}} describes.
std::string expression_of(Fields& step);
// Throws InputError if `bytes` are too many for text of `given` bytes. Text may become longer (a
// blank of one byte often becomes a sign of three), but repeated steps must not make it endless.
void check_growth(std::size_t given, std::size_t bytes, const std::string& where);

}  // namespace meshwright::exec
