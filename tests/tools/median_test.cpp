#include "tools/session/median.h"

#include "tests/catch.h"

using namespace meshwright::tests;

TEST_CASE("the median is the value in the middle", "[tools]") {
  CHECK(median({}) == 0);
  CHECK(median({3}) == 3);
  CHECK(median({3, 1}) == 3);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({7, 7, 2, 9, 1}) == 7);
  CHECK(median({5, 4, 3, 2, 1, 0}) == 3);
}
