#include "exec/data/token_writer.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "models/core/error.h"

namespace meshwright {

namespace {

void append_little_endian(std::string& text, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
}

}  // namespace

TokenWriter::TokenWriter(std::string path, TokenFormat format)
    : path_(std::move(path)),
      part_(path_ + ".part-" + std::to_string(getpid())),
      format_(format),
      file_(part_, std::ios::binary) {
  MESHWRIGHT_CHECK(format != TokenFormat::bytes, "plain bytes have no header");
  write_header(0);
}

TokenWriter::~TokenWriter() {
  if (!part_.empty()) std::remove(part_.c_str());
}

void TokenWriter::write_header(std::uint32_t tokens) {
  std::string header;
  for (const std::uint32_t field : {info(format_).magic, info(format_).version, tokens})
    append_little_endian(header, field, 4);
  header.resize(256 * 4);
  file_.seekp(0);
  file_.write(header.data(), static_cast<std::streamsize>(header.size()));
  if (!file_) throw RunError(path_ + ": cannot be written");
}

void TokenWriter::write(std::span<const std::int32_t> tokens) {
  buffer_.clear();
  for (const std::int32_t token : tokens)
    append_little_endian(buffer_, static_cast<std::uint32_t>(token), info(format_).bytes);
  file_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  if (!file_) throw RunError(path_ + ": cannot be written");
  tokens_ += static_cast<std::int64_t>(tokens.size());
}

void TokenWriter::finish() {
  if (tokens_ > INT32_MAX)
    throw InputError(path_ + ": a token file holds at most 2147483647 tokens, these are " +
                     std::to_string(tokens_) + "; write several files");
  write_header(static_cast<std::uint32_t>(tokens_));
  file_.close();
  std::error_code error;
  if (file_) std::filesystem::rename(part_, path_, error);
  if (!file_ || error) throw RunError(path_ + ": cannot be written");
  part_.clear();
}

}  // namespace meshwright
