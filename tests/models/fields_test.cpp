#include "models/core/fields.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/core/data_files.h"
#include "models/core/error.h"
#include "models/core/printable.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

std::string error_of(const std::string& text) {
  return message_of([&] {
    Fields fields(parse_json(text, "job.json"), "job.json");
    fields.required<int>("count");
    fields.optional<double>("rate", 1.0);
    fields.done();
  });
}

}  // namespace

TEST_CASE("a strict reader says where, what is wrong and what would be right", "[models][core]") {
  CHECK(error_of(R"({"count": 8})") == "");
  CHECK(error_of(R"({"count": 8.0, "rate": 2})") == "");
  CHECK(error_of(R"({"count": 8.5})") == "job.json: /count: expected an integer, found 8.5");
  CHECK(error_of(R"({"rate": 8})") == "job.json: /count: missing; it is required (an integer)");
  CHECK(error_of(R"({"cuont": 8})") ==
        "job.json: /count: missing; it is required (an integer); is 'cuont' meant for it?");
  CHECK(error_of(R"({"count": 8, "rat": 1})") ==
        "job.json: /rat: unknown key; did you mean 'rate'?");
  CHECK(error_of(R"({"count": "8"})") ==
        "job.json: /count: expected an integer, found \"8\"; write it without quotes");
  CHECK(error_of(R"({"count": 8, "Rate": 1})") ==
        "job.json: /Rate: unknown key; did you mean 'rate'?");
  CHECK(error_of(R"({"count": 8, "count": 9})") ==
        "job.json: key 'count' is given twice in one object; keep one of them");
  CHECK(error_of(R"([1])") == "job.json: /: expected an object, found [1]");
}

TEST_CASE("hostile JSON is refused with its place", "[models][core]") {
  CHECK(error_of("{\"count\": 8,\n \"rate\": NaN}").starts_with("job.json: line 2, column "));
  CHECK(error_of("{\"count\": 1e999}").find("too large") != std::string::npos);
  CHECK(error_of(std::string(100000, '[')) == "job.json: nested deeper than 64 levels");
  CHECK(error_of("{\"count\":").starts_with("job.json: line 1"));
  CHECK(error_of("").starts_with("job.json: line 1"));
}

TEST_CASE("a file without an end is refused", "[models][core]") {
  CHECK_THROWS_WITH(read_file("/dev/zero"),
                    "/dev/zero: is not a regular file; name one, or /dev/stdin");
  const TestFolder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_file(pipe), pipe + ": is not a regular file; name one, or /dev/stdin");
  // A file that is named by a descriptor of this process is read to its end, whatever it is.
  const int zero = open("/dev/zero", O_RDONLY);
  const std::string given = "/dev/fd/" + std::to_string(zero);
  CHECK_THROWS_WITH(read_file(given), given + ": more than 256 MiB are too many for a text file");
  close(zero);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(write(ends[1], "{}", 2) == 2);
  close(ends[1]);
  CHECK(read_file("/dev/fd/" + std::to_string(ends[0])) == "{}");
  close(ends[0]);
}

TEST_CASE("messages that quote input contain no control characters", "[models][core]") {
  CHECK(printable("caf\xc3\xa9 \xe2\x80\x94\n\tend") == "caf\xc3\xa9 \xe2\x80\x94\n\tend");
  CHECK(printable("a\x1b]0;b\x07\x08\r\x7f") == "a\\x1b]0;b\\x07\\x08\\x0d\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m") ==
        "\\x9b"
        "31m");  // CSI in one character
  CHECK(printable("\xc2") == "\xc2");
  CHECK(error_of("{\"a\\u001b[31m\": 1, \"count\": 1}").starts_with("job.json: /a\\x1b[31m: "));
  CHECK(std::string(RunError("a\x1b[31m").what()) == "a\\x1b[31m");
}

TEST_CASE("files that are part of the program are those of the source tree", "[models]") {
  const std::filesystem::path root = MESHWRIGHT_SOURCE_DIR;
  int files = 0;
  for (const char* folder : {"models/zoo", "hwprofiles", "hwprofiles/machines", "hwprofiles/gpus",
                             "hwprofiles/interconnects", "hwprofiles/stacks"}) {
    const std::string inside = std::string(built_in) + folder;
    const auto names = json_names(inside);
    CHECK(names == json_names((root / folder).string()));
    for (const std::string& name : names.value()) {
      CAPTURE(folder, name);
      const std::string path = inside + "/" + name + ".json";
      CHECK(is_data_file(path));
      CHECK(read_file(path) == read_file((root / folder / (name + ".json")).string()));
      ++files;
    }
  }
  CHECK(files > 150);
  CHECK(read_file("built-in:/hwprofiles/machines/../prices.json") ==
        read_file("built-in:/hwprofiles/prices.json"));
  CHECK_FALSE(is_data_file("built-in:/models/zoo/gpt5.json"));
  CHECK_FALSE(json_names("built-in:/models/zoos"));
  CHECK_FALSE(json_names((root / "models/zoos").string()));
  CHECK(message_of([] { read_file("built-in:/models/zoo/gpt5.json"); }) ==
        "built-in:/models/zoo/gpt5.json: no such file");
}

TEST_CASE("the nearest known word is the one that is begun, else that of fewest changes") {
  const std::vector<std::string> known = {"gpus/b200-sxm", "gpus/h100-96gb", "gpus/h100-sxm5-80gb"};
  CHECK(nearest("gpus/h100-sxm", known) == "gpus/h100-sxm5-80gb");
  CHECK(nearest("gpus/b100-sxm", known) == "gpus/b200-sxm");
  CHECK(nearest("gp", known).empty());
  CHECK(nearest("interconnects", known).empty());
}
