// A run whose rank 1 ends as its argument says: `signal N` or `code N`. With `late N` it hangs, and
// rank 0 ends with N after the deadline that it sets. With `stop N FILE` all ranks work until they
// are asked to stop. FILE is where process N, the launcher, shows what the ranks write.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/launch/marks.h"
#include "exec/launch/stop.h"

using namespace meshwright::tests;

// Returns whether wait() gives up.
template <typename Wait>
static bool waits_in_vain(const Wait& wait) {
  try {
    wait();
    return false;
  } catch (const WaitedTooLong&) {
    return true;
  }
}

// Rank 0 asks the launcher to stop, like a user who sees that the run has begun. mpirun passes on
// the mark of having met before this line, and both arrive later than a signal would.
static void ask_to_stop(pid_t launcher, const std::string& shown) {
  std::fputs("ready\n", stderr);
  while (std::filesystem::file_size(shown) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(launcher, SIGINT);
}

int main(int argc, char* argv[]) {
  if (argc < 3) return 1;
  watch_for_stop();
  const auto world = make_world("mpi");
  std::vector<int> ranks;
  for (int rank = 0; rank < world->size(); ++rank) ranks.push_back(rank);
  const auto everybody = world->group(GroupKind::world, ranks);
  const std::string how = argv[1];
  const int number = std::atoi(argv[2]);
  everybody->barrier();
  if (world->rank() == 0) tell_met();
  if (world->rank() == 1 && how == "signal") raise(number);
  if (world->rank() == 1 && how == "code") world->abandon(number);
  if (world->rank() != 0 && how == "late") pause();
  if (how == "late") {
    world->set_deadline(0.1);  // also for a group that was made before
    int word = 0;
    const bool in_memory = waits_in_vain([&] { everybody->barrier(); });
    const bool by_message =
        waits_in_vain([&] { everybody->wait(everybody->irecv(&word, sizeof word, 1, 1)); });
    world->abandon(in_memory && by_message ? number : 2);
  }
  if (world->rank() == 0 && how == "stop") ask_to_stop(static_cast<pid_t>(number), argv[3]);
  for (;;) {
    double flag = stop_requested() ? 1 : 0;
    everybody->all_reduce(&flag, 1, Dtype::f64, true);  // the other ranks wait here for a dead one
    if (flag > 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return 5;
}
