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
  double efficiency = 1;  // tokens/s per GPU, relative to the first point of the machine
  std::optional<double> usd_per_million_tokens;
  RankedPlan plan;
};

struct ScaleGap {  // a number of hosts without a plan, and why
  std::string machine;
  int count = 1;
  std::string reason;
};

struct ScaleResult {
  std::vector<ScalePoint> points;  // sorted by machine, then by count, as in the job
  std::vector<ScaleGap> gaps;
};

// Options of scale(). It plans at the job's counts of hosts, but if the job gives only one count,
// at 1, 2, 4, ... up to that count. Keys that the job fixes stay fixed, except `data`, which grows
// with the ranks. The global batch is the job's (strong scaling) or, if `weak`, grows in proportion
// to the hosts from the first count.
struct ScaleOptions {
  bool weak = false;
  SearchOptions search;
};

ScaleResult scale(const Job& job, const ScaleOptions& options = {});

}  // namespace meshwright::sim
