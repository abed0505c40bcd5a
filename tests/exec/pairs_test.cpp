// Tests prompts and completions as sequences in which only some targets count.
#include "exec/data/pairs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/data/loader.h"
#include "models/core/error.h"
#include "models/program/graph/attributes.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

using nlohmann::json;

const std::string golden_files = MESHWRIGHT_SOURCE_DIR "/tests/golden/";

LoaderOptions of_pairs(const std::string& path, int sequence_length, const PairText& text = {}) {
  LoaderOptions options;
  options.files = {path};
  options.format = TokenFormat::pairs;
  options.sequence_length = sequence_length;
  options.vocabulary = 256;
  options.text = text;
  return options;
}

struct Read {
  std::vector<std::int32_t> tokens, targets;
};

Read read_pair(Loader& loader, std::int64_t position, int s) {
  Read read{std::vector<std::int32_t>(static_cast<std::size_t>(s)),
            std::vector<std::int32_t>(static_cast<std::size_t>(s))};
  loader.read(position, {read.tokens.data(), read.targets.data()});
  return read;
}

// Returns the learned targets as text, with dots in place of the others.
std::string learned(const Read& read) {
  std::string text;
  for (const std::int32_t target : read.targets)
    text += target == ignored_target ? '.' : static_cast<char>(target);
  return text;
}

// Returns the path of a tokenizer file with the added tokens, in the test's folder.
std::string tokenizer_of(const TestFolder& folder, const json& golden) {
  json file = json::parse(
      content_of(golden_files + "tokenizers/" + golden["tokenizer"].get<std::string>() + ".json"));
  for (const auto& [token, number] : golden["added"].items())
    file["added_tokens"].push_back({{"id", number}, {"content", token}, {"special", true}});
  return folder.file("tokenizer.json", file.dump());
}

ChatTemplate template_of(const json& golden) {
  const std::vector<std::string> names = chat_template_names();
  const auto found = std::ranges::find(names, golden["template"].get<std::string>());
  REQUIRE(found != names.end());
  return static_cast<ChatTemplate>(found - names.begin());
}

// Returns the tokens and targets that are read if only some tokens are to be learned.
Read expected_of(const json& row, int s) {
  Read read{std::vector<std::int32_t>(static_cast<std::size_t>(s), 0),
            std::vector<std::int32_t>(static_cast<std::size_t>(s), ignored_target)};
  const auto tokens = row["tokens"].get<std::vector<std::int32_t>>();
  const auto learned = row["learned"].get<std::vector<int>>();
  std::ranges::copy(tokens, read.tokens.begin());
  for (std::size_t i = 1; i < tokens.size(); ++i)
    if (learned[i] != 0) read.targets[i - 1] = tokens[i];
  return read;
}

bool is_prompt_and_completion(const json& messages) {
  return messages.size() == 2 && messages[0]["role"] == "user" &&
         messages[1]["role"] == "assistant";
}

}  // namespace

TEST_CASE("of a pair the completion is learned, padded or cut", "[exec][data]") {
  const TestFolder folder;
  const std::string path = folder.file(
      "pairs.jsonl",
      "{\"prompt\": \"ask\", \"completion\": \"answer\", \"id\": 7}\n\n"
      "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", "
      "\"content\": \"U\"}, {\"role\": \"assistant\", \"content\": \"one\"}, {\"role\": "
      "\"user\", \"content\": \"V\"}, {\"role\": \"assistant\", \"content\": \"two\"}]}\n"
      "{\"prompt\": \"too long to say a word\", \"completion\": \"never\"}\n"
      "{\"prompt\": \"long\", \"completion\": \"and cut at its end\"}\n");
  Loader loader(of_pairs(path, 12));
  CHECK(loader.sequences() == 3);
  CHECK(learned(read_pair(loader, 0, 12)) == "..answer....");
  CHECK(read_pair(loader, 0, 12).tokens ==
        std::vector<std::int32_t>{'a', 's', 'k', 'a', 'n', 's', 'w', 'e', 'r', 0, 0, 0});
  CHECK(learned(read_pair(loader, 1, 12)) == ".one.two....");
  CHECK(learned(read_pair(loader, 2, 12)) == "...and cut a");
  CHECK(learned(read_pair(loader, 3, 12)) == "..answer....");  // the next epoch
  CHECK(loader.counted_targets(0, 3) == 6 + 6 + 9);
  CHECK(loader.counted_targets(2, 2) == 9 + 6);
  CHECK(loader.remarks() ==
        std::vector<std::string>{
            path + ": 2 of 4 pairs are longer than 13 tokens (sequence_length + 1) and are cut "
                   "there (the longest has 27); 1 of 4 have no token to learn before that and are "
                   "left out"});
  Loader ends(of_pairs(path, 30, {"", ChatTemplate::plain, "!"}));
  CHECK(learned(read_pair(ends, 0, 30)) == "..answer!.....................");
  CHECK(learned(read_pair(ends, 1, 30)) == ".one!.two!....................");
  CHECK(ends.remarks().empty());
}

