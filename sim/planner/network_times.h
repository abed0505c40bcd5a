// Finds the times of the collectives, rings and messages of a candidate's groups. They are the
// simulator's own times, each computed once. Groups of one kind take the same time if their axes
// are equal.
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
    int chunk = 1;                      // of ranks beside each other: of context, of shards
    int heads = 1, expert = 1;          // degrees, where groups go by them
    int tensor_stride = 0, tensor = 1;  // of groups that also reach over tensor groups
    auto operator<=>(const Axis&) const = default;
  };
  static Axis axis(const Candidate& candidate, GroupKind group);

  // Return the seconds of one collective, and of one byte in a large one, while all groups of the
  // kind communicate at once.
  double collective(const Candidate& candidate, GroupKind group, CollectiveKind kind, double bytes);
  // Returns the seconds of an exchange of experts' tokens that sends each of them once.
  double deduplicated(const Candidate& candidate, GroupKind group, const ExpertChoices& choices,
                      double bytes);
  double per_byte(const Candidate& candidate, GroupKind group, CollectiveKind kind);
  // Returns the seconds in which every member of the context groups sends `bytes` to the next
  // member of its ring.
  double shift(const Candidate& candidate, double bytes);

  struct Boundary {
    bool crosses_hosts = false;
    double seconds = 0;  // of one message
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
  // The key is the number of stages, their stride, and the bytes.
  Memo<std::tuple<int, int, std::int64_t>, std::vector<Boundary>> boundaries_;
};

}  // namespace meshwright::sim
