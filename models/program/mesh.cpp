#include "models/program/mesh.h"

#include <algorithm>
#include <array>

#include "models/core/error.h"

namespace meshwright::program {

namespace {

// Says which coordinates of an axis belong to the group of a rank. The spans from chunk_shard on
// are only for the axis of data-parallel indices, or of all ranks of a stage if expert groups span
// tensor groups. A chunk is a run of consecutive coordinates.
enum class Span : std::uint8_t {
  own,          // only the rank's own coordinate
  all,          // every coordinate
  ends,         // first and last
  chunk_shard,  // the consecutive chunk of `shard` that the rank is in
  every_shard,  // the same position in each of those chunks
  chunk_context,
  chunk_context_heads,  // consecutive chunk of `context_heads` in a context group
  every_context_heads,  // the same position in each of those chunks
  chunk_expert,
  every_expert,        // the same position in each chunk of `expert`
  chunk_expert_shard,  // consecutive chunk of `expert_shard` among the ranks of every_expert
  every_expert_shard   // the same position in each of those chunks
};

struct GroupRow {
  GroupKind kind;
  std::string_view name;
  Span pipeline, tensor, rdp;
};

constexpr std::array<GroupRow, group_kind_count> group_rows = {{
    {GroupKind::none, "none", Span::own, Span::own, Span::own},
    {GroupKind::tensor, "tensor", Span::own, Span::all, Span::own},
    {GroupKind::pipeline, "pipeline", Span::all, Span::own, Span::own},
    {GroupKind::rdp, "rdp", Span::own, Span::own, Span::all},
    {GroupKind::dp, "dp", Span::own, Span::all, Span::all},
    {GroupKind::mp, "mp", Span::all, Span::all, Span::own},
    {GroupKind::shard, "shard", Span::own, Span::own, Span::chunk_shard},
    {GroupKind::replica, "replica", Span::own, Span::own, Span::every_shard},
    {GroupKind::context, "context", Span::own, Span::own, Span::chunk_context},
    {GroupKind::context_heads, "context_heads", Span::own, Span::own, Span::chunk_context_heads},
    {GroupKind::context_ring, "context_ring", Span::own, Span::own, Span::every_context_heads},
    {GroupKind::expert, "expert", Span::own, Span::own, Span::chunk_expert},
    {GroupKind::expert_rdp, "expert_rdp", Span::own, Span::own, Span::every_expert},
    {GroupKind::expert_shard, "expert_shard", Span::own, Span::own, Span::chunk_expert_shard},
    {GroupKind::expert_replica, "expert_replica", Span::own, Span::own, Span::every_expert_shard},
    {GroupKind::norm, "norm", Span::all, Span::all, Span::chunk_shard},
    {GroupKind::world, "world", Span::all, Span::all, Span::all},
    {GroupKind::embedding, "embedding", Span::ends, Span::own, Span::own},
}};

const GroupRow& row_of(GroupKind kind) {
  const auto& row = group_rows[static_cast<std::size_t>(kind)];
  MESHWRIGHT_CHECK(row.kind == kind, "the rows of groups are in the order of the enumerators");
  return row;
}

// The coordinates first, first + step, ...; `count` of them.
struct Range {
  int first = 0, count = 0, step = 1;
};

Range chunk_of(int own, int size) { return {own / size * size, size, 1}; }

// Returns the coordinates of a group among the ranks with the same experts. These ranks are every
// `expert`-th coordinate of the axis, so chunks are made of every `expert`-th coordinate.
Range among_same_experts(Span span, int own, const Degrees& degrees) {
  const int experts = own % degrees.expert, place = own / degrees.expert;
  const int count = degrees.expert_rdp(), shards = degrees.expert_shard();
  Range among{0, count, 1};
  if (span == Span::chunk_expert_shard) among = chunk_of(place, shards);
  if (span == Span::every_expert_shard) among = {place % shards, count / shards, shards};
  return {experts + among.first * degrees.expert, among.count, among.step * degrees.expert};
}

// Returns the coordinates on an axis of `size` that are in the group of coordinate `own`. The range
// is empty if `span` is `ends` and `own` is neither the first nor the last coordinate.
Range range_of(Span span, int own, int size, const Degrees& degrees) {
  switch (span) {
    case Span::own:
      return {own, 1, 1};
    case Span::all:
      return {0, size, 1};
    case Span::ends:
      if (own != 0 && own != size - 1) return {0, 0, 1};
      return {0, std::min(size, 2), std::max(size - 1, 1)};
    case Span::chunk_shard:
      return chunk_of(own, degrees.shard);
    case Span::every_shard:
      return {own % degrees.shard, size / degrees.shard, degrees.shard};
    case Span::chunk_context:
      return chunk_of(own, degrees.context);
    case Span::chunk_context_heads:
      return chunk_of(own, degrees.context_heads);
    case Span::every_context_heads:
      return {own / degrees.context * degrees.context + own % degrees.context_heads,
              degrees.context / degrees.context_heads, degrees.context_heads};
    case Span::chunk_expert:
      return chunk_of(own, degrees.expert);
    case Span::every_expert:
    case Span::chunk_expert_shard:
    case Span::every_expert_shard:
      return among_same_experts(span, own, degrees);
  }
  return {};
}

bool is_of_experts(GroupKind kind) {
  return kind == GroupKind::expert || kind == GroupKind::expert_rdp ||
         kind == GroupKind::expert_shard || kind == GroupKind::expert_replica;
}

}  // namespace

std::string_view order_of_axes(std::string_view placement) {
  if (placement == "cluster") return "DPT";
  if (placement == "spread") return "TPD";
  return placement;
}

std::string_view name_of(GroupKind kind) { return row_of(kind).name; }

const std::vector<std::string>& placements() {
  static const std::vector<std::string> words = {"PDT", "DPT", "PTD",     "TPD",
                                                 "DTP", "TDP", "cluster", "spread"};
  return words;
}

Mesh::Mesh(Degrees degrees, std::string_view placement) : degrees_(degrees) {
  const auto& known = placements();
  if (std::ranges::find(known, placement) == known.end())
    throw InputError(broken("/parallelism/placement", "unknown placement '{}'; known: {}",
                            placement, list_of(known, "and")));
  for (const int degree : {degrees.pipeline, degrees.tensor, degrees.data, degrees.context,
                           degrees.shard, degrees.expert, degrees.context_heads})
    MESHWRIGHT_CHECK(degree >= 1, "degrees are verified before a mesh is made");
  MESHWRIGHT_CHECK(
      degrees.rdp() % degrees.shard == 0 && degrees.expert_ranks() % degrees.expert == 0,
      "shard and expert divide the ranks of their axes");
  MESHWRIGHT_CHECK(degrees.context % degrees.context_heads == 0,
                   "ranks that exchange heads are a part of a context group");
  const std::string_view order = order_of_axes(placement);
  int stride = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (*axis == 'P') pipeline_stride_ = stride, stride *= degrees.pipeline;
    if (*axis == 'T') tensor_stride_ = stride, stride *= degrees.tensor;
    if (*axis == 'D') rdp_stride_ = stride, stride *= degrees.rdp();
  }
}

