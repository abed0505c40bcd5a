#include "sim/planner/sweep.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/compiler/passes/pass.h"
#include "models/compiler/schedule/schedule.h"

namespace meshwright::sim {

namespace {

// The factors by which a pipeline cut enters a bound. They do not depend on the time that a
// micro-batch takes.
struct CutFactors {
  bool splits = false, interleaves = false;
  double stages = 1, batches = 1;
  double chunks = 1;  // number of chunks of all stages together
  // Micro-batches in flight on stage 0, and the sum over all stages of 1 / micro-batches in flight.
  double first_in_flight = 1, turns = 0;
};

// Returns rho / (1 - (1 - rho/m)^p) of bounds.h, by which the work W of a micro-batch is
// multiplied. `ramp_share` is rho.
double pipeline_factor(const CutFactors& cut, double ramp_share) {
  if (ramp_share <= 0) return cut.batches / cut.stages;
  const double rest = std::max(0.0, 1 - ramp_share / cut.batches);
  return ramp_share / (1 - std::pow(rest, cut.stages));
}

class Sweep {
 public:
  Sweep(const Branch& branch, BoundMaker& bounds, const Limits& limits, Swept& swept)
      : branch_(branch), bounds_(bounds), limits_(limits), swept_(swept) {
    for (const PipelineCut& cut : branch.cuts) {
      const Candidate with = chosen_with(branch.shape, cut);
      CutFactors factors;
      factors.splits = schedule_info(cut.schedule).splits_backwards;
      factors.interleaves = schedule_info(cut.schedule).most_chunks > 1;
      factors.stages = with.pipeline;
      factors.batches = bounds.micro_batches(with);
      factors.chunks = with.pipeline * cut.virtual_stages;
      factors.first_in_flight = bounds.in_flight(with, 0);
      for (int stage = 0; stage < with.pipeline; ++stage)
        factors.turns += 1.0 / bounds.in_flight(with, stage);
      cuts_.push_back(factors);
    }
    for (const Sharding& sharding : branch.shardings) {
      Candidate with = chosen_with(branch.shape, sharding);
      const auto counted = bounds.drops_gradients(with, 1) ? BoundMaker::Counted::no_gradients
                                                           : BoundMaker::Counted::all;
      bytes_per_parameter_.push_back(bounds.bytes_per_parameter(with, counted));
      unit_buffer_bytes_.push_back(bounds.unit_buffer_bytes(with, 1));
      with.offload = Offload::optimizer;
      bytes_without_states_.push_back(bounds.bytes_per_parameter(with, counted));
    }
  }

  void run() {
    costs_.resize(compiler_names().size() * branch_.placements.size());
    for (const Kernels& kernels : branch_.kernels)
      for (std::size_t saving = 0; saving < branch_.savings.size(); ++saving) {
        Candidate candidate = chosen_with(branch_.shape, kernels, branch_.savings[saving]);
        for (std::size_t place = 0; place < branch_.placements.size(); ++place) {
          candidate.placement = branch_.placements[place];
          const Work* work = work_of(candidate);
          for (std::size_t cut = 0; cut < cuts_.size(); ++cut) {
            if (!branch_.saves(cut, saving)) continue;
            if (work == nullptr)
              lose(Loss::memory, cut);
            else
              shardings(candidate, *work, costs_of(candidate, place), cut);
          }
        }
      }
  }

 private:
  // Returns the work of a micro-batch, or null if it is so large that nothing could hold its
  // tensors.
  const Work* work_of(const Candidate& candidate) {
    try {
      return &bounds_.work(candidate);
    } catch (const ImmenseTensor&) {
      return nullptr;
    }
  }

  // Counts the plans of a cut, with every sharding that it takes, as pruned for the reason `loss`.
  void lose(Loss loss, std::size_t cut) {
    std::int64_t& lost = swept_.lost[static_cast<std::size_t>(loss)];
    for (std::size_t i = 0; i < branch_.shardings.size(); ++i)
      lost += branch_.takes(cut, i) ? 1 : 0;
  }

  // Returns the per-parameter costs of every sharding, with the compiler level and the placement of
  // `candidate`.
  const std::vector<PerParameter>& costs_of(Candidate candidate, std::size_t place) {
    const auto level = static_cast<std::size_t>(candidate.compiler);
    std::vector<PerParameter>& costs = costs_[level * branch_.placements.size() + place];
    if (!costs.empty()) return costs;
    for (const Sharding& sharding : branch_.shardings) {
      costs.push_back(bounds_.per_parameter(chosen_with(candidate, sharding)));
    }
    return costs;
  }

