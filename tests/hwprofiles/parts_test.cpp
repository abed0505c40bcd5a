// Tests how a profile and its parts are merged: blocks field by field, everything else as a whole.
// The value of the profile itself, or else of the last part, counts.
#include "hwprofiles/parts.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json together(const TestFolder& folder, const json& own) {
  Profile profile = with_parts(Fields(own, "own.json"), folder.path());
  json all = json::object();
  for (const std::string& key : profile.fields.keys()) all[key] = profile.fields.raw(key);
  return all;
}

void part(const TestFolder& folder, const std::string& name, const json& value) {
  folder.file(name + ".json", value.dump());
}

}  // namespace

TEST_CASE("blocks join field by field, and what is no block is replaced", "[hwprofiles]") {
  const TestFolder folder;
  part(folder, "a", {{"block", {{"x", 1}, {"y", 2}}}, {"list", {1, 2}}, {"word", "a"}});
  const auto with = [&](const json& own) {
    json all = own;
    all["parts"] = {"a"};
    return together(folder, all);
  };
  CHECK(with(json::object()) ==
        json({{"block", {{"x", 1}, {"y", 2}}}, {"list", {1, 2}}, {"word", "a"}}));
  CHECK(with({{"block", {{"y", 3}, {"z", 4}}}})["block"] == json({{"x", 1}, {"y", 3}, {"z", 4}}));
  CHECK(with({{"block", 5}})["block"] == 5);
  CHECK(with({{"block", nullptr}})["block"].is_null());
  CHECK(with({{"word", {{"x", 1}}}})["word"] == json({{"x", 1}}));
  CHECK(with({{"list", {3}}})["list"] == json({3}));
  CHECK(with({{"other", 1}})["other"] == 1);
}

TEST_CASE("sources of a block that has several are said together, the nearer first",
          "[hwprofiles]") {
  const TestFolder folder;
  part(folder, "a", {{"block", {{"x", 1}, {"source", "part"}}}});
  CHECK(together(folder, {{"parts", {"a"}}, {"block", {{"source", "own"}}}})["block"]["source"] ==
        "own. part");
  CHECK(together(folder, {{"parts", {"a"}}, {"block", {{"x", 2}}}})["block"]["source"] == "part");
  part(folder, "b", {{"block", {{"x", 1}}}});
  CHECK(together(folder, {{"parts", {"b"}}, {"block", {{"source", "own"}}}})["block"]["source"] ==
        "own");
}

TEST_CASE("later parts go before earlier ones, and a part's own before its parts", "[hwprofiles]") {
  const TestFolder folder;
  part(folder, "a", {{"word", "a"}, {"other", "a"}});
  part(folder, "b", {{"parts", {"c"}}, {"word", "b"}});
  part(folder, "c", {{"word", "c"}, {"third", "c"}});
  CHECK(together(folder, {{"parts", {"a", "b"}}}) ==
        json({{"word", "b"}, {"other", "a"}, {"third", "c"}}));
  CHECK(together(folder, {{"parts", {"b", "a"}}})["word"] == "a");
  // A part that is named again is not merged again, so the value of "b" stays.
  CHECK(together(folder, {{"parts", {"a", "b", "a"}}})["word"] == "b");
}

TEST_CASE("parts may have parts four deep, and none is a part of itself", "[hwprofiles]") {
  const TestFolder folder;
  for (int depth = 1; depth <= 5; ++depth) {
    json value = {{"depth", depth}};
    if (depth < 5) value["parts"] = {"p" + std::to_string(depth + 1)};
    part(folder, "p" + std::to_string(depth), value);
  }
  CHECK(together(folder, {{"parts", {"p2"}}})["depth"] == 2);  // four deep: p2, p3, p4, p5
  CHECK_THROWS_WITH(together(folder, {{"parts", {"p1"}}}),
                    folder.file("p4.json") + ": /parts: 'p5' is a part of itself");
  part(folder, "ring", {{"parts", {"ring"}}});
  CHECK_THROWS_WITH(together(folder, {{"parts", {"ring"}}}),
                    folder.file("ring.json") + ": /parts: 'ring' is a part of itself");
}
