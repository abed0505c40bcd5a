// `tokenize FILES --output FILE`: text becomes a token file that a job's `data` reads.
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "exec/data/token_writer.h"
#include "exec/data/tokenizer.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "tools/commands/commands.h"
#include "tools/report/print_json.h"
#include "tools/write_file.h"

namespace meshwright {

namespace {

std::int32_t separator_of(const Options& options, const Tokenizer& tokenizer) {
  if (options.separator.empty()) return -1;
  const std::int32_t token = tokenizer.token(options.separator);
  if (token < 0)
    throw InputError("--separator '" + options.separator + "' is not a token of " +
                     (options.tokenizer.empty() ? "single bytes" : options.tokenizer));
  return token;
}

void tokenize(const std::string& path, Tokenizer& tokenizer, TokenWriter& writer) {
  const std::string text = read_file(path);
  try {
    tokenizer.encode(text, [&](auto tokens) { writer.write(tokens); });
  } catch (const InputError& error) {
    throw InputError(path + ": " + error.what());
  }
}

int run_tokenize(const Options& options) {
  if (options.operands.empty()) throw InputError("tokenize: name the text files");
  if (options.output.empty()) throw InputError("tokenize: --output names the token file to write");
  check_writable("--output", options.output, options.operands);
  const auto start = std::chrono::steady_clock::now();
  Tokenizer tokenizer = options.tokenizer.empty() ? Tokenizer() : Tokenizer(options.tokenizer);
  const std::int32_t separator = separator_of(options, tokenizer);
  const TokenFormat format =
      tokenizer.vocabulary() <= 65536 ? TokenFormat::uint16 : TokenFormat::uint32;
  TokenWriter writer(options.output, format);
  for (const std::string& path : options.operands) {
    tokenize(path, tokenizer, writer);
    if (separator >= 0) writer.write({&separator, 1});
  }
  if (writer.tokens() == 0)
    throw InputError(options.operands[0] + ": no text, no tokens; nothing is written");
  writer.finish();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  if (options.json) {
    print_json({{"output", options.output},
                {"format", info(format).name},
                {"files", options.operands.size()},
                {"tokens", writer.tokens()},
                {"vocabulary", tokenizer.vocabulary()},
                {"tokenize_wall_s", wall.count()}});
  } else {
    std::printf("%s: %lld tokens of a vocabulary of %lld\n", options.output.c_str(),
                static_cast<long long>(writer.tokens()),
                static_cast<long long>(tokenizer.vocabulary()));
    std::printf("\"data\": {\"files\": [\"%s\"], \"format\": \"%s\"}\n", options.output.c_str(),
                info(format).name);
  }
  return done;
}

}  // namespace

const Command tokenize_command = {
    "tokenize",
    "FILES",
    "text files, one document each",
    "make a token file, which a job's data reads, of text",
    "json output tokenizer separator",
    run_tokenize,
    "Makes a token file of text: one token per byte, or by a Hugging Face tokenizer.json."};

}  // namespace meshwright
