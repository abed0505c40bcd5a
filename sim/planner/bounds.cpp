#include "sim/planner/bounds.h"

#include <algorithm>

#include "models/compiler/schedule/schedule.h"

namespace meshwright::sim {

BoundMaker::BoundMaker(const Model& model, const Plan& base, const Cluster& cluster,
                       std::shared_ptr<ModelProfiles> profiles)
    : BoundMaker(model, base, cluster,
                 std::make_shared<Measured>(
                     profiles ? std::move(profiles)
                              : std::make_shared<ModelProfiles>(model, base, cluster),
                     cluster)) {}

BoundMaker::BoundMaker(const Model& model, const Plan& base, const Cluster& cluster,
                       std::shared_ptr<Measured> measured)
    : model_(model),
      base_(base),
      asked_(base),
      cluster_(cluster),
      cost_(cluster, base.training),
      measured_(std::move(measured)),
      profiles_(*measured_->profiles->kinds().front()),
      network_(measured_->network) {}

int BoundMaker::micro_batches(const Candidate& candidate) const {
  return static_cast<int>(base_.training.global_batch /
                          (std::int64_t{candidate.data} * candidate.micro_batch));
}

PipelineShape BoundMaker::pipeline_shape(const Candidate& candidate) const {
  return {candidate.pipeline, candidate.virtual_stages, micro_batches(candidate),
          base_.parallelism.active_microbatches};
}

bool BoundMaker::reduces_each(const Candidate& candidate) const {
  choose(candidate, asked_);
  return asked_.reduces_each_micro_batch();
}

bool BoundMaker::gathers_once(const Candidate& candidate) const {
  choose(candidate, asked_);
  return asked_.gathers_once_a_step();
}

BoundMaker::Sent BoundMaker::sent(const Candidate& candidate) {
  const Messages& messages = profiles_.messages(candidate);
  const auto between = static_cast<std::size_t>(candidate.pipeline - 1);
  Sent sent{std::vector<double>(between), std::vector<double>(between), std::vector<bool>(between)};
  const auto add = [&](const std::vector<std::int64_t>& all, std::vector<double>& times) {
    for (const std::int64_t bytes : all) {
      const std::vector<NetworkTimes::Boundary>& own = network_.boundaries(candidate, bytes);
      for (std::size_t b = 0; b < between; ++b)
        times[b] += own[b].seconds, sent.crosses[b] = own[b].crosses_hosts;
    }
  };
  add(messages.onwards, sent.onwards);
  add(messages.back, sent.back);
  return sent;
}

// Returns the seconds of the messages of one micro-batch. A stage in the middle sends to both of
// its neighbours over the same links, unless one neighbour is on another host and the other one on
// its own host.
BoundMaker::MessageTimes BoundMaker::message_times(const Candidate& candidate) {
  const auto between = static_cast<std::size_t>(candidate.pipeline - 1);
  const auto [onwards, back, crosses] = sent(candidate);
  MessageTimes times;
  for (std::size_t b = 0; b < between; ++b) {
    times.all += onwards[b] + back[b];
    if (b == 0) continue;
    times.slowest =
        std::max(times.slowest, crosses[b] == crosses[b - 1] ? onwards[b] + back[b - 1]
                                                             : std::max(onwards[b], back[b - 1]));
  }
  if (between == 1) times.slowest = times.all;
  return times;
}

Bounds BoundMaker::time(const Candidate& candidate) {
  if (!knows_partition(candidate)) return time_of_any_partition(candidate);
  return time_of_cut(candidate, partition(candidate));
}

// Returns the means over the stages. If backwards are split, reductions hide behind weight
// gradients of other micro-batches, and if a stage has several chunks, those of one chunk hide
// behind backward tasks of the others. The lower bound of such schedules omits these reductions.
BoundMaker::MeanTimes BoundMaker::mean_times(const Candidate& candidate) {
  const Work& all = work(candidate);
  const PerParameter& cost = per_parameter(candidate);
  const double stages = candidate.pipeline, batches = micro_batches(candidate);
  const ParameterTimes own = cost.of(all.parameters);
  const double hidden = stages * candidate.virtual_stages * all.last_collectives;
  MeanTimes mean;
  mean.busy = (batches * std::max(0.0, all.seconds - hidden) + own.after()) / stages;
  mean.drained = mean.busy + own.at_the_ends(all.forward(), all.backward) / stages;
  mean.beside = batches * all.context / stages;
  mean.stream = std::max(own.in_stream(batches) / stages, mean.beside);
  const ScheduleInfo& schedule = schedule_info(candidate.schedule);
  mean.least =
      std::max(schedule.splits_backwards || schedule.most_chunks > 1 ? mean.busy : mean.drained,
               mean.stream);
  return mean;
}

// Returns whether the lower bound of the step's time, for any partition into stages, depends on
// each stage's time and not only on the mean over the stages.
bool BoundMaker::depends_on_cut(const Candidate& candidate) {
  return candidate.pipeline > 1 && schedule_info(candidate.schedule).most_chunks == 1;
}

bool BoundMaker::can_end_within(const Candidate& candidate, double seconds) {
  if (mean_times(candidate).least > seconds) return false;
  return !depends_on_cut(candidate) || some_cut_ends_within(candidate, seconds);
}

// Returns whether the bound of some cut is at most `seconds`. It is best to give each stage, from
// the first one on, as many units as it can take: a unit that moves from a stage to an earlier one
// shortens the stage by at least as much as it lengthens what the stage waits for.
bool BoundMaker::some_cut_ends_within(const Candidate& candidate, double seconds) {
  const bool splits = schedule_info(candidate.schedule).splits_backwards;
  const Work& all = work(candidate);
  const PerParameter& cost = per_parameter(candidate);
  const Chain& sums = chain(all, splits);
  const double batches = micro_batches(candidate);
  const std::size_t units = sums.units.size();
  std::size_t begin = 0;
  for (int stage = 0; stage < candidate.pipeline && begin < units; ++stage) {
    const double drain = std::max(0.0, sums.drain[begin] - stage * all.weight_gradient);
    std::size_t end = begin;
    for (; end < units; ++end) {
      const ParameterTimes held = cost.of(sums.parameters[end + 1] - sums.parameters[begin]);
      const double own = sums.work[end + 1] - sums.work[begin] - all.last_collectives;
      const double backward = sums.backward[end + 1] - sums.backward[begin];
      const double left = std::max(held.finish, splits ? 0.0 : held.hidden_last - backward);
      if (sums.fill(begin) + batches * own + std::max(drain, left) + held.after_norm() > seconds)
        break;
    }
    if (end == begin) return false;
    begin = end;
  }
  return begin == units;
}

Bounds BoundMaker::time_of_any_partition(const Candidate& candidate) {
  const Work& all = work(candidate);
  const MeanTimes mean = mean_times(candidate);
  // The estimate assumes that the communication of context groups is exposed.
  if (candidate.pipeline == 1) return {mean.least, mean.least + mean.beside};
  const double stages = candidate.pipeline;
  if (!depends_on_cut(candidate)) {
    const double ramp = (stages - 1) / candidate.virtual_stages * all.seconds / stages;
    return {mean.least, std::max(mean.drained + ramp, mean.stream) + mean.beside};
  }
  double low = mean.least, high = stages * mean.drained + all.seconds;
  const ParameterTimes of_all = per_parameter(candidate).of(all.parameters);
  high += of_all.hidden_last + of_all.finish;
  while (high - low > 1e-3 * low) {
    const double middle = (low + high) / 2;
    (some_cut_ends_within(candidate, middle) ? high : low) = middle;
  }
  return {low, std::max(high, mean.stream) + mean.beside};
}

// Returns the bounds of one cut. All gradients are ready when those of the longest stage are.
// Before that, the first micro-batch passes the stages before it. After its last backward, its
// reductions run while the last gradient passes the stages before it. Optimizers wait for the norm
// of all gradients. The lower bound omits collectives that the next task may hide.
Bounds BoundMaker::time_of_cut(const Candidate& candidate, const Cut& begins) {
  const Work& all = work(candidate);
  const PerParameter& cost = per_parameter(candidate);
  const ScheduleInfo& schedule = schedule_info(candidate.schedule);
  const bool splits = schedule.splits_backwards, interleaves = schedule.most_chunks > 1;
  const double fills = schedule.fills(pipeline_shape(candidate));
  const Chain& sums = chain(all, splits);
  const double batches = micro_batches(candidate);
  const double hidden = candidate.virtual_stages * all.last_collectives;
  const StageLayout layout = candidate.stage_layout();
  // For the estimate: if forward, backward and weight gradients of a micro-batch take equal time,
  // weight gradients fill all but a third of the idle time while the pipeline fills and drains. In
  // simulations of schedules whose chunks go through the stages there and back, stages are idle for
  // about half of that third.
  const double idle_share = !splits ? 1.0 : layout.goes_back(1) ? 1.0 / 6 : 1.0 / 3;
  const double interleaved_ramp = (candidate.pipeline - 1.0) / candidate.virtual_stages *
                                  all.seconds / candidate.pipeline * idle_share;
  // The other stages wait for the stage whose messages are slowest. That stage sends the messages
  // of all chunks that pass the stages in the same direction.
  const MessageTimes messages = message_times(candidate);
  const double sent =
      candidate.virtual_stages / (layout.goes_back(1) ? 2.0 : 1.0) * messages.slowest;
  // If a stage has several chunks and backwards are not split, chunks wait for each other's
  // messages all the time. Other schedules wait only while the pipeline fills and drains.
  const double exposed =
      interleaves && !splits ? batches * sent : candidate.virtual_stages * messages.all;
  Bounds bounds;
  double gradients = 0, after_norm = 0, streams = 0;
  if (candidate.pipeline > 2) streams = batches * sent;
  for (int stage = 0; stage < candidate.pipeline; ++stage) {
    HeldParameters parameters;
    double own = 0, backward = 0, context = 0;
    for (int chunk = 0; chunk < candidate.virtual_stages; ++chunk) {
      const auto part = static_cast<std::size_t>(layout.virtual_stage(stage, chunk));
      own += sums.work[begins[part + 1]] - sums.work[begins[part]];
      parameters = parameters + (sums.parameters[begins[part + 1]] - sums.parameters[begins[part]]);
      backward += sums.backward[begins[part + 1]] - sums.backward[begins[part]];
      context += sums.context[begins[part + 1]] - sums.context[begins[part]];
    }
    const ParameterTimes held = cost.of(parameters);
    // A stage begins and ends with its first chunk.
    const double fill = sums.fill(begins[stage]);
    const double drain = sums.drain[begins[stage]];
    // For ZeRO stage 3, units are gathered before the first forward, while the stage waits for its
    // first input.
    const double gathered = held.first_batch - (own - backward);
    const double reduced = held.hidden_last - backward;
    // Stages have one chunk, and backwards are not split.
    const bool in_turn = !splits && !interleaves;
    const double left = std::max(held.finish, in_turn ? reduced : 0.0);
    gradients = std::max(gradients, std::max(fill, in_turn ? gathered : 0.0) +
                                        batches * std::max(0.0, own - hidden) +
                                        std::max(drain - stage * all.weight_gradient, left));
    after_norm = std::max(after_norm, held.after_norm());
    const double stream = std::max(held.in_stream(batches), batches * context);
    streams = std::max(streams, stream);
    const double ramp = interleaves && splits ? interleaved_ramp
                        : interleaves         ? std::max(fill + drain, interleaved_ramp)
                                              : fills * (fill + drain);
    const double likely = std::max(ramp, gathered) + batches * (own + context) + exposed +
                          held.after() + std::max(0.0, reduced);
    // One micro-batch passes all stages. About half of its backwards is weight gradients, which it
    // does not wait for.
    const double passed = interleaves && splits ? all.forward() + all.backward / 2 : 0;
    bounds.estimate_s = std::max({bounds.estimate_s, likely, passed, stream});
  }
  bounds.step_time_s = std::max(gradients + after_norm, streams);
  bounds.estimate_s = std::max(bounds.estimate_s, bounds.step_time_s);
  return bounds;
}

}  // namespace meshwright::sim
