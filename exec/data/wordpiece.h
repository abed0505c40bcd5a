// WordPiece (BERT). The first piece of a word is its longest prefix that is a token. The rest is
// split in the same way, but its pieces are looked up with a prefix ("##"). A word is one unknown
// token if some rest begins with no piece.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/data/subwords.h"

namespace meshwright::exec {

class WordPiece : public Subwords {
 public:
  // Reads the object `model` of type WordPiece. Throws InputError if it cannot be read.
  explicit WordPiece(Fields model);

  std::int32_t token(std::string_view text) const override;
  std::int64_t vocabulary() const override { return vocabulary_; }

 private:
  std::vector<std::int32_t> tokens_of(std::string_view word) const override;

  std::unordered_map<std::string, std::int32_t> tokens_;
  std::int64_t vocabulary_ = 0;
  std::string prefix_;  // before all pieces but a word's first
  std::int32_t unknown_ = -1;
  int longest_word_ = 100;  // characters; longer ones are unknown
};

}  // namespace meshwright::exec
