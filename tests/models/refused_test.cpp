// Tests that every file of tests/refused gets the message that it contains. README.md there
// describes the format.
#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/models/job_lookup.h"

using namespace meshwright::tests;
namespace fs = std::filesystem;

namespace {

const fs::path folder = fs::path(MESHWRIGHT_SOURCE_DIR) / "tests" / "refused";

struct Expected {
  std::vector<std::string> overrides;
  std::string message;
};

// Replaces `place` in the expected message by a list of words, so that the files do not have to
// change when the program has more of them.
void fill_in(std::string& message, const std::string& place, const std::string& words) {
  const std::size_t begin = message.find(place);
  if (begin != std::string::npos) message.replace(begin, place.size(), words);
}

std::string schedules() {
  std::vector<std::string> names;
  for (const ScheduleInfo& kind : schedule_kinds()) names.emplace_back(kind.name);
  return list_of(names, "and");
}

std::string schedules_of_virtual_stages() {
  std::vector<std::string> names;
  for (const ScheduleInfo& kind : schedule_kinds())
    if (kind.most_chunks > 1) names.push_back("'" + std::string(kind.name) + "'");
  return list_of(names);
}

Expected expected_of(const fs::path& text_file) {
  std::istringstream lines(read_file(text_file.string()));
  Expected expected;
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("set: "))
      expected.overrides.push_back(line.substr(5));
    else
      expected.message += (expected.message.empty() ? "" : "\n") + line;
  }
  fill_in(expected.message, "{schedules}", schedules());
  fill_in(expected.message, "{schedules of virtual stages}", schedules_of_virtual_stages());
  return expected;
}

// Changes to the folder of the files, because names in messages are relative to it.
class InFolder {
 public:
  InFolder() : before_(fs::current_path()) { fs::current_path(folder); }
  ~InFolder() { fs::current_path(before_); }

 private:
  fs::path before_;
};

std::set<std::string> names_with(const std::string& extension) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == extension) names.insert(entry.path().stem().string());
  return names;
}

}  // namespace

TEST_CASE("every refused job gets its exact message", "[models][refused]") {
  const InFolder there;
  for (const std::string& name : names_with(".txt")) {
    CAPTURE(name);
    const Expected expected = expected_of(folder / (name + ".txt"));
    std::string message = "(it was accepted)";
    try {
      read_job(name + ".json", expected.overrides, lookup_for_tests);
    } catch (const InputError& error) {
      message = error.what();
    }
    CHECK(message == expected.message);
    CHECK(message.starts_with(name + ".json: "));
  }
}

TEST_CASE("every refused job has a message", "[models][refused]") {
  const std::set<std::string> texts = names_with(".txt");
  for (const std::string& name : names_with(".json")) {
    CAPTURE(name);
    CHECK(texts.contains(name));
  }
  CHECK(texts.size() >= 45);
}
