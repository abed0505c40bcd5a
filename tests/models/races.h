// Whether a Program lets two of its instructions touch the same memory at one time: the order that
// streams and waits enforce, against every access that the memory plan places.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "models/program/mesh.h"
#include "models/program/program.h"

namespace meshwright {

// What every run comes after, by stream order and waits alone: of each stream the number of its
// runs that must have ended.
class RunOrder {
 public:
  explicit RunOrder(const Program& program);
  // Whether the run that comes earlier in the Program has ended when the later one begins.
  bool before(RunId earlier, RunId later) const;

 private:
  struct Run {
    int stream = 0, number = 0;
    std::array<int, stream_count> after{};
  };
  const Run& run_of(RunId id) const;
  std::vector<std::vector<Run>> runs_;  // [task][instruction]
};

// Two runs of `rank` that access the same memory, one of them to write, and could do so at one
// time, in words; "": there are none.
std::string race_in(const Program& program, const Mesh& mesh, int rank);
// In the Programs of all stages, on the first and the last rank of each.
std::string race_in(const std::vector<Program>& stages);

}  // namespace meshwright
