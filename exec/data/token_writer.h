// Writes a token file as TokenFile reads it, with llm.c's header. If writing fails, a file that was
// there before stays as it was.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "models/core/output_file.h"
#include "models/core/token_format.h"

namespace meshwright::exec {

class TokenWriter {
 public:
  // `format` is uint16 or uint32. Throws what OutputFile throws, and InputError for a pipe or an
  // open file, because the number of tokens is stored at the file's begin and is known only at the
  // end.
  TokenWriter(std::string path, TokenFormat format);

  void write(std::span<const std::int32_t> tokens);
  void finish();  // throws RunError if it cannot be written, InputError above 2^31 - 1 tokens
  std::int64_t tokens() const { return tokens_; }

 private:
  std::string header(std::uint32_t tokens) const;

  std::string path_;
  TokenFormat format_;
  OutputFile file_;
  std::string buffer_;
  std::int64_t tokens_ = 0;
};

}  // namespace meshwright::exec
