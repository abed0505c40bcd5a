// Tests how lines and tables are fitted to 80 columns.
#include "tools/session/screen.h"

#include <sstream>

#include "tests/catch.h"
#include "tools/commands/commands.h"
#include "tools/examples.h"
#include "tools/session/text.h"

using namespace meshwright::tests;

TEST_CASE("a line that fits stays as it is, and a longer one is broken at a blank", "[screen]") {
  CHECK(broken_lines("", 10).empty());
  CHECK(broken_lines("\n\n", 10) == "\n\n");
  CHECK(broken_lines("ten column", 10) == "ten column");
  CHECK(broken_lines("    \nx", 3) == "    \nx");
  CHECK(broken_lines("one two three four", 10) == "one two\n  three\n  four");
  CHECK(broken_lines("one two three four", 10, 0) == "one two\nthree four");
  CHECK(broken_lines("   one two three", 10) == "   one two\n   three");
  // A word that is longer than the line stays whole. A word that does not fit below the text of a
  // label is set further left.
  CHECK(broken_lines("label  text 0123456789", 12) == "label  text\n  0123456789");
  CHECK(broken_lines("a /very/long/path end", 8) == "a\n  /very/long/path\n  end");
}

TEST_CASE("a number and its unit stay together", "[screen]") {
  CHECK(broken_lines("it takes 12 ms, no more", 12, 0) == "it takes\n12 ms, no\nmore");
  CHECK(broken_lines("a layer of 12 ms12 more", 13, 0) == "a layer of 12\nms12 more");
}

TEST_CASE("the rest of a labelled line stands below its text", "[screen]") {
  CHECK(broken_lines("plan  one two three four", 16) == "plan  one two\n      three four");
  CHECK(broken_lines("   12  does not fit here", 16) == "   12  does not\n       fit here");
  CHECK(labelled("ab  ", "one two three", 12) == "ab  one two\n    three");
}

TEST_CASE("a character of UTF-8 takes one column", "[screen]") {
  CHECK(columns_of("µs ä") == 4);
  CHECK(broken_lines("ääää ääää", 9) == "ääää ääää");
  CHECK(broken_lines("ääää ääää", 8) == "ääää\n  ääää");
}

TEST_CASE("a command is broken before options, so that a shell still reads it", "[screen]") {
  CHECK(broken_lines("  meshwright plan job.json --set a=1 --write b.json", 40) ==
        "  meshwright plan job.json --set a=1 \\\n      --write b.json");
  // A quoted argument is not broken.
  CHECK(broken_lines("meshwright plan --by \"2 weeks --x\" --on aws", 30) ==
        "meshwright plan \\\n    --by \"2 weeks --x\" \\\n    --on aws");
}

TEST_CASE("a table that is too wide breaks a column, then lacks what it can do without",
          "[screen]") {
  Table table({"", "plan", "step", "more"});
  table.add({"1", "one two three four five six", "1.0 s", "12"});
  table.add({"2", "seven", "2.0 s", "3"});
  table.may_break("plan");
  table.may_lack({"more"});
  CHECK(table.text(80) ==
        "                          plan   step  more\n"
        "1  one two three four five six  1.0 s    12\n"
        "2                        seven  2.0 s     3\n");
  CHECK(table.text(36) ==
        "   plan                   step  more\n"
        "1  one two three four    1.0 s    12\n"
        "   five six\n"
        "2  seven                 2.0 s     3\n");
  CHECK(table.text(30) ==
        "   plan                   step\n"
        "1  one two three four    1.0 s\n"
        "   five six\n"
        "2  seven                 2.0 s\n"
        "--wide shows more: more\n");
  // Every row is in the table, whatever the screen shows.
  CHECK(table.rows().size() == 3);
}

TEST_CASE("every command has an example that begins with its name", "[screen]") {
  for (const Command* command : all_commands) {
    CAPTURE(command->name);
    std::istringstream words{std::string(example_of(command->name))};
    std::string program, name;
    words >> program >> name;
    CHECK(program == "meshwright");
    CHECK(name == command->name);
  }
}
