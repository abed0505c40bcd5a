// SentencePiece's precompiled normalizer: what characters become (Unicode's compatibility forms,
// blanks as one kind, ...), in a trie of double arrays (Darts) behind its size, followed by the
// texts, each with a zero behind it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/data/pattern.h"

namespace meshwright {

class CharacterMap {
 public:
  // `base64`: as tokenizer.json has it. An InputError that begins with `where` for what is none.
  CharacterMap(std::string_view base64, const std::string& where);

  // A short cluster of characters (a letter and its accents) that is in the map becomes what the
  // map says, else each of its characters does.
  std::string normalized(std::string_view text) const;

 private:
  // What the shortest beginning of `text` that the map has becomes; null: it has none.
  const char* find(std::string_view text) const;
  void append(std::string_view character, std::string& to) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
  Pattern clusters_;
};

}  // namespace meshwright
