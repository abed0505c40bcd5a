// Tests that settings which cannot become a job give one message, with the file, the line and the
// setting's own name.
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/interop/settings_files.h"

using namespace meshwright::tests;

namespace {

const std::string bad = MESHWRIGHT_SOURCE_DIR "/tests/interop/bad";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string message_of(const SettingsCase& each) {
  try {
    import_settings(each.files, {.format = {}, .overrides = each.set, .allow_unknown = false},
                    machine_facts);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("bad settings give one message with file and line", "[interop]") {
  const std::vector<SettingsCase> cases = settings_cases(bad, ".message");
  CHECK(cases.size() >= 13);
  for (const SettingsCase& each : cases) {
    INFO(each.name);
    std::string expected =
        replaced(content_of(each.beside(".message")), "{file}", each.files.at(0));
    while (expected.ends_with('\n')) expected.pop_back();
    const std::string message = message_of(each);
    CHECK(message == expected);
    CHECK(message.find('\n') == std::string::npos);
  }
}
