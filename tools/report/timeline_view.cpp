#include "tools/report/timeline_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "models/core/json.h"
#include "models/core/quote.h"
#include "tools/report/assets.h"

namespace meshwright::tools {

namespace {

// Names a sort of work and the colour of its spans.
struct Sort {
  const char* name;
  const char* colour;
};
constexpr std::array<Sort, 9> sorts = {{{"forward", "#4c78a8"},
                                        {"recompute", "#b279a2"},
                                        {"backward", "#f58518"},
                                        {"step", "#9d755d"},
                                        {"tensor group", "#54a24b"},
                                        {"data and shards", "#e45756"},
                                        {"pipeline", "#eeca3b"},
                                        {"host copies", "#bab0ac"},
                                        {"context and experts", "#72b7b2"}}};

int sort_of(const Instruction& instruction, Body::Kind body) {
  switch (instruction.stream) {
    case Stream::compute:
      if (body == Body::Kind::step_begin || body == Body::Kind::step_end) return 3;
      return instruction.phase == Phase::forward     ? 0
             : instruction.phase == Phase::recompute ? 1
                                                     : 2;
    case Stream::tensor_comm:
      return 4;
    case Stream::shard_comm:
      return 5;
    case Stream::pipe_send:
    case Stream::pipe_recv:
    case Stream::pipe_send_back:
    case Stream::pipe_recv_back:
      return 6;
    case Stream::copy_out:
    case Stream::copy_in:
      return 7;
    default:
      return 8;
  }
}

const char* name_of(Body::Kind kind) {
  switch (kind) {
    case Body::Kind::forward:
      return "forward";
    case Body::Kind::backward:
      return "backward";
    case Body::Kind::weights:
      return "weight gradients";
    case Body::Kind::step_begin:
      return "step begins";
    case Body::Kind::step_end:
      return "step ends";
    case Body::Kind::load:
      return "load";
  }
  return "";
}

}  // namespace

std::vector<int> stages_of_ranks(const std::vector<Program>& stages) {
  const Mesh mesh = stages.front().settings->mesh();
  std::vector<int> stage_of_rank;
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    stage_of_rank.push_back(mesh.coordinates(rank).pipeline);
  return stage_of_rank;
}

std::string timeline_data(const Timeline& timeline, const std::vector<Program>& stages,
                          std::size_t most_spans) {
  const std::vector<int> stage_of_rank = stages_of_ranks(stages);
  const bool by_task = timeline.entries.size() > most_spans;
  std::vector<TimelineEntry> entries = timeline.entries;
  std::ranges::sort(entries, [](const TimelineEntry& a, const TimelineEntry& b) {
    return std::tie(a.rank, a.begin, a.end) < std::tie(b.rank, b.begin, b.end);
  });
  NumberedWords words;
  std::map<std::pair<int, int>, json> lanes;             // by rank and stream
  std::map<std::pair<int, int>, int> task_of_last_span;  // by rank and stream
  SimTime step = 0;
  for (const TimelineEntry& entry : entries) {
    step = std::max(step, entry.end);
    const Program& program = stages[stage_of_rank[entry.rank]];
    const Task& task = program.tasks[entry.task];
    const Body& body = program.bodies[task.body];
    const Instruction& instruction = body.instructions[entry.instruction];
    const std::pair<int, int> lane{entry.rank, static_cast<int>(instruction.stream)};
    json& spans = lanes.emplace(lane, json::array()).first->second;
    const double begin = static_cast<double>(entry.begin) * 1e-6;
    const double length = static_cast<double>(entry.end - entry.begin) * 1e-6;
    const auto last_task = task_of_last_span.find(lane);
    if (by_task && last_task != task_of_last_span.end() && last_task->second == entry.task) {
      json& span = spans.back();
      span[1] = begin + length - span[0].get<double>();
      continue;
    }
    task_of_last_span[lane] = entry.task;
    const std::string name = by_task ? name_of(body.kind) : instruction_name(instruction, program);
    spans.push_back({begin, length, words.number_of(name), sort_of(instruction, body.kind),
                     task.micro_batch_index});
  }
  json data = {{"step_us", static_cast<double>(step) * 1e-6}, {"words", words.all()}};
  for (const Sort& sort : sorts) data["sorts"].push_back({sort.name, sort.colour});
  data["lanes"] = json::array();
  for (auto& [lane, spans] : lanes)
    data["lanes"].push_back({{"label", "rank " + std::to_string(lane.first) + "  " +
                                           std::string(name_of(static_cast<Stream>(lane.second)))},
                             {"spans", std::move(spans)}});
  return data.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string timeline_view(const Timeline& timeline, const std::vector<Program>& stages) {
  return timeline_element(timeline_data(timeline, stages));
}

std::string timeline_element(const std::string& data) {
  return fmt::format(
      "<figure id=\"timeline\"></figure>\n"
      "<script type=\"application/json\" id=\"timeline-data\">{}</script>\n"
      "<script type=\"module\">\n{}"
      "timeline(document.getElementById('timeline'),\n"
      "         JSON.parse(document.getElementById('timeline-data').textContent));\n"
      "</script>\n",
      json_in_html(data), *asset("timeline.js"));
}

}  // namespace meshwright::tools
