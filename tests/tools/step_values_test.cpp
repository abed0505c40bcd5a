#include "tools/session/step_values.h"

#include "tests/catch.h"

using namespace meshwright::tests;

TEST_CASE("the numbers of a long run take no more memory than those of a short one", "[tools]") {
  StepValues values;
  CHECK(values.empty());
  std::size_t capacity = 0;
  constexpr std::int64_t first = 101, steps = 1'000'000;
  for (std::int64_t step = first; step < first + steps; ++step) {
    values.add(step, static_cast<double>(step));
    if (step == first) capacity = values.values().capacity();
    REQUIRE(values.values().capacity() == capacity);
  }
  CHECK(capacity == StepValues::most);
  CHECK(values.first() == first);
  CHECK(values.last() == first + steps - 1);
  CHECK(values.values().size() > StepValues::most / 2);
  CHECK(values.values().front() == first);
  const double distance = values.values()[1] - values.values()[0];
  for (std::size_t i = 1; i < values.values().size(); ++i)
    REQUIRE(values.values()[i] - values.values()[i - 1] == distance);
  CHECK(values.values().back() + distance > first + steps - 1);
}

TEST_CASE("the numbers of a short run are all there", "[tools]") {
  StepValues values;
  for (int step = 1; step <= 8192; ++step) values.add(step, -step);
  REQUIRE(values.values().size() == 8192);
  for (std::size_t i = 0; i < 8192; ++i) REQUIRE(values.values()[i] == -double(i) - 1);
}
