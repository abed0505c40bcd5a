// Fuzzes the reader of Hugging Face's tokenizer.json, and encodes two texts with the tokenizer: a
// fixed one and the file itself.
#include "exec/data/tokenizer.h"

#include <nlohmann/json.hpp>

#include "models/core/fields.h"
#include "tests/fuzz/fuzz.h"

using namespace meshwright::tests;

namespace {

constexpr std::string_view sample =
    "The  quick brown\tfox's 12 345 h\xC3\xA9r\xC3\xB6s,\n\n \xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x98"
    "\x80<|endoftext|> ab abab.\r\n ";

std::optional<Tokenizer> read(const std::string& path) {
  return fuzz::read_or_refused(path + ": ", [&] { return Tokenizer(path); });
}

// Returns nothing if the text has characters that the vocabulary does not cover, or if a regular
// expression fails on it.
std::optional<std::vector<std::int32_t>> tokens_of(Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> tokens;
  try {
    tokenizer.encode(text,
                     [&](auto some) { tokens.insert(tokens.end(), some.begin(), some.end()); });
  } catch (const InputError&) {
    return std::nullopt;
  } catch (const RunError&) {
    return std::nullopt;
  }
  for (const std::int32_t token : tokens)
    MESHWRIGHT_CHECK(token >= 0 && token < tokenizer.vocabulary(), "tokens are in the vocabulary");
  return tokens;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  const std::string path = fuzz::input_file("tokenizer.json", text);
  auto tokenizer = read(path);
  if (!tokenizer) return 0;
  auto again = read(fuzz::input_file("tokenizer.json", parse_json(text, path).dump()));
  MESHWRIGHT_CHECK(again.has_value(), "a tokenizer written again is read");
  for (const std::string_view some : {sample, std::string_view(text)}) {
    const auto tokens = tokens_of(*tokenizer, some);
    MESHWRIGHT_CHECK(tokens_of(*tokenizer, some) == tokens, "words remembered are the same");
    MESHWRIGHT_CHECK(tokens_of(*again, some) == tokens, "and so are those of the one written");
  }
  return 0;
}
