#include "sim/planner/space.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "models/compiler/frameworks/following.h"
#include "models/compiler/plan/expert_tensor.h"
#include "models/compiler/plan/micro_batch_limit.h"
#include "models/core/divisors.h"
#include "sim/planner/candidate_rules.h"
#include "sim/planner/in_parallel.h"

namespace meshwright::sim {

namespace {

// Enumerates the plans of one shape.
class Enumerator {
 public:
  explicit Enumerator(const OpenKeys& open) : open_(open), rules_(open) {}

  Space of(const Candidate& shape) {
    split(shape);
    return std::move(space_);
  }

 private:
  void split(Candidate shape) {
    const Parallelism& p = open_.base.parallelism;
    const Training& t = open_.base.training;
    if (!open_.job.is_auto("parallelism.data") && shape.data != p.data) return;
    if (const Ruling ruling = rules_.against_degrees(shape)) return reject(*ruling);
    const std::int64_t per_replica = t.global_batch / shape.data;
    for (const int micro_batch :
         open_.choices("training.micro_batch", t.micro_batch, divisors(per_replica))) {
      if (per_replica % micro_batch != 0) {
        reject(broken("", "data x micro_batch does not divide the global batch"));
        continue;
      }
      if (per_replica / micro_batch > most_micro_batches) {
        reject(broken("", "more than {} micro-batches in a step", most_micro_batches));
        continue;
      }
      shape.micro_batch = micro_batch;
      for (const auto& [expert, expert_tensor] : expert_degrees(shape)) {
        shape.expert = expert;
        shape.expert_tensor = expert_tensor;
        branch_out(shape, static_cast<int>(per_replica / micro_batch));
      }
    }
  }

  // Returns the pairs of `expert` and `expert_tensor` to try with a shape. If tensor groups split
  // experts, expert groups consist of replicas only. If experts are whole, expert groups may span
  // tensor groups too.
  std::vector<std::pair<int, int>> expert_degrees(const Candidate& shape) const {
    const Parallelism& p = open_.base.parallelism;
    const int experts = std::max(1, open_.sizes.experts);
    const bool tries_both = open_.job.is_auto("parallelism.expert_tensor") && experts > 1;
    const bool may_be_whole = tries_both || p.expert_tensor == 1 || open_.sizes.dropless;
    const int ranks = shape.replicas() * (may_be_whole ? shape.tensor : 1);
    std::vector<std::pair<int, int>> pairs;
    for (const int expert :
         open_.choices("parallelism.expert", p.expert, divisors(std::gcd(experts, ranks)))) {
      Parallelism each = p;
      each.tensor = shape.tensor;
      each.expert = expert;
      const int usual = default_expert_tensor(each, open_.sizes);
      if (!tries_both) {
        pairs.emplace_back(expert, p.expert_tensor > 0 ? p.expert_tensor : usual);
        continue;
      }
      pairs.emplace_back(expert, 1);
      if (shape.tensor > 1 && shape.replicas() % expert == 0)
        pairs.emplace_back(expert, shape.tensor);
    }
    return pairs;
  }

  void reject(const Violation& reason, std::int64_t count = 1) {
    space_.enumerated += count;
    space_.rejected[reason] += count;
  }

  // Erases the elements that break a rule whatever else is chosen. Counts each of them as `others`
  // rejected combinations, one for every combination of the other choices.
  template <class T, class Rule>
  void keep_legal(std::vector<T>& list, std::int64_t others, const Rule& rule) {
    std::erase_if(list, [&](const T& each) {
      const Ruling ruling = rule(each);
      if (ruling) reject(*ruling, others);
      return ruling.has_value();
    });
  }

  // Returns the placements that the framework supports, or PDT if it supports none of the tried
  // ones.
  std::vector<std::string_view> legal_placements(Candidate candidate) const {
    std::vector<std::string_view> found = placements_of(open_, candidate);
    std::erase_if(found, [&](const std::string_view placement) {
      candidate.placement = placement;
      return rules_.against_placement(candidate).has_value();
    });
    if (found.empty()) found.push_back("PDT");
    return found;
  }

  // Returns a candidate of the branch in which single choices are tried. Its other choices are
  // meant to break no rule by themselves.
  Candidate plain_with(const Candidate& shape, const Kernels& kernels) const {
    Candidate plain = chosen_with(shape, kernels);
    plain.sequence_parallel = false;
    if (open_.base.parallelism.shard_whole) plain.zero_stage = 1;
    return plain;
  }

