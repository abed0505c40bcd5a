// Tests where the pictures of a page have their points, and tables their cells. The frame of a
// picture goes from 70 to 790 across and from 10 to 270 down.
#include "tests/catch.h"
#include "tools/report/html.h"

using namespace meshwright::tests;

namespace {

std::string part_of(const HtmlPage& page, const std::string& begin, const std::string& end) {
  const std::string text = page.text();
  const std::size_t from = text.find(begin);
  REQUIRE(from != std::string::npos);
  return text.substr(from, text.find(end, from) + end.size() - from);
}

}  // namespace

TEST_CASE("text of a page is escaped", "[tools][report]") {
  HtmlPage page("a<b");
  page.heading("c>d");
  page.paragraph("\"e\" & f");
  page.facts({{"g&", "h<"}});
  CHECK(part_of(page, "<title>", "</title>") == "<title>a&lt;b</title>");
  CHECK(part_of(page, "<h1>", "</h1>") == "<h1>a&lt;b</h1>");
  CHECK(part_of(page, "<h2>", "</dl>") ==
        "<h2>c&gt;d</h2>\n<p>&quot;e&quot; &amp; f</p>\n<dl class=\"facts\">\n"
        "<dt>g&amp;</dt><dd>h&lt;</dd>\n</dl>");
}

TEST_CASE("a heading begins a card, except the first of a page", "[tools][report]") {
  HtmlPage page("t");
  page.heading("one");
  page.heading("two");
  CHECK(part_of(page, "<h2>", "two</h2>") ==
        "<h2>one</h2>\n</section>\n<section class=\"card\">\n<h2>two</h2>");
}

TEST_CASE("a table's first row is its head, and columns of words are marked", "[tools][report]") {
  HtmlPage page("t");
  Table table({"plan", "step"});
  table.add({"p1", "2 ms"});
  page.table(table);
  CHECK(part_of(page, "<table>", "</table>") ==
        "<table>\n<thead><tr><th class=\"text\">plan</th><th>step</th></tr></thead>\n<tbody>\n"
        "<tr><td class=\"text\">p1</td><td>2 ms</td></tr>\n</tbody></table>");
}

TEST_CASE("the marks of an axis are round numbers between its ends", "[tools][report]") {
  using Marks = std::vector<double>;
  CHECK(axis_marks(0, 10, 6) == Marks{0, 2, 4, 6, 8, 10});
  CHECK(axis_marks(1, 100, 6) == Marks{20, 40, 60, 80, 100});
  CHECK(axis_marks(-1, 1, 4) == Marks{-1, -0.5, 0, 0.5, 1});
  CHECK(axis_marks(1234, 5678, 6) == Marks{2000, 3000, 4000, 5000});
  CHECK(axis_marks(3, 3, 6) == Marks{3});
  const Marks small = axis_marks(0, 0.7, 6);  // 0.1 times 7 is more than 0.7 by rounding
  REQUIRE(small.size() == 4);
  CHECK(small.back() == Approx(0.6));
}

TEST_CASE("a curve fills its frame, and what is not finite has no point", "[tools][report]") {
  HtmlPage page("t");
  StepValues values;
  values.add(11, 4);
  values.add(12, 8);
  values.add(13, std::numeric_limits<double>::infinity());
  values.add(14, 5);
  values.add(15, 6);
  page.curve("loss", "in nats", values);
  // The steps 11 to 15 are spread over 720 units across. The values go from 4, which is at 270, to
  // 8, which is at 26, so 1 is 61 units.
  CHECK(part_of(page, "points=\"", "\"/>") ==
        "points=\"70.0,270.0 250.0,26.0 610.0,209.0 790.0,148.0 \"/>");
  const std::string text = page.text();
  for (const char* label :
       {"y=\"274.0\" font-size=\"12\" text-anchor=\"end\">4</text>",
        "y=\"213.0\" font-size=\"12\" text-anchor=\"end\">5</text>",
        "y=\"30.0\" font-size=\"12\" text-anchor=\"end\">8</text>",
        "<text x=\"70.0\" y=\"288\" font-size=\"12\" text-anchor=\"middle\">11</text>",
        "<text x=\"790.0\" y=\"288\" font-size=\"12\" text-anchor=\"middle\">15</text>",
        "<text x=\"70\" y=\"12\" font-size=\"12\">in nats</text>", ">step</text>"}) {
    CAPTURE(label);
    CHECK(text.find(label) != std::string::npos);
  }
  HtmlPage flat("t");
  StepValues one;
  one.add(3, 7);
  flat.curve("loss", "loss", one);  // from 6 to 8
  CHECK(part_of(flat, "points=\"", "\"/>") == "points=\"70.0,148.0 \"/>");
  HtmlPage empty("t");
  empty.curve("no picture", "loss", StepValues());
  CHECK(empty.text().find("no picture") == std::string::npos);
}

