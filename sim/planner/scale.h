// Predicts the throughput, efficiency and cost of one job for several numbers of hosts, with the
// best plan for each number.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/search.h"

namespace meshwright::sim {

struct ScalePoint {
  std::string machine;
  int count = 1, gpus = 1;
  double tokens_per_s = 0;
  double efficiency = 1;  // tokens/s per GPU, against the machine's first point
  std::optional<double> usd_per_million_tokens;
  RankedPlan plan;
};

struct ScaleGap {  // no plan here, and why
  std::string machine;
  int count = 1;
  std::string reason;
};

struct ScaleResult {
  std::vector<ScalePoint> points;  // by machine, then count
  std::vector<ScaleGap> gaps;
};

// Options of scale(), which plans at the job's counts of hosts if it gives several, else at 1, 2,
// 4, ... up to the one that it gives. Keys that the job fixes stay fixed, except `data`, which
// grows with the ranks. The global batch is the job's (strong scaling) or, if `weak`, grows in
// proportion to the hosts from the first count.
struct ScaleOptions {
  bool weak = false;
  SearchOptions search;
};

ScaleResult scale(const Job& job, const ScaleOptions& options = {});

}  // namespace meshwright::sim
