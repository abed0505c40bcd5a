// Times at which each instruction ran, which both interpreters return.
#pragma once

#include <string>
#include <vector>

#include "models/core/units.h"
#include "models/program/program.h"

namespace meshwright {

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
// Returns `linear transformer.h.3.mlp.c_fc`, `all_reduce tensor`, or `send to 2`.
std::string instruction_name(const Instruction& instruction, const Program& program);

// Bytes that a rank moves over its links of one kind while an instruction runs.
struct LinkUse {
  int rank = 0;
  std::string_view link;  // "NVLink"
  SimTime begin = 0, end = 0;
  double bytes = 0;
};

// A Chrome trace (Perfetto opens it), times in whole nanoseconds: one process per rank, one thread
// per stream with what takes time, and for each kind of link that is used a thread with when it is
// busy and a counter with its GB/s.
// `stage_of_rank` gives each rank's Program. What was `predicted` has processes of its own, after
// the others.
std::string to_chrome_trace(const Timeline& timeline, const std::vector<Program>& stages,
                            const std::vector<int>& stage_of_rank,
                            const std::vector<LinkUse>& links = {}, const Timeline& predicted = {});

// The last step of each rank in such a trace, without what was predicted. InputError: the file is
// no such trace, or that of another plan.
Timeline read_chrome_trace(const std::string& path, const std::vector<Program>& stages,
                           const std::vector<int>& stage_of_rank);

}  // namespace meshwright
