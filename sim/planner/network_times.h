// What collectives, rings and messages of a candidate's groups take: the simulator's own times,
// each asked for once. Groups of a kind are alike where their axis lies alike.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "hwprofiles/topology.h"
#include "models/program/mesh.h"
#include "sim/collectives/select.h"
#include "sim/planner/memo.h"
#include "sim/planner/space.h"

namespace meshwright {

class NetworkTimes {
 public:
  explicit NetworkTimes(const Cluster& cluster) : topology_(cluster) {}

  // Groups of one kind: they lie as their axis does.
  struct Axis {
    GroupKind group = GroupKind::tensor;
    int stride = 1, size = 1;
    int chunk = 1;              // of ranks beside each other: of context, of shards
    int heads = 1, expert = 1;  // degrees, where groups go by them
    auto operator<=>(const Axis&) const = default;
  };
  static Axis axis(const Candidate& candidate, GroupKind group);

  // Of all groups of a kind at once.
  double collective(const Candidate& candidate, GroupKind group, CollectiveKind kind, double bytes);
  double per_byte(const Candidate& candidate, GroupKind group, CollectiveKind kind);
  // Every member of the context groups sends to the next one of its ring.
  double shift(const Candidate& candidate, double bytes);

  struct Boundary {
    bool crosses_hosts = false;
    double seconds = 0;  // of one message
  };
  // Between each stage and the next one.
  const std::vector<Boundary>& boundaries(const Candidate& candidate, std::int64_t bytes);

 private:
  const Groups& groups(const Candidate& candidate, const Axis& axis);
  Groups find_groups(const Candidate& candidate, const Axis& axis) const;
  std::vector<std::pair<int, int>> senders(const Mesh& mesh, int from) const;
  std::vector<Boundary> find_boundaries(const Mesh& mesh, std::int64_t bytes) const;

  Topology topology_;
  Memo<Axis, Groups> groups_;
  Memo<std::tuple<Axis, CollectiveKind, double>, double> times_;
  Memo<std::pair<Axis, double>, double> shift_times_;
  // Stages, their stride, bytes.
  Memo<std::tuple<int, int, std::int64_t>, std::vector<Boundary>> boundaries_;
};

}  // namespace meshwright
