#include "sim/replay/stand_ins.h"

#include "models/program/walk.h"
#include "sim/replay/classes.h"

namespace meshwright::sim {

std::vector<int> stand_ins(const std::vector<Program>& stages, const Cluster& cluster) {
  std::vector<Rendezvous> rendezvous_list;
  for (const Program& program : stages) Script(program, LaneOrder::streams, rendezvous_list);
  const Mesh mesh = stages.front().settings->mesh();
  const RankClasses ranks = classes_of(rendezvous_list, mesh, cluster, true);
  std::vector<int> result;
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    result.push_back(ranks.classes[ranks.of_rank[rank]].rank);
  return result;
}

}  // namespace meshwright::sim
