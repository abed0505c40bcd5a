// SentencePiece's precompiled normalizer: a map from characters to their replacements (Unicode's
// compatibility forms, all blanks as one kind, ...). It is stored as a size in bytes, a trie of
// that size in a double array (Darts), and the zero-terminated replacements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exec/data/pattern.h"

namespace meshwright::exec {

class CharacterMap {
 public:
  // `base64` is the map as in tokenizer.json. Throws an InputError that begins with `where` if it
  // is not a map.
  CharacterMap(std::string_view base64, const std::string& where);

  // Returns `text` with its characters replaced. A short cluster of characters (a letter and its
  // accents) that begins with an entry of the map is replaced as a whole by that entry's
  // replacement, any other cluster character by character.
  std::string normalized(std::string_view text) const;

 private:
  // Returns the replacement of the shortest prefix of `text` that is in the map, or null if there
  // is none.
  const char* find(std::string_view text) const;
  void append(std::string_view character, std::string& to) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
  Pattern clusters_;
};

}  // namespace meshwright::exec
