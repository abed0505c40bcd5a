// A file of tokens. They are checked when the file is opened and again when they are read, because
// somebody may change the file during a run.
#pragma once

#include <cstdint>
#include <string>

#include "exec/data/data_file.h"
#include "models/core/token_format.h"

namespace meshwright::exec {

class TokenFile {
 public:
  // Opens a file. For format `megatron`, `path` is NAME, NAME.bin or NAME.idx. Throws an InputError
  // that names the file, the place and the value if the file is missing, empty or damaged, or if a
  // token is not below `vocabulary`.
  TokenFile(const std::string& path, TokenFormat format, std::int64_t vocabulary);

  std::int64_t size() const { return tokens_; }
  // Reads `count` tokens from `first` on. Throws RunError if the file has become shorter, or holds
  // a token that is not below `vocabulary`.
  void read(std::int64_t first, std::int64_t count, std::int32_t* into) const;

 private:
  void find_tokens();
  void check() const;
  void read_block(std::int64_t first, std::int64_t count, unsigned char* block) const;
  std::string outside_vocabulary(std::uint32_t token, std::int64_t position) const;

  DataFile file_;
  TokenFormat format_;
  int width_;  // bytes of a token
  std::int64_t vocabulary_;
  std::int64_t header_bytes_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace meshwright::exec
