// Sums up the time of a step, predicted and measured, by kind of instruction.
#pragma once

#include <string>
#include <vector>

#include "models/program/mesh.h"
#include "models/program/timeline.h"

namespace meshwright::session {

struct KindTime {
  std::string kind;  // an operation, "all_reduce tensor", "optimizer_step"
  double predicted_s = 0, measured_s = 0;
};

// Returns the seconds of a step in which a rank is busy with each kind, as the mean over all ranks,
// sorted by the measured time, the longest first. `measured` is one step of every rank, `predicted`
// that of at least one rank of each stage. Instructions on different streams may overlap, and the
// time in which they wait for other ranks counts.
std::vector<KindTime> kind_times(const Timeline& predicted, const Timeline& measured,
                                 const std::vector<Program>& stages, const Mesh& mesh);

}  // namespace meshwright::session
