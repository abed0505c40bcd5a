#include "sim/replay/durations.h"

#include <algorithm>

#include "models/core/error.h"
#include "sim/collectives/of_instruction.h"

namespace meshwright::sim {

namespace {

// Converts seconds to picoseconds. 63 bits hold 106 days of them. Throws InputError for 1e6 seconds
// (11 days) or more, because no reasonable operation takes so long.
SimTime checked_sim_time(Seconds time) {
  constexpr double longest_s = 1e6;
  if (!(time.value < longest_s))
    throw InputError(
        "one operation of the step would take more than 11 days; look at the sizes of the model, "
        "the "
        "network's bandwidth and latency, and host_launch_us");
  return to_sim_time(time);
}

constexpr int message_kind = -1, ring_kind = -2, deduplicated_kind = -3;

// Returns the factor by which compute takes longer because ranks wait for the slowest. The ranks
// that share a layer's matrices or tokens wait for each other in every layer.
double straggling_of(const KernelConstants& kernels, const JobSettings& settings) {
  const Degrees& d = settings.degrees;
  const int shards = settings.zero_stage == 3 ? d.shard : 1;
  const int of_experts = d.experts_over_tensor ? d.expert : d.tensor * d.expert;
  return straggling(kernels, d.ranks(),
                    std::max(d.tensor * std::max(shards, d.context), of_experts));
}

}  // namespace

Durations::Durations(const JobSettings& settings, const Mesh& mesh, const Topology& topology)
    : mesh_(mesh),
      topology_(topology),
      ports_(mesh, topology),
      cost_(topology.cluster(), settings.training),
      straggling_(straggling_of(topology.cluster().machine.gpu.kernels, settings)) {}

// Returns the time of an all-to-all of tokens that sends each token once to a host. All layers have
// the same number of experts, so the bytes are enough as a key.
SimTime Durations::deduplicated(const Instruction& instruction, const ExpertChoices& choices) {
  const Key key{deduplicated_kind, static_cast<int>(instruction.group), 0,
                sent_bytes(instruction, topology_.cluster().machine)};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const SimTime time = checked_sim_time(deduplicated_time(
      topology_, choices, {static_cast<double>(key.bytes)}, groups(instruction.group)));
  known_.emplace(key, time);
  return time;
}

SimTime Durations::collective(const Instruction& instruction) {
  if (const ExpertChoices choices = choices_of(instruction); choices.experts > 0)
    return deduplicated(instruction, choices);
  const CollectiveKind kind = instruction.flat ? collective_kind(instruction.kind).value()
                                               : CollectiveKind::two_level_all_gather;
  const Key key{static_cast<int>(kind), static_cast<int>(instruction.group), 0,
                sent_bytes(instruction, topology_.cluster().machine)};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const SimTime time = checked_sim_time(collective_time(
      topology_, kind, {static_cast<double>(key.bytes)}, groups(instruction.group)));
  known_.emplace(key, time);
  return time;
}

// Returns the time in which every member of every group sends to the next member, all at once.
SimTime Durations::ring_shift(const Instruction& instruction) {
  const Key key{ring_kind, static_cast<int>(instruction.group), 0,
                instruction.inputs[0].type.bytes()};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  std::vector<std::pair<int, int>> pairs;
  for (const auto& group : groups(instruction.group))
    for (std::size_t i = 0; i < group.size(); ++i)
      pairs.emplace_back(group[i], group[(i + 1) % group.size()]);
  const SimTime time =
      checked_sim_time(transfer_time(topology_, {static_cast<double>(key.bytes)}, pairs));
  known_.emplace(key, time);
  return time;
}

const Groups& Durations::groups(GroupKind kind) {
  auto found = groups_.find(kind);
  if (found == groups_.end()) found = groups_.emplace(kind, mesh_.groups(kind)).first;
  return found->second;
}

SimTime Durations::message(int from, int to, std::int64_t bytes) {
  const Key key{message_kind, from, to, bytes};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  std::vector<std::pair<int, int>> pairs;
  for (int rdp = 0; rdp < mesh_.degrees().rdp(); ++rdp)
    for (int tensor = 0; tensor < mesh_.degrees().tensor; ++tensor) {
      const int source = mesh_.rank({from, tensor, rdp}), target = mesh_.rank({to, tensor, rdp});
      if (source != target) pairs.emplace_back(source, target);
    }
  const SimTime time =
      checked_sim_time(transfer_time(topology_, {static_cast<double>(bytes)}, pairs));
  known_.emplace(key, time);
  return time;
}

SimTime Durations::of(const Instruction& instruction, const Script& script,
                      const Rendezvous* rendezvous) {
  if (rendezvous == nullptr)
    return checked_sim_time(cost_.time(instruction, script.program()) * straggling_);
  if (instruction.kind == InstructionKind::ring_shift) return ring_shift(instruction);
  if (!rendezvous->is_message()) return collective(instruction);
  const Operand& sent =
      instruction.kind == InstructionKind::send ? instruction.inputs[0] : instruction.outputs[0];
  return message(rendezvous->sender, rendezvous->receiver, sent.type.bytes());
}

StepTimes Durations::of_steps(const Script& script,
                              const std::vector<Rendezvous>& rendezvous_list) {
  StepTimes times;
  times.host_waits = cost_.host_launches();
  const int lanes = script.lanes();
  for (std::size_t body = 0; body < script.program().bodies.size(); ++body) {
    const auto& instructions = script.program().bodies[body].instructions;
    const int b = static_cast<int>(body);
    for (int i = script.first_step(b, 0); i < script.end_step(b, lanes - 1); ++i) {
      const Script::Step& step = script.steps()[i];
      const Instruction& instruction = instructions[step.instruction];
      times.lasts.push_back(of(instruction, script,
                               step.rendezvous < 0 ? nullptr : &rendezvous_list[step.rendezvous]));
      const bool launches = step.rendezvous < 0 && instruction.stream == Stream::compute;
      times.launch.push_back(
          launches ? checked_sim_time(cost_.launch_time(instruction, script.program())) : 0);
      times.kernels.push_back(launches ? cost_.launches(instruction, script.program()) : 0);
      times.message.push_back(step.rendezvous >= 0 &&
                              (rendezvous_list[step.rendezvous].is_message() ||
                               is_of_counts(instruction, topology_.cluster().machine)));
      times.loads.push_back(
          ports_.of(instruction, script.program().stage, to_seconds(times.lasts.back())));
    }
  }
  return times;
}

}  // namespace meshwright::sim
