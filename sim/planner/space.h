// Lists the ways in which a job may be partitioned over a number of ranks. What the job fixes
// stays, and what it leaves "auto" takes all values that make sense (open_keys.h). Combinations
// that break a rule are counted with the rule.
//
// A space has too many plans to list. Instead it is a list of branches. A branch has a shape, and
// lists of choices that are combined with each other.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/compiler/schedule/schedule.h"
#include "models/job/job.h"
#include "sim/planner/rejections.h"

namespace meshwright::sim {

// Choices that a branch lists. PipelineCut holds the schedule and the chunks per stage. Sharding
// says what is sharded over how many ranks, and when it is reduced and gathered. Saving says what
// is recomputed or offloaded. Kernels says how the tensor group shares tokens and splits matmuls,
// what the compiler does, and which attention kernel runs.
struct PipelineCut {
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int virtual_stages = 1;
  bool operator==(const PipelineCut&) const = default;
};
struct Sharding {
  int zero_stage = 0;
  int shard = 1;  // as in Parallelism: 1 with a zero_stage means all replicas
  ReduceGradients reduce_gradients = ReduceGradients::usual;
  bool keeps_gathered = false;
  bool operator==(const Sharding&) const = default;
};
struct Saving {
  Recompute recompute = Recompute::none;
  double recompute_fraction = 1;
  Offload offload = Offload::none;
  bool operator==(const Saving&) const = default;
};
struct Kernels {
  bool sequence_parallel = false;
  int tensor_chunks = 1;
  CompilerLevel compiler = CompilerLevel::fused;
  AttentionKernel attention = AttentionKernel::flash2;
  bool operator==(const Kernels&) const = default;
};

// A plan of the space, with all choices that the search makes. Everything else comes from the job.
struct Candidate : PipelineCut, Sharding, Saving, Kernels {
  int pipeline = 1, tensor = 1, context = 1, data = 1, expert = 1;
  int expert_tensor = 0;  // the same as Parallelism::expert_tensor
  ContextExchange context_exchange = ContextExchange::p2p;
  int context_heads = 1;  // above 1, with a2a_p2p: number of neighbours that exchange heads
  int micro_batch = 1;
  std::string_view placement = "PDT";
  bool operator==(const Candidate&) const = default;
  int replicas() const { return data * context; }
  bool experts_over_tensor() const { return tensor > 1 && expert_tensor == 1; }
  // Returns the number of ranks that share one copy of what is sharded.
  int shards() const { return zero_stage == 0 ? 1 : shard > 1 ? shard : replicas(); }
  Degrees degrees() const {
    return {pipeline, tensor, data,          context,
            shards(), expert, context_heads, experts_over_tensor()};
  }
  StageLayout stage_layout() const {
    return {pipeline, virtual_stages, schedule_info(schedule).stage_shape};
  }
};

// Returns the candidate with other choices, each of which is one of its bases.
template <class... Choices>
Candidate chosen_with(Candidate candidate, const Choices&... choices) {
  ((static_cast<Choices&>(candidate) = choices), ...);
  return candidate;
}

struct Branch {
  Candidate shape;  // its degrees, micro-batch, context exchange and heads
  std::vector<PipelineCut> cuts;
  std::vector<Sharding> shardings;
  std::vector<Saving> savings;
  std::vector<Kernels> kernels;
  std::vector<std::string_view> placements;
  // Whether a cut goes together with a sharding ([cut * number of shardings + sharding]) and with a
  // saving ([cut * number of savings + saving]).
  std::vector<char> cut_takes_sharding, cut_takes_saving;

  bool takes(std::size_t cut, std::size_t sharding) const {
    return cut_takes_sharding[cut * shardings.size() + sharding] != 0;
  }
  bool saves(std::size_t cut, std::size_t saving) const {
    return cut_takes_saving[cut * savings.size() + saving] != 0;
  }
  // Returns the number of legal pairs of a cut and a sharding with this saving, for one of the
  // kernels and one placement.
  std::int64_t count_with(std::size_t saving) const;
};

struct Space {
  std::vector<Branch> branches;  // the branches, in an order that does not depend on threads
  std::int64_t enumerated = 0;   // number of combinations, legal or not
  Rejections rejected;
  std::int64_t legal() const;
  std::vector<Candidate> candidates() const;  // all legal plans; meant for small spaces
};

// Returns the space of a job. `base` is the result of base_plan(). Context groups may exchange on
// two levels only if they are larger than a host. `ranks_per_host` 0 means that there is one host.
// Any number of threads finds the same space, in the same order. Throws InputError if the job asks
// for something legal that is not supported yet.
Space enumerate(const Job& job, const Plan& base, int ranks, int ranks_per_host = 0,
                int threads = 1);

// Returns the job's plan with precision and attention decided for this machine, unless the job sets
// them. If a framework runs the plan, its choices that lower bounds depend on are filled in too.
Plan base_plan(const Job& job, const MachineFacts& machine);

Plan to_plan(const Candidate& candidate, const Plan& base);
// Writes the choices of a candidate into a plan of the job. Callers that ask about many candidates
// keep one plan, because copying a plan takes longer than most questions about it.
void choose(const Candidate& candidate, Plan& plan);

}  // namespace meshwright::sim
