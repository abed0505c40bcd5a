// A file of tokens, mapped into memory and checked once when it is opened.
#pragma once

#include <cstdint>
#include <string>

#include "exec/data/mapped_file.h"
#include "models/core/token_format.h"

namespace meshwright {

class TokenFile {
 public:
  // A missing, empty or damaged file, or a token that is not below `vocabulary`: an InputError that
  // names the file, the place and the value.
  TokenFile(const std::string& path, TokenFormat format, std::int64_t vocabulary);

  std::int64_t size() const { return tokens_; }
  void read(std::int64_t first, std::int64_t count, std::int32_t* into) const;

 private:
  void find_tokens();
  void check(std::int64_t vocabulary) const;

  MappedFile file_;
  TokenFormat format_;
  std::int64_t header_bytes_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace meshwright
