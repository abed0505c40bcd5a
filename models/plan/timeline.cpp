#include "models/plan/timeline.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

namespace meshwright {

namespace {

constexpr std::array<std::string_view, stream_count> stream_names = {
    "compute",  "tensor_comm", "shard_comm",   "pipe_send",  "pipe_recv",
    "copy_out", "copy_in",     "context_comm", "expert_comm"};

constexpr std::array<std::string_view, 14> kind_names = {
    "compute",    "load_input",     "send",       "recv",          "all_reduce",
    "all_gather", "reduce_scatter", "all_to_all", "broadcast",     "reduce",
    "ring_shift", "copy_out",       "copy_in",    "optimizer_step"};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// `linear transformer.h.3.mlp.c_fc`, `all_reduce tensor`, `send to 2`.
std::string name_of(const Instruction& instruction, const Program& program) {
  std::string name(instruction.kind == InstructionKind::compute
                       ? info(instruction.op).name
                       : kind_names[static_cast<std::size_t>(instruction.kind)]);
  if (instruction.group != GroupKind::none)
    name += " " + std::string(meshwright::name_of(instruction.group));
  if (instruction.kind == InstructionKind::send) name += " to " + std::to_string(instruction.peer);
  if (instruction.kind == InstructionKind::recv)
    name += " from " + std::to_string(instruction.peer);
  if (instruction.module >= 0 && program.modules)
    name += " " + (*program.modules)[at(instruction.module)];
  return name;
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string_view phase_name(Phase phase) {
  return phase == Phase::forward ? "forward" : phase == Phase::recompute ? "recompute" : "backward";
}

}  // namespace

std::string to_chrome_trace(const Timeline& timeline, const std::vector<Program>& stages,
                            const std::vector<int>& stage_of_rank) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  auto out = std::back_inserter(text);
  std::set<int> ranks;
  for (const TimelineEntry& entry : timeline.entries) ranks.insert(entry.rank);
  const char* comma = "";
  for (int rank : ranks) {
    fmt::format_to(out,
                   "{}\n{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":"
                   "\"rank {} (stage {})\"}}}}",
                   comma, rank, rank, stage_of_rank[at(rank)]);
    comma = ",";
    for (int stream = 0; stream < stream_count; ++stream)
      fmt::format_to(out,
                     ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},"
                     "\"args\":{{\"name\":\"{}\"}}}}",
                     rank, stream, stream_names[at(stream)]);
  }
  for (const TimelineEntry& entry : timeline.entries) {
    const Program& program = stages[at(stage_of_rank[at(entry.rank)])];
    const Task& task = program.tasks[at(entry.task)];
    const Instruction& instruction =
        program.bodies[at(task.body)].instructions[at(entry.instruction)];
    // Trace times are microseconds; six decimals keep picoseconds.
    fmt::format_to(out,
                   "{}\n{{\"ph\":\"X\",\"name\":{},\"cat\":\"{}\",\"pid\":{},\"tid\":{},"
                   "\"ts\":{:.6f},\"dur\":{:.6f},\"args\":{{\"micro_batch\":{},\"task\":{},"
                   "\"instruction\":{}}}}}",
                   comma, quoted(name_of(instruction, program)), phase_name(instruction.phase),
                   entry.rank, static_cast<int>(instruction.stream),
                   static_cast<double>(entry.begin) * 1e-6,
                   static_cast<double>(entry.end - entry.begin) * 1e-6, task.micro_batch,
                   entry.task, entry.instruction);
    comma = ",";
  }
  return text + "\n]}\n";
}

}  // namespace meshwright
