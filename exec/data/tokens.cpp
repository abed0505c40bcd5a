#include "exec/data/tokens.h"

#include <algorithm>
#include <vector>

#include "exec/data/megatron_index.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

constexpr std::int64_t llmc_header_bytes = 256 * 4;
constexpr std::int64_t checked_bytes = 1 << 18;

std::uint32_t token_at(const unsigned char* data, std::int64_t index, int width) {
  if (width == 1) return data[index];
  return width == 2 ? little_endian_16(data + 2 * index) : little_endian_32(data + 4 * index);
}

template <int width>
std::uint32_t largest_of(const unsigned char* data, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, token_at(data, i, width));
  return largest;
}

std::uint32_t largest(const unsigned char* data, std::int64_t count, int width) {
  if (width == 1) return largest_of<1>(data, count);
  return width == 2 ? largest_of<2>(data, count) : largest_of<4>(data, count);
}

// Returns the path of the file that holds the tokens. For `megatron` this is NAME.bin, given NAME,
// NAME.bin or NAME.idx. For other formats it is `path`.
std::string file_of(const std::string& path, TokenFormat format) {
  if (format != TokenFormat::megatron) return path;
  return megatron_name(path) + ".bin";
}

}  // namespace

TokenFile::TokenFile(const std::string& path, TokenFormat format, std::int64_t vocabulary)
    : file_(file_of(path, format), "one token"),
      format_(format),
      width_(info(format).bytes),
      vocabulary_(vocabulary) {
  find_tokens();
  check();
}

void TokenFile::find_tokens() {
  tokens_ = file_.bytes();
  if (format_ == TokenFormat::bytes) return;
  if (format_ == TokenFormat::megatron) {
    width_ = megatron_width(megatron_name(file_.path()) + ".idx", file_.bytes());
    tokens_ = file_.bytes() / width_;
    return;
  }
  const TokenFormatInfo& format = info(format_);
  if (file_.bytes() % format.bytes != 0)
    throw InputError(file_.path() + ": has " + std::to_string(file_.bytes()) + " bytes, " +
                     (format.bytes == 2 ? "an odd number" : "no multiple of 4") + "; " +
                     format.name + " tokens take " + std::to_string(format.bytes) +
                     " bytes each (or is the format bytes?)");
  tokens_ = file_.bytes() / format.bytes;
  if (file_.bytes() < llmc_header_bytes) return;
  unsigned char header[12];
  file_.read(0, header, sizeof header);
  if (little_endian_32(header) != format.magic) return;
  const std::uint32_t version = little_endian_32(header + 4), stated = little_endian_32(header + 8);
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

std::string TokenFile::outside_vocabulary(std::uint32_t token, std::int64_t position) const {
  return file_.path() + ": token " + std::to_string(token) + " at position " +
         std::to_string(position) + " is not in the model's vocabulary of " +
         std::to_string(vocabulary_) + "; tokens are 0 to " + std::to_string(vocabulary_ - 1);
}

void TokenFile::check() const {
  if (vocabulary_ >= std::int64_t{1} << (8 * width_)) return;
  // Finds the largest token of a block first, which the compiler makes fast. Its position is
  // searched for only if it is too large.
  std::vector<unsigned char> block(checked_bytes);
  const std::int64_t most = checked_bytes / width_;
  for (std::int64_t begin = 0; begin < tokens_; begin += most) {
    const std::int64_t count = std::min(most, tokens_ - begin);
    read_block(begin, count, block.data());
    if (largest(block.data(), count, width_) < vocabulary_) continue;
    for (std::int64_t i = 0; i < count; ++i)
      if (const std::uint32_t token = token_at(block.data(), i, width_); token >= vocabulary_)
        throw InputError(outside_vocabulary(token, begin + i));
  }
}

void TokenFile::read_block(std::int64_t first, std::int64_t count, unsigned char* block) const {
  file_.read(header_bytes_ + first * width_, block, count * width_);
}

void TokenFile::read(std::int64_t first, std::int64_t count, std::int32_t* into) const {
  MESHWRIGHT_CHECK(first >= 0 && first + count <= tokens_, "tokens are read inside their file");
  unsigned char block[4096];
  const std::int64_t most = std::int64_t{sizeof block} / width_;
  for (std::int64_t done = 0; done < count; done += most) {
    const std::int64_t some = std::min(most, count - done);
    read_block(first + done, some, block);
    for (std::int64_t i = 0; i < some; ++i) {
      const std::uint32_t token = token_at(block, i, width_);
      if (token >= vocabulary_)
        throw RunError(outside_vocabulary(token, first + done + i) + "; the file was changed");
      into[done + i] = static_cast<std::int32_t>(token);
    }
  }
}

}  // namespace meshwright::exec