TEST_CASE("bars are in proportion to the longest, part beside part", "[tools][report]") {
  HtmlPage page("t");
  page.bars("caption", {"a", "b"}, {{"first", {1, 3}}, {"second", {2, 0}}});
  // The longest bar, of 4, has a width of 720, so 1 is 180 units.
  CHECK(
      part_of(page, "<svg", "</svg>") ==
      "<svg viewBox=\"0 0 800 48\" role=\"img\" aria-label=\"caption\">\n"
      "<text x=\"0\" y=\"16\" font-size=\"12\">first</text>\n"
      "<rect x=\"70.00\" y=\"2\" width=\"180.00\" height=\"20\" fill=\"#4c78a8\"><title>a</title>"
      "</rect>\n"
      "<rect x=\"250.00\" y=\"2\" width=\"540.00\" height=\"20\" fill=\"#f58518\"><title>b</title>"
      "</rect>\n"
      "<text x=\"0\" y=\"40\" font-size=\"12\">second</text>\n"
      "<rect x=\"70.00\" y=\"26\" width=\"360.00\" height=\"20\" fill=\"#4c78a8\"><title>a</title>"
      "</rect>\n"
      "<rect x=\"430.00\" y=\"26\" width=\"0.00\" height=\"20\" fill=\"#f58518\"><title>b</title>"
      "</rect>\n</svg>");
  HtmlPage empty("t");
  empty.bars("no picture", {"a"}, {{"first", {0}}});
  CHECK(empty.text().find("no picture") == std::string::npos);
}

TEST_CASE("points lie in a frame around them, and the marked ones stand out", "[tools][report]") {
  HtmlPage page("t");
  page.points("caption", {"hours", "dollars"},
              {{"first", 1, 10, false}, {"second", 3, 20, true}, {"no price", 2, NAN, false}});
  const std::string svg = part_of(page, "<svg", "</svg>");
  CHECK(
      svg.find("<circle cx=\"70.0\" cy=\"270.0\" r=\"5\" fill=\"#4c78a8\"><title>first</title>") !=
      std::string::npos);
  CHECK(
      svg.find("<circle cx=\"790.0\" cy=\"26.0\" r=\"7\" fill=\"#f58518\"><title>second</title>") !=
      std::string::npos);
  CHECK(svg.find("no price") == std::string::npos);
  CHECK(svg.find(">hours</text>") != std::string::npos);
  HtmlPage empty("t");
  empty.points("no picture", {"x", "y"}, {});
  CHECK(empty.text().find("no picture") == std::string::npos);
}

TEST_CASE("areas lie on top of each other, and a pixel shows the highest of its points",
          "[tools][report]") {
  HtmlPage page("t");
  // The 720 columns stand for 10 ms. The first two points are in the same column, and the second is
  // higher.
  page.areas("caption", {"ms", "GiB"}, {"a", "b"}, {{0, {1, 1}}, {0.001, {2, 2}}, {5, {1, 0}}}, 10);
  const std::string text = page.text();
  // The highest sum is 4, and 1 is 61 units. The area a lies below, with 2 and from the middle on
  // 1. The area b lies on it, with 2 and then 0.
  const std::string a = part_of(page, "<polygon", "<title>a");
  CHECK(a.starts_with("<polygon points=\"70,148.0 71,148.0 "));
  CHECK(a.find(" 428,148.0 429,209.0 ") != std::string::npos);
  CHECK(a.find(" 789,209.0 789,270.0 788,270.0 ") != std::string::npos);
  CHECK(a.find(" 71,270.0 70,270.0 \" fill=\"#4c78a8\">") != std::string::npos);
  const std::string rest = text.substr(text.find("<title>a"));
  CHECK(rest.find("<polygon points=\"70,26.0 71,26.0 ") != std::string::npos);
  CHECK(rest.find(" 428,26.0 429,209.0 ") != std::string::npos);
  CHECK(rest.find(" 71,148.0 70,148.0 \" fill=\"#f58518\"><title>b") != std::string::npos);
  CHECK(text.find("<text x=\"70.0\" y=\"288\" font-size=\"12\" text-anchor=\"middle\">0</text>") !=
        std::string::npos);
  CHECK(
      text.find("<text x=\"790.0\" y=\"288\" font-size=\"12\" text-anchor=\"middle\">10</text>") !=
      std::string::npos);
  HtmlPage empty("t");
  empty.areas("no picture", {"x", "y"}, {"a"}, {{0, {1}}}, 0);
  empty.areas("no picture", {"x", "y"}, {"a"}, {{0, {0}}}, 1);
  empty.areas("no picture", {"x", "y"}, {"a"}, {}, 1);
  CHECK(empty.text().find("no picture") == std::string::npos);
}
