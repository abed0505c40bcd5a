// Tests the launcher with real ranks: one of them dies, or the user asks to stop.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "exec/launch/mpirun.h"
#include "tests/catch.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

struct Ended {
  int code = 0;
  std::string errors;
};

// Runs failing_rank on 3 ranks and collects what is written to standard error.
Ended launch(const std::string& how, int number) {
  const TestFolder folder;
  const std::string shown = folder.file("shown", "");
  const std::vector<std::string> program{MESHWRIGHT_FAILING_RANK, how, std::to_string(number),
                                         shown};
  const MpirunOptions options{3, 1, geteuid() == 0, {}, {}};
  const int file = open(shown.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  REQUIRE(file >= 0);
  const int kept = dup(STDERR_FILENO);
  std::fflush(stderr);
  dup2(file, STDERR_FILENO);
  close(file);
  Ended ended;
  ended.code = run_mpirun(mpirun_command(options, program));
  std::fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  ended.errors = content_of(shown);
  return ended;
}

}  // namespace

TEST_CASE("a rank that is killed stops the others and is named", "[exec][launch]") {
  const Ended ended = launch("signal", 9);
  CHECK(ended.code == 4);
  CHECK(ended.errors == "rank 1 was killed by signal 9; the others were stopped\n");
}

TEST_CASE("a rank that gives up stops the others and is named", "[exec][launch]") {
  const Ended ended = launch("code", 4);
  CHECK(ended.code == 4);
  CHECK(ended.errors == "rank 1 ended with exit code 4; the others were stopped\n");
}

TEST_CASE("bad input found by a rank is the run's exit code and nothing more is said",
          "[exec][launch]") {
  const Ended ended = launch("code", 2);
  CHECK(ended.code == 2);
  CHECK(ended.errors == "");
}

TEST_CASE("the deadline of a world that is set later is that of its groups", "[exec][launch]") {
  const Ended ended = launch("late", 4);
  CHECK(ended.code == 4);
  CHECK(ended.errors == "rank 0 ended with exit code 4; the others were stopped\n");
}

TEST_CASE("a request to stop reaches all ranks, which end by themselves", "[exec][launch]") {
  const Ended ended = launch("stop", getpid());
  CHECK(ended.code == 5);
  CHECK(ended.errors == "ready\n");
}
