// Finds the times of the collectives, rings and messages of the groups that a candidate has. They
// are the times of the simulator, each computed once.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "hwprofiles/topology.h"
#include "models/program/mesh.h"
#include "sim/collectives/deduplicated.h"
#include "sim/collectives/select.h"
#include "sim/planner/memo.h"
#include "sim/planner/space.h"

namespace meshwright::sim {

class NetworkTimes {
 public:
  explicit NetworkTimes(const Cluster& cluster) : topology_(cluster) {}

  // Identifies how the groups of one kind are placed. Groups with equal axes take the same time.
  struct Axis {
    GroupKind group = GroupKind::tensor;
    int stride = 1, size = 1;
    // The number of neighbours among which a group is formed: the context degree, or the number of
    // shards.
    int chunk = 1;
    // The degrees of context heads and of experts, or 1 if they do not matter to the group.
    int heads = 1, expert = 1;
    // The stride and the degree of tensor groups, if expert groups span them.
    int tensor_stride = 0, tensor = 1;
    auto operator<=>(const Axis&) const = default;
  };
  static Axis axis(const Candidate& candidate, GroupKind group);

  // Returns the seconds of one collective while all groups of its kind communicate at once.
  // per_byte() returns the seconds per byte of a large one.
  double collective(const Candidate& candidate, GroupKind group, CollectiveKind kind, double bytes);
  // Returns the seconds of an all-to-all of experts' tokens that sends each token once to a host
  // (deduplicated.h).
  double deduplicated(const Candidate& candidate, GroupKind group, const ExpertChoices& choices,
                      double bytes);
  double per_byte(const Candidate& candidate, GroupKind group, CollectiveKind kind);
  // Returns the seconds in which every member of the context groups sends `bytes` to the next
  // member of its ring, all at once.
  double shift(const Candidate& candidate, double bytes);

  struct Boundary {
    bool crosses_hosts = false;
    double seconds = 0;  // seconds of one message
  };
  // Returns, for every stage but the last, the boundary to the next stage: whether it crosses
  // hosts, and the seconds of a message of `bytes` bytes.
  const std::vector<Boundary>& boundaries(const Candidate& candidate, std::int64_t bytes);

 private:
  const Groups& groups(const Candidate& candidate, const Axis& axis);
  Groups find_groups(const Candidate& candidate, const Axis& axis) const;
  std::vector<std::pair<int, int>> senders(const Mesh& mesh, int from) const;
  std::vector<Boundary> find_boundaries(const Mesh& mesh, std::int64_t bytes) const;

  Topology topology_;
  Memo<Axis, Groups> groups_;
  Memo<std::tuple<Axis, CollectiveKind, double>, double> times_;
  Memo<std::tuple<Axis, ExpertChoices, double>, double> deduplicated_times_;
  Memo<std::pair<Axis, double>, double> shift_times_;
  // The key is the number of stages, their distance in ranks, and the bytes.
  Memo<std::tuple<int, int, std::int64_t>, std::vector<Boundary>> boundaries_;
};

}  // namespace meshwright::sim