  void branch_out(const Candidate& shape, int micro_batches) {
    Branch branch;
    branch.shape = shape;
    branch.placements = legal_placements(shape);
    branch.cuts = cuts_of(open_, shape.pipeline, micro_batches);
    branch.shardings = shardings_of(open_, shape, micro_batches);
    std::vector<Kernels> kernels = kernels_of(open_, shape);
    const auto savings = std::ssize(savings_of(open_, kernels.front()));
    const auto all = [&] {
      return std::ssize(branch.placements) * std::ssize(branch.cuts) *
             std::ssize(branch.shardings) * std::ssize(kernels) * savings;
    };
    const auto without = [&](const auto& list) {
      return list.empty() ? 0 : all() / std::ssize(list);
    };
    const Candidate plain = plain_with(shape, kernels.front());
    if (const Ruling ruling = rules_.against_shape(plain)) return reject(*ruling, all());
    keep_legal(kernels, without(kernels), [&](const Kernels& each) {
      return rules_.against_kernels(chosen_with(shape, each));
    });
    keep_legal(branch.cuts, without(branch.cuts), [&](const PipelineCut& cut) {
      return rules_.against_cut(chosen_with(plain, cut), micro_batches);
    });
    keep_legal(branch.shardings, without(branch.shardings), [&](const Sharding& sharding) {
      return rules_.against_sharding(chosen_with(plain, sharding));
    });
    if (all() == 0) return;
    // Kernels with the same attention kernel share one list of ways to save memory, so each
    // attention kernel gets a branch.
    for (std::size_t first = 0; first < kernels.size();) {
      Branch part = branch;
      const AttentionKernel attention = kernels[first].attention;
      while (first < kernels.size() && kernels[first].attention == attention)
        part.kernels.push_back(kernels[first++]);
      part.savings = savings_of(open_, part.kernels.front());
      add(std::move(part));
    }
  }

  // Adds a branch, and finds the pairs of its choices that break a rule.
  void add(Branch branch) {
    const Candidate plain = plain_with(branch.shape, branch.kernels.front());
    const std::int64_t per_pair = std::ssize(branch.kernels) * std::ssize(branch.placements);
    for (const PipelineCut& cut : branch.cuts) {
      const Candidate with = chosen_with(plain, cut);
      const std::int64_t savings = std::ssize(branch.savings);
      std::int64_t legal_shardings = 0;
      for (const Sharding& sharding : branch.shardings) {
        const Ruling ruling = rules_.against_sharding(chosen_with(with, sharding));
        branch.cut_takes_sharding.push_back(!ruling);
        if (ruling)
          reject(*ruling, per_pair * savings);
        else
          ++legal_shardings;
      }
      for (const Saving& saving : branch.savings) {
        const Ruling ruling = rules_.against_saving(chosen_with(with, saving));
        branch.cut_takes_saving.push_back(!ruling);
        if (ruling && legal_shardings > 0) reject(*ruling, per_pair * legal_shardings);
      }
    }
    for (std::size_t saving = 0; saving < branch.savings.size(); ++saving)
      space_.enumerated += per_pair * branch.count_with(saving);
    space_.branches.push_back(std::move(branch));
  }

