// What a candidate needs at least, without building its Programs: most candidates are turned away
// by these. They are lower bounds of what the simulator says, whatever the partition.
//
// Time of 1f1b and gpipe. A stage that holds the units [a, b) of the chain cannot begin before the
// first micro-batch has passed the units before a, and its last gradient must pass them back: with
// C the time of all units before (without what they recompute and without the weight gradients of
// one unit per stage, which nobody waits for), c its own per micro-batch, m micro-batches and t
// what follows the last backward, step >= C + m*c + t; and with r the reductions that only the last
// backward task, of length b, can hide: step >= C + m*c - b + r + t. The bound is the smallest step
// for which some cut into stages obeys both. Interleaved: the mean over stages of the same without
// C.
//
// Memory. With n_s blocks on stage s, of weight w_s each (parameters, their states, activations of
// the micro-batches in flight), max n_s*w_s >= layers / sum(1/w_s).
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "sim/planner/profile.h"

namespace meshwright {

struct Bounds {
  double step_time_s = 0;  // the simulated step is never shorter
  double estimate_s = 0;   // what it probably is: the order in which plans are simulated
};

// Sums over the units before each unit, and over all.
struct Chain {
  std::vector<double> work;      // of one micro-batch
  std::vector<double> ramp;      // the part of it that other stages wait for
  std::vector<double> backward;  // of one micro-batch, with what it recomputes
  std::vector<double> parameters;
  double weight_gradient_s = 0;  // of the unit that has most
  double last_collectives_s =
      0;  // that the next task may hide: one of a chunk's forward and backward
};

class BoundMaker {
 public:
  BoundMaker(const Model& model, const Plan& base, const Cluster& cluster);
  double memory(const Candidate& candidate);  // bytes; the exact peak is never less
  Bounds time(const Candidate& candidate);

 private:
  // Seconds per parameter that a rank holds.
  struct PerParameter {
    double after = 0;        // after the last backward: optimizer, gathers of updated weights
    double hidden_last = 0;  // reductions that the last backward task can hide
    double each_batch = 0;   // collectives of every micro-batch, beside compute
  };
  double group_time(const Candidate& candidate, GroupKind group, CollectiveKind kind, double bytes);
  double per_byte(const Candidate& candidate, GroupKind group, CollectiveKind kind);
  PerParameter per_parameter(const Candidate& candidate);
  double longest_collective(const Candidate& candidate, const UnitProfile::Pass& pass);
  double pass_time(const Candidate& candidate, const UnitProfile::Pass& pass);
  Chain chain(const Candidate& candidate, const ModelProfile& profile);
  double optimizer_s_per_parameter(CompilerLevel level) const;
  int shards(const Candidate& candidate) const;
  int micro_batches(const Candidate& candidate) const;

  const Model& model_;
  const Plan& base_;
  const Cluster& cluster_;
  Topology topology_;
  CostModel cost_;
  Profiles profiles_;
  std::map<std::tuple<int, int, int, GroupKind>, Groups> groups_;
  // The first group, the number of groups, kind and bytes.
  std::map<std::tuple<std::vector<int>, std::size_t, CollectiveKind, double>, double> times_;
};

}  // namespace meshwright
