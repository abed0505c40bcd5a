// Writes a token file as TokenFile reads it, with llm.c's header: first beside its place, then
// renamed, so that a fault leaves the old one.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "models/core/token_format.h"

namespace meshwright {

class TokenWriter {
 public:
  TokenWriter(std::string path, TokenFormat format);  // uint16 or uint32; RunError
  ~TokenWriter();                                     // what was not finished is removed
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  void write(std::span<const std::int32_t> tokens);
  void finish();  // RunError when it cannot be written; InputError above 2^31 - 1 tokens
  std::int64_t tokens() const { return tokens_; }

 private:
  void write_header(std::uint32_t tokens);

  std::string path_, part_;
  TokenFormat format_;
  std::ofstream file_;
  std::string buffer_;
  std::int64_t tokens_ = 0;
};

}  // namespace meshwright
