// Compares the predicted step with a measured one for `explain JOB --measured TRACE`.
#include <fmt/format.h>

#include <algorithm>

#include "models/core/error.h"
#include "models/program/mesh.h"
#include "sim/predict/timeline_parts.h"
#include "sim/rehearsal/recorded_profile.h"
#include "sim/replay/stand_ins.h"
#include "tools/commands/asking.h"
#include "tools/commands/explained.h"
#include "tools/commands/recorded_operand.h"
#include "tools/report/timeline_view.h"

namespace meshwright::tools {

namespace {

// Compares the prediction with a trace of `train --trace`. Both sides are those of one rank: the
// first rank of the stage whose parts step_parts() returns. Throws InputError if the trace has
// nothing of this rank.
void compare_timelines(const std::string& path, const Timeline& timeline, Explained& predicted,
                       Explained& measured) {
  const Compiled& compiled = predicted.chosen.compiled;
  const Cluster& cluster = predicted.chosen.cluster;
  const std::vector<int> stage_of_rank = stages_of_ranks(compiled.stages);
  const Timeline trace = read_chrome_trace(path, compiled.stages, stage_of_rank);
  const int stage = step_parts(compiled, cluster, predicted.prediction, timeline).stage;
  const auto rank =
      static_cast<int>(std::ranges::find(stage_of_rank, stage) - stage_of_rank.begin());
  const Program& program = compiled.stages[stage];
  predicted.parts = timeline_parts(program, cluster, timeline, rank);
  measured.parts = timeline_parts(program, cluster, trace, rank);
  if (measured.parts.step_time == 0)
    throw InputError(fmt::format("{}: holds nothing of rank {}", path, rank));
}

// Returns the rank that a profile belongs to. If the profile does not name its rank, returns rank
// 0, which stands for all ranks of a plan without stages. Throws InputError if the profile does not
// match the job's ranks, or if the plan has stages and the profile names no rank.
int rank_of_profile(const ProfilerTrace& trace, const std::string& path, const Mesh& mesh) {
  if (trace.world_size && *trace.world_size != mesh.ranks())
    throw InputError(fmt::format("{}: is of a run of {} ranks, the job's plan has {}", path,
                                 *trace.world_size, mesh.ranks()));
  if (!trace.rank && mesh.degrees().pipeline > 1)
    throw InputError(path +
                     ": does not say of which rank it is (distributedInfo), and the job's plan has "
                     "stages that differ; export it while torch.distributed is in use");
  const int rank = trace.rank.value_or(0);
  if (rank >= mesh.ranks())
    throw InputError(fmt::format("{}: is of rank {}, the job's plan has ranks 0 to {}", path, rank,
                                 mesh.ranks() - 1));
  return rank;
}

std::string steps_text(const KernelParts& parts) {
  if (parts.first_step < 0)
    return "no ProfilerStep is marked in it, so all of it is taken as one step";
  if (parts.steps == 1) return fmt::format("ProfilerStep {}", parts.first_step);
  return fmt::format("the mean of ProfilerSteps {} to {}", parts.first_step, parts.last_step);
}

// Sets the measured side to a profile of PyTorch. `rank` is the rank that the profile belongs to.
// Throws InputError if the profile's step takes no time.
void set_profile(const std::string& path, const ProfilerTrace& trace, int rank,
                 Explained& measured) {
  measured.kernels = profiled_kernel_parts(trace, path);
  measured.parts = measured.kernels->parts;
  if (measured.parts.step_time == 0)
    throw InputError(path + ": its step takes no time; there is nothing to compare");
  measured.trace = fmt::format("{}: PyTorch's profile of rank {}, {}", path, rank,
                               steps_text(*measured.kernels));
}

// Compares the prediction with a profile of PyTorch by kinds of kernels, because a profile names
// kernels and not the plan's instructions.
void compare_kernels(const std::string& path, const ProfilerTrace& trace, const Timeline& timeline,
                     Explained& predicted, Explained& measured) {
  const Compiled& compiled = predicted.chosen.compiled;
  const Mesh mesh = compiled.stages.front().settings->mesh();
  const int rank = rank_of_profile(trace, path, mesh);
  const int stage = mesh.coordinates(rank).pipeline;
  const int stand_in = stand_ins(compiled.stages, predicted.chosen.cluster)[rank];
  predicted.kernels = predicted_kernel_parts(compiled.stages[stage], predicted.chosen.cluster,
                                             timeline, stand_in, predicted.prediction.step_time);
  predicted.parts = predicted.kernels->parts;
  set_profile(path, trace, rank, measured);
  measured.parts.stage = stage;
}

// Predicts a recorded step, and compares it with a profile of the same script. Throws InputError if
// they have different numbers of ranks.
std::pair<Explained, Explained> recorded_and_measured(const Options& options, const Watch& watch,
                                                      const ProfilerTrace& profile) {
  const Recording recording = asked_recording(options);
  RehearsalRequest request = rehearsal_request(options);
  request.keeps_spans = true;
  const Rehearsed step = session::rehearsed(recording, request, asked_machines(options, watch));
  if (profile.world_size && *profile.world_size != recording.ranks)
    throw InputError(fmt::format("{}: is of a run of {} ranks, the recording has {}",
                                 options.measured, *profile.world_size, recording.ranks));
  Explained predicted;
  predicted.name = "predicted";
  predicted.job = step.job;
  predicted.job.name = step.script;
  predicted.chosen.machine = step.cluster.machine.name;
  predicted.chosen.count = step.cluster.hosts;
  predicted.tokens_per_s = step.prediction.tokens_per_s;
  Explained measured = predicted;
  measured.name = "measured";
  predicted.kernels = profiled_kernel_parts(
      recorded_profile(recording, step.spans, step.prediction.step_time), request.file);
  set_profile(options.measured, profile, profile.rank.value_or(recording.rank), measured);
  measured.joined = joined_kernels(recording, step.spans, profile);
  predicted.parts = predicted.kernels->parts;
  return {std::move(predicted), std::move(measured)};
}

// Sets the measured tokens/s: the predicted rate, scaled by predicted / measured step time.
std::pair<Explained, Explained> with_rate(std::pair<Explained, Explained> sides) {
  sides.second.tokens_per_s *= static_cast<double>(sides.first.parts.step_time) /
                               static_cast<double>(sides.second.parts.step_time);
  return sides;
}

}  // namespace

std::pair<Explained, Explained> predicted_and_measured(const Options& options, const Watch& watch) {
  if (options.operands.size() != 1)
    throw InputError("explain: --measured goes with one job file, that of the trained job");
  const auto profile =
      read_profiler_trace(options.measured);  // throws before a search, if the file is wrong
  if (names_recording(options)) {
    if (!profile)
      throw InputError(options.measured +
                       ": a recorded step is compared with what PyTorch's profiler saw of the "
                       "script, and this is no such trace");
    return with_rate(recorded_and_measured(options, watch, *profile));
  }
  Explained predicted;
  predicted.name = "predicted";
  predicted.job = asked_job(options, watch);
  predicted.chosen = choose_plan(predicted.job, asked_machines(options, watch), watch);
  Timeline timeline;
  predicted.prediction = predict_chosen(predicted.job, predicted.chosen, &timeline);
  predicted.tokens_per_s = predicted.prediction.tokens_per_s;
  Explained measured = predicted;
  measured.name = "measured";
  if (profile)
    compare_kernels(options.measured, *profile, timeline, predicted, measured);
  else
    compare_timelines(options.measured, timeline, predicted, measured);
  return with_rate({std::move(predicted), std::move(measured)});
}

}  // namespace meshwright::tools
