// Tests which clients may search at once, and in which order the others get their turns.
#include "tools/serve/places.h"

#include <vector>

#include "tests/catch.h"

using meshwright::tools::Places;

namespace {

bool leaves() { return true; }

// Returns whether this place has its turn. A place that would have to wait gives up at once.
bool is_turn_of(const std::unique_ptr<Places::Place>& place) { return place->wait(leaves); }

}  // namespace

TEST_CASE("n search and m wait, and the next one gets no place", "[serve]") {
  for (const int running : {1, 2, 3})
    for (const int waiting : {0, 1, 4}) {
      CAPTURE(running, waiting);
      Places places(running, waiting);
      std::vector<std::unique_ptr<Places::Place>> taken;
      for (int i = 0; i < running + waiting; ++i) {
        taken.push_back(places.take());
        REQUIRE(taken.back());
      }
      CHECK_FALSE(places.take());
      for (int i = 0; i < running + waiting; ++i) CHECK(is_turn_of(taken[i]) == (i < running));
      taken.front().reset();
      const auto one_more = places.take();
      CHECK(one_more);
      CHECK_FALSE(places.take());
    }
}

TEST_CASE("turns come in the order of arrival, whoever leaves", "[serve]") {
  Places places(2, 4);
  std::vector<std::unique_ptr<Places::Place>> taken;
  for (int i = 0; i < 6; ++i) taken.push_back(places.take());
  const auto turns = [&] {
    std::vector<int> all;
    for (int i = 0; i < static_cast<int>(taken.size()); ++i)
      if (taken[i] && is_turn_of(taken[i])) all.push_back(i);
    return all;
  };
  CHECK(turns() == std::vector{0, 1});
  taken[1].reset();  // ended
  CHECK(turns() == std::vector{0, 2});
  taken[3].reset();  // gave up before its turn
  CHECK(turns() == std::vector{0, 2});
  taken.push_back(places.take());
  taken[0].reset();
  CHECK(turns() == std::vector{2, 4});
  taken[2].reset();
  taken[4].reset();
  CHECK(turns() == std::vector{5, 6});
}
