// A file of tokens, mapped into memory and checked once when it is opened.
#pragma once

#include <cstdint>
#include <string>

#include "models/core/token_format.h"

namespace meshwright {

class TokenFile {
 public:
  // A missing, empty or damaged file, or a token that is not below `vocabulary`: an InputError that
  // names the file, the place and the value.
  TokenFile(const std::string& path, TokenFormat format, std::int64_t vocabulary);
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&& other) = delete;
  ~TokenFile();

  std::int64_t size() const { return tokens_; }
  void read(std::int64_t first, std::int64_t count, std::int32_t* into) const;

 private:
  void map();
  void find_tokens();
  void check(std::int64_t vocabulary) const;

  std::string path_;
  TokenFormat format_;
  const unsigned char* file_ = nullptr;
  std::int64_t file_bytes_ = 0;
  std::int64_t header_bytes_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace meshwright
