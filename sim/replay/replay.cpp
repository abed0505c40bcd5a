#include "sim/replay/replay.h"

#include <algorithm>
#include <limits>
#include <string>

#include "models/core/error.h"
#include "models/program/walk.h"
#include "sim/replay/accounting.h"
#include "sim/replay/classes.h"
#include "sim/replay/clock.h"

namespace meshwright::sim {

namespace {

// Adds the instructions, bytes and timeline entries of one class of ranks to the result. Only the
// bytes count for every rank of the class.
void collect(const Script& script, const RankTimes& times, const RankClass& part, bool timeline,
             ReplayResult& result) {
  for (int task = 0; task < script.tasks(); ++task) {
    const auto& instructions = script.program().bodies[script.body_of(task)].instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const int run = script.run(task, static_cast<int>(i));
      const SimTime end = times.end[run];
      if (end < 0) continue;
      ++result.instructions;
      result.step_time = std::max(result.step_time, end);
      if (instructions[i].kind == InstructionKind::send)
        result.bytes_sent += instructions[i].inputs[0].type.bytes() * part.ranks;
      if (instructions[i].kind == InstructionKind::recv)
        result.bytes_received += instructions[i].outputs[0].type.bytes() * part.ranks;
      if (timeline)
        result.timeline.entries.push_back(
            {part.rank, task, static_cast<int>(i), times.begin[run], end});
    }
  }
}

constexpr std::size_t stage_numbers = 4 + group_kind_count;

// Returns pointers to all times of StageTimes except the span.
template <class Times>
auto numbers(Times& times) {
  std::array<decltype(&times.bubble), stage_numbers> all{
      &times.compute_busy, &times.bubble, &times.exposed_communication, &times.launch};
  for (std::size_t group = 0; group < group_kind_count; ++group)
    all[4 + group] = &times.exposed_by[group];
  return all;
}

// Computes means over the ranks of a stage. Quotients and remainders are summed separately, so that
// the sums do not overflow.
class MeanTimes {
 public:
  explicit MeanTimes(int ranks) : ranks_(ranks) {}

  void add(const StageTimes& times, int ranks) {
    const auto own = numbers(times);
    for (std::size_t i = 0; i < own.size(); ++i) {
      whole_[i] += *own[i] / ranks_ * ranks;
      rest_[i] += *own[i] % ranks_ * ranks;
    }
  }

  StageTimes mean(SimTime span) const {
    StageTimes times;
    times.span = span;
    const auto own = numbers(times);
    for (std::size_t i = 0; i < own.size(); ++i) *own[i] = whole_[i] + rest_[i] / ranks_;
    return times;
  }

 private:
  SimTime ranks_;
  std::array<SimTime, stage_numbers> whole_{}, rest_{};
};

std::vector<StageTimes> stage_times(const std::vector<Script>& scripts, const Clock& clock,
                                    const std::vector<RankClass>& classes) {
  Window window{std::numeric_limits<SimTime>::max(), 0};
  int ranks = 0;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const Window own = pipeline_window(scripts[classes[c].stage], clock.times(static_cast<int>(c)));
    window = {std::min(window.begin, own.begin), std::max(window.end, own.end)};
    ranks += classes[c].ranks;
  }
  std::vector<MeanTimes> means(scripts.size(), MeanTimes(ranks / static_cast<int>(scripts.size())));
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const std::size_t stage = classes[c].stage;
    means[stage].add(account(scripts[stage], clock.times(static_cast<int>(c)), window),
                     classes[c].ranks);
  }
  std::vector<StageTimes> stages;
  for (const MeanTimes& mean : means) stages.push_back(mean.mean(window.end - window.begin));
  return stages;
}

}  // namespace

ReplayResult replay(const std::vector<Program>& stages, const Topology& topology,
                    const ReplayOptions& options) {
  const JobSettings& settings = *stages.front().settings;
  const Mesh mesh = settings.mesh();
  const LaneOrder order =
      topology.cluster().machine.concurrent_streams ? LaneOrder::streams : LaneOrder::inline_order;
  std::vector<Rendezvous> rendezvous_list;
  std::vector<Script> scripts;
  scripts.reserve(stages.size());
  for (const Program& program : stages) scripts.emplace_back(program, order, rendezvous_list);
  const RankClasses ranks = classes_of(rendezvous_list, mesh, topology.cluster(), options.fold);
  const bool stages_alone = ranks.classes.size() == stages.size();
  const Participants participants =
      stages_alone ? participants_of_stages(scripts, rendezvous_list)
                   : participants_of_classes(scripts, rendezvous_list, mesh, ranks.of_rank);
  ClassDurations durations(settings, mesh, topology);
  std::vector<StepTimes> of_class;
  for (const RankClass& each : ranks.classes)
    of_class.push_back(durations.of_steps(each, scripts[each.stage], rendezvous_list));
  std::vector<const StepTimes*> step_times;
  for (const StepTimes& times : of_class) step_times.push_back(&times);

  Clock clock(participants, step_times, topology.cluster().machine.gpu.kernels.overlap_slowdown);
  const std::string left = Walk<Clock>(participants, clock).run();
  MESHWRIGHT_CHECK(left.empty(), "deadlock: " + left);

  ReplayResult result;
  for (std::size_t p = 0; p < ranks.classes.size(); ++p)
    collect(scripts[ranks.classes[p].stage], clock.times(static_cast<int>(p)), ranks.classes[p],
            options.timeline, result);
  result.stages = stage_times(scripts, clock, ranks.classes);
  return result;
}

}  // namespace meshwright::sim
