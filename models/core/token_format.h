// Names the formats of files of tokens, and of conversations.
// - bytes: every byte is a token.
// - uint16, uint32: little-endian numbers, with or without llm.c's header of 256 32-bit integers
//   (magic, version, number of tokens) before them.
// - megatron: an indexed dataset of Megatron-LM. NAME.bin has the tokens, and NAME.idx says how
//   many bytes each takes.
// - pairs: JSON lines of prompts and completions. labelled: JSON lines of texts and their classes.
//   The text of both is tokenized when it is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/core/rooms.h"

namespace meshwright::core {

enum class TokenFormat : std::uint8_t { bytes, uint16, uint32, megatron, pairs, labelled };

struct TokenFormatInfo {
  const char* name;
  int bytes;                     // bytes of a token; 0 if the file says it, or holds text
  std::uint32_t magic, version;  // of llm.c's header (version for megatron: of the index)
};

constexpr TokenFormatInfo token_formats[] = {{"bytes", 1, 0, 0},         {"uint16", 2, 20240520, 1},
                                             {"uint32", 4, 20240801, 7}, {"megatron", 0, 0, 1},
                                             {"pairs", 0, 0, 0},         {"labelled", 0, 0, 0}};

constexpr const TokenFormatInfo& info(TokenFormat format) {
  return token_formats[static_cast<std::size_t>(format)];
}

inline std::vector<std::string> token_format_names() {
  return {"bytes", "uint16", "uint32", "megatron", "pairs", "labelled"};
}

// The formats in which the turns of a conversation are written as one text.
enum class ChatTemplate : std::uint8_t { plain, chatml, llama_3 };

inline std::vector<std::string> chat_template_names() { return {"plain", "chatml", "llama-3"}; }

}  // namespace meshwright::core
