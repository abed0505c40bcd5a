// Texts and their classes, from a file of JSON lines, each {"text": ..., "label": number}. Other
// keys are ignored. The whole file is tokenized when it is opened, and kept in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace meshwright::exec {

class Tokenizer;

struct LabelledText {
  std::string tokenizer;  // a tokenizer.json; empty: every byte is a token
  // Number of tokens in a row. Longer texts are truncated to this length, and shorter ones are
  // padded with token 0.
  std::int64_t length = 0;
  std::int64_t vocabulary = 0, classes = 0;
};

class LabelledFile {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  // Writes the padded row of a text, followed by its label. Returns how many of the tokens are not
  // padding.
  std::int64_t read(std::int64_t text, std::span<std::int32_t> row_and_label) const;
  // Returns a warning about truncated texts, or an empty string if there are none.
  std::string remark() const;

 private:
  friend class LabelledReader;

  std::vector<std::int32_t> tokens_;    // the tokens of all texts, one after the other
  std::vector<std::int64_t> first_{0};  // index of each text's first token, and the end
  std::vector<std::int32_t> labels_;
  std::int64_t cut_ = 0, longest_ = 0, length_ = 0;
};

class LabelledReader {
 public:
  explicit LabelledReader(const LabelledText& text);
  ~LabelledReader();

  // Reads and tokenizes a file. Throws an InputError that names the file and the line.
  LabelledFile read(const std::string& path);

 private:
  void add(LabelledFile& file, const std::string& line);

  LabelledText text_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace meshwright::exec