  // Returns the largest lower bound of the step, in seconds, that holds for any sharding.
  // Communication counts only if `with_network`.
  double least_time(const Work& work, const CutFactors& cut, bool with_network) const {
    const double micro_batch_s = with_network ? work.seconds : work.compute;
    const double hidden = cut.chunks * work.last_collectives;
    double time = cut.batches * std::max(0.0, micro_batch_s - hidden) / cut.stages;
    if (with_network) time = std::max(time, cut.batches * work.context / cut.stages);
    if (!cut.interleaves && cut.stages > 1)
      time = std::max(
          time, micro_batch_s *
                        pipeline_factor(cut, cut.splits ? work.split_ramp_share : work.ramp_share) -
                    (cut.stages - 1) * work.weight_gradient - cut.batches * work.last_collectives);
    return time;
  }

  Loss reason(const Work& work, const CutFactors& cut) const {
    if (cut.batches * work.compute / cut.stages > limits_.step_time_s) return Loss::computation;
    return least_time(work, cut, false) > limits_.step_time_s ? Loss::bubble : Loss::network;
  }

  double memory(const Work& work, const BoundMaker::Kept& kept, const CutFactors& cut,
                const ParameterBytes& per_parameter) const {
    if (cut.stages == 1)
      return per_parameter.of(work.parameters) + cut.first_in_flight * (kept.blocks + kept.others);
    if (bounds_.blocks_differ()) return 0;
    const double of_blocks = per_parameter.of(work.block_parameters) * work.layers;
    return (of_blocks / cut.first_in_flight + kept.blocks) / cut.turns;
  }

  void shardings(Candidate& candidate, const Work& work, const std::vector<PerParameter>& costs,
                 std::size_t index) {
    const CutFactors& cut = cuts_[index];
    const double least = least_time(work, cut, true);
    if (least > limits_.step_time_s) return lose(reason(work, cut), index);
    const double left = limits_.memory_bytes - bounds_.fixed_bytes();
    const std::vector<ParameterBytes>& per_parameter =
        candidate.offload == Offload::optimizer ? bytes_without_states_ : bytes_per_parameter_;
    const double busy =
        cut.batches * std::max(0.0, work.seconds - cut.chunks * work.last_collectives);
    const bool drains = !cut.splits && !cut.interleaves;
    const BoundMaker::Kept* kept = nullptr;
    BoundMaker::Kept found;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (!branch_.takes(index, i)) continue;
      ++swept_.bounded;
      const ParameterTimes cost = costs[i].of(work.parameters);
      const double occupied = busy + cost.after();
      double time =
          std::max({least, occupied / cut.stages, cost.in_stream(cut.batches) / cut.stages});
      if (drains)
        time = std::max(time,
                        (occupied + cost.at_the_ends(work.forward(), work.backward)) / cut.stages);
      if (time > limits_.step_time_s) {
        ++swept_.lost[static_cast<std::size_t>(Loss::network)];
        continue;
      }
      if (left == std::numeric_limits<double>::infinity()) {
        swept_.survivors.push_back({with(candidate, index, i), time});
        continue;
      }
      if (kept == nullptr) kept = &(found = bounds_.kept_bytes(candidate));
      const double bytes = memory(work, *kept, cut, per_parameter[i]) +
                           unit_buffer_bytes_[i].of(work.block_parameters);
      if (bytes <= left) {
        swept_.survivors.push_back({with(candidate, index, i), time});
        continue;
      }
      ++swept_.lost[static_cast<std::size_t>(Loss::memory)];
      if (swept_.nearest_bytes > 0 && bytes >= swept_.nearest_bytes) continue;
      swept_.nearest_bytes = bytes;
      swept_.nearest = with(candidate, index, i);
    }
  }

  Candidate with(const Candidate& candidate, std::size_t cut, std::size_t sharding) const {
    return chosen_with(candidate, branch_.cuts[cut], branch_.shardings[sharding]);
  }

  const Branch& branch_;
  BoundMaker& bounds_;
  const Limits& limits_;
  Swept& swept_;
  std::vector<CutFactors> cuts_;
  // For each sharding: bytes per parameter, with the optimizer's states on the device and without,
  // and bytes of unit buffers per parameter of a block.
  std::vector<ParameterBytes> bytes_per_parameter_, bytes_without_states_, unit_buffer_bytes_;
  std::vector<std::vector<PerParameter>> costs_;  // [level * placements + placement]
};

}  // namespace

void sweep(const Branch& branch, BoundMaker& bounds, const Limits& limits, Swept& swept) {
  Sweep(branch, bounds, limits, swept).run();
}

}  // namespace meshwright::sim
