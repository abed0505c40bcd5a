// Reasons that differ in numbers only are one.
#include "sim/planner/rejections.h"
#include "tests/catch.h"

using namespace meshwright;

TEST_CASE("reasons that differ in whole numbers only become one with their range", "[planner]") {
  CHECK(with_ranges({}).empty());
  CHECK(with_ranges({{"2 with 8 micro-batches", 3}, {"2 with 64 micro-batches", 4}}) ==
        Rejections{{"2 with 8 to 64 micro-batches", 7}});
  CHECK(with_ranges({{"a 1 b 9", 1}, {"a 3 b 2", 1}, {"a 2 b 5", 1}}) ==
        Rejections{{"a 1 to 3 b 2 to 9", 3}});
  // Words and fractions are not numbers; one reason stays as it is.
  const Rejections kept{{"fp16", 1},    {"fp8", 2},  {"1.5 GiB", 3},
                        {"2.5 GiB", 4}, {"1f1b", 5}, {"0 to 2", 6},
                        {"x -1", 7},    {"x -2", 8}, {"99999999999999999999", 9},
                        {"slower", 10}, {"", 11},    {"ends in 7", 12}};
  CHECK(with_ranges(kept) == kept);
}
