#include "tools/report/step_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/core/names_in.h"
#include "sim/replay/memory_over_time.h"
#include "tools/report/timeline_view.h"

namespace meshwright::tools {

namespace {

struct Column {
  std::string name;
  std::vector<double> of_stage;  // seconds
};

// Returns a column for each part of a step's time, with its seconds on every stage. Parts that take
// no time on any stage are left out.
std::vector<Column> columns_of(const std::vector<StageBreakdown>& stages) {
  std::vector<Column> columns;
  const auto add = [&](const std::string& name, const auto& part) {
    Column column{name, {}};
    for (const StageBreakdown& stage : stages) column.of_stage.push_back(part(stage));
    if (std::ranges::any_of(column.of_stage, [](double s) { return s > 0; }))
      columns.push_back(std::move(column));
  };
  add("compute", [](const StageBreakdown& stage) { return stage.compute_s; });
  add("launch", [](const StageBreakdown& stage) { return stage.launch_s; });
  for (std::size_t group = 0; group < group_kind_count; ++group)
    add("exposed: " + std::string(exposed_name(group)),
        [&](const StageBreakdown& stage) { return stage.exposed_s[group]; });
  add("bubble", [](const StageBreakdown& stage) { return stage.bubble_s; });
  add("idle at the ends", [](const StageBreakdown& stage) { return stage.idle_s; });
  return columns;
}

void add_breakdown(HtmlPage& page, const std::vector<StageBreakdown>& stages, double step_s) {
  page.heading("Where the time goes");
  const std::vector<Column> columns = columns_of(stages);
  const std::vector<std::string> names = names_in(columns);
  std::vector<std::string> head{"stage"};
  head.insert(head.end(), names.begin(), names.end());
  Table table(head);
  std::vector<HtmlPage::Bar> bars;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    std::vector<std::string> row{std::to_string(s)};
    bars.push_back({"stage " + std::to_string(s), {}});
    for (const Column& column : columns) {
      row.push_back(fmt::format("{} ({})", show_seconds(column.of_stage[s]),
                                show_percent(column.of_stage[s] / step_s)));
      bars.back().parts.push_back(column.of_stage[s]);
    }
    table.add(std::move(row));
  }
  page.bars(fmt::format("Parts of {} on one rank of each stage", show_seconds(step_s)), names,
            bars);
  page.table(table);
}

// Adds the memory over time of the stage with the highest peak, from the timeline of one of its
// ranks.
void add_memory(HtmlPage& page, const Compiled& compiled, const Prediction& prediction,
                const Mesh& mesh, const Timeline& timeline) {
  const auto fullest = std::ranges::max_element(
      prediction.memory,
      [](const StageMemory& a, const StageMemory& b) { return a.peak_bytes < b.peak_bytes; });
  const Program& program = compiled.stages[fullest->stage];
  std::vector<TimelineEntry> own;
  for (const TimelineEntry& entry : timeline.entries)
    if (mesh.coordinates(entry.rank).pipeline == program.stage &&
        (own.empty() || own.front().rank == entry.rank))
      own.push_back(entry);
  const std::vector<MemoryPoint> points = memory_over_time(program, own);
  std::vector<std::string> names;
  std::vector<HtmlPage::AreaPoint> areas;
  for (int cls = 0; cls < memory_class_count; ++cls)
    names.emplace_back(name_of(static_cast<MemoryClass>(cls)));
  for (const MemoryPoint& point : points) {
    areas.push_back({to_seconds(point.time).value * 1e3, {}});
    for (const std::int64_t bytes : point.bytes)
      areas.back().parts.push_back(static_cast<double>(bytes) / (1 << 30));
  }
  page.heading(fmt::format("Memory over the step, stage {}", program.stage));
  page.areas(
      fmt::format("what is live, by class; the arena has {}, the gaps between buffers included",
                  show_bytes(static_cast<double>(program.memory.arena_bytes))),
      {"milliseconds of the step", "GiB"}, names, areas, prediction.step_time_s * 1e3);
}

}  // namespace

void add_step(HtmlPage& page, const Compiled& compiled, const Prediction& prediction,
              const std::vector<StageBreakdown>& stages, const Timeline& timeline) {
  const Mesh mesh = compiled.stages.front().settings->mesh();
  add_breakdown(page, stages, prediction.step_time_s);
  page.heading("Timeline");
  page.element(timeline_view(timeline, compiled.stages));
  add_memory(page, compiled, prediction, mesh, timeline);
}

}  // namespace meshwright::tools