Coordinates Mesh::coordinates(int rank) const {
  MESHWRIGHT_CHECK(rank >= 0 && rank < ranks(), "rank of this mesh");
  return {rank / pipeline_stride_ % degrees_.pipeline, rank / tensor_stride_ % degrees_.tensor,
          rank / rdp_stride_ % degrees_.rdp()};
}

int Mesh::rank(Coordinates coordinates) const {
  return coordinates.pipeline * pipeline_stride_ + coordinates.tensor * tensor_stride_ +
         coordinates.rdp * rdp_stride_;
}

std::vector<int> Mesh::group(GroupKind kind, int rank) const {
  const GroupRow& row = row_of(kind);
  const Coordinates own = coordinates(rank);
  if (degrees_.experts_over_tensor && is_of_experts(kind)) return group_over_tensor(kind, own);
  const Range p = range_of(row.pipeline, own.pipeline, degrees_.pipeline, degrees_);
  const Range t = range_of(row.tensor, own.tensor, degrees_.tensor, degrees_);
  const Range r = range_of(row.rdp, own.rdp, degrees_.rdp(), degrees_);
  std::vector<int> members;
  members.reserve(static_cast<std::size_t>(p.count) * t.count * r.count);
  for (int i = 0; i < p.count; ++i)
    for (int j = 0; j < t.count; ++j)
      for (int k = 0; k < r.count; ++k)
        members.push_back(
            this->rank({p.first + i * p.step, t.first + j * t.step, r.first + k * r.step}));
  std::ranges::sort(members);
  return members;
}

std::vector<int> Mesh::group_over_tensor(GroupKind kind, const Coordinates& own) const {
  const Range places =
      range_of(row_of(kind).rdp, place_in_stage(own), degrees_.expert_ranks(), degrees_);
  std::vector<int> members;
  for (int i = 0; i < places.count; ++i)
    members.push_back(rank(at_place(own.pipeline, places.first + i * places.step)));
  return members;
}

int Mesh::place_in_stage(const Coordinates& rank) const {
  return tensor_stride_ < rdp_stride_ ? rank.rdp * degrees_.tensor + rank.tensor
                                      : rank.tensor * degrees_.rdp() + rank.rdp;
}

Coordinates Mesh::at_place(int pipeline, int place) const {
  if (tensor_stride_ < rdp_stride_)
    return {pipeline, place % degrees_.tensor, place / degrees_.tensor};
  return {pipeline, place / degrees_.rdp(), place % degrees_.rdp()};
}

int Mesh::expert_index(const Coordinates& rank) const {
  return (degrees_.experts_over_tensor ? place_in_stage(rank) : rank.rdp) % degrees_.expert;
}

Coordinates Mesh::first_with_experts(int pipeline, int tensor, int index) const {
  return degrees_.experts_over_tensor ? at_place(pipeline, index)
                                      : Coordinates{pipeline, tensor, index};
}

int Mesh::index_in(GroupKind kind, int rank) const {
  const std::vector<int> members = group(kind, rank);
  const auto found = std::lower_bound(members.begin(), members.end(), rank);
  MESHWRIGHT_CHECK(found != members.end() && *found == rank, "the rank is in a group of this kind");
  return static_cast<int>(found - members.begin());
}

int Mesh::size_of(GroupKind kind) const { return static_cast<int>(group(kind, 0).size()); }

std::vector<std::vector<int>> Mesh::groups(GroupKind kind) const {
  std::vector<std::vector<int>> all;
  std::vector<bool> seen(ranks(), false);
  for (int rank = 0; rank < ranks(); ++rank) {
    if (seen[rank]) continue;
    std::vector<int> members = group(kind, rank);
    if (members.empty()) continue;
    for (const int member : members) seen[member] = true;
    all.push_back(std::move(members));
  }
  return all;
}

}  // namespace meshwright::program
