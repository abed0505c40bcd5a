// Tests how text is split by a regular expression, as tokenizers do.
#include "exec/data/pattern.h"

#include <utility>
#include <vector>

#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

using Pieces = std::vector<std::pair<std::string, bool>>;

Pieces pieces_of(const char* expression, std::string_view text) {
  Pieces pieces;
  Pattern(expression, "test").split(text, [&](std::string_view piece, bool matched) {
    pieces.emplace_back(piece, matched);
  });
  return pieces;
}

}  // namespace

TEST_CASE("text is cut into matches and what lies between them", "[exec][data]") {
  CHECK(pieces_of("[0-9]+", "a12b3") ==
        Pieces{{"a", false}, {"12", true}, {"b", false}, {"3", true}});
  CHECK(pieces_of("[0-9]+", "12") == Pieces{{"12", true}});
  CHECK(pieces_of("[0-9]+", "ab") == Pieces{{"ab", false}});
  CHECK(pieces_of("[0-9]+", "").empty());
}

// The search continues after the next character, however many bytes it has.
TEST_CASE("an empty match cuts nothing", "[exec][data]") {
  CHECK(pieces_of("x*", "abc") == Pieces{{"abc", false}});
  CHECK(pieces_of("x*", "axxb") == Pieces{{"a", false}, {"xx", true}, {"b", false}});
  for (const std::string character : {"e", "\u00e9", "\u20ac", "\U0001f600"}) {
    INFO(character);
    const std::string expression = "(?=" + character + ")|.";
    CHECK(pieces_of(expression.c_str(), character + "a") ==
          Pieces{{character, false}, {"a", true}});
    CHECK(pieces_of(expression.c_str(), "a" + character) ==
          Pieces{{"a", true}, {character, false}});
  }
}

TEST_CASE("a quoted text matches just itself", "[exec][data]") {
  for (const std::string text : {"a", "a.b", "[x]*\\d(", "\u00e9+", "\n#"})
    CHECK(pieces_of(Pattern::quoted(text).c_str(), "xx" + text + "yy") ==
          Pieces{{"xx", false}, {text, true}, {"yy", false}});
}