TEST_CASE("pairs are read as transformers' templates write them", "[exec][data]") {
  const int s = 90;
  const TestFolder folder;
  for (const json& golden : json::parse(content_of(golden_files + "pairs.json"))) {
    INFO(golden["template"] << " with " << golden["tokenizer"]);
    const PairText text{tokenizer_of(folder, golden), template_of(golden), ""};
    int rows = 0, as_pairs = 0;
    for (const json& row : golden["rows"]) {
      INFO(row["messages"]);
      LoaderOptions options = of_pairs(
          folder.file("messages.jsonl", json{{"messages", row["messages"]}}.dump()), s, text);
      options.vocabulary = 470;
      const Read expected = expected_of(row, s);
      if (std::ranges::count(expected.targets, ignored_target) == s) {
        CHECK(message_of([&] {
                Loader loader(options);
              }).find(": no pair of this file or of any other has a token to learn") !=
              std::string::npos);
        continue;
      }
      ++rows;
      const auto check = [&] {
        Loader loader(options);
        const Read read = read_pair(loader, 0, s);
        CHECK(read.tokens == expected.tokens);
        CHECK(read.targets == expected.targets);
      };
      check();
      if (!is_prompt_and_completion(row["messages"])) continue;
      ++as_pairs;
      const json pair = {{"prompt", row["messages"][0]["content"]},
                         {"completion", row["messages"][1]["content"]}};
      options.files = {folder.file("pairs.jsonl", pair.dump())};
      check();
    }
    CHECK(rows >= 5);
    CHECK(as_pairs >= 1);
  }
}

TEST_CASE("a tokenizer that is not the model's is refused", "[exec][data]") {
  const TestFolder folder;
  const std::string path =
      folder.file("chat.jsonl", "{\"prompt\": \"Why?\", \"completion\": \"Because.\"}\n");
  const std::string gpt2 = golden_files + "tokenizers/gpt2.json";
  CHECK(message_of([&] {
          Loader loader(of_pairs(path, 80, {gpt2, ChatTemplate::chatml, ""}));
        }) == "data.template: chatml has the token '<|im_start|>', which is none of " + gpt2 +
                  "; use another template, or a tokenizer that has it");
  const json golden = {{"tokenizer", "gpt2"},
                       {"added", {{"<|im_start|>", 500}, {"<|im_end|>", 501}}}};
  LoaderOptions options =
      of_pairs(path, 80, {tokenizer_of(folder, golden), ChatTemplate::chatml, ""});
  options.vocabulary = 501;
  CHECK(message_of([&] { Loader loader(options); }) ==
        path +
            ":1: its text has token 501, which is not in the model's vocabulary of 501; is this "
            "the model's tokenizer?");
  options.vocabulary = 502;
  CHECK(Loader(options).sequences() == 1);
}

TEST_CASE("pairs that are none are refused with their line", "[exec][data]") {
  const TestFolder folder;
  const std::string good = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
  const auto refused = [&](const std::string& line, const PairText& text = {}) {
    const std::string path = folder.file("pairs.jsonl", good + line + "\n");
    const std::string message = message_of([&] { Loader loader(of_pairs(path, 8, text)); });
    return message.starts_with(path) ? message.substr(path.size()) : message;
  };
  CHECK(refused("[]") ==
        ":2: is no JSON object; a line is {\"prompt\": ..., \"completion\": ...}, "
        "{\"messages\": [...]} or {\"text\": ...}");
  CHECK(refused("{\"prompt\": \"a\"}") == ":2: /completion: is missing");
  CHECK(refused("{\"prompt\": 1, \"completion\": \"b\"}") == ":2: /prompt: is no text");
  CHECK(refused("{\"messages\": 1}") == ":2: /messages: is no list");
  CHECK(refused("{\"messages\": [], \"prompt\": \"a\"}") ==
        ":2: /messages: is given beside a prompt or completion; keep one of them");
  CHECK(refused("{\"messages\": [7]}") == ":2: /messages/0: is no object of role and content");
  CHECK(refused("{\"messages\": [{\"role\": \"tool\", \"content\": \"x\"}]}") ==
        ":2: /messages/0/role: 'tool' is not known; known: system, user and assistant");
  CHECK(refused("", {"", ChatTemplate::plain, "end"}) ==
        "data.end_token: 'end' is not a token of single bytes");
  const std::string none = folder.file("none.jsonl", "{\"messages\": []}\n");
  CHECK(message_of([&] { Loader loader(of_pairs(none, 8)); }) ==
        none +
            ": no pair of this file or of any other has a token to learn within sequence_length");
}
