// A unigram language model (Kudo 2018, SentencePiece). Among all ways to split a word into tokens,
// it takes the one whose scores have the largest sum.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exec/data/subwords.h"

namespace meshwright::exec {

class Unigram : public Subwords {
 public:
  // Reads the object `model` of type Unigram. Throws InputError if it cannot be read.
  explicit Unigram(Fields model);

  std::int32_t token(std::string_view text) const override;
  std::int64_t vocabulary() const override { return std::ssize(scores_); }

 private:
  std::vector<std::int32_t> tokens_of(std::string_view word) const override;
  void add_unknown(std::string_view text, std::vector<std::int32_t>& tokens) const;

  std::unordered_map<std::string, std::int32_t> tokens_;
  std::vector<double> scores_;  // by token
  std::size_t longest_ = 0;     // bytes of the longest token
  std::int32_t unknown_ = -1;   // -1: none
  double unknown_score_ = 0;
  bool byte_fallback_ = false;
};

}  // namespace meshwright::exec
