#include "exec/data/token_writer.h"

#include <utility>

#include "models/core/error.h"

namespace meshwright::exec {

namespace {

void append_little_endian(std::string& text, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
}

// Returns `path`. Throws InputError if it is a pipe or an open file, because a token file begins
// with its number of tokens, which is known at its end.
const std::string& not_a_pipe(const std::string& path) {
  const OutputPlace::Kind kind = output_place(path).kind;
  if (kind == OutputPlace::Kind::pipe || kind == OutputPlace::Kind::open_file)
    throw InputError(path +
                     ": is a pipe or is open already; a token file begins with its number of "
                     "tokens, which is only known at the end: name a file");
  return path;
}

}  // namespace

TokenWriter::TokenWriter(std::string path, TokenFormat format)
    : path_(std::move(path)), format_(format), file_(not_a_pipe(path_)) {
  MESHWRIGHT_CHECK(format != TokenFormat::bytes, "plain bytes have no header");
  file_.write(header(0));
}

std::string TokenWriter::header(std::uint32_t tokens) const {
  std::string text;
  for (const std::uint32_t field : {info(format_).magic, info(format_).version, tokens})
    append_little_endian(text, field, 4);
  text.resize(256 * 4);
  return text;
}

void TokenWriter::write(std::span<const std::int32_t> tokens) {
  buffer_.clear();
  for (const std::int32_t token : tokens)
    append_little_endian(buffer_, static_cast<std::uint32_t>(token), info(format_).bytes);
  file_.write(buffer_);
  tokens_ += static_cast<std::int64_t>(tokens.size());
}

void TokenWriter::finish() {
  if (tokens_ > INT32_MAX)
    throw InputError(path_ + ": a token file holds at most 2147483647 tokens, these are " +
                     std::to_string(tokens_) + "; write several files");
  file_.rewrite_begin(header(static_cast<std::uint32_t>(tokens_)));
  file_.finish();
}

}  // namespace meshwright::exec
