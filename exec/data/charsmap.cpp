#include "exec/data/charsmap.h"

#include <optional>

#include "exec/data/data_file.h"
#include "exec/data/subwords.h"
#include "models/core/error.h"
#include "models/core/utf8.h"

namespace meshwright::exec {

namespace {

constexpr std::size_t longest_cluster = 5;  // bytes

std::optional<std::string> decoded(std::string_view base64) {
  while (base64.ends_with('=')) base64.remove_suffix(1);
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : base64) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

// Return the parts of a unit of a double array: the label that leads to it, the offset of its
// children, whether one of the children is a value, and the value if the unit itself is one.
std::uint32_t label_of(std::uint32_t unit) { return unit & (0x80000000u | 0xFF); }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }
bool has_value(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }

}  // namespace

CharacterMap::CharacterMap(std::string_view base64, const std::string& where)
    : clusters_("\\X", where) {
  const auto blob = decoded(base64);
  const auto* bytes = reinterpret_cast<const unsigned char*>(blob ? blob->data() : nullptr);
  const std::size_t trie = blob && blob->size() >= 4 ? little_endian_32(bytes) : 0;
  if (trie == 0 || trie % 4 != 0 || trie > blob->size() - 4)
    throw InputError(where + ": is no precompiled character map of SentencePiece, or is truncated");
  for (std::size_t at = 4; at < 4 + trie; at += 4) units_.push_back(little_endian_32(bytes + at));
  texts_ = blob->substr(4 + trie);
  if (valid_utf8(texts_) < texts_.size())
    throw InputError(where + ": maps characters to what is not UTF-8 text");
}

const char* CharacterMap::find(std::string_view text) const {
  std::uint32_t place = offset_of(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    place ^= byte;
    if (byte == 0 || place >= units_.size() || label_of(units_[place]) != byte) return nullptr;
    const std::uint32_t unit = units_[place];
    place ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (place >= units_.size() || value_of(units_[place]) >= texts_.size()) return nullptr;
    const char* const value = texts_.c_str() + value_of(units_[place]);
    const bool is_within = (static_cast<unsigned char>(*value) & 0xC0) == 0x80;  // a character
    return is_within ? nullptr : value;
  }
  return nullptr;
}

void CharacterMap::append(std::string_view character, std::string& to) const {
  const char* found = find(character);
  if (found != nullptr)
    to += found;
  else
    to += character;
}

std::string CharacterMap::normalized(std::string_view text) const {
  std::string result;
  clusters_.split(text, [&](std::string_view cluster, bool) {
    if (cluster.size() <= longest_cluster && find(cluster) != nullptr)
      return append(cluster, result);
    for (std::size_t at = 0; at < cluster.size();) {
      const std::size_t length = std::min(length_of_character(cluster[at]), cluster.size() - at);
      append(cluster.substr(at, length), result);
      at += length;
    }
  });
  return result;
}

}  // namespace meshwright::exec
