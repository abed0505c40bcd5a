// Tests that `list` prints every name once, and each rule, limit and setting in the tables of a
// framework.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tools/commands/commands.h"
#include "tools/interop/target.h"
#include "tools/session/screen.h"

using namespace meshwright::tests;

namespace {

// Returns what the command writes to standard output.
std::string listed(const std::vector<std::string>& operands) {
  const TestFolder folder;
  Options options;
  options.operands = operands;
  std::fflush(stdout);
  const int before = dup(STDOUT_FILENO);
  const int file = open(folder.file("out").c_str(), O_CREAT | O_WRONLY, 0600);
  dup2(file, STDOUT_FILENO);
  const int code = list_command.run(options);
  std::fflush(stdout);
  dup2(before, STDOUT_FILENO);
  close(before);
  close(file);
  CHECK(code == done);
  return content_of(folder.file("out"));
}

bool has(const std::string& text, const std::string& line) {
  CAPTURE(line);
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("list prints the names that completion knows, a line each", "[tools]") {
  for (const std::string& what : names_listed("")) {
    if (what == "stacks") continue;                        // with what each means
    if (what == "models" || what == "machines") continue;  // tables, below
    std::string lines;
    for (const std::string& name : names_listed(what)) lines += name + "\n";
    CAPTURE(what);
    CHECK(!lines.empty());
    CHECK(listed({what}) == lines);
  }
  for (const std::string what : {"models", "machines"}) {
    const std::string text = listed({what});
    const std::vector<std::string> names = names_listed(what);
    CHECK(std::ranges::count(text, '\n') == std::ssize(names) + 1);
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK(text.find("\n" + name + "  ") != std::string::npos);
    }
  }
  const std::string machines = listed({"machines"});
  const std::string p4d = machines.substr(machines.find("\np4d.24xlarge ") + 1);
  for (const std::string word : {"8 x A100-SXM4-40GB", "40.0 GiB", "400 Gb/s", "AWS"}) {
    CAPTURE(word);
    CHECK(p4d.substr(0, p4d.find('\n')).find(word) != std::string::npos);
  }
  for (const std::string& stack : names_listed("stacks"))
    CHECK(("\n" + listed({"stacks"})).find("\n" + stack + "  ") != std::string::npos);
}

TEST_CASE("of a framework every rule, limit and setting without meaning is listed", "[tools]") {
  set_screen_columns(without_end);
  for (std::size_t t = 0; t < all_targets().size(); ++t) {
    const InteropTarget* target = all_targets()[t];
    const std::string name = framework_names()[t];
    const std::string text = listed({"frameworks", name});
    CAPTURE(name);
    CHECK(has(text, std::string(target->title)));
    std::int64_t notes = 0;
    for (const Rule& rule : target->rules()) {
      std::vector<std::string> settings = rule.settings;
      if (target->spelled != nullptr)
        for (std::string& each : settings) each = target->spelled(each);
      const std::string line = "  " + list_of(rule.keys, "and") + ": " + list_of(settings, "and");
      CHECK(has(text, rule.note.empty() ? line : line + "\n      " + rule.note));
      notes += !rule.note.empty();
    }
    std::int64_t indented = 0;
    for (std::size_t at = text.find("\n      "); at != std::string::npos;
         at = text.find("\n      ", at + 1))
      ++indented;
    CHECK(indented == notes);
    for (const Limit& limit : limits_of(target->framework))
      CHECK(has(text, "  " + std::string(limit.key) + ": " + name + " " + std::string(limit.why)));
    // Adjacent settings with the same reason share a line.
    const auto& rows = target->without_meaning;
    for (std::size_t i = 0; i < rows.size();) {
      std::string names;
      std::size_t next = i;
      for (; next < rows.size() && rows[next].reason == rows[i].reason; ++next)
        names += (next == i ? "" : ", ") + std::string(rows[next].pattern);
      CHECK(has(text, "  " + names + ": " + std::string(rows[i].reason)));
      i = next;
    }
  }
  set_screen_columns(usual_columns);
}
