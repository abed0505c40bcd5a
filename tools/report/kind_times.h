// Where the time of a step goes, predicted and measured, by kind of instruction.
#pragma once

#include <string>
#include <vector>

#include "models/program/mesh.h"
#include "models/program/timeline.h"

namespace meshwright {

struct KindTime {
  std::string kind;  // an operation, "all_reduce tensor", "optimizer_step"
  double predicted_s = 0, measured_s = 0;
};

// Seconds of a step in which a rank is at each kind, the mean over all ranks; the longest first.
// `measured` is one step of every rank, `predicted` of one rank for each stage at least. What lies
// on different streams may run at once, and waiting for other ranks counts.
std::vector<KindTime> kind_times(const Timeline& predicted, const Timeline& measured,
                                 const std::vector<Program>& stages, const Mesh& mesh);

}  // namespace meshwright
