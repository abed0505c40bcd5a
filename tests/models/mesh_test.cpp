#include "models/program/mesh.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "models/core/error.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

using Groups = std::vector<std::vector<int>>;

// Returns "rdp pp tp" of every rank in order, as the published tables print them: 000 001 010 ...
std::string table(const Mesh& mesh) {
  std::string text;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    const Coordinates c = mesh.coordinates(rank);
    if (rank > 0) text += ' ';
    text += std::to_string(c.rdp) + std::to_string(c.pipeline) + std::to_string(c.tensor);
  }
  return text;
}

Degrees degrees(int pipeline, int tensor, int data) {
  Degrees d;
  d.pipeline = pipeline;
  d.tensor = tensor;
  d.data = data;
  return d;
}

const std::vector<GroupKind> every_kind = {
    GroupKind::none,          GroupKind::tensor,       GroupKind::pipeline,
    GroupKind::rdp,           GroupKind::dp,           GroupKind::mp,
    GroupKind::shard,         GroupKind::replica,      GroupKind::context,
    GroupKind::context_heads, GroupKind::context_ring, GroupKind::expert,
    GroupKind::expert_rdp,    GroupKind::expert_shard, GroupKind::expert_replica,
    GroupKind::norm,          GroupKind::world};

}  // namespace

TEST_CASE("eight ranks under every placement order", "[models][mesh]") {
  const Degrees d = degrees(2, 2, 2);
  CHECK(table(Mesh(d, "DPT")) == "000 001 010 011 100 101 110 111");
  CHECK(table(Mesh(d, "PTD")) == "000 100 001 101 010 110 011 111");
  CHECK(table(Mesh(d, "TPD")) == "000 100 010 110 001 101 011 111");
  CHECK(table(Mesh(d, "DTP")) == "000 010 001 011 100 110 101 111");
  CHECK(table(Mesh(d, "TDP")) == "000 010 100 110 001 011 101 111");
  CHECK(table(Mesh(d, "PDT")) == "000 001 100 101 010 011 110 111");
  CHECK(table(Mesh(d, "cluster")) == table(Mesh(d, "DPT")));
  CHECK(table(Mesh(d, "spread")) == table(Mesh(d, "TPD")));
}

