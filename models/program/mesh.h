// Defines the ranks of a job, their coordinates and all process groups. There are pipeline * tensor
// * context * data ranks. The axis `D` of a placement is data * context, where the context index
// varies fastest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright::program {

enum class GroupKind : std::uint8_t {
  none,
  tensor,    // TP: each rank has one slice of every split module
  pipeline,  // PP: the stages of one replica slice
  rdp,       // same stage and same tensor slice (reduced data parallel): data * context ranks
  dp,        // same stage: rdp * tensor
  mp,        // one whole model: pipeline * tensor
  shard,     // consecutive members of rdp that share one copy of the sharded states
  replica,   // same shard index over the shard groups of an rdp group
  context,   // CP: ranks that share each sequence
  // Subgroups of a context group that works on two levels. context_heads: neighbours in it, which
  // exchange heads by all-to-all. context_ring: ranks at the same position in each context_heads
  // group, around which keys and values travel.
  context_heads,
  context_ring,
  expert,  // EP: neighbours in rdp (with Degrees::experts_over_tensor in dp) that share the experts
  // Ranks that have the same experts. expert_rdp: all of them in an rdp or dp group. expert_shard:
  // those that share one copy of the sharded states. expert_replica: the same shard index over the
  // expert_shard groups.
  expert_rdp,
  expert_shard,
  expert_replica,
  norm,  // the ranks whose parts make up one whole gradient: mp * shard
  world,
  embedding  // the first and last stage at one tensor and data-parallel index: tied embeddings
};
constexpr int group_kind_count = 18;
std::string_view name_of(GroupKind kind);

struct Degrees {
  int pipeline = 1, tensor = 1, data = 1, context = 1;
  int shard = 1;   // divides data * context
  int expert = 1;  // divides expert_ranks()
  // Number of neighbours in a context group that exchange heads by all-to-all. Keys and values then
  // travel around rings of ranks at the same position among their neighbours. It divides `context`.
  // If it is 1, a context group has no such subgroups.
  int context_heads = 1;
  // Whether the ranks of a tensor group have whole experts and tokens of their own. Expert groups
  // are then neighbours among all ranks of a stage. Otherwise a tensor group splits every expert.
  bool experts_over_tensor = false;
  int ranks() const { return pipeline * tensor * data * context; }
  int rdp() const { return data * context; }
  // Returns the number of ranks of a stage that expert groups divide among themselves: all of the
  // stage, or those with one tensor index.
  int expert_ranks() const { return experts_over_tensor ? rdp() * tensor : rdp(); }
  int expert_rdp() const { return expert_ranks() / expert; }
  // Returns how many ranks share one copy of an expert's sharded states.
  int expert_shard() const {
    const int ranks = experts_over_tensor && shard > 1 ? shard * tensor : shard;
    return ranks < expert_rdp() ? ranks : expert_rdp();
  }
  // Returns whether gradients of experts are reduced over other ranks than those of other
  // parameters.
  bool has_expert_groups() const { return expert > 1 || experts_over_tensor; }
  // heads_group() returns the kind of group that exchanges heads. ring_group() returns the kind of
  // group around which keys and values travel, or in which they are gathered.
  GroupKind heads_group() const {
    return context_heads > 1 ? GroupKind::context_heads : GroupKind::context;
  }
  GroupKind ring_group() const {
    return context_heads > 1 ? GroupKind::context_ring : GroupKind::context;
  }
  bool operator==(const Degrees&) const = default;
};

struct Coordinates {
  int pipeline = 0, tensor = 0, rdp = 0;  // rdp = data index * context + context index
  bool operator==(const Coordinates&) const = default;
};

class Mesh {
 public:
  // `placement` is a permutation of D, P and T, of which the last axis varies fastest. `cluster`
  // means DPT, and `spread` means TPD. Throws InputError for another word.
  Mesh(Degrees degrees, std::string_view placement);

  const Degrees& degrees() const { return degrees_; }
  int ranks() const { return degrees_.ranks(); }
  Coordinates coordinates(int rank) const;
  int rank(Coordinates coordinates) const;

  // Returns the ranks of the group of this kind that `rank` is in, ascending. The list is empty for
  // an `embedding` group and a rank of a middle stage, which is in none.
  std::vector<int> group(GroupKind kind, int rank) const;
  // Returns the position of `rank` in its group of this kind. Aborts if it is in none.
  int index_in(GroupKind kind, int rank) const;
  int size_of(GroupKind kind) const;
  // Returns the index of a rank in its expert group.
  int expert_index(const Coordinates& rank) const;
  // Returns the first rank of the stage that has index `index` in its expert group. The rank has
  // tensor index `tensor`, which is ignored if expert groups span tensor groups.
  Coordinates first_with_experts(int pipeline, int tensor, int index) const;
  // Returns all groups of the kind, ordered by their lowest ranks.
  std::vector<std::vector<int>> groups(GroupKind kind) const;

 private:
  // Convert between the coordinates of a rank and its position among the ranks of its stage, which
  // are sorted in ascending order.
  int place_in_stage(const Coordinates& rank) const;
  Coordinates at_place(int pipeline, int place) const;
  std::vector<int> group_over_tensor(GroupKind kind, const Coordinates& own) const;

  Degrees degrees_;
  int pipeline_stride_ = 1, tensor_stride_ = 1, rdp_stride_ = 1;
};

// Returns the permutation that `cluster` or `spread` stands for. Returns any other word unchanged.
std::string_view order_of_axes(std::string_view placement);
const std::vector<std::string>& placements();  // the six permutations, cluster, spread

}  // namespace meshwright::program
