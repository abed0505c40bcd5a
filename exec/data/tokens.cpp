#include "exec/data/tokens.h"

#include <algorithm>

#include "models/core/error.h"

namespace meshwright {

namespace {

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
    : file_(path, "one token"), format_(format) {
  find_tokens();
  check(vocabulary);
}

void TokenFile::find_tokens() {
  tokens_ = file_.bytes();
  if (format_ == TokenFormat::bytes) return;
  const TokenFormatInfo& format = info(format_);
  if (file_.bytes() % format.bytes != 0)
    throw InputError(file_.path() + ": has " + std::to_string(file_.bytes()) + " bytes, " +
                     (format.bytes == 2 ? "an odd number" : "no multiple of 4") + "; " +
                     format.name + " tokens take " + std::to_string(format.bytes) +
                     " bytes each (or is the format bytes?)");
  tokens_ = file_.bytes() / format.bytes;
  if (file_.bytes() < llmc_header_bytes || little_endian_32(file_.data()) != format.magic) return;
  const std::uint32_t version = little_endian_32(file_.data() + 4),
                      stated = little_endian_32(file_.data() + 8);
  if (version != format.version)
    throw InputError(file_.path() + ": its header has version " + std::to_string(version) +
                     "; only version " + std::to_string(format.version) + " is known");
  header_bytes_ = llmc_header_bytes;
  tokens_ = (file_.bytes() - header_bytes_) / format.bytes;
  if (tokens_ != stated)
    throw InputError(file_.path() + ": its header says " + std::to_string(stated) +
                     " tokens, but it holds " + std::to_string(tokens_) +
                     "; it is truncated or damaged");
}

void TokenFile::check(std::int64_t vocabulary) const {
  if (vocabulary >= std::int64_t{1} << (8 * info(format_).bytes)) return;
  // The largest of a block first, which the compiler makes fast; then where it is.
  constexpr std::int64_t block = 1 << 16;
  const unsigned char* data = file_.data() + header_bytes_;
  for (std::int64_t begin = 0; begin < tokens_; begin += block) {
    const std::int64_t end = std::min(begin + block, tokens_);
    if (largest[static_cast<std::size_t>(format_)](data, begin, end) < vocabulary) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint32_t token = token_at(data, i, format_);
      if (token >= vocabulary)
        throw InputError(file_.path() + ": token " + std::to_string(token) + " at position " +
                         std::to_string(i) + " is not in the model's vocabulary of " +
                         std::to_string(vocabulary) + "; tokens are 0 to " +
                         std::to_string(vocabulary - 1));
    }
  }
}

void TokenFile::read(std::int64_t first, std::int64_t count, std::int32_t* into) const {
  MESHWRIGHT_CHECK(first >= 0 && first + count <= tokens_, "tokens are read inside their file");
  const unsigned char* data = file_.data() + header_bytes_;
  for (std::int64_t i = 0; i < count; ++i)
    into[i] = static_cast<std::int32_t>(token_at(data, first + i, format_));
}

}  // namespace meshwright
