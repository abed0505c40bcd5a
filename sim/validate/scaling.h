// Compares predicted and measured scaling efficiency of steps that differ only in the number of
// GPUs.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace meshwright::sim {

struct ScoredStep;

// Two steps of one source with the same model, plan and micro-batch per GPU, on one GPU and on
// several. Efficiency = throughput on n GPUs / (n * throughput on one).
struct ScalingPair {
  std::string source, one, several;  // source, and ids of the two rows
  int gpus = 1;
  double predicted = 0, measured = 0;  // efficiencies; 1 is linear scaling
  double difference() const { return predicted - measured; }
};

constexpr int scaled_gpus = 8;              // GPUs of a host of most machines
constexpr double scaling_tolerance = 0.03;  // a difference of 3 percentage points

struct ScalingSummary {
  std::string source;
  int pairs = 0, within = 0;  // number of pairs, and of those within the tolerance
  double mean_difference = 0;
};

// Returns all pairs of a step on 1 GPU and one on `scaled_gpus` GPUs, in the order of the steps on
// several GPUs.
std::vector<ScalingPair> scaling_pairs(std::span<const ScoredStep> steps);

// Returns one summary for each source that has pairs, in the order of `pairs`, which must be sorted
// by source.
std::vector<ScalingSummary> summarise(std::span<const ScalingPair> pairs);

}  // namespace meshwright::sim
