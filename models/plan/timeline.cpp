#include "models/plan/timeline.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <map>
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

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string_view phase_name(Phase phase) {
  return phase == Phase::forward ? "forward" : phase == Phase::recompute ? "recompute" : "backward";
}

}  // namespace

std::string_view name_of(Stream stream) { return stream_names[static_cast<std::size_t>(stream)]; }

std::string instruction_name(const Instruction& instruction, const Program& program) {
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

namespace {

double microseconds(SimTime time) { return static_cast<double>(time) * 1e-6; }

// What one rank moves over one kind of link: its rate changes where a use begins or ends.
void append_link(int rank, int thread, std::string_view link, const std::vector<LinkUse>& uses,
                 std::string& text) {
  std::map<SimTime, std::pair<double, int>> changes;  // of bytes per second, of uses under way
  for (const LinkUse& use : uses) {
    const double rate = use.bytes / to_seconds(use.end - use.begin).value;
    changes[use.begin].first += rate, ++changes[use.begin].second;
    changes[use.end].first -= rate, --changes[use.end].second;
  }
  auto out = std::back_inserter(text);
  fmt::format_to(out,
                 ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":"
                 "{{\"name\":\"link {}\"}}}}",
                 rank, thread, link);
  double rate = 0;
  int under_way = 0;
  SimTime busy_since = 0;
  for (const auto& [time, change] : changes) {
    if (under_way == 0) busy_since = time;
    under_way += change.second;
    rate = under_way == 0 ? 0 : rate + change.first;
    fmt::format_to(out,
                   ",\n{{\"ph\":\"C\",\"name\":\"{} GB/s\",\"pid\":{},\"ts\":{:.6f},\"args\":"
                   "{{\"GB/s\":{:.6g}}}}}",
                   link, rank, microseconds(time), rate * 1e-9);
    if (under_way == 0)
      fmt::format_to(out,
                     ",\n{{\"ph\":\"X\",\"name\":\"busy\",\"cat\":\"link\",\"pid\":{},\"tid\":{},"
                     "\"ts\":{:.6f},\"dur\":{:.6f}}}",
                     rank, thread, microseconds(busy_since), microseconds(time - busy_since));
  }
}

void append_links(const std::vector<LinkUse>& links, std::string& text) {
  std::map<std::string_view, int> threads;
  std::map<std::pair<int, std::string_view>, std::vector<LinkUse>> lanes;
  for (const LinkUse& use : links) {
    if (use.end <= use.begin) continue;
    threads.emplace(use.link, stream_count + static_cast<int>(threads.size()));
    lanes[{use.rank, use.link}].push_back(use);
  }
  for (const auto& [lane, uses] : lanes)
    append_link(lane.first, threads.at(lane.second), lane.second, uses, text);
}

}  // namespace

std::string to_chrome_trace(const Timeline& timeline, const std::vector<Program>& stages,
                            const std::vector<int>& stage_of_rank,
                            const std::vector<LinkUse>& links) {
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
                   comma, quoted(instruction_name(instruction, program)),
                   phase_name(instruction.phase), entry.rank, static_cast<int>(instruction.stream),
                   static_cast<double>(entry.begin) * 1e-6,
                   static_cast<double>(entry.end - entry.begin) * 1e-6, task.micro_batch,
                   entry.task, entry.instruction);
    comma = ",";
  }
  append_links(links, text);
  return text + "\n]}\n";
}

}  // namespace meshwright
