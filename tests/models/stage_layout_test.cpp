#include "models/program/stage_layout.h"

#include <set>
#include <vector>

#include "models/compiler/frameworks/stages.h"
#include "models/core/error.h"
#include "tests/catch.h"

using namespace meshwright::tests;

TEST_CASE("every virtual stage lies in one place, and is found there", "[models][schedule]") {
  for (const StageShape shape : {StageShape::loop, StageShape::vee})
    for (const int stages : {1, 2, 3, 8})
      for (const int chunks : {1, 2, 5}) {
        const StageLayout layout{stages, chunks, shape};
        std::set<int> seen;
        for (int stage = 0; stage < stages; ++stage)
          for (int chunk = 0; chunk < chunks; ++chunk) {
            const int here = layout.virtual_stage(stage, chunk);
            CHECK(layout.stage_of(here) == stage);
            CHECK(layout.chunk_of(here) == chunk);
            seen.insert(here);
          }
        CHECK(static_cast<int>(seen.size()) == layout.virtual_stages());
        CHECK(*seen.begin() == 0);
        CHECK(*seen.rbegin() == layout.virtual_stages() - 1);
      }
}

TEST_CASE("chunks go through the stages in loops, or there and back", "[models][schedule]") {
  const auto stages_of = [](StageShape shape) {
    const StageLayout layout{3, 3, shape};
    std::vector<int> stages;
    for (int v = 0; v < layout.virtual_stages(); ++v) stages.push_back(layout.stage_of(v));
    return stages;
  };
  CHECK(stages_of(StageShape::loop) == std::vector{0, 1, 2, 0, 1, 2, 0, 1, 2});
  CHECK(stages_of(StageShape::vee) == std::vector{0, 1, 2, 2, 1, 0, 0, 1, 2});
}

TEST_CASE("a layout of stages repeats what is in parentheses, to a limited depth", "[models]") {
  CHECK(read_layout("E(t|)*3L").size() == 4);
  CHECK(read_layout("E((tt|)*2t|)*2L").size() == 7);
  CHECK_THROWS_AS(read_layout("E" + std::string(100'000, '(') + "t"), InputError);
  CHECK_THROWS_AS(read_layout("Et)L"), InputError);
  CHECK_THROWS_AS(read_layout("E(tL"), InputError);
}
