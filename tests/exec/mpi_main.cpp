// Entry point of the tests on several ranks. Under mpirun every rank runs all cases, and ends with
// an error if one of its checks fails. The argument `--messages` forbids shared memory, and
// `--hosts-of-2` pretends that every two ranks have a host of their own. Without mpirun the cases
// of on_ranks.h run in this process.
#include <cstdlib>
#include <cstring>

#include "tests/exec/on_ranks.h"
#include "tests/session.h"

namespace meshwright::tests {

static World* world_of_processes = nullptr;

void run_on_ranks(void (*work)(), RankMessages messages) {
  if (world_of_processes != nullptr) return work();
  for (const int ranks : {1, 2, 4}) run_in_turn(ranks, work, messages);
}

}  // namespace meshwright::tests

using namespace meshwright::tests;

World& test_world() {
  return world_of_processes != nullptr ? *world_of_processes : world_in_turn();
}

int main(int argc, char* argv[]) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return run_test_cases(argc, argv);
  WorldOptions options;
  const bool messages = argc > 1 && std::strcmp(argv[1], "--messages") == 0;
  const bool hosts = argc > 1 && std::strcmp(argv[1], "--hosts-of-2") == 0;
  if (messages || hosts) {
    options.shared_memory = !messages;
    options.ranks_per_host = hosts ? 2 : 0;
    argv[1] = argv[0];
    --argc;
    ++argv;
  }
  const auto world = make_world("mpi", options);
  world_of_processes = world.get();
  const int failed = run_test_cases(argc, argv);
  if (failed != 0) world->abandon(1);
  return 0;
}
