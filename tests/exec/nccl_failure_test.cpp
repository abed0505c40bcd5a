// Tests the messages when one rank fails another in the midst of NCCL's operations, which by
// themselves would wait forever.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "exec/launch/mpirun.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

struct Ended {
  int code = 0;
  std::string errors;
};

// Runs failing_nccl on 2 ranks and collects what is written to standard error.
Ended launch(const std::string& how) {
  const std::vector<std::string> program{MESHWRIGHT_FAILING_NCCL, how};
  const MpirunOptions options{2, 1, geteuid() == 0, {}, {}};
  std::FILE* file = std::tmpfile();
  const int kept = dup(STDERR_FILENO);
  std::fflush(stderr);
  dup2(fileno(file), STDERR_FILENO);
  Ended ended;
  ended.code = run_mpirun(mpirun_command(options, program));
  std::fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  std::rewind(file);
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file))
    ended.errors += static_cast<char>(c);
  std::fclose(file);
  return ended;
}

void check_failure(const std::string& how, const std::string& expected) {
  const Ended ended = launch(how);
  CHECK(ended.code == 4);
  CHECK(ended.errors == expected + "\n");
}

}  // namespace

TEST_CASE("a collective that the other rank does not come to is named", "[nccl]") {
  check_failure("silent",
                "rank 0 failed: all_reduce of 64 bytes f32, operation 2 of group tensor (with rank "
                "1) took more than 1 s");
}

TEST_CASE("a message that nobody sends is named", "[nccl]") {
  check_failure("no message",
                "rank 0 failed: recv of 64 bytes from rank 1, operation 2 of group pipeline (with "
                "rank 1) took more than 1 s");
}

TEST_CASE("in a graph that is replayed the operation that does not end is named", "[nccl]") {
  check_failure("replay",
                "rank 0 failed: all_reduce of 64 bytes f32, operation 2 of group tensor (with rank "
                "1) took more than 1 s");
}

TEST_CASE("two ranks that do different things are both named", "[nccl]") {
  const Ended ended = launch("other");
  CHECK(ended.code == 4);
  // The rank that notices first ends both.
  const bool first = ended.errors.find(
                         "rank 0 failed: all_reduce of 64 bytes f32, operation 2 of "
                         "group tensor (with rank 1) took more than 1 s\n") != std::string::npos;
  const bool second = ended.errors.find(
                          "rank 1 failed: broadcast of 64 bytes from rank 0, "
                          "operation 2 of group tensor (with rank 0) took more than "
                          "1 s\n") != std::string::npos;
  CHECK((first || second));
}

TEST_CASE("an error that NCCL finds beside the calls is named with what was under way", "[nccl]") {
  check_failure("broken",
                "rank 0 failed: all_reduce of 64 bytes f32, operation 2 of group tensor (with rank "
                "1): NCCL: remote process exited or there was a network error");
}

TEST_CASE("an error of a call names the operation", "[nccl]") {
  const Ended ended = launch("refused");
  CHECK(ended.code == 4);
  // The thread that watches may see the same error first.
  CHECK(ended.errors.find("remote process exited or there was a network error") !=
        std::string::npos);
  CHECK(ended.errors.find("group tensor (with rank 1)") != std::string::npos);
}

TEST_CASE("a group that the other rank does not make is named", "[nccl]") {
  check_failure("no group", "rank 0 failed: making NCCL's group tensor took more than 1 s");
}

TEST_CASE("a rank that is killed in the midst of a collective is named", "[nccl]") {
  check_failure("killed", "rank 1 was killed by signal 9; the others were stopped");
}
