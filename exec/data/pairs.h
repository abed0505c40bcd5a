// Prompts and their completions, for training on the completions only. The file has JSON lines,
// each {"prompt": ..., "completion": ...}, or {"messages": [{"role": ..., "content": ...}, ...]},
// or {"text": ...}, all of which is learned as it is. The whole file is tokenized when it is
// opened, and kept in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/core/token_format.h"

namespace meshwright::exec {

class Tokenizer;

// Tells how pairs become tokens.
struct PairText {
  std::string tokenizer;  // a tokenizer.json; empty: every byte is a token
  ChatTemplate chat_template = ChatTemplate::plain;
  std::string end_token;  // after every completion; empty: none
};

class PairFile {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(counted_.size()); }
  // Writes the tokens of one pair, padded with token 0, and which of them are to be learned.
  void read(std::int64_t pair, std::span<std::int32_t> tokens, std::span<char> counts) const;
  // `tokens_of` returns the tokens of one pair, without padding, and `counts_of` which of these
  // tokens are to be learned. `places` returns how many positions of a packed row each pair takes:
  // its tokens less one, because the last token is only a target.
  std::span<const std::int32_t> tokens_of(std::int64_t pair) const;
  std::span<const char> counts_of(std::int64_t pair) const;
  std::vector<std::int64_t> places() const;
  int counted(std::int64_t pair) const { return counted_[pair]; }
  // Returns a warning about truncated and omitted pairs, or an empty string if there are none.
  std::string remark() const;

 private:
  friend class PairReader;

  std::vector<std::int32_t> tokens_;  // the tokens of all pairs, one after the other
  std::vector<char> counts_;
  std::vector<std::int64_t> first_{0};  // index of each pair's first token, and the end
  std::vector<int> counted_;            // per pair: tokens to learn
  std::int64_t lines_ = 0, cut_ = 0, longest_ = 0, without_ = 0, length_ = 0;
};

class PairReader {
 public:
  // A sequence takes at most `window` tokens of a pair, the first of which is never learned. Throws
  // InputError if the tokenizer cannot be read, or lacks a token of the template or `end_token`.
  PairReader(const PairText& text, std::int64_t window, std::int64_t vocabulary);
  ~PairReader();

  // Reads and tokenizes a file. Throws an InputError that names the file and the line.
  PairFile read(const std::string& path);

 private:
  struct Part {
    std::string text;
    bool learned = false;
    bool ends = false;  // the token `end_` follows
  };
  std::vector<Part> parts_of(const std::string& line) const;
  void add(PairFile& file, const std::vector<Part>& parts);

  PairText text_;
  std::size_t window_;
  std::int64_t vocabulary_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::int32_t end_ = -1;
};

}  // namespace meshwright::exec
