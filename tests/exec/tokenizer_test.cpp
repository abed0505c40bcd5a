#include "exec/data/tokenizer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "exec/data/bpe.h"
#include "exec/data/token_writer.h"
#include "exec/data/tokens.h"
#include "exec/data/unigram.h"
#include "models/core/error.h"
#include "models/core/utf8.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

using Tokens = std::vector<std::int32_t>;

const std::string golden_folder = MESHWRIGHT_SOURCE_DIR "/tests/golden/tokenizers/";

Tokens encode(Tokenizer& tokenizer, std::string_view text) {
  Tokens all;
  tokenizer.encode(text, [&](auto tokens) { all.insert(all.end(), tokens.begin(), tokens.end()); });
  return all;
}

// Merges symbols in a slow and obvious way: looks through all neighbours for the best pair, again
// and again.
Tokens merged_slowly(Tokens symbols, const nlohmann::json& model) {
  const auto text_of = [&](std::int32_t token) {
    for (const auto& [text, number] : model["vocab"].items())
      if (number == token) return text;
    return std::string();
  };
  for (;;) {
    std::size_t best = 0, best_rank = model["merges"].size();
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
      for (std::size_t rank = 0; rank < best_rank; ++rank)
        if (model["merges"][rank][0] == text_of(symbols[i]) &&
            model["merges"][rank][1] == text_of(symbols[i + 1])) {
          best = i;
          best_rank = rank;
        }
    if (best_rank == model["merges"].size()) return symbols;
    symbols[best] = model["vocab"][text_of(symbols[best]) + text_of(symbols[best + 1])];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::string refusal(const std::string& path) {
  return message_of([&] { Tokenizer tokenizer(path); });
}

}  // namespace

TEST_CASE("tokens are those of Hugging Face's tokenizers", "[data]") {
  for (const char* name :
       {"gpt2", "llama3", "llama2", "metaspace", "digits", "unigram", "unigram_bytes", "wordpiece",
        "uncased", "composed", "plain_letters", "words"}) {
    Tokenizer tokenizer(golden_folder + name + ".json");
    const auto rows = nlohmann::json::parse(read_file(golden_folder + name + ".tokens.json"));
    CHECK(rows.size() > 20);
    for (const auto& row : rows) {
      INFO(name << ": '" << row["text"].get<std::string>() << "'");
      CHECK(encode(tokenizer, row["text"].get<std::string>()) == row["tokens"].get<Tokens>());
    }
  }
}

TEST_CASE("merging with a queue is merging the best pair again and again", "[data]") {
  const auto file = nlohmann::json::parse(read_file(golden_folder + "gpt2.json"));
  Bpe bpe(Fields(file["model"], "gpt2.json"), true);
  std::mt19937 random(7);
  const std::string letters = "theand \xC3\xA9";
  for (int trial = 0; trial < 40; ++trial) {
    std::string word;
    Tokens symbols;
    for (std::size_t i = 0; i < 1 + random() % 14; ++i) word += letters[random() % letters.size()];
    for (const char byte : word)
      symbols.push_back(bpe.token(spelling_of_byte(static_cast<unsigned char>(byte))));
    Tokens fast;
    bpe.encode(word, fast);
    CHECK(fast == merged_slowly(symbols, file["model"]));
  }
}

TEST_CASE("a long text is cut where nothing changes", "[data]") {
  std::mt19937 random(3);
  const std::vector<std::string> pieces = {"light", " the", "\n", " ",      "\r\n", ".",     "\n\n",
                                           "7",     "é",    "\t", "\u00a0", "e",    "\u0301"};
  for (const char* name : {"gpt2", "llama3", "composed"}) {
    Tokenizer tokenizer(golden_folder + name + ".json");
    std::string text;
    while (text.size() < (5 << 19)) text += pieces[random() % pieces.size()];
    const Fields file = read_json_file(golden_folder + name + ".json");
    PreTokenizer words(file);
    Bpe bpe(Fields(file).object("model"), true);
    Tokens in_one_piece;
    for (const std::string& word : words.words(text, Start::document))
      bpe.encode(word, in_one_piece);
    CHECK(encode(tokenizer, text) == in_one_piece);
  }
}

TEST_CASE("bytes are tokens", "[data]") {
  Tokenizer tokenizer;
  CHECK(encode(tokenizer, std::string_view("a\0\xff", 3)) == Tokens{'a', 0, 255});
  CHECK(tokenizer.vocabulary() == 256);
  CHECK(tokenizer.token("\n") == 10);
  CHECK(tokenizer.token("ab") == -1);
}

TEST_CASE("UTF-8 ends where it stops being valid", "[data]") {
  CHECK(valid_utf8("") == 0);
  CHECK(valid_utf8("aé東🙂") == 10);
  CHECK(valid_utf8("a\x80") == 1);
  CHECK(valid_utf8("a\xC3") == 1);
  CHECK(valid_utf8("\xC0\x80") == 0);
  CHECK(valid_utf8("\xE0\x80\x80") == 0);
  CHECK(valid_utf8("ab\xED\xA0\x80") == 2);  // a surrogate
  CHECK(valid_utf8("\xF4\x90\x80\x80") == 0);
  Tokenizer tokenizer(golden_folder + "gpt2.json");
  CHECK_THROWS_WITH(encode(tokenizer, "good\xff"), "byte 4 is not UTF-8 text");
}

TEST_CASE("what a tokenizer.json has and we have not is refused in words", "[data]") {
  const TestFolder folder;
  const auto with = [&](const char* pointer, const nlohmann::json& value) {
    auto file = nlohmann::json::parse(read_file(golden_folder + "llama3.json"));
    file[nlohmann::json::json_pointer(pointer)] = value;
    const std::string path = folder.file("t.json", file.dump());
    const std::string text = refusal(path);
    return text.starts_with(path) ? text.substr(path.size()) : text;
  };
  CHECK(with("/model/type", "Unigram") ==
        ": /model/type: 'Unigram' works on characters; ByteLevel is for BPE");
  CHECK(with("/normalizer", {{"type", "Nmt"}}) ==
        ": /normalizer/type: 'Nmt' is not supported; known: Sequence, NFC, NFD, NFKC, NFKD, "
        "Lowercase, StripAccents, Strip, Prepend, Replace, Precompiled and BertNormalizer");
  for (const char* none : {"", "AAAA", "BAAAAAAA", "!!!!"})
    CHECK(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", none}}) ==
          ": /normalizer/precompiled_charsmap: is no precompiled character map of SentencePiece, "
          "or is truncated");
  CHECK(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "BAAAAAAAAAD/"}}) ==
        ": /normalizer/precompiled_charsmap: maps characters to what is not UTF-8 text");
  CHECK(with("/pre_tokenizer", {{"type", "UnicodeScripts"}})
            .starts_with(": /pre_tokenizer/type: 'UnicodeScripts' is not supported; known: "));
  CHECK(with("/model/merges/0", "onepart") == ": /model/merges: element 0 is not a pair of tokens");
  CHECK(with("/model/merges/0", {"Ġ", "nowhere"}) ==
        ": /model/merges: 'nowhere' is not in the vocabulary");
  CHECK(with("/model/vocab", {{"a", -1}}) == ": /model/vocab: token 'a' has no number from 0 on");
  CHECK(with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "(")
            .starts_with(": /pre_tokenizer/pretokenizers/0: not a regular expression at "));
  CHECK(with("/model/dropout", 0.1) ==
        ": /model/dropout: would make tokens depend on chance; use null");
  CHECK(with("/normalizer", {{"type", "Prepend"}, {"prepend", std::string(257, 'a')}}) ==
        ": /normalizer/prepend: is longer than 256 bytes");
}

