#include "exec/data/detokenizer.h"

#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/core/output_file.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

using Tokens = std::vector<std::int32_t>;

const std::string golden_folder = MESHWRIGHT_SOURCE_DIR "/tests/golden/";

// Returns a detokenizer from a file with this decoder and post_processor.
Detokenizer with(const TestFolder& folder, const json& changes) {
  json file = {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"<s>", 2}}}}},
               {"added_tokens",
                {{{"id", 2}, {"content", "<s>"}, {"special", true}},
                 {{"id", 5}, {"content", "<n>"}, {"special", false}}}}};
  file.update(changes);
  return Detokenizer(folder.file("tokenizer.json", file.dump()));
}

}  // namespace

TEST_CASE("tokens become the texts that Hugging Face's library makes of them", "[exec][data]") {
  const json golden = json::parse(read_file(golden_folder + "decoders.json"));
  REQUIRE(golden.size() == 9);
  for (const auto& [name, of_tokenizer] : golden.items()) {
    const TestFolder folder;
    json file = json::parse(read_file(golden_folder + "tokenizers/" + name + ".json"));
    file["decoder"] = of_tokenizer["decoder"];
    const Detokenizer detokenizer(folder.file("tokenizer.json", file.dump()));
    for (const json& one : of_tokenizer["cases"]) {
      CAPTURE(name, one["tokens"].dump());
      CHECK(detokenizer.text(one["tokens"].get<Tokens>()) == one["text"].get<std::string>());
    }
  }
}

TEST_CASE("without a tokenizer each token is a byte, and what is no UTF-8 is replaced",
          "[exec][data]") {
  const Detokenizer bytes;
  CHECK(bytes.text(Tokens{'a', 0xC3, 0xA9, 0xF0, 0x9F, 'b', 0xFF, 300}) ==
        "a\xC3\xA9\xEF\xBF\xBD"
        "b\xEF\xBF\xBD");
  CHECK(bytes.before_text().empty());
}

TEST_CASE("special tokens have no text, and a template says which come before one",
          "[exec][data]") {
  const TestFolder folder;
  const Detokenizer plain = with(folder, json::object());
  CHECK(plain.text(Tokens{2, 0, 5, 99, 1}) == "a <n> b");  // no decoder: blanks between
  CHECK(plain.before_text().empty());
  const json sign = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json template_of = {{"type", "TemplateProcessing"},
                            {"single", {sign, sign, text, sign}},
                            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {2}}}}}}};
  CHECK(with(folder, {{"post_processor", template_of}}).before_text() == Tokens{2, 2});
  const json sequence = {{"type", "Sequence"},
                         {"processors", {{{"type", "ByteLevel"}}, template_of}}};
  CHECK(with(folder, {{"post_processor", sequence}}).before_text() == Tokens{2, 2});
  CHECK(message_of([&] {
          with(folder, {{"decoder", {{"type", "CTC"}}}});
        }) ==
        folder.file("tokenizer.json") +
            ": /decoder/type: 'CTC' is not supported; known: Sequence, ByteLevel, ByteFallback, "
            "Fuse, Strip, Metaspace, WordPiece and Replace");
}
