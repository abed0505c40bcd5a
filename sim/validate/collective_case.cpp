#include "sim/validate/collective_case.h"

#include "models/core/error.h"

namespace meshwright::sim {

namespace {

// Pairs NCCL's names of algorithms with the names that select.cpp gives them.
struct Known {
  std::string_view nccl, ours;
};
constexpr Known known[] = {
    {"ring", "ring"}, {"tree", "tree"}, {"nvls", "NVLS"}, {"nvls_tree", "NVLS"}};

std::string_view algorithm_of(const CollectiveRow& row) {
  if (row.algorithm.empty()) return {};
  for (const Known& each : known)
    if (each.nccl == row.algorithm) return each.ours;
  throw InputError(row.id + ": /algorithm: " + row.algorithm + " is not modelled");
}

}  // namespace

Cluster cluster_of(const CollectiveRow& row, const Machine& machine) {
  Cluster cluster;
  cluster.machine = machine;
  cluster.hosts = row.count;
  cluster.processes_per_host = row.gpus / row.count;
  if (cluster.processes_per_host > machine.gpus)
    throw InputError(row.id + ": /gpus: more than " + row.machine + " has");
  return cluster;
}

Seconds predicted_time(const CollectiveRow& row, const Cluster& cluster) {
  std::vector<int> ranks;
  for (int rank = 0; rank < row.gpus; ++rank) ranks.push_back(rank);
  const Seconds time =
      choose_collective(Topology(cluster), row.kind, {row.bytes}, {ranks}, algorithm_of(row)).time;
  return measured_by(row.harness, time, cluster.processes_per_host);
}

}  // namespace meshwright::sim
