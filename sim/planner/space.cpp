#include "sim/planner/space.h"

#include <algorithm>
#include <numeric>

#include "models/core/error.h"

namespace meshwright {

namespace {

// The values that one key may take: what the job says, or all that make sense.
template <class T>
std::vector<T> choices(const Job& job, std::string_view key, T given, std::vector<T> all) {
  return job.is_auto(key) ? std::move(all) : std::vector<T>{given};
}

std::vector<int> divisors(std::int64_t number) {
  std::vector<int> found;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    found.push_back(static_cast<int>(d));
    if (d * d != number) found.push_back(static_cast<int>(number / d));
  }
  std::sort(found.begin(), found.end());
  return found;
}

struct Cut {
  ScheduleKind schedule;
  int virtual_stages;
};

class Enumerator {
 public:
  Enumerator(const Job& job, const Plan& base, int ranks)
      : job_(job), base_(base), ranks_(ranks), sizes_(job.model.sizes()) {}

  Space run() {
    const Parallelism& p = base_.parallelism;
    const std::vector<int> degrees = divisors(ranks_);
    // Experts are cut by the degree of their own.
    const std::vector<int> tensors = sizes_.experts > 0 ? std::vector<int>{1} : degrees;
    for (const int pipeline : choices(job_, "parallelism.pipeline", p.pipeline, degrees))
      for (const int tensor : choices(job_, "parallelism.tensor", p.tensor, tensors)) {
        const std::int64_t model = std::int64_t{pipeline} * tensor * p.context;
        if (model > ranks_ || ranks_ % model != 0) continue;  // no whole number of replicas
        split(pipeline, tensor, static_cast<int>(ranks_ / model));
      }
    if (space_.enumerated == 0) reject("the fixed degrees do not multiply to the ranks");
    return std::move(space_);
  }

 private:
  void reject(const char* reason) {
    ++space_.enumerated;
    ++space_.rejected[reason];
  }

  bool tensor_divides(int tensor) const {
    for (const int size : {sizes_.heads, sizes_.kv_heads, sizes_.hidden, sizes_.ffn})
      if (size % tensor != 0) return false;
    return true;
  }

  void split(int pipeline, int tensor, int data) {
    const std::int64_t batch = base_.training.global_batch;
    if (!job_.is_auto("parallelism.data") && data != base_.parallelism.data) return;
    if (!tensor_divides(tensor)) return reject("tensor does not divide heads, hidden and ffn");
    if (pipeline > 1 && pipeline > sizes_.layers) return reject("more stages than layers");
    if (batch % data != 0) return reject("data does not divide the global batch");
    const std::int64_t per_replica = batch / data;
    for (const int micro_batch :
         choices(job_, "training.micro_batch", base_.training.micro_batch, divisors(per_replica))) {
      if (per_replica % micro_batch != 0) {
        reject("data x micro_batch does not divide the global batch");
        continue;
      }
      Candidate candidate;
      candidate.pipeline = pipeline;
      candidate.tensor = tensor;
      candidate.data = data;
      candidate.micro_batch = micro_batch;
      for (const int expert : choices(job_, "parallelism.expert", base_.parallelism.expert,
                                      expert_degrees(data * base_.parallelism.context))) {
        candidate.expert = expert;
        with_schedules(candidate, static_cast<int>(per_replica / micro_batch));
      }
    }
  }

  std::vector<int> expert_degrees(int replicas) const {
    return divisors(std::gcd(std::max(1, sizes_.experts), replicas));
  }

  // 1f1b, zero_bubble, and interleaved with as many virtual stages as the layers give.
  std::vector<Cut> cuts(int pipeline) const {
    const Parallelism& p = base_.parallelism;
    const bool free_schedule = job_.is_auto("parallelism.schedule");
    const bool free_chunks = job_.is_auto("parallelism.virtual_stages");
    if (!free_schedule && (p.schedule != ScheduleKind::interleaved || !free_chunks))
      return {{p.schedule, free_chunks ? 1 : p.virtual_stages}};
    std::vector<Cut> found;
    if (free_schedule && (free_chunks || p.virtual_stages == 1)) {
      found.push_back({ScheduleKind::one_f_one_b, 1});
      const bool splits = p.offload == "none" && !base_.training.recompute_budget;
      if (pipeline > 1 && splits) found.push_back({ScheduleKind::zero_bubble, 1});
    }
    for (int chunks = 1; chunks * pipeline <= sizes_.layers; ++chunks) {
      const bool asked =
          free_chunks ? sizes_.layers % (chunks * pipeline) == 0 : chunks == p.virtual_stages;
      if (asked && pipeline > 1 && (chunks > 1 || !free_schedule))
        found.push_back({ScheduleKind::interleaved, chunks});
    }
    if (found.empty())
      found.push_back({ScheduleKind::interleaved, free_chunks ? 1 : p.virtual_stages});
    return found;
  }