TEST_CASE("an added token that the normalizer changes is refused", "[data]") {
  const TestFolder folder;
  auto file = nlohmann::json::parse(read_file(golden_folder + "uncased.json"));
  auto& token = file["added_tokens"].back();
  token["content"] = "<END>";
  CHECK(refusal(folder.file("apart.json", file.dump())).empty());  // found in the text as it is
  token["normalized"] = true;
  CHECK(refusal(folder.file("t.json", file.dump()))
            .ends_with("/normalized: true is not supported for '<END>', which the normalizer "
                       "changes; use false"));
  token["content"] = "<end>";
  CHECK(refusal(folder.file("same.json", file.dump())).empty());
}

TEST_CASE("steps that make a text endless are refused", "[data]") {
  const TestFolder folder;
  auto file = nlohmann::json::parse(read_file(golden_folder + "llama3.json"));
  const nlohmann::json tenfold = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(10, 'a')}};
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", std::vector<nlohmann::json>(30, tenfold)}};
  const std::string path = folder.file("t.json", file.dump());
  Tokenizer tokenizer(path);
  CHECK_THROWS_WITH(encode(tokenizer, "banana"),
                    path +
                        ": its normalizer and pre_tokenizer make more than 64 bytes of one; is "
                        "a step repeated?");
}

