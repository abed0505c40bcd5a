// Byte-pair encoding (Sennrich, Haddow and Birch 2016): the model part of a tokenizer. A word
// begins as its smallest symbols. Among all neighbours that can merge, the pair that was learned
// first is merged first, and the leftmost one if several are equal.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/data/subwords.h"

namespace meshwright::exec {

class Bpe : public Subwords {
 public:
  // Reads the object `model` of a Hugging Face tokenizer.json. If `byte_level` is set, its symbols
  // stand for bytes (GPT-2), otherwise for characters (Llama 2). Throws InputError if it cannot be
  // read.
  Bpe(Fields model, bool byte_level);

  std::int32_t token(std::string_view text) const override;
  std::int64_t vocabulary() const override { return vocabulary_; }

 private:
  struct Merge {
    int rank;
    std::int32_t merged;
  };
  std::vector<std::int32_t> tokens_of(std::string_view word) const override;
  void read_merges(Fields& model);
  void read_unknown(Fields& model);
  std::int32_t required_token(const Fields& model, const std::string& text) const;
  std::vector<std::int32_t> symbols(std::string_view word) const;
  void add_character(std::string_view character, std::vector<std::int32_t>& symbols) const;
  void merge(std::vector<std::int32_t>& symbols) const;
  std::string spelled(std::string_view word) const;

  bool byte_level_, ignore_merges_ = false, fuse_unknown_ = false;
  std::int32_t unknown_ = -1;
  std::int64_t vocabulary_ = 0;
  std::unordered_map<std::string, std::int32_t> tokens_;
  std::unordered_map<std::uint64_t, Merge> merges_;  // left << 32 | right
  std::array<std::int32_t, 256> byte_token_;         // byte level, or byte_fallback; -1: none
};

// Returns the character that stands for a byte in a byte-level vocabulary (GPT-2's
// bytes_to_unicode), in UTF-8.
std::string spelling_of_byte(unsigned char byte);

}  // namespace meshwright::exec