  const OpenKeys& open_;
  CandidateRules rules_;
  Space space_;
};

}  // namespace

std::int64_t Branch::count_with(std::size_t saving) const {
  std::int64_t count = 0;
  for (std::size_t cut = 0; cut < cuts.size(); ++cut) {
    if (!saves(cut, saving)) continue;
    const auto first =
        cut_takes_sharding.begin() + static_cast<std::ptrdiff_t>(cut * shardings.size());
    count += std::count(first, first + std::ssize(shardings), 1);
  }
  return count;
}

std::int64_t Space::legal() const {
  std::int64_t count = enumerated;
  for (const auto& [reason, each] : rejected) count -= each;
  return count;
}

std::vector<Candidate> Space::candidates() const {
  std::vector<Candidate> all;
  for (const Branch& branch : branches)
    for (std::size_t cut = 0; cut < branch.cuts.size(); ++cut)
      for (std::size_t saving = 0; saving < branch.savings.size(); ++saving)
        for (std::size_t sharding = 0; sharding < branch.shardings.size(); ++sharding) {
          if (!branch.takes(cut, sharding) || !branch.saves(cut, saving)) continue;
          for (const Kernels& kernels : branch.kernels)
            for (const std::string_view placement : branch.placements) {
              Candidate candidate = chosen_with(branch.shape, kernels, branch.savings[saving],
                                                branch.cuts[cut], branch.shardings[sharding]);
              candidate.placement = placement;
              all.push_back(candidate);
            }
        }
  return all;
}

Space enumerate(const Job& job, const Plan& base, int ranks, int ranks_per_host, int threads) {
  const OpenKeys open{job, base, job.model.sizes(), ranks,
                      ranks_per_host > 0 ? ranks_per_host : ranks};
  const std::vector<Candidate> shapes = shapes_of(open);
  // Shapes are independent of each other, so threads split them, and the results are joined in the
  // order of the shapes.
  std::vector<Space> found(shapes.size());
  in_parallel(shapes.size(), threads,
              [&](std::size_t i, std::size_t) { found[i] = Enumerator(open).of(shapes[i]); });
  Space all;
  for (Space& each : found) {
    all.enumerated += each.enumerated;
    for (const auto& [reason, count] : each.rejected) all.rejected[reason] += count;
    std::ranges::move(each.branches, std::back_inserter(all.branches));
  }
  if (all.enumerated == 0)
    all.enumerated = all.rejected[broken("", "the fixed degrees do not multiply to the ranks")] = 1;
  return all;
}

namespace {

// Returns the narrowest type of gradients that a plan may have, so that bounds on time and memory
// hold for every plan.
Dtype narrowest_gradients(const Job& job, const Plan& base) {
  const bool is_open = job.is_auto("parallelism.zero_stage");
  std::vector<Dtype> types;
  for (int stage = 0; stage <= 3; ++stage) {
    if (!is_open && stage != base.parallelism.zero_stage) continue;
    Plan probe = base;
    probe.parallelism.zero_stage = stage;
    probe.parallelism.data = 2;
    types.push_back(
        with_what_follows(job.plan.training.framework, probe, job.model).training.gradient_reduce);
  }
  return *std::min_element(types.begin(), types.end(),
                           [](Dtype one, Dtype other) { return bytes_of(one) < bytes_of(other); });
}

}  // namespace

Plan base_plan(const Job& job, const MachineFacts& machine) {
  // This job has one rank and one micro-batch, so that settle() decides only defaults of the
  // machine.
  Job alone = job;
  alone.plan.parallelism = Parallelism{};
  const int least = std::max(1, job.model.sizes().micro_batch);  // some models fix the micro-batch
  alone.plan.training.global_batch = alone.plan.training.micro_batch = least;
  const Plan settled = settle(alone, 1, machine);
  Plan base = job.plan;
  base.training.precision = settled.training.precision;
  base.training.attention = settled.training.attention;
  if (const Framework framework = job.plan.training.framework; framework != Framework::meshwright) {
    // Lower bounds look at the base plan, so communication that the framework always overlaps must
    // overlap in it.
    Plan probe = base;
    probe.parallelism.tensor = 2;
    base.parallelism.overlap_tensor =
        as_run_by(framework, probe, job.model).parallelism.overlap_tensor;
    base.training.gradient_reduce = narrowest_gradients(job, base);
  }
  return base;
}

void choose(const Candidate& candidate, Plan& plan) {
  Parallelism& p = plan.parallelism;
  p.pipeline = candidate.pipeline;
  p.tensor = candidate.tensor;
  p.data = candidate.data;
  p.context = candidate.context;
  p.context_exchange = candidate.context_exchange;
  p.context_heads = candidate.context_heads > 1 ? candidate.context_heads : 0;
  p.expert = candidate.expert;
  p.expert_tensor = candidate.expert_tensor;
  p.shard = candidate.shard;
  p.virtual_stages = candidate.virtual_stages;
  p.schedule = candidate.schedule;
  p.zero_stage = candidate.zero_stage;
  p.reduce_gradients = candidate.reduce_gradients;
  p.keeps_gathered = candidate.keeps_gathered;
  p.sequence_parallel = candidate.sequence_parallel;
  p.tensor_chunks = candidate.tensor_chunks;
  p.offload = candidate.offload;
  p.placement = candidate.placement;
  Training& t = plan.training;
  t.micro_batch = candidate.micro_batch;
  t.recompute = candidate.recompute;
  t.recompute_fraction = candidate.recompute_fraction;
  t.compiler = candidate.compiler;
  t.attention = candidate.attention;
}

Plan to_plan(const Candidate& candidate, const Plan& base) {
  Plan plan = base;
  choose(candidate, plan);
  return plan;
}

}  // namespace meshwright::sim