TEST_CASE("a token file is read as it was written", "[data]") {
  const TestFolder folder;
  const Tokens tokens = {0, 7, 65535, 1};
  for (const TokenFormat format : {TokenFormat::uint16, TokenFormat::uint32}) {
    const std::string path = folder.path() + "/tokens.bin";
    TokenWriter writer(path, format);
    writer.write(tokens);
    writer.write({});
    writer.write({tokens.data(), 1});
    writer.finish();
    const TokenFile file(path, format, 65536);
    Tokens read(5);
    REQUIRE(file.size() == 5);
    file.read(0, 5, read.data());
    CHECK(read == Tokens{0, 7, 65535, 1, 0});
    CHECK_THROWS_AS(TokenFile(path, format, 65535), InputError);
  }
  { TokenWriter abandoned(folder.path() + "/never.bin", TokenFormat::uint16); }
  CHECK(folder.names() == std::vector<std::string>{"tokens.bin"});
}

TEST_CASE("a word's best cut is that of all cuts", "[data]") {
  const auto file = nlohmann::json::parse(read_file(golden_folder + "unigram.json"));
  Unigram unigram(Fields(file["model"], "unigram.json"));
  std::vector<std::pair<std::string, double>> pieces = file["model"]["vocab"];
  double lowest = 0;
  for (const auto& [text, score] : pieces) lowest = std::min(lowest, score);
  std::mt19937 random(11);
  const std::string letters = "thedanlig";
  int cut = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::string word = "\xE2\x96\x81";
    for (std::size_t i = 0; i < 1 + random() % 9; ++i) word += letters[random() % letters.size()];
    // Returns the best sum of scores for the rest of the word from `at` on, over all pieces that it
    // can begin with.
    const std::function<double(std::size_t)> best_from = [&](std::size_t at) {
      if (at == word.size()) return 0.0;
      double best = -std::numeric_limits<double>::infinity();
      const std::size_t first = length_of_character(word[at]);
      bool known = false;
      for (const auto& [text, score] : pieces) {
        if (text.empty() || word.compare(at, text.size(), text) != 0) continue;
        known = known || text.size() == first;
        best = std::max(best, score + best_from(at + text.size()));
      }
      if (!known) best = std::max(best, lowest - 10 + best_from(at + first));
      return best;
    };
    Tokens tokens;
    unigram.encode(word, tokens);
    double sum = 0;
    for (const std::int32_t token : tokens) sum += pieces[static_cast<std::size_t>(token)].second;
    if (std::ranges::find(tokens, unigram.token("<unk>")) != tokens.end()) continue;
    CHECK(sum == Approx(best_from(0)));
    ++cut;
  }
  CHECK(cut > 100);
}
