#include "exec/data/tokens.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "models/core/error.h"

namespace meshwright {

namespace {

std::uint16_t little_endian_16(const unsigned char* at) {
  return static_cast<std::uint16_t>(at[0] | at[1] << 8);
}

std::uint32_t little_endian_32(const unsigned char* at) {
  return little_endian_16(at) | std::uint32_t{little_endian_16(at + 2)} << 16;
}

constexpr std::int64_t llmc_header_bytes = 256 * 4;
std::uint32_t token_at(const unsigned char* data, std::int64_t index, TokenFormat format) {
  if (format == TokenFormat::bytes) return data[index];
  return format == TokenFormat::uint16 ? little_endian_16(data + 2 * index)
                                       : little_endian_32(data + 4 * index);
}

template <TokenFormat format>
std::uint32_t largest_of(const unsigned char* data, std::int64_t begin, std::int64_t end) {
  std::uint32_t largest = 0;
  for (std::int64_t i = begin; i < end; ++i) largest = std::max(largest, token_at(data, i, format));
  return largest;
}

constexpr decltype(&largest_of<TokenFormat::bytes>) largest[] = {largest_of<TokenFormat::bytes>,
                                                                 largest_of<TokenFormat::uint16>,
                                                                 largest_of<TokenFormat::uint32>};

}  // namespace

TokenFile::TokenFile(const std::string& path, TokenFormat format, std::int64_t vocabulary)
    : path_(path), format_(format) {
  map();
  try {
    find_tokens();
    check(vocabulary);
  } catch (...) {
    munmap(const_cast<unsigned char*>(file_), static_cast<std::size_t>(file_bytes_));
    throw;
  }
}

TokenFile::TokenFile(TokenFile&& other) noexcept
    : path_(std::move(other.path_)),
      format_(other.format_),
      file_(std::exchange(other.file_, nullptr)),
      file_bytes_(other.file_bytes_),
      header_bytes_(other.header_bytes_),
      tokens_(other.tokens_) {}

TokenFile::~TokenFile() {
  if (file_ != nullptr)
    munmap(const_cast<unsigned char*>(file_), static_cast<std::size_t>(file_bytes_));
}

void TokenFile::map() {
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw InputError(path_ + ": cannot be read (" + std::strerror(errno) + ")");
  struct stat status {};
  const bool known = fstat(descriptor, &status) == 0;
  if (!known || !S_ISREG(status.st_mode) || status.st_size == 0) {
    close(descriptor);
    throw InputError(path_ + (known && S_ISREG(status.st_mode)
                                  ? ": is empty; a data file holds at least one token"
                                  : ": is not a regular file"));
  }
  file_bytes_ = status.st_size;
  void* mapped =
      mmap(nullptr, static_cast<std::size_t>(file_bytes_), PROT_READ, MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  if (mapped == MAP_FAILED)
    throw InputError(path_ + ": cannot be mapped (" + std::strerror(errno) + ")");
  file_ = static_cast<const unsigned char*>(mapped);
}

void TokenFile::find_tokens() {
  tokens_ = file_bytes_;
  if (format_ == TokenFormat::bytes) return;
  const TokenFormatInfo& format = info(format_);
  if (file_bytes_ % format.bytes != 0)
    throw InputError(path_ + ": has " + std::to_string(file_bytes_) + " bytes, " +
                     (format.bytes == 2 ? "an odd number" : "no multiple of 4") + "; " +
                     format.name + " tokens take " + std::to_string(format.bytes) +
                     " bytes each (or is the format bytes?)");
  tokens_ = file_bytes_ / format.bytes;
  if (file_bytes_ < llmc_header_bytes || little_endian_32(file_) != format.magic) return;
  const std::uint32_t version = little_endian_32(file_ + 4), stated = little_endian_32(file_ + 8);
  if (version != format.version)
    throw InputError(path_ + ": its header has version " + std::to_string(version) +
                     "; only version " + std::to_string(format.version) + " is known");
  header_bytes_ = llmc_header_bytes;
  tokens_ = (file_bytes_ - header_bytes_) / format.bytes;
  if (tokens_ != stated)
    throw InputError(path_ + ": its header says " + std::to_string(stated) +
                     " tokens, but it holds " + std::to_string(tokens_) +
                     "; it is truncated or damaged");
}

void TokenFile::check(std::int64_t vocabulary) const {
  if (vocabulary >= std::int64_t{1} << (8 * info(format_).bytes)) return;
  // The largest of a block first, which the compiler makes fast; then where it is.
  constexpr std::int64_t block = 1 << 16;
  const unsigned char* data = file_ + header_bytes_;
  for (std::int64_t begin = 0; begin < tokens_; begin += block) {
    const std::int64_t end = std::min(begin + block, tokens_);
    if (largest[static_cast<std::size_t>(format_)](data, begin, end) < vocabulary) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint32_t token = token_at(data, i, format_);
      if (token >= vocabulary)
        throw InputError(path_ + ": token " + std::to_string(token) + " at position " +
                         std::to_string(i) + " is not in the model's vocabulary of " +
                         std::to_string(vocabulary) + "; tokens are 0 to " +
                         std::to_string(vocabulary - 1));
    }
  }
}

void TokenFile::read(std::int64_t first, std::int64_t count, std::int32_t* into) const {
  MESHWRIGHT_CHECK(first >= 0 && first + count <= tokens_, "tokens are read inside their file");
  const unsigned char* data = file_ + header_bytes_;
  for (std::int64_t i = 0; i < count; ++i)
    into[i] = static_cast<std::int32_t>(token_at(data, first + i, format_));
}

}  // namespace meshwright