TEST_CASE("groups of DPT and DTP on eight ranks", "[models][mesh]") {
  const Mesh dpt(degrees(2, 2, 2), "DPT");
  CHECK(dpt.groups(GroupKind::tensor) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(dpt.groups(GroupKind::pipeline) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(dpt.groups(GroupKind::rdp) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(dpt.groups(GroupKind::dp) == Groups{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(dpt.groups(GroupKind::mp) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}});

  const Mesh dtp(degrees(2, 2, 2), "DTP");
  CHECK(dtp.groups(GroupKind::tensor) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(dtp.groups(GroupKind::pipeline) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(dtp.groups(GroupKind::rdp) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(dtp.groups(GroupKind::dp) == Groups{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(dtp.groups(GroupKind::mp) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}});
}

TEST_CASE("two stages without tensor parallelism, spread and cluster", "[models][mesh]") {
  const Mesh spread(degrees(2, 1, 4), "spread");
  CHECK(spread.groups(GroupKind::mp) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(spread.groups(GroupKind::dp) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(spread.index_in(GroupKind::dp, 6) == 2);
  const Mesh cluster(degrees(2, 1, 4), "cluster");
  CHECK(cluster.groups(GroupKind::mp) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(cluster.groups(GroupKind::dp) == Groups{{0, 2, 4, 6}, {1, 3, 5, 7}});
}

TEST_CASE("sharding groups are consecutive chunks of the rdp list", "[models][mesh]") {
  // 32 GPUs with tensor 4 and shard 4 have two shard groups for each tensor index, so there are 32
  // / (4 * 4) = 2 replicas.
  Degrees d = degrees(1, 4, 8);
  d.shard = 4;
  const Mesh mesh(d, "cluster");
  CHECK(mesh.group(GroupKind::tensor, 0) == std::vector<int>{0, 1, 2, 3});
  CHECK(mesh.group(GroupKind::tensor, 31) == std::vector<int>{28, 29, 30, 31});
  CHECK(mesh.group(GroupKind::rdp, 0) == std::vector<int>{0, 4, 8, 12, 16, 20, 24, 28});
  CHECK(mesh.group(GroupKind::shard, 0) == std::vector<int>{0, 4, 8, 12});
  CHECK(mesh.group(GroupKind::shard, 24) == std::vector<int>{16, 20, 24, 28});
  CHECK(mesh.group(GroupKind::replica, 0) == std::vector<int>{0, 16});
  CHECK(mesh.group(GroupKind::replica, 20) == std::vector<int>{4, 20});
  // A whole gradient consists of four tensor slices times four shards.
  CHECK(mesh.group(GroupKind::norm, 5).size() == 16);
  CHECK(mesh.group(GroupKind::norm, 5).back() == 15);
}

TEST_CASE("context is the fastest part of rdp, experts are chunks of it", "[models][mesh]") {
  Degrees d = degrees(1, 2, 2);
  d.context = 2;
  d.expert = 4;
  const Mesh mesh(d, "DPT");  // rank = rdp * 2 + tensor; rdp = data * 2 + context
  CHECK(mesh.groups(GroupKind::context) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(mesh.groups(GroupKind::expert) == Groups{{0, 2, 4, 6}, {1, 3, 5, 7}});
}

TEST_CASE("neighbours in context exchange heads, rings go over them", "[models][mesh]") {
  Degrees d = degrees(1, 2, 2);
  d.context = 4;
  CHECK(d.heads_group() == GroupKind::context);
  CHECK(d.ring_group() == GroupKind::context);
  d.context_heads = 2;
  CHECK(d.heads_group() == GroupKind::context_heads);
  CHECK(d.ring_group() == GroupKind::context_ring);
  const Mesh mesh(d, "DPT");  // rank = rdp * 2 + tensor; rdp = data * 4 + context
  CHECK(mesh.groups(GroupKind::context_heads) ==
        Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}});
  CHECK(mesh.groups(GroupKind::context_ring) ==
        Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}});
  CHECK(mesh.index_in(GroupKind::context_ring, 6) == 1);
}

TEST_CASE("whole experts lie over tensor groups", "[models][mesh]") {
  // Under PDT the ranks of stage 0 are 0 to 7, under TPD 0 to 3 and 8 to 11: those of tensor index
  // 0 and 1.
  Degrees d = degrees(2, 2, 4);
  d.expert = 4;
  d.experts_over_tensor = true;
  const Mesh mesh(d, "PDT");
  CHECK(mesh.groups(GroupKind::expert) ==
        Groups{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}});
  CHECK(mesh.group(GroupKind::expert_rdp, 1) == std::vector{1, 5});
  const Mesh far(d, "TPD");
  CHECK(far.group(GroupKind::expert, 0) == std::vector{0, 1, 2, 3});
  CHECK(far.group(GroupKind::expert, 9) == std::vector{8, 9, 10, 11});
  CHECK(far.group(GroupKind::expert_rdp, 1) == std::vector{1, 9});
  for (int rank = 0; rank < far.ranks(); ++rank) {
    const Coordinates own = far.coordinates(rank);
    const int index = far.expert_index(own);
    CHECK(far.index_in(GroupKind::expert, rank) == index);
    const Coordinates first = far.first_with_experts(own.pipeline, own.tensor, index);
    CHECK(far.expert_index(first) == index);
    CHECK(far.group(GroupKind::expert_rdp, far.rank(first)) ==
          far.group(GroupKind::expert_rdp, rank));
  }
  // The experts of a stage are on eight ranks, and four ranks share one copy of their states: two
  // ranks of each tensor index.
  d.expert = 1;
  d.shard = 2;
  const Mesh shared(d, "PDT");
  CHECK(shared.group(GroupKind::expert_shard, 0) == std::vector{0, 1, 2, 3});
  CHECK(shared.group(GroupKind::expert_replica, 0) == std::vector{0, 4});
}

TEST_CASE("ranks with the same experts have shard groups of their own", "[models][mesh]") {
  Degrees d = degrees(1, 1, 8);
  d.expert = 2;
  d.shard = 2;
  const Mesh pairs(d, "DPT");
  CHECK(pairs.groups(GroupKind::expert) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(pairs.groups(GroupKind::expert_rdp) == Groups{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(pairs.groups(GroupKind::expert_shard) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(pairs.groups(GroupKind::expert_replica) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  d.shard = 8;  // more than the four ranks that have the same experts
  const Mesh all(d, "DPT");
  CHECK(all.groups(GroupKind::expert_shard) == Groups{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(all.size_of(GroupKind::expert_replica) == 1);
}

TEST_CASE("the embedding group joins the ends of the pipeline", "[models][mesh]") {
  const Mesh mesh(degrees(4, 1, 2), "DPT");
  CHECK(mesh.groups(GroupKind::embedding) == Groups{{0, 3}, {4, 7}});
  CHECK(mesh.group(GroupKind::embedding, 1).empty());
  CHECK(mesh.size_of(GroupKind::embedding) == 2);
  CHECK(Mesh(degrees(1, 2, 2), "DPT").group(GroupKind::embedding, 3) == std::vector<int>{3});
}

TEST_CASE("every kind of group partitions the ranks, under every placement", "[models][mesh]") {
  Degrees d = degrees(3, 2, 4);
  d.context = 2;
  d.shard = 4;
  d.expert = 2;
  d.experts_over_tensor = GENERATE(false, true);
  const std::string placement = GENERATE(from_range(placements()));
  const Mesh mesh(d, placement);
  for (const GroupKind kind : every_kind) {
    CAPTURE(placement, std::string(name_of(kind)));
    std::vector<int> members;
    for (const std::vector<int>& group : mesh.groups(kind)) {
      CHECK(std::is_sorted(group.begin(), group.end()));
      CHECK(static_cast<int>(group.size()) == mesh.size_of(kind));
      for (std::size_t i = 0; i < group.size(); ++i) {
        CHECK(mesh.group(kind, group[i]) == group);
        CHECK(mesh.index_in(kind, group[i]) == static_cast<int>(i));
      }
      members.insert(members.end(), group.begin(), group.end());
    }
    std::sort(members.begin(), members.end());
    REQUIRE(static_cast<int>(members.size()) == 48);  // 3 * 2 * 4 * 2
    for (int rank = 0; rank < 48; ++rank) CHECK(members[static_cast<std::size_t>(rank)] == rank);
  }
  for (int rank = 0; rank < 48; ++rank) CHECK(mesh.rank(mesh.coordinates(rank)) == rank);
}

TEST_CASE("an unknown placement is refused", "[models][mesh]") {
  CHECK_THROWS_AS(Mesh(degrees(1, 1, 1), "DDT"), InputError);
  CHECK_THROWS_AS(Mesh(degrees(1, 1, 1), "packed"), InputError);
}

// Tests which ranks share a group, pair by pair. Two ranks do if their coordinates agree in the way
// that the row of the group says. The data-parallel index is data index * context + context index.
TEST_CASE("two ranks are in one group where their coordinates say so", "[models][mesh]") {
  Degrees d = degrees(3, 3, 8);  // with three stages, the first and the last are not all
  d.context = 2;
  d.shard = 4;
  d.expert = 4;
  const Mesh mesh(d, "PDT");
  const int expert_shard = d.expert_shard();
  struct Row {
    GroupKind kind;
    bool (*pipeline)(int, int);
    bool (*tensor)(int, int);
    std::function<bool(int, int)> rdp;
  };
  const auto own = [](int a, int b) { return a == b; };
  const auto all = [](int, int) { return true; };
  const auto chunk = [](int size) { return [=](int a, int b) { return a / size == b / size; }; };
  const auto every = [](int size) { return [=](int a, int b) { return a % size == b % size; }; };
  const Row rows[] = {
      {GroupKind::none, own, own, own},
      {GroupKind::tensor, own, all, own},
      {GroupKind::pipeline, all, own, own},
      {GroupKind::rdp, own, own, all},
      {GroupKind::dp, own, all, all},
      {GroupKind::mp, all, all, own},
      {GroupKind::shard, own, own, chunk(4)},
      {GroupKind::replica, own, own, every(4)},
      {GroupKind::context, own, own, chunk(2)},
      {GroupKind::expert, own, own, chunk(4)},
      {GroupKind::expert_rdp, own, own, every(4)},
      // Ranks with the same experts are grouped in consecutive chunks, or by their position in the
      // chunk.
      {GroupKind::expert_shard, own, own,
       [=](int a, int b) {
         return a % 4 == b % 4 && a / 4 / expert_shard == b / 4 / expert_shard;
       }},
      {GroupKind::expert_replica, own, own,
       [=](int a, int b) {
         return a % 4 == b % 4 && a / 4 % expert_shard == b / 4 % expert_shard;
       }},
      {GroupKind::norm, all, all, chunk(4)},
      {GroupKind::world, all, all, all},
  };
  for (const Row& row : rows)
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const std::vector<int> group = mesh.group(row.kind, rank);
      const Coordinates one = mesh.coordinates(rank);
      INFO(static_cast<int>(row.kind) << ", rank " << rank);
      std::vector<int> wanted;
      for (int other = 0; other < mesh.ranks(); ++other) {
        const Coordinates two = mesh.coordinates(other);
        if (row.pipeline(one.pipeline, two.pipeline) && row.tensor(one.tensor, two.tensor) &&
            row.rdp(one.rdp, two.rdp))
          wanted.push_back(other);
      }
      std::vector<int> found = group;
      std::ranges::sort(found);
      CHECK(found == wanted);
      CHECK(mesh.size_of(row.kind) == static_cast<int>(wanted.size()));
      CHECK(group[static_cast<std::size_t>(mesh.index_in(row.kind, rank))] == rank);
    }
}
