// Fuzzes the reader of token files. The first byte of the input chooses the format, the second the
// size of the vocabulary in bits. The rest is the file.
#include <vector>

#include "exec/data/token_writer.h"
#include "exec/data/tokens.h"
#include "tests/fuzz/fuzz.h"

using namespace meshwright::tests;

namespace {

std::optional<std::vector<std::int32_t>> read(const std::string& path, TokenFormat format,
                                              std::int64_t vocabulary) {
  return fuzz::read_or_refused(path + ": ", [&] {
    const TokenFile file(path, format, vocabulary);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
    file.read(0, file.size(), tokens.data());
    return tokens;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto format = static_cast<TokenFormat>(data[0] % 3);        // of one file
  const std::int64_t vocabulary = std::int64_t{1} << data[1] % 27;  // models have up to 10^8
  const std::string path = fuzz::input_file("tokens", fuzz::text_of(data, size).substr(2));
  const auto tokens = read(path, format, vocabulary);
  if (!tokens) return 0;
  for (const std::int32_t token : *tokens)
    MESHWRIGHT_CHECK(token >= 0 && token < vocabulary, "what is read is in the vocabulary");
  if (format == TokenFormat::bytes) return 0;
  TokenWriter writer(path, format);
  writer.write(*tokens);
  writer.finish();
  MESHWRIGHT_CHECK(read(path, format, vocabulary) == tokens, "tokens written are read as the same");
  return 0;
}