  void with_schedules(Candidate candidate, int micro_batches) {
    for (const Cut& cut : cuts(candidate.pipeline)) {
      candidate.schedule = cut.schedule;
      candidate.virtual_stages = cut.virtual_stages;
      if (cut.schedule == ScheduleKind::interleaved && micro_batches % candidate.pipeline != 0) {
        reject("interleaved needs micro-batches in multiples of pipeline");
        continue;
      }
      with_memory_savers(candidate);
    }
  }

  void with_memory_savers(Candidate candidate) {
    const bool shards = candidate.data * base_.parallelism.context > 1;
    const bool cuts_rows = candidate.tensor > 1;
    const Training& t = base_.training;
    for (const Recompute recompute :
         choices(job_, "training.recompute", t.recompute,
                 {Recompute::none, Recompute::selective, Recompute::full}))
      for (const int zero_stage :
           choices(job_, "parallelism.zero_stage", base_.parallelism.zero_stage,
                   shards ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0}))
        for (const bool sequence_parallel :
             choices(job_, "parallelism.sequence_parallel", base_.parallelism.sequence_parallel,
                     cuts_rows ? std::vector<bool>{false, true} : std::vector<bool>{false})) {
          // A schedule that the job does not ask for is not tried where it cannot be.
          if (candidate.schedule == ScheduleKind::zero_bubble && zero_stage >= 2 &&
              job_.is_auto("parallelism.schedule"))
            continue;
          candidate.recompute = recompute;
          candidate.zero_stage = zero_stage;
          candidate.sequence_parallel = sequence_parallel;
          with_levels(candidate);
        }
  }

  void with_levels(Candidate candidate) {
    for (const CompilerLevel level :
         choices(job_, "training.compiler", base_.training.compiler,
                 {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full})) {
      candidate.compiler = level;
      add(candidate);
    }
  }

  void add(const Candidate& candidate) {
    const std::int64_t rows = std::int64_t{candidate.micro_batch} * base_.training.sequence_length;
    if (candidate.sequence_parallel && rows % candidate.tensor != 0)
      return reject("sequence_parallel needs rows that tensor divides");
    try {
      verify(to_plan(candidate, base_), sizes_);
    } catch (const NotSupportedYet& error) {  // the space has no such thing: the job asks for it
      throw NotSupportedYet(job_.file + ": " + error.what());
    } catch (const InputError& error) {
      return reject(error.what());
    }
    ++space_.enumerated;
    space_.candidates.push_back(candidate);
  }

  const Job& job_;
  const Plan& base_;
  int ranks_;
  ModelSizes sizes_;
  Space space_;
};

}  // namespace

Space enumerate(const Job& job, const Plan& base, int ranks) {
  return Enumerator(job, base, ranks).run();
}

Plan base_plan(const Job& job, const MachineFacts& machine) {
  Job alone = job;  // one rank, so that nothing but the machine's defaults is decided
  alone.plan.parallelism = Parallelism{};
  alone.plan.training.micro_batch = 1;
  const Plan settled = settle(alone, 1, machine);
  Plan base = job.plan;
  base.training.precision = settled.training.precision;
  base.training.attention = settled.training.attention;
  return base;
}

Plan to_plan(const Candidate& candidate, const Plan& base) {
  Plan plan = base;
  Parallelism& p = plan.parallelism;
  p.pipeline = candidate.pipeline;
  p.tensor = candidate.tensor;
  p.data = candidate.data;
  p.virtual_stages = candidate.virtual_stages;
  p.schedule = candidate.schedule;
  p.zero_stage = candidate.zero_stage;
  p.sequence_parallel = candidate.sequence_parallel;
  p.expert = candidate.expert;
  plan.training.micro_batch = candidate.micro_batch;
  plan.training.recompute = candidate.recompute;
  plan.training.compiler = candidate.compiler;
  return plan;
}

}  // namespace meshwright
