#include "sim/replay/replay.h"

#include <algorithm>
#include <limits>
#include <string>

#include "models/core/error.h"
#include "models/plan/walk.h"
#include "sim/replay/accounting.h"
#include "sim/replay/clock.h"
#include "sim/replay/durations.h"

namespace meshwright {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A player of the walk: the rank it is, and how many ranks it stands for.
struct Part {
  int rank = 0;
  int stage = 0;
  int ranks = 1;
};

std::vector<Part> parts_of(const Mesh& mesh, bool fold) {
  std::vector<Part> parts;
  if (fold) {
    for (int stage = 0; stage < mesh.degrees().pipeline; ++stage)
      parts.push_back({mesh.rank({stage, 0, 0}), stage, mesh.ranks() / mesh.degrees().pipeline});
  } else {
    for (int rank = 0; rank < mesh.ranks(); ++rank)
      parts.push_back({rank, mesh.coordinates(rank).pipeline, 1});
  }
  return parts;
}

// Runs, bytes and entries of one player.
void collect(const Script& script, const PlayerTimes& times, const Part& part, bool timeline,
             ReplayResult& result) {
  for (int task = 0; task < script.tasks(); ++task) {
    const auto& instructions = script.program().bodies[at(script.body_of(task))].instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const int run = script.run(task, static_cast<int>(i));
      const SimTime end = times.end[at(run)];
      if (end < 0) continue;
      ++result.instructions;
      result.step_time = std::max(result.step_time, end);
      if (instructions[i].kind == InstructionKind::send)
        result.bytes_sent += instructions[i].inputs[0].type.bytes() * part.ranks;
      if (instructions[i].kind == InstructionKind::recv)
        result.bytes_received += instructions[i].outputs[0].type.bytes() * part.ranks;
      if (timeline)
        result.timeline.entries.push_back(
            {part.rank, task, static_cast<int>(i), times.begin[at(run)], end});
    }
  }
}

// Of one rank of every stage: the first player that plays it.
std::vector<StageTimes> stage_times(const std::vector<Script>& scripts, const Clock& clock,
                                    const std::vector<Part>& parts) {
  std::vector<int> player(scripts.size(), -1);
  for (std::size_t p = parts.size(); p-- > 0;) player[at(parts[p].stage)] = static_cast<int>(p);
  Window window{std::numeric_limits<SimTime>::max(), 0};
  for (std::size_t stage = 0; stage < scripts.size(); ++stage) {
    const Window own = pipeline_window(scripts[stage], clock.times(player[stage]));
    window = {std::min(window.begin, own.begin), std::max(window.end, own.end)};
  }
  std::vector<StageTimes> times;
  for (std::size_t stage = 0; stage < scripts.size(); ++stage)
    times.push_back(account(scripts[stage], clock.times(player[stage]), window));
  return times;
}

}  // namespace

ReplayResult replay(const std::vector<Program>& stages, const Plan& plan, const Mesh& mesh,
                    const Topology& topology, const ReplayOptions& options) {
  const LaneOrder order =
      topology.cluster().machine.concurrent_streams ? LaneOrder::streams : LaneOrder::inline_order;
  std::vector<Contact> contacts;
  std::vector<Script> scripts;
  scripts.reserve(stages.size());
  for (const Program& program : stages)
    scripts.emplace_back(program, order, static_cast<int>(stages.size()), contacts);
  const Cast cast =
      options.fold ? cast_of_stages(scripts, contacts) : cast_of_ranks(scripts, contacts, mesh);
  const std::vector<Part> parts = parts_of(mesh, options.fold);
  Durations durations(plan, mesh, topology);
  std::vector<std::vector<SimTime>> of_stage;
  for (const Script& script : scripts) of_stage.push_back(durations.of_steps(script, contacts));
  std::vector<const std::vector<SimTime>*> of_player;
  for (const Part& part : parts) of_player.push_back(&of_stage[at(part.stage)]);

  Clock clock(cast, of_player);
  const std::string left = Walk<Clock>(cast, clock).run();
  MESHWRIGHT_CHECK(left.empty(), "deadlock: " + left);

  ReplayResult result;
  for (std::size_t p = 0; p < parts.size(); ++p)
    collect(scripts[at(parts[p].stage)], clock.times(static_cast<int>(p)), parts[p],
            options.timeline, result);
  result.stages = stage_times(scripts, clock, parts);
  return result;
}

}  // namespace meshwright
