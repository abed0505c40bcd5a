#include "models/program/timeline.h"
#include "models/core/json.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <map>
#include <set>

namespace meshwright::program {

namespace {

constexpr std::array<std::string_view, stream_count> stream_names = {
    "compute", "tensor_comm",  "shard_comm",  "pipe_send",      "pipe_recv",     "copy_out",
    "copy_in", "context_comm", "expert_comm", "pipe_send_back", "pipe_recv_back"};

constexpr std::array<std::string_view, 14> kind_names = {
    "compute",    "load_input",     "send",       "recv",          "all_reduce",
    "all_gather", "reduce_scatter", "all_to_all", "broadcast",     "reduce",
    "ring_shift", "copy_out",       "copy_in",    "optimizer_step"};

std::string quoted(const std::string& text) { return json(text).dump(); }

std::string_view phase_name(Phase phase) {
  return phase == Phase::forward ? "forward" : phase == Phase::recompute ? "recompute" : "backward";
}

}  // namespace

std::string_view name_of(Stream stream) { return stream_names[static_cast<std::size_t>(stream)]; }

namespace {

// Returns an operation's name. A fusion of different operations has the name `fused`. A fusion of
// one operation, such as a matmul in parts, has the name of this operation.
std::string operation_name(const Instruction& instruction) {
  if (instruction.kind != InstructionKind::compute)
    return std::string(kind_names[static_cast<std::size_t>(instruction.kind)]);
  if (instruction.op == Op::fused) {
    std::string name = program::name_of(*instruction.attributes.fusion);
    if (name.find(' ') == std::string::npos) return name;
  }
  return std::string(info(instruction.op).name);
}

}  // namespace

std::string instruction_name(const Instruction& instruction, const Program& program) {
  std::string name = operation_name(instruction);
  if (instruction.group != GroupKind::none)
    name += " " + std::string(program::name_of(instruction.group));
  if (instruction.peer >= 0)
    name += (instruction.kind == InstructionKind::send ? " to " : " from ") +
            std::to_string(peer_virtual_stage(program, instruction));
  if (instruction.module >= 0 && program.modules)
    name += " " + (*program.modules)[instruction.module];
  return name;
}

namespace {

// Rounds picoseconds to nanoseconds. Perfetto rounds the begin and the duration of a slice to
// nanoseconds, each by itself, and drops a slice that reaches into the next one by a nanosecond. So
// begins and ends are rounded here.
SimTime nanoseconds(SimTime time) { return (time + 500) / 1000; }

std::string at_time(SimTime time) {
  return fmt::format("\"ts\":{:.3f}", static_cast<double>(nanoseconds(time)) * 1e-3);
}

std::string from_to(SimTime begin, SimTime end) {
  const SimTime duration = nanoseconds(end) - nanoseconds(begin);
  return fmt::format("{},\"dur\":{:.3f}", at_time(begin), static_cast<double>(duration) * 1e-3);
}

// Returns the number of a rank's process. Processes count from 1, because Perfetto takes number 0
// for the kernel's idle task.
int process_of(int rank) { return rank + 1; }
// Returns the number of a thread. Lane 0 has the number of its process, because Perfetto takes the
// thread with that number for the main one and puts it first.
int thread_of(int process, int lane) { return process + lane; }

// Appends the name and the position of a process. Perfetto would put the busiest process first;
// here they are in the order of their numbers.
void append_process(int process, int rank, int stage, std::string_view what, std::string& text) {
  fmt::format_to(std::back_inserter(text),
                 "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"args\":{{\"name\":"
                 "\"rank {1} (stage {2}){3}\"}}}},\n"
                 "{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{0},\"args\":"
                 "{{\"sort_index\":{0}}}}}",
                 process, rank, stage, what);
}

void append_thread(int process, int lane, std::string_view name, std::string& text) {
  fmt::format_to(std::back_inserter(text),
                 ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{0},\"tid\":{1},\"args\":"
                 "{{\"name\":\"{2}\"}}}},\n"
                 "{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{0},\"tid\":{1},\"args\":"
                 "{{\"sort_index\":{3}}}}}",
                 process, thread_of(process, lane), name, lane);
}

// Appends a counter of the rate, in GB/s, at which one rank moves bytes over one kind of link, and
// slices for the times when the link is busy. The rate changes when a use begins or ends.
void append_link(int rank, int lane, std::string_view link, const std::vector<LinkUse>& uses,
                 std::string& text) {
  std::map<SimTime, std::pair<double, int>> changes;  // of the rate (bytes/s), of uses in flight
  for (const LinkUse& use : uses) {
    const double rate = use.bytes / to_seconds(use.end - use.begin).value;
    changes[use.begin].first += rate, ++changes[use.begin].second;
    changes[use.end].first -= rate, --changes[use.end].second;
  }
  append_thread(process_of(rank), lane, fmt::format("link {}", link), text);
  auto out = std::back_inserter(text);
  double rate = 0;
  int under_way = 0;
  SimTime busy_since = 0;
  for (const auto& [time, change] : changes) {
    if (under_way == 0) busy_since = time;
    under_way += change.second;
    rate = under_way == 0 ? 0 : rate + change.first;
    fmt::format_to(out,
                   ",\n{{\"ph\":\"C\",\"name\":\"{}\",\"pid\":{},{},\"args\":"
                   "{{\"GB/s\":{:.6g}}}}}",
                   link, process_of(rank), at_time(time), rate * 1e-9);
    if (under_way == 0 && nanoseconds(busy_since) < nanoseconds(time))
      fmt::format_to(
          out, ",\n{{\"ph\":\"X\",\"name\":\"busy\",\"cat\":\"link\",\"pid\":{},\"tid\":{},{}}}",
          process_of(rank), thread_of(process_of(rank), lane), from_to(busy_since, time));
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

// Appends the ranks of a timeline and the instructions that they ran. Rank r is process
// first_process + r.
void append_ranks(const Timeline& timeline, const std::vector<Program>& stages,
                  const std::vector<int>& stage_of_rank, int first_process, std::string_view what,
                  std::string& text) {
  auto out = std::back_inserter(text);
  std::set<int> ranks;
  for (const TimelineEntry& entry : timeline.entries) ranks.insert(entry.rank);
  for (int rank : ranks) {
    text += text.ends_with('[') ? "\n" : ",\n";
    append_process(first_process + rank, rank, stage_of_rank[rank], what, text);
    const bool turns = stages[stage_of_rank[rank]].layout.goes_back(1);
    for (int stream = 0; stream < stream_count; ++stream)
      if (turns || !is_back(static_cast<Stream>(stream)))
        append_thread(first_process + rank, stream, stream_names[stream], text);
  }
  for (const TimelineEntry& entry : timeline.entries) {
    // Instructions that take no time are left out, because Perfetto would draw them in a row below
    // an instruction that begins at the same time.
    if (nanoseconds(entry.begin) == nanoseconds(entry.end)) continue;
    const int process = first_process + entry.rank;
    const Program& program = stages[stage_of_rank[entry.rank]];
    const Task& task = program.tasks[entry.task];
    const Instruction& instruction = program.bodies[task.body].instructions[entry.instruction];
    fmt::format_to(out,
                   ",\n{{\"ph\":\"X\",\"name\":{},\"cat\":\"{}\",\"pid\":{},\"tid\":{},{},"
                   "\"args\":{{\"micro_batch_index\":{},\"task\":{},\"instruction\":{}}}}}",
                   quoted(instruction_name(instruction, program)), phase_name(instruction.phase),
                   process, thread_of(process, static_cast<int>(instruction.stream)),
                   from_to(entry.begin, entry.end), task.micro_batch_index, entry.task,
                   entry.instruction);
  }
}

}  // namespace

std::string to_chrome_trace(const Timeline& timeline, const std::vector<Program>& stages,
                            const std::vector<int>& stage_of_rank,
                            const std::vector<LinkUse>& links, const Timeline& predicted) {
  const bool both = !predicted.entries.empty();
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  append_ranks(timeline, stages, stage_of_rank, process_of(0), both ? ", measured" : "", text);
  append_ranks(predicted, stages, stage_of_rank, process_of(static_cast<int>(stage_of_rank.size())),
               ", predicted", text);
  append_links(links, text);
  return text + "\n]}\n";
}

}  // namespace meshwright::program
