// Holds the times at which instructions ran. The simulator and the engine both return them.
#pragma once

#include <string>
#include <vector>

#include "models/core/units.h"
#include "models/program/program.h"

namespace meshwright::program {

struct TimelineEntry {
  int rank = 0;
  int task = 0;
  int instruction = 0;
  SimTime begin = 0, end = 0;
};

struct Timeline {
  std::vector<TimelineEntry> entries;
};

std::string_view name_of(Stream stream);
// Returns a name for people, such as `linear transformer.h.3.mlp.c_fc`, or `send to 2` (a virtual
// stage). If the instruction has a group, it comes after the operation: `all_reduce tensor`.
std::string instruction_name(const Instruction& instruction, const Program& program);

// The bytes that a rank moves over its links of one kind in a span of time.
struct LinkUse {
  int rank = 0;
  std::string_view link;  // "NVLink"
  SimTime begin = 0, end = 0;
  double bytes = 0;
};

// Returns a Chrome trace, which Perfetto opens, with times in whole nanoseconds. Each rank is a
// process with a thread for each stream that its plan can use. For each kind of link that is used,
// a thread shows when it is busy, and a counter shows its GB/s. `stage_of_rank` gives the stage
// whose Program a rank runs.
// The entries of `predicted` get processes of their own, after the others. Instructions that take
// no time are left out.
std::string to_chrome_trace(const Timeline& timeline, const std::vector<Program>& stages,
                            const std::vector<int>& stage_of_rank,
                            const std::vector<LinkUse>& links = {}, const Timeline& predicted = {});

// Returns the last run of each instruction of each rank in a trace that to_chrome_trace() wrote,
// without predicted entries. Throws InputError if the file is not such a trace, or is that of
// another plan.
Timeline read_chrome_trace(const std::string& path, const std::vector<Program>& stages,
                           const std::vector<int>& stage_of_rank);

}  // namespace meshwright::program
