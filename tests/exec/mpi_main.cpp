// Entry point of the tests that mpirun starts: every rank runs all cases, and leaves with an error
// when one of its checks fails. The argument `--messages` forbids shared memory, `--hosts-of-2`
// pretends that every two ranks have a host of their own.
#define CATCH_CONFIG_RUNNER
#include <cstring>

#include "tests/catch.h"
#include "tests/exec/worlds.h"
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#endif

static meshwright::World* the_world = nullptr;

meshwright::World& test_world() { return *the_world; }

int main(int argc, char* argv[]) {
  meshwright::WorldOptions options;
  const bool messages = argc > 1 && std::strcmp(argv[1], "--messages") == 0;
  const bool hosts = argc > 1 && std::strcmp(argv[1], "--hosts-of-2") == 0;
  if (messages || hosts) {
    options.shared_memory = !messages;
    options.ranks_per_host = hosts ? 2 : 0;
    argv[1] = argv[0];
    --argc;
    ++argv;
  }
  const auto world = meshwright::make_world("mpi", options);
  the_world = world.get();
  const int failed = Catch::Session().run(argc, argv);
  if (failed != 0) world->abandon(1);
  return 0;
}
