// A run whose rank 1 ends as its argument says: `signal N`, `code N`, or `stop`: all ranks work
// until they are asked to stop.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/launch/stop.h"

using namespace meshwright;

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
  if (world->rank() == 1 && how == "signal") raise(number);
  if (world->rank() == 1 && how == "code") world->abandon(number);
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
