// The part of BoundMaker that bounds a pipeline whose stages are known, task by task.
#include <algorithm>
#include <functional>
#include <utility>

#include "models/compiler/schedule/schedule.h"
#include "sim/planner/bounds.h"
#include "sim/planner/mixed_recompute.h"

namespace meshwright::sim {

// Returns the order of tasks of every stage. Only the orders of the last pipeline are cached,
// because candidates with the same pipeline mostly come one after the other.
const std::vector<StageOrder>& BoundMaker::orders(const Candidate& candidate) {
  const PipelineShape shape = pipeline_shape(candidate);
  const std::tuple key{candidate.schedule, shape.stages, shape.chunks, shape.micro_batches};
  if (orders_of_ == key && !orders_.empty()) return orders_;
  orders_of_ = key;
  orders_.clear();
  for (int stage = 0; stage < candidate.pipeline; ++stage)
    orders_.push_back(schedule_info(candidate.schedule).order(shape, stage));
  return orders_;
}

namespace {

// Sets what a split backward defers. No stage waits for the backward of the first virtual stage, so
// it defers all of it except recomputation, which needs no gradient.
void put_off(PartTimes& times, bool is_first, double repeated_s) {
  if (is_first) times.before_gradient = repeated_s;
  times.weights = is_first ? times.backward - repeated_s : std::min(times.weights, times.backward);
}

}  // namespace

const std::vector<PartTimes>& BoundMaker::part_times(const Candidate& candidate,
                                                     const Cut& begins) {
  const bool splits = schedule_info(candidate.schedule).splits_backwards;
  const bool mixed = is_mixed(candidate);
  const Work& all = work(candidate);
  // The work that a split backward defers, paired with the units of `all` that defer it.
  using Deferred = const std::vector<UnitProfile::Pass>*;
  const Deferred repeated = splits ? &profiles_.deferred(candidate, candidate.recompute) : nullptr;
  std::vector<std::pair<const std::vector<UnitTimes>*, Deferred>> of_units;
  const auto look_at = [&](Profiles& profiles, const std::vector<UnitTimes>& kept,
                           const std::vector<UnitTimes>& repeated_units) {
    of_units.emplace_back(&repeated_units, &profiles.deferred(candidate, candidate.recompute));
    of_units.emplace_back(&kept, mixed ? &profiles.deferred(keeping(candidate), Recompute::none)
                                       : of_units.back().second);
  };
  for (std::size_t kind = 0; splits && kind < all.kinds.size(); ++kind)
    look_at(*measured_->profiles->kinds()[kind], all.kinds[kind].kept, all.kinds[kind].repeated);
  const PartsKey key{&all, begins, splits, repeated};
  if (parts_of_ == key) return parts_;
  parts_of_ = key;
  parts_.clear();
  const Chain& sums = chain(all, splits);
  const double slowest = straggling_of(candidate, cluster_);
  const auto deferred = [&](const UnitTimes* unit) {
    double seconds = 0;
    for (const auto& [units, passes] : of_units)
      if (std::less_equal<>()(units->data(), unit) &&
          std::less<>()(unit, units->data() + units->size()))
        seconds = pass_time(candidate, (*passes)[unit - units->data()], slowest);
    return seconds;
  };
  for (std::size_t part = 0; part + 1 < begins.size(); ++part) {
    const std::size_t begin = begins[part], end = begins[part + 1];
    PartTimes times;
    times.backward = sums.backward[end] - sums.backward[begin];
    times.forward = sums.work[end] - sums.work[begin] - times.backward;
    times.parameters = sums.parameters[end] - sums.parameters[begin];
    const UnitTimes &first = *sums.units[begin], &last = *sums.units[end - 1];
    times.before_gradient = last.recompute;
    times.after_gradient = first.weight_gradient;
    times.forward_last = last.forward_last;
    times.backward_last = first.backward_last;
    times.until_collective_forward = first.until_collective_forward;
    times.until_collective_backward = last.until_collective_backward;
    double repeated_s = 0;
    for (std::size_t unit = end; unit-- > begin;) {
      const UnitTimes& own = *sums.units[unit];
      times.units.push_back(
          {own.recompute + own.backward, sums.parameters[unit + 1] - sums.parameters[unit]});
      repeated_s += own.recompute;
      if (splits && part > 0) times.weights += deferred(&own);
    }
    if (splits) put_off(times, part == 0, repeated_s);
    parts_.push_back(std::move(times));
  }
  return parts_;
}

double BoundMaker::pipeline_time(const Candidate& candidate) {
  return knows_partition(candidate) ? pipeline_time_of_cut(candidate, partition(candidate)) : 0;
}

double BoundMaker::pipeline_time_of_cut(const Candidate& candidate, const Cut& cut) {
  // If backwards are split, the deferred work of the units before the blocks is only known on the
  // first virtual stage. There is no bound if one of these units is on another stage.
  const bool splits = schedule_info(candidate.schedule).splits_backwards;
  const std::vector<const UnitTimes*>& units = chain(work(candidate), splits).units;
  if (splits && !units[cut[1]]->is_block &&
      std::any_of(units.begin() + cut[1], units.end(),
                  [](const UnitTimes* u) { return u->is_block; }))
    return 0;
  PipelineTimes times;
  times.layout = candidate.stage_layout();
  times.orders = &orders(candidate);
  times.micro_batches = micro_batches(candidate);
  times.parts = &part_times(candidate, cut);
  Sent messages = sent(candidate);
  times.onwards = std::move(messages.onwards);
  times.back = std::move(messages.back);
  times.per_parameter = &per_parameter(candidate);
  return pipeline_bound(times);
}

}  // namespace meshwright::sim
