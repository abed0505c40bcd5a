// A run whose rank 1 ends as its argument says: `signal N`, `code N`, `late N`: it stands still,
// and rank 0 ends with N after the deadline that it sets, or `stop`: all ranks work until they are
// asked to stop.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/launch/marks.h"
#include "exec/launch/stop.h"

using namespace meshwright;

// Whether it gives up.
template <typename Wait>
static bool waits_in_vain(const Wait& wait) {
  try {
    wait();
    return false;
  } catch (const WaitedTooLong&) {
    return true;
  }
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
    world->set_deadline(0.1);  // of a group that was made before
    int word = 0;
    const bool in_memory = waits_in_vain([&] { everybody->barrier(); });
    const bool by_message =
        waits_in_vain([&] { everybody->wait(everybody->irecv(&word, sizeof word, 1, 1)); });
    world->abandon(in_memory && by_message ? number : 2);
  }
  // The launcher is asked to stop by rank 0, as a user would.
  if (world->rank() == 0 && how == "stop") kill(static_cast<pid_t>(number), SIGINT);
  for (;;) {
    double flag = stop_requested() ? 1 : 0;
    everybody->all_reduce(&flag, 1, Dtype::f64, true);  // the others wait here for a dead rank
    if (flag > 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return 5;
}
