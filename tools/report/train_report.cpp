#include "tools/report/train_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "models/program/mesh.h"
#include "sim/predict/timeline_parts.h"
#include "tools/report/html.h"
#include "tools/session/median.h"
#include "tools/session/text.h"

namespace meshwright::tools {

namespace {

StepValues in_milliseconds(const StepValues& seconds) {
  StepValues values = seconds;
  values.scale(1e3);
  return values;
}

// Has the parts of the last step on one rank of a stage, as the engine measured them and as they
// were predicted.
struct StageParts {
  int stage = 0;
  StepParts measured, predicted;
};

std::vector<StageParts> parts_of_stages(const TrainReport& report) {
  const std::vector<Program>& stages = report.chosen.compiled.stages;
  const Mesh mesh = stages.front().settings->mesh();
  std::vector<StageParts> all;
  for (const Program& program : stages) {
    const auto of_first_rank = [&](const Timeline& timeline) {
      for (const TimelineEntry& entry : timeline.entries)
        if (mesh.coordinates(entry.rank).pipeline == program.stage)
          return timeline_parts(program, report.chosen.cluster, timeline, entry.rank);
      return StepParts();
    };
    all.push_back({program.stage, of_first_rank(report.outcome.last_step),
                   of_first_rank(report.outcome.predicted)});
  }
  return all;
}

double seconds_of(const StepParts& parts, std::size_t part) {
  return part < parts.parts.size() ? to_seconds(parts.parts[part].time).value : 0;
}

// Adds the parts of the last step's time, stage by stage: bars of the measured and of the predicted
// step, and their numbers. Parts that take no time on any stage are left out. Adds nothing if the
// step was not traced.
void add_time(HtmlPage& page, const TrainReport& report) {
  if (report.outcome.last_step.entries.empty()) return;
  const std::vector<StageParts> stages = parts_of_stages(report);
  std::vector<std::size_t> shown;
  for (std::size_t part = 0; part < stages.front().measured.parts.size(); ++part)
    if (std::ranges::any_of(stages, [&](const StageParts& stage) {
          return seconds_of(stage.measured, part) > 0 || seconds_of(stage.predicted, part) > 0;
        }))
      shown.push_back(part);
  std::vector<std::string> names, head = {"part"};
  for (const std::size_t part : shown) names.push_back(stages.front().measured.parts[part].cause);
  std::vector<HtmlPage::Bar> bars;
  for (const StageParts& stage : stages) {
    const std::string of_stage = stages.size() > 1 ? fmt::format("stage {}, ", stage.stage) : "";
    for (const auto& [what, parts] :
         {std::pair{"measured", &stage.measured}, std::pair{"predicted", &stage.predicted}}) {
      if (parts->parts.empty()) continue;
      bars.push_back({of_stage + what, {}});
      for (const std::size_t part : shown) bars.back().parts.push_back(seconds_of(*parts, part));
      head.push_back(of_stage + what);
    }
  }
  Table table(head);
  for (std::size_t row = 0; row < shown.size(); ++row) {
    std::vector<std::string> cells = {names[row]};
    for (const HtmlPage::Bar& bar : bars) {
      const double whole = std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0);
      cells.push_back(fmt::format("{} ({})", show_seconds(bar.parts[row]),
                                  show_percent(whole > 0 ? bar.parts[row] / whole : 0)));
    }
    table.add(std::move(cells));
  }
  page.heading("What the time of a step went to");
  page.bars("parts of the last step on one rank of each stage; the longest bar is the longest step",
            names, bars);
  page.table(table);
  if (report.chosen.cluster.machine.gpu.kind == DeviceKind::gpu)
    page.paragraph(
        "In a step that is measured so, a GPU's kernels are launched one by one, which "
        "may take longer than in the others.");
}

std::vector<HtmlPage::Fact> facts_of(const TrainReport& report) {
  const Training& training = report.chosen.compiled.plan.training;
  const Outcome& outcome = report.outcome;
  const auto tokens = static_cast<double>(training.global_batch * training.sequence_length);
  std::vector<HtmlPage::Fact> facts = {
      {"steps", std::to_string(outcome.steps)},
      {"tokens", show_count(static_cast<double>(outcome.steps) * tokens)},
      {"final loss", fmt::format("{:.5f}", outcome.last.loss)}};
  if (outcome.evaluation)
    facts.push_back({"evaluation loss", fmt::format("{:.5f}", *outcome.evaluation)});
  const double seconds = median(outcome.seconds.values());
  if (seconds > 0) {
    facts.push_back({"step time", show_seconds(seconds) + " (median)"});
    facts.push_back({"tokens/s", show_number(tokens / seconds, 0)});
  }
  return facts;
}

}  // namespace

std::string train_page(const TrainReport& report) {
  const Outcome& outcome = report.outcome;
  HtmlPage page(report.job.name + ": training");
  page.paragraph(report.ending);
  page.facts(facts_of(report));
  page.heading("Loss");
  page.curve("training loss, the mean of each step's batch", "loss", outcome.losses);
  if (!outcome.evaluations.empty())
    page.curve("evaluation loss, on data.evaluation", "loss", outcome.evaluations);
  add_time(page, report);
  page.heading("Predicted and measured");
  page.table(report.compared);
  if (!outcome.kinds.empty()) page.table(report.kinds);
  page.curve("time of each step", "milliseconds", in_milliseconds(outcome.seconds));
  add_prediction(page, report.job.model, report.chosen.compiled, report.chosen.cluster,
                 report.prediction);
  return page.text();
}

}  // namespace meshwright::tools
