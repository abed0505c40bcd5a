// Tests rows of labelled texts: their tokens, the label of each, and the position of the token that
// predicts it.
#include "exec/data/labelled.h"

#include <set>
#include <string>
#include <vector>

#include "exec/data/loader.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

LoaderOptions of_texts(const std::vector<std::string>& files, bool label_of_last = true) {
  LoaderOptions options;
  options.files = files;
  options.format = TokenFormat::labelled;
  options.sequence_length = 6;
  options.vocabulary = 256;
  options.targets = Targets::label;
  options.classes = 3;
  options.label_of_last = label_of_last;
  return options;
}

struct Read {
  std::string text;
  int label = -1, position = -1;
  bool operator==(const Read&) const = default;
};

// Reads one tensor after the other, like a step.
Read read_text(Loader& loader, std::int64_t sequence) {
  std::vector<std::int32_t> tokens(6, -1);
  Read read;
  loader.read(sequence, {.tokens = tokens.data()});
  loader.read(sequence, {.targets = &read.label});
  loader.read(sequence, {.positions = &read.position});
  for (const std::int32_t token : tokens) read.text += token == 0 ? '.' : static_cast<char>(token);
  return read;
}

std::string refusal(const std::vector<std::string>& files) {
  return message_of([&] { Loader(of_texts(files)); });
}

}  // namespace

TEST_CASE("of a text the last token says the class, padded or cut", "[exec][data]") {
  const TestFolder folder;
  const std::string one = folder.file("one.jsonl",
                                      "{\"text\": \"good\", \"label\": 2, \"idx\": 7}\n\n"
                                      "{\"label\": 0, \"text\": \"too long\"}\n"),
                    two = folder.file("two.jsonl", "{\"text\": \"so, so\", \"label\": 1}\n");
  Loader loader(of_texts({one, two}));
  CHECK(loader.sequences() == 3);
  CHECK(read_text(loader, 0) == Read{"good..", 2, 3});
  CHECK(read_text(loader, 1) == Read{"too lo", 0, 5});
  CHECK(read_text(loader, 2) == Read{"so, so", 1, 5});
  CHECK(read_text(loader, 3) == Read{"good..", 2, 3});  // the next epoch
  CHECK_FALSE(loader.counted_targets(0, 3));            // all count
  CHECK(loader.remarks() ==
        std::vector<std::string>{one +
                                 ": 1 of 2 texts are longer than 6 tokens (sequence_length) and "
                                 "are cut there (the longest has 8)"});

  Loader first(of_texts({one}, false));
  CHECK(read_text(first, 0) == Read{"good..", 2, 0});
  std::vector<std::int32_t> documents(6, -1);
  first.read(0, {.documents = documents.data()});
  CHECK(documents == std::vector<std::int32_t>{0, 0, 0, 0, 4, 5});  // padding is hidden
  first.read(1, {.documents = documents.data()});
  CHECK(documents == std::vector<std::int32_t>(6, 0));
}

TEST_CASE("labelled texts that cannot be learned", "[exec][data]") {
  const TestFolder folder;
  const auto wrong = [&](const std::string& line) {
    const std::string path = folder.file("bad", "{\"text\": \"enough\", \"label\": 0}\n" + line);
    const std::string message = refusal({path});
    REQUIRE(message.starts_with(path + ":2: "));
    return message.substr(path.size() + 4);
  };
  CHECK(wrong("[1]") == "is no JSON object; a line is {\"text\": ..., \"label\": number}");
  CHECK(wrong("{\"label\": 1}") == "/text: is missing");
  CHECK(wrong("{\"text\": 3, \"label\": 1}") == "/text: is no text");
  CHECK(wrong("{\"text\": \"\", \"label\": 1}") == "/text: has no token");
  CHECK(wrong("{\"text\": \"a\"}") == "/label: is missing");
  for (const char* label : {"3", "-1", "1.5", "\"1\"", "null", "99999999999"})
    CHECK(wrong(std::string("{\"text\": \"a\", \"label\": ") + label + "}") ==
          std::string("/label: ") + label + " is not one of the model's 3 classes; use 0 to 2");
  const std::string blank = folder.file("blank", "\n\n");
  CHECK(refusal({blank}) == blank + ": has no line with a text and its label");
}

TEST_CASE("random texts have classes of the model's", "[exec][data]") {
  Loader loader(of_texts({}));
  std::set<int> labels, tokens, lengths;
  for (int k = 0; k < 64; ++k) {
    const Read read = read_text(loader, k);
    labels.insert(read.label);
    for (const char token : read.text) tokens.insert(token);
    lengths.insert(read.position + 1);
    CHECK(read.text.substr(static_cast<std::size_t>(read.position) + 1) ==
          std::string(static_cast<std::size_t>(5 - read.position), '.'));
  }
  CHECK(labels == std::set{0, 1, 2});
  CHECK(lengths == std::set{1, 2, 3, 4, 5, 6});
  CHECK(tokens.size() > 100);
}
