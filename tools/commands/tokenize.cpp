// Runs the command `tokenize FILES --output FILE`, which turns text into a token file that a job's
// `data` reads. Each line of a .jsonl file is a JSON object whose key `--text-key` (default: text)
// holds a document. Any other file is one document.
#include <chrono>
#include <cstdio>
#include <fstream>

#include "exec/data/containers.h"
#include "exec/data/token_writer.h"
#include "exec/data/tokenizer.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"
#include "models/core/open_file.h"
#include "tools/commands/commands.h"
#include "tools/report/print_json.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

std::int32_t separator_of(const Options& options, const Tokenizer& tokenizer) {
  if (options.separator.empty()) return -1;
  const std::int32_t token = tokenizer.token(options.separator);
  if (token < 0)
    throw InputError("--separator '" + options.separator + "' is not a token of " +
                     (options.tokenizer.empty() ? "single bytes" : options.tokenizer));
  return token;
}

struct Documents {
  Tokenizer tokenizer;
  std::int32_t separator = -1;  // -1: none
  std::string text_key;
  TokenWriter writer;
  std::int64_t count = 0;

  void add(std::string_view text, const std::string& place) {
    try {
      tokenizer.encode(text, [&](auto tokens) { writer.write(tokens); });
    } catch (const InputError& error) {
      throw InputError(place + ": " + error.what());
    }
    if (separator >= 0) writer.write({&separator, 1});
    ++count;
  }
};

// Adds the documents of a .jsonl file line by line, because such files may be larger than memory.
// Blank lines are skipped. Throws InputError, which names the line, for a line that is not an
// object with a text.
void add_lines(const std::string& path, Documents& documents) {
  check_readable(path);
  std::ifstream file(path);
  if (!file) throw InputError(path + ": cannot be read");
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = path + ":" + std::to_string(number);
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object())
      throw InputError(place + ": is no JSON object; a line is one, with the text as `" +
                       documents.text_key + "`");
    const auto text = object.find(documents.text_key);
    if (text == object.end() || !text->is_string())
      throw InputError(place + ": /" + documents.text_key +
                       (text == object.end() ? " is missing" : " is no text") +
                       "; --text-key names the key that has it");
    documents.add(text->get_ref<const std::string&>(), place);
  }
  if (file.bad()) throw InputError(path + ": cannot be read");
}

int run_tokenize(const Options& options) {
  if (options.operands.empty()) throw InputError("tokenize: name the text files");
  if (options.output.empty()) throw InputError("tokenize: --output names the token file to write");
  std::vector<std::string> inputs = options.operands;
  inputs.push_back(options.tokenizer);
  check_writable("--output", options.output, inputs);
  const auto start = std::chrono::steady_clock::now();
  Tokenizer tokenizer = options.tokenizer.empty() ? Tokenizer() : Tokenizer(options.tokenizer);
  const std::int32_t separator = separator_of(options, tokenizer);
  const std::int64_t vocabulary = tokenizer.vocabulary();
  const TokenFormat format = vocabulary <= 65536 ? TokenFormat::uint16 : TokenFormat::uint32;
  Documents documents{std::move(tokenizer),
                      separator,
                      options.text_key.empty() ? "text" : options.text_key,
                      {options.output, format}};
  for (const std::string& path : options.operands) {
    if (path.ends_with(".jsonl")) {
      add_lines(path, documents);
      continue;
    }
    const std::string text = read_file(path);
    refuse_container(text, path);
    documents.add(text, path);
  }
  TokenWriter& writer = documents.writer;
  if (writer.tokens() == 0)
    throw InputError(options.operands[0] + ": no text, no tokens; nothing is written");
  writer.finish();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  if (options.json) {
    print_json({{"output", options.output},
                {"format", info(format).name},
                {"files", options.operands.size()},
                {"documents", documents.count},
                {"tokens", writer.tokens()},
                {"vocabulary", vocabulary},
                {"tokenize_wall_s", wall.count()}});
  } else {
    std::printf("%s: %lld tokens of a vocabulary of %lld\n", options.output.c_str(),
                static_cast<long long>(writer.tokens()), static_cast<long long>(vocabulary));
    std::printf("\"data\": {\"files\": [\"%s\"], \"format\": \"%s\"}\n", options.output.c_str(),
                info(format).name);
  }
  return done;
}

}  // namespace

const Command tokenize_command = {
    "tokenize",
    "FILES",
    "text files, one document each; in .jsonl files one in each line",
    "make a token file, which a job's data reads, of text",
    "json wide output tokenizer separator text-key",
    run_tokenize,
    "Makes a token file of text: one token per byte, or by a Hugging Face tokenizer.json."};

}  // namespace meshwright::tools
