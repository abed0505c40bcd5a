// Tests that violations of a rule that differ only in numbers are joined to one.
#include "sim/planner/rejections.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

using Messages = std::map<std::string, std::int64_t>;

Violation batches(int stage, int number) {
  return broken("/zero", "{} with {} micro-batches", stage, number);
}

Violation shard(int degree, std::vector<std::int64_t> choices) {
  Violation violation = broken("/shard", "{} does not divide; use ", degree);
  violation.choices = std::move(choices);
  return violation;
}

}  // namespace

TEST_CASE("violations that differ in whole numbers only become one with their range", "[planner]") {
  CHECK(with_ranges({}).empty());
  CHECK(with_ranges({{batches(2, 8), 3}, {batches(2, 64), 4}}) ==
        Messages{{"/zero: 2 with 8 to 64 micro-batches", 7}});
  CHECK(with_ranges({{batches(1, 9), 1}, {batches(3, 2), 1}, {batches(2, 5), 1}}) ==
        Messages{{"/zero: 1 to 3 with 2 to 9 micro-batches", 3}});
}

TEST_CASE("choices become ranges if there are as many of them", "[planner]") {
  CHECK(with_ranges({{shard(3, {1, 2}), 1}, {shard(5, {1, 4}), 1}, {shard(7, {1, 2, 4}), 1}}) ==
        Messages{{"/shard: 3 to 5 does not divide; use 1 or 2 to 4", 2},
                 {"/shard: 7 does not divide; use 1, 2 or 4", 1}});
}

TEST_CASE("words, fractions and other rules stay apart", "[planner]") {
  const Rejections kept{{broken("", "needs {}", "fp16"), 1}, {broken("", "needs {}", "fp8"), 2},
                        {broken("", "{} GiB", 1.5), 3},      {broken("", "{} GiB", 2.5), 4},
                        {broken("", "1 stage"), 5},          {broken("", "2 stage"), 6},
                        {broken("/a", "{}", 1), 7},          {broken("/b", "{}", 2), 8}};
  CHECK(with_ranges(kept) == Messages{{"needs fp16", 1},
                                      {"needs fp8", 2},
                                      {"1.5 GiB", 3},
                                      {"2.5 GiB", 4},
                                      {"1 stage", 5},
                                      {"2 stage", 6},
                                      {"/a: 1", 7},
                                      {"/b: 2", 8}});
}
