// A test case that every rank of a world runs: without mpirun worlds of 1, 2 and 4 ranks that take
// turns in this process, under mpirun the ranks there are. `test_world()` is the rank's.
#pragma once

#include "tests/catch.h"
#include "tests/exec/ranks_in_turn.h"
#include "tests/exec/worlds.h"

namespace meshwright {

void run_on_ranks(void (*work)(), Messages messages = Messages::met);

}  // namespace meshwright

#define MESHWRIGHT_CASE_NAME_(line) case_of_line_##line
#define MESHWRIGHT_CASE_NAME(line) MESHWRIGHT_CASE_NAME_(line)
#define TEST_CASE_ON_RANKS(title, tags)                                                \
  static void MESHWRIGHT_CASE_NAME(__LINE__)();                                        \
  TEST_CASE(title, tags) { meshwright::run_on_ranks(MESHWRIGHT_CASE_NAME(__LINE__)); } \
  static void MESHWRIGHT_CASE_NAME(__LINE__)()
