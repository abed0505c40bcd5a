// Defines a test case that every rank of a world runs. Without mpirun these are worlds of 1, 2 and
// 4 ranks, which run in turn in this process. Under mpirun it is the world of its ranks.
// `test_world()` returns the running rank's world.
#pragma once

#include "tests/catch.h"
#include "tests/exec/ranks_in_turn.h"
#include "tests/exec/worlds.h"

namespace meshwright::tests {

void run_on_ranks(void (*work)(), RankMessages messages = RankMessages::met);

}  // namespace meshwright::tests

#define MESHWRIGHT_CASE_(number, title, tags)                                         \
  static void case_on_ranks_##number();                                               \
  TEST_CASE(title, tags) { meshwright::tests::run_on_ranks(case_on_ranks_##number); } \
  static void case_on_ranks_##number()
#define MESHWRIGHT_CASE(number, title, tags) MESHWRIGHT_CASE_(number, title, tags)
#define TEST_CASE_ON_RANKS(title, tags) MESHWRIGHT_CASE(__COUNTER__, title, tags)
