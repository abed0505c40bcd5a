// Finds the classes of ranks that have identical timelines. Without faults all ranks of a stage are
// one class: a collective lasts as long as the slowest of the groups of its kind, which run it at
// the same time, and a message as long as the slowest between the same two stages. With faults, the
// ranks of a class have the same stage, the same slowness, the same state of the links of every
// group that they are in, and groups with members of the same classes.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "hwprofiles/topology.h"
#include "models/program/mesh.h"
#include "models/program/walk.h"
#include "sim/replay/durations.h"

namespace meshwright::sim {

// The remaining share of the links' bandwidth, indexed by FaultyLink.
using LinkState = std::array<double, faulty_link_count>;

struct RankClass {
  int rank = 0;  // the lowest rank, which stands for all
  int stage = 0;
  int ranks = 1;
  double slowness = 1;       // factor on the time of its compute
  LinkState links{1, 1, 1};  // links of its host
  // The worst links of the hosts that take part in each rendezvous. Empty if the cluster has no
  // faults and ranks are folded.
  std::vector<LinkState> meeting;
};

struct RankClasses {
  std::vector<RankClass> classes;
  std::vector<int> of_rank;
};

// Returns the classes of all ranks. If `fold` is false, every rank is a class of its own.
RankClasses classes_of(const std::vector<Rendezvous>& rendezvous_list, const Mesh& mesh,
                       const Cluster& cluster, bool fold);

// Predicts how long every step of a class lasts. A step that involves a host with a degraded link
// lasts as long as if all hosts were like that one, because in each round of a collective all ranks
// wait for the slowest.
class ClassDurations {
 public:
  ClassDurations(const JobSettings& settings, const Mesh& mesh, const Topology& topology)
      : settings_(settings), mesh_(mesh), topology_(topology) {}

  StepTimes of_steps(const RankClass& which, const Script& script,
                     const std::vector<Rendezvous>& rendezvous_list);

 private:
  struct Priced {  // durations on a cluster whose hosts all have the same links
    std::optional<Topology> degraded;
    std::optional<Durations> durations;
    std::map<int, StepTimes> of_stage;
  };
  const StepTimes& priced(const LinkState& links, const Script& script,
                          const std::vector<Rendezvous>& rendezvous_list);

  const JobSettings& settings_;
  const Mesh& mesh_;
  const Topology& topology_;
  std::map<LinkState, Priced> priced_;
};

}  // namespace meshwright::sim
