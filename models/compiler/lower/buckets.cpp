#include "models/compiler/lower/buckets.h"

#include <algorithm>
#include <map>

#include "models/compiler/lower/moment_blocks.h"
#include "models/compiler/lower/owners.h"
#include "models/compiler/plan/sharding.h"
#include "models/core/round_up.h"
#include "models/program/factors.h"
#include "models/program/graph/fusion.h"

namespace meshwright::compiler {

namespace {

constexpr int no_node = -1;

// A parameter of this stage, and the last node that adds to its gradient here. For a parameter that
// is not trained, the node is the first one that reads it.
struct Candidate {
  int parameter = 0;
  int chunk = 0;
  bool late = false;  // that node is in the weights body
  int node = 0;
  int unit = 0;
};

// Returns the trained parameters in the order in which gradients are complete: chunks from last to
// first, in each chunk first those of the backward body and then those of the weights body, and
// nodes in graph order.
std::vector<Candidate> trained(const Graph& graph, const Plan& plan, const Boundaries& boundaries,
                               int stage) {
  std::map<int, Candidate> found;
  const StageLayout layout = plan.parallelism.stage_layout();
  for (int chunk = plan.parallelism.virtual_stages - 1; chunk >= 0; --chunk)
    for (int index : boundaries.nodes[layout.virtual_stage(stage, chunk)]) {
      const Node& node = graph.nodes[index];
      for (int id : node.outputs)
        if (graph.tensor(id).role == Role::parameter_gradient) {
          const int parameter = graph.tensor(id).parameter;
          const auto earlier = found.find(parameter);
          const bool shared = earlier != found.end() && earlier->second.unit != graph.unit_of(node);
          const bool late = boundaries.body[index] == Body::Kind::weights;
          found[parameter] = {parameter, chunk, late, index,
                              shared ? shared_unit : graph.unit_of(node)};
        }
    }
  std::vector<Candidate> order;
  for (const auto& [parameter, candidate] : found) order.push_back(candidate);
  std::ranges::sort(order, [](const Candidate& a, const Candidate& b) {
    if (a.chunk != b.chunk) return a.chunk > b.chunk;
    return a.late != b.late ? b.late : a.node < b.node;
  });
  return order;
}

// Returns the parameters of the stage that are not trained, in the reverse of the order in which
// the forward first reads them. A backward uses them in this order, except for those that are read
// several times.
std::vector<Candidate> frozen(const Graph& graph, const Plan& plan, const Boundaries& boundaries,
                              int stage) {
  std::map<int, Candidate> found;
  const StageLayout layout = plan.parallelism.stage_layout();
  for (int chunk = 0; chunk < plan.parallelism.virtual_stages; ++chunk)
    for (int index : boundaries.nodes[layout.virtual_stage(stage, chunk)]) {
      const Node& node = graph.nodes[index];
      for (int id : node.inputs) {
        if (!is_weight(graph.tensor(id))) continue;
        const int parameter = graph.tensor(id).parameter;
        if (graph.parameters[parameter].trainable) continue;
        const auto [place, is_new] = found.try_emplace(parameter);
        if (is_new)
          place->second = {parameter, chunk, false, index, graph.unit_of(node)};
        else if (place->second.unit != graph.unit_of(node))
          place->second.unit = shared_unit;
      }
    }
  std::vector<Candidate> order;
  for (const auto& [parameter, candidate] : found) order.push_back(candidate);
  std::ranges::sort(order, [](const Candidate& a, const Candidate& b) {
    return a.chunk != b.chunk ? a.chunk > b.chunk : a.node > b.node;
  });
  return order;
}

// Returns the group of stages that have copies of a parameter (BucketClass::tied).
GroupKind tied_over(const Plan& plan, const Boundaries& boundaries, int parameter) {
  const StageLayout layout = plan.parallelism.stage_layout();
  const std::vector<int>& users = boundaries.users[parameter];
  if (users.empty()) return GroupKind::none;
  const auto is_on = [&](int stage) {
    return [&layout, stage](int user) { return layout.stage_of(user) == stage; };
  };
  if (std::ranges::all_of(users, is_on(layout.stage_of(users.front())))) return GroupKind::none;
  const int last = plan.parallelism.pipeline - 1;
  const bool at_ends =
      std::ranges::all_of(users, [&](int user) { return is_on(0)(user) || is_on(last)(user); });
  return at_ends ? GroupKind::embedding : GroupKind::pipeline;
}

// Returns the parameters of a stage. First come those that this stage holds only because other
// stages train them, which belong to no node. Then come those that it trains, and then those that
// are not trained.
std::vector<Candidate> candidates(const Graph& graph, const Plan& plan,
                                  const Boundaries& boundaries, int stage) {
  const std::vector<Candidate> used = trained(graph, plan, boundaries, stage);
  const bool is_end = stage == 0 || stage == plan.parallelism.pipeline - 1;
  std::vector<Candidate> all;
  for (int p = 0; p < static_cast<int>(graph.parameters.size()); ++p) {
    if (!graph.parameters[p].trainable) continue;
    const GroupKind tied = tied_over(plan, boundaries, p);
    const bool held = tied == GroupKind::pipeline || (tied == GroupKind::embedding && is_end);
    if (held && std::ranges::find(used, p, &Candidate::parameter) == used.end())
      all.push_back({p, 0, false, no_node, shared_unit});
  }
  all.insert(all.end(), used.begin(), used.end());
  const std::vector<Candidate> others = frozen(graph, plan, boundaries, stage);
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

// Returns the parameter that tensor `id` is, or that was rounded to 8 or 4 bits to make it. Returns
// -1 if there is none.
int parameter_read(const Graph& graph, int id) {
  const Tensor* tensor = &graph.tensor(id);
  if (tensor->role != Role::parameter && tensor->producer >= 0) {
    const Node& maker = graph.nodes[tensor->producer];
    if (maker.op == Op::quantize) tensor = &graph.tensor(maker.inputs[0]);
  }
  return tensor->role == Role::parameter ? tensor->parameter : -1;
}

// Returns for each parameter whether it is the weight of a linear layer in a block, because muon
// updates these as matrices. Returns zeros for other optimizers.
std::vector<char> matrices_of(const Graph& graph, const Plan& plan) {
  std::vector<char> is_matrix(graph.parameters.size(), 0);
  if (plan.training.optimizer != OptimizerKind::muon) return is_matrix;
  const auto note = [&](Op op, int weight) {
    if (op != Op::linear && op != Op::expert_linear) return;
    if (const int parameter = parameter_read(graph, weight); parameter >= 0)
      is_matrix[parameter] = 1;
  };
  for (const Node& node : graph.nodes) {
    if (!graph.units[graph.unit_of(node)].holds_layer()) continue;
    const Fusion* fusion = node.attributes.fusion.get();
    if (fusion == nullptr && node.inputs.size() > 1) note(node.op, node.inputs[1]);
    if (fusion == nullptr) continue;
    for (const FusedStep& step : fusion->steps)
      if (step.inputs.size() > 1 && step.inputs[1] < node.inputs.size())
        note(step.op, node.inputs[step.inputs[1]]);
  }
  return is_matrix;
}

// Returns how many bytes a bucket takes in the buffer of its gathered unit. The bytes of a type in
// blocks are rounded up, so that the next bucket is aligned.
std::int64_t gathered_bytes(const BucketPlan& bucket) {
  const Dtype type = bucket.gathered_type();
  const std::int64_t bytes = bytes_of(bucket.bucket.elements, type);
  return is_in_blocks(type) ? round_up(bytes, arena_alignment) : bytes;
}

class Filler {
 public:
  Filler(const Graph& graph, const Plan& plan, const Boundaries& boundaries, Program& program)
      : graph_(graph),
        plan_(plan),
        boundaries_(boundaries),
        program_(program),
        shards_(plan.shard_group()),
        expert_shards_(plan.degrees().expert_shard()),
        alignment_(alignment_of_states(plan)),
        reduces_(plan.degrees().rdp() > 1),
        is_matrix_(matrices_of(graph, plan)),
        is_rounded_(graph.parameters.size(), 0) {
    for (const Tensor& tensor : graph.tensors)
      if (tensor.role == Role::gathered_bits) is_rounded_[tensor.parameter] = 1;
  }

  std::vector<BucketPlan> run() {
    std::vector<Candidate> all = candidates(graph_, plan_, boundaries_, program_.stage);
    order_tied(all);
    const std::vector<Owner> owners = owners_of(all);
    for (std::size_t i = 0; i < all.size(); ++i) add(all[i], owners[i]);
    std::map<int, std::int64_t> of_unit, bytes_of_unit;
    for (BucketPlan& bucket : buckets_) {
      close(bucket);
      bucket.offset = of_unit[bucket.unit];
      of_unit[bucket.unit] += bucket.bucket.elements;
      bucket.gathered_offset = bytes_of_unit[bucket.unit];
      bytes_of_unit[bucket.unit] += gathered_bytes(bucket);
    }
    return std::move(buckets_);
  }

 private:
  BucketClass class_of(int parameter) const {
    const Parameter& p = graph_.parameters[parameter];
    return {p.partial_over_tensor && p.trainable, tied_over(plan_, boundaries_, parameter)};
  }

  const Parameter& parameter_of(const Candidate& candidate) const {
    return graph_.parameters[candidate.parameter];
  }

  // Reorders trained tied parameters among themselves, by their groups and then as in the graph.
  // All stages then put them into the same buckets, in whatever order their gradients are complete.
  void order_tied(std::vector<Candidate>& all) const {
    const auto is_tied = [this](const Candidate& each) {  // and has a gradient that is reduced
      return class_of(each.parameter).is_tied() && parameter_of(each).trainable;
    };
    const auto key = [this](const Candidate& each) {
      return std::pair(class_of(each.parameter).tied, each.parameter);
    };
    std::vector<Candidate> tied;
    std::ranges::copy_if(all, std::back_inserter(tied), is_tied);
    std::ranges::sort(tied, {}, key);
    auto next = tied.begin();
    for (Candidate& candidate : all)
      if (is_tied(candidate)) candidate = *next++;
  }

  std::vector<Owner> owners_of(const std::vector<Candidate>& all) const {
    std::vector<Owner> owners(all.size());
    if (!plan_.parallelism.shard_whole || shards_ == 1) return owners;
    std::vector<OwnedItem> items;
    for (const Candidate& candidate : all) {
      const Parameter& parameter = parameter_of(candidate);
      if (!parameter.trainable) break;  // they come last
      items.push_back({parameter.shape.elements(),
                       parameter.is_cut || plan_.parallelism.tensor == 1,
                       class_of(candidate.parameter).is_tied()});
    }
    std::ranges::copy(share_out(items, plan_.degrees().rdp(), plan_.parallelism.tensor),
                      owners.begin());
    return owners;
  }

  bool of_experts(const Candidate& candidate) const {
    return parameter_of(candidate).of_experts && plan_.degrees().has_expert_groups();
  }

  bool is_reduced_each(const Candidate& candidate) const {
    const Degrees degrees = plan_.degrees();
    const int ranks = of_experts(candidate) ? degrees.expert_rdp() : degrees.rdp();
    return plan_.reduces_each_micro_batch() && ranks > 1 &&
           !stays_whole(plan_, parameter_of(candidate)) && parameter_of(candidate).trainable;
  }

  bool is_full(const BucketPlan& open) const {
    const std::int64_t bytes = open.bucket.elements * bytes_of(plan_.training.gradient_reduce);
    const std::int64_t given = plan_.parallelism.reduce_bucket_bytes;
    if (open.unit != no_unit) return given > 0 && bytes >= given;
    if (open.bucket.frozen) return false;  // nothing is reduced
    return reduces_ && bytes >= (given > 0 ? given : default_bucket_bytes(plan_.degrees().rdp()));
  }

  // Returns the index of the open bucket that takes the parameter, or of a new one.
  std::size_t bucket_for(const BucketPlan& wanted) {
    for (std::size_t i = buckets_.size(); i-- > 0;) {
      const BucketPlan& open = buckets_[i];
      const bool alike =
          open.cls == wanted.cls && open.chunk == wanted.chunk && open.zero == wanted.zero &&
          open.unit == wanted.unit && open.bucket.owner == wanted.bucket.owner &&
          open.bucket.of_experts == wanted.bucket.of_experts &&
          open.bucket.frozen == wanted.bucket.frozen &&
          open.bucket.matrices == wanted.bucket.matrices &&
          open.bucket.factored == wanted.bucket.factored && open.is_rounded == wanted.is_rounded &&
          open.storage == wanted.storage && (!open.bucket.matrices || open.is_cut == wanted.is_cut);
      // The number of units that use a tied parameter may differ from stage to stage, so each tied
      // parameter that is handled with a unit has a bucket of its own.
      if (!alike || (wanted.cls.is_tied() && wanted.unit != no_unit)) continue;
      if (is_full(open)) break;
      return i;
    }
    buckets_.push_back(wanted);
    return buckets_.size() - 1;
  }

  // Returns the multiple, in elements, at which parameters and shards of a bucket begin. Both
  // numbers are powers of two.
  std::int64_t alignment_of(const BucketPlan& bucket) const {
    return std::max(alignment_, dtype_block(bucket.storage).elements);
  }

  void add(const Candidate& candidate, const Owner& owner) {
    const Parameter& parameter = parameter_of(candidate);
    const BucketClass cls = class_of(candidate.parameter);
    BucketPlan wanted;
    wanted.cls = cls;
    wanted.chunk = candidate.chunk;
    wanted.zero = zero_stage_of(plan_, parameter);
    wanted.reduced_each = is_reduced_each(candidate);
    if (wanted.zero == 3 || wanted.reduced_each)
      wanted.unit = candidate.unit;
    else if (cls.is_tied())
      // With chunk 0, all stages have the same buckets of tied parameters, whichever chunks use
      // them.
      wanted.chunk = 0;
    wanted.bucket.owner = owner;
    wanted.bucket.of_experts = of_experts(candidate);
    wanted.bucket.frozen = !parameter.trainable;
    wanted.bucket.matrices = parameter.trainable && is_matrix_[candidate.parameter] != 0;
    wanted.bucket.factored = plan_.training.optimizer == OptimizerKind::adafactor &&
                             parameter.trainable && factored_shape(parameter).rank > 0;
    wanted.is_rounded = is_rounded_[candidate.parameter] != 0;
    wanted.storage = parameter.dtype;
    wanted.is_cut = parameter.is_cut && !parameter.of_experts;
    const std::size_t index = bucket_for(wanted);
    BucketPlan& into = buckets_[index];
    StageParameter member{parameter, candidate.chunk, static_cast<int>(index), into.bucket.elements,
                          false};
    const int first_user = boundaries_.users[candidate.parameter].front();
    member.copy_of_tied =
        cls.is_tied() && plan_.parallelism.stage_layout().stage_of(first_user) != program_.stage;
    into.bucket.parameters.push_back(static_cast<int>(program_.parameters.size()));
    into.bucket.elements += round_up(parameter.shape.elements(), alignment_of(into));
    into.ready_node = !parameter.trainable ? -1
                      : cls.is_tied()      ? std::max(into.ready_node, candidate.node)
                                           : candidate.node;
    program_.parameters.push_back(std::move(member));
  }

  void close(BucketPlan& plan) const {
    Bucket& bucket = plan.bucket;
    const int shards = bucket.of_experts ? expert_shards_ : shards_;
    bucket.sharded = shards > 1 && bucket.owner.everybody() && (!bucket.frozen || plan.zero == 3);
    const int parts = bucket.sharded ? shards : 1;
    bucket.elements = round_up(bucket.elements, alignment_of(plan) * parts);
    bucket.shard_elements = bucket.elements / parts;
  }

  const Graph& graph_;
  const Plan& plan_;
  const Boundaries& boundaries_;
  Program& program_;
  int shards_, expert_shards_;
  std::int64_t alignment_;
  bool reduces_;
  std::vector<char> is_matrix_;   // per parameter: whether muon updates it as a matrix
  std::vector<char> is_rounded_;  // per parameter: whether it is gathered in 8 bits
  std::vector<BucketPlan> buckets_;
};

}  // namespace

std::vector<BucketPlan> make_buckets(const Graph& graph, const Plan& plan,
                                     const Boundaries& boundaries, Program& program) {
  return Filler(graph, plan, boundaries, program).run();
}

int replicas_of(const Degrees& degrees, const Bucket& bucket) {
  const int ranks = bucket.of_experts ? degrees.expert_rdp() : degrees.rdp();
  const int shards = bucket.of_experts ? degrees.expert_shard() : degrees.shard;
  return bucket.sharded ? ranks / shards : ranks;
}

}  // namespace meshwright::compiler
