#include "exec/data/labelled.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/data/json_lines.h"
#include "exec/data/tokenizer.h"
#include "models/core/error.h"
#include "models/core/json.h"

namespace meshwright::exec {

namespace {

std::int32_t label_of(const json& object, std::int64_t classes) {
  const auto found = object.find("label");
  if (found == object.end()) throw InputError("/label: is missing");
  const bool is_class = found->is_number_integer() && *found >= 0 && *found < classes;
  if (!is_class)
    throw InputError(fmt::format("/label: {} is not one of the model's {} classes; use 0 to {}",
                                 found->dump(), classes, classes - 1));
  return *found;
}

}  // namespace

std::int64_t LabelledFile::read(std::int64_t text, std::span<std::int32_t> row_and_label) const {
  const auto index = static_cast<std::size_t>(text);
  std::ranges::fill(row_and_label, 0);
  std::copy(tokens_.begin() + first_[index], tokens_.begin() + first_[index + 1],
            row_and_label.begin());
  row_and_label.back() = labels_[index];
  return first_[index + 1] - first_[index];
}

std::string LabelledFile::remark() const {
  if (cut_ == 0) return "";
  return fmt::format(
      "{} of {} texts are longer than {} tokens (sequence_length) and are cut there (the longest "
      "has {})",
      cut_, size(), length_, longest_);
}

LabelledReader::LabelledReader(const LabelledText& text)
    : text_(text),
      tokenizer_(text.tokenizer.empty() ? std::make_unique<Tokenizer>()
                                        : std::make_unique<Tokenizer>(text.tokenizer)) {}

LabelledReader::~LabelledReader() = default;

void LabelledReader::add(LabelledFile& file, const std::string& line) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object())
    throw InputError("is no JSON object; a line is {\"text\": ..., \"label\": number}");
  const std::string text = text_at(object, "text", "");
  const std::int32_t label = label_of(object, text_.classes);
  std::vector<std::int32_t> tokens;
  tokenizer_->encode(text, [&](std::span<const std::int32_t> made) {
    tokens.insert(tokens.end(), made.begin(), made.end());
  });
  if (tokens.empty()) throw InputError("/text: has no token");
  check_in_vocabulary(tokens, text_.vocabulary);
  const std::int64_t count = std::ssize(tokens);
  file.longest_ = std::max(file.longest_, count);
  if (count > text_.length) {
    ++file.cut_;
    tokens.resize(text_.length);
  }
  file.tokens_.insert(file.tokens_.end(), tokens.begin(), tokens.end());
  file.first_.push_back(std::ssize(file.tokens_));
  file.labels_.push_back(label);
}

LabelledFile LabelledReader::read(const std::string& path) {
  LabelledFile file;
  file.length_ = text_.length;
  read_json_lines(path, "one labelled text", [&](const std::string& line) { add(file, line); });
  if (file.size() == 0) throw InputError(path + ": has no line with a text and its label");
  return file;
}

}  // namespace meshwright::exec
