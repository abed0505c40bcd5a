#include "models/lower/buckets.h"

#include <algorithm>
#include <map>

namespace meshwright {

namespace {

constexpr std::int64_t alignment = 64;  // elements: parameters begin on 256 bytes in fp32

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A parameter of this stage and the last node that adds to its gradient here.
struct Candidate {
  int parameter = 0;
  int chunk = 0;
  bool late = false;  // in the weights body
  int node = 0;
  int unit = 0;
};

// In the order in which gradients are complete: chunks from last to first, nodes in graph order.
std::vector<Candidate> candidates(const Graph& graph, const Plan& plan,
                                  const Boundaries& boundaries, int stage) {
  std::map<int, Candidate> found;
  const int stages = plan.parallelism.pipeline;
  for (int chunk = plan.parallelism.virtual_stages - 1; chunk >= 0; --chunk)
    for (int index : boundaries.nodes[static_cast<std::size_t>(chunk * stages + stage)]) {
      const Node& node = graph.nodes[static_cast<std::size_t>(index)];
      for (int id : node.outputs)
        if (graph.tensor(id).role == Role::parameter_gradient) {
          const int parameter = graph.tensor(id).parameter;
          const auto earlier = found.find(parameter);
          const bool shared = earlier != found.end() && earlier->second.unit != graph.unit_of(node);
          const bool late = boundaries.body[static_cast<std::size_t>(index)] == Body::Kind::weights;
          found[parameter] = {parameter, chunk, late, index,
                              shared ? shared_unit : graph.unit_of(node)};
        }
    }
  std::vector<Candidate> order;
  for (const auto& [parameter, candidate] : found) order.push_back(candidate);
  std::sort(order.begin(), order.end(), [](const Candidate& a, const Candidate& b) {
    if (a.chunk != b.chunk) return a.chunk > b.chunk;
    return a.late != b.late ? b.late : a.node < b.node;
  });
  return order;
}

class Filler {
 public:
  Filler(const Graph& graph, const Plan& plan, const Boundaries& boundaries, Program& program)
      : graph_(graph),
        plan_(plan),
        boundaries_(boundaries),
        program_(program),
        shards_(plan.shard_group()),
        reduces_(plan.degrees().rdp() > 1),
        by_unit_(plan.parallelism.zero_stage >= 2) {}

  std::vector<BucketPlan> run() {
    for (const Candidate& candidate : candidates(graph_, plan_, boundaries_, program_.stage))
      add(candidate);
    for (BucketPlan& bucket : buckets_) close(bucket);
    return std::move(buckets_);
  }

 private:
  BucketClass class_of(int parameter) const {
    const auto p = static_cast<std::size_t>(parameter);
    const int stages = plan_.parallelism.pipeline;
    if (boundaries_.first_user[p] % stages != boundaries_.last_user[p] % stages)
      return BucketClass::tied;
    return graph_.parameters[p].partial_over_tensor ? BucketClass::partial : BucketClass::plain;
  }

  // The open bucket that takes the candidate, or a new one.
  std::size_t bucket_for(const Candidate& candidate, BucketClass cls) {
    for (std::size_t i = buckets_.size(); i-- > 0;) {
      const BucketPlan& open = buckets_[i];
      if (open.cls != cls || open.chunk != candidate.chunk) continue;
      if (by_unit_ && open.unit != candidate.unit) continue;
      const std::int64_t bytes = open.bucket.elements * bytes_of(plan_.training.gradient_reduce);
      if (reduces_ && !by_unit_ && bytes >= plan_.parallelism.reduce_bucket_bytes) break;
      return i;
    }
    buckets_.push_back({{}, cls, candidate.chunk, candidate.unit, 0});
    return buckets_.size() - 1;
  }

  void add(const Candidate& candidate) {
    const Parameter& parameter = graph_.parameters[static_cast<std::size_t>(candidate.parameter)];
    const BucketClass cls = class_of(candidate.parameter);
    const std::size_t index = bucket_for(candidate, cls);
    BucketPlan& into = buckets_[index];
    StageParameter member{parameter, candidate.chunk, static_cast<int>(index), into.bucket.elements,
                          false};
    member.copy_of_tied = cls == BucketClass::tied &&
                          boundaries_.first_user[static_cast<std::size_t>(candidate.parameter)] %
                                  plan_.parallelism.pipeline !=
                              program_.stage;
    into.bucket.parameters.push_back(static_cast<int>(program_.parameters.size()));
    into.bucket.elements += round_up(parameter.shape.elements(), alignment);
    into.ready_node = candidate.node;
    program_.parameters.push_back(std::move(member));
  }

  void close(BucketPlan& plan) const {
    Bucket& bucket = plan.bucket;
    bucket.elements = round_up(bucket.elements, alignment * shards_);
    bucket.sharded = shards_ > 1;
    bucket.shard_elements = bucket.elements / shards_;
  }

  const Graph& graph_;
  const Plan& plan_;
  const Boundaries& boundaries_;
  Program& program_;
  int shards_;
  bool reduces_, by_unit_;
  std::vector<BucketPlan> buckets_;
};

}  // namespace

std::vector<BucketPlan> make_buckets(const Graph& graph, const Plan& plan,
                                     const Boundaries& boundaries, Program& program) {
  std::vector<BucketPlan> buckets = Filler(graph, plan, boundaries, program).run();
  return buckets;
}

}  // namespace meshwright
