// Checks whether a Program lets two of its instructions touch the same memory at the same time. The
// order that streams and waits enforce is compared with every access that the memory plan places.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "models/program/mesh.h"
#include "models/program/program.h"

namespace meshwright::tests {

// The order of runs of instructions that only streams and waits enforce. For each run it holds, by
// stream, the number of runs of that stream that must have ended before.
class RunOrder {
 public:
  explicit RunOrder(const Program& program);
  // Returns whether the run that comes earlier in the Program has ended when the later one begins.
  bool before(RunId earlier, RunId later) const;

 private:
  struct Run {
    int stream = 0, number = 0;
    std::array<int, stream_count> after{};
  };
  const Run& run_of(RunId id) const;
  std::vector<std::vector<Run>> runs_;  // [task][instruction]
};

// Describes two runs of `rank` that access the same memory, at least one of them to write, and
// could do so at the same time. Returns "" if there are none.
std::string race_in(const Program& program, const Mesh& mesh, int rank);
// Describes a race in the Programs of all stages, on the first and the last rank of each. Returns
// "" if there is none.
std::string race_in(const std::vector<Program>& stages);

}  // namespace meshwright::tests
