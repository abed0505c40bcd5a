// Tests what a page's timeline draws and the times by kind of instruction, with a timeline whose
// spans are all known.
#include "tools/report/timeline_view.h"

#include <map>
#include <nlohmann/json.hpp>

#include "models/program/timeline.h"
#include "tests/catch.h"
#include "tests/models/plans.h"
#include "tools/session/kind_times.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

// Holds a timeline of two stages of two ranks. Every instruction of a rank lasts 1 us and begins 2
// us after the one before.
struct Scene {
  std::vector<Program> stages;
  std::vector<int> stage_of;
  Timeline timeline;

  Scene() {
    const Model model = small_model("gpt");
    stages = lower_small(model, small_plan(model, {.pipeline = 2, .data = 2}));
    stage_of = stages_of_ranks(stages);
    for (int rank = 0; rank < 4; ++rank) {
      SimTime now = 0;
      const Program& program = stages[static_cast<std::size_t>(stage_of[rank])];
      for (std::size_t task = 0; task < program.tasks.size(); ++task) {
        const auto body = static_cast<std::size_t>(program.tasks[task].body);
        for (std::size_t i = 0; i < program.bodies[body].instructions.size(); ++i) {
          timeline.entries.push_back(
              {rank, static_cast<int>(task), static_cast<int>(i), now, now + 1'000'000});
          now += 2'000'000;
        }
      }
    }
  }

  const Program& program_of(const TimelineEntry& entry) const {
    return stages[static_cast<std::size_t>(stage_of[static_cast<std::size_t>(entry.rank)])];
  }
  const Task& task_of(const TimelineEntry& entry) const {
    return program_of(entry).tasks[static_cast<std::size_t>(entry.task)];
  }
  const Body& body_of(const TimelineEntry& entry) const {
    return program_of(entry).bodies[static_cast<std::size_t>(task_of(entry).body)];
  }
  const Instruction& instruction_of(const TimelineEntry& entry) const {
    return body_of(entry).instructions[static_cast<std::size_t>(entry.instruction)];
  }
};

std::string label_of(int rank, Stream stream) {
  return "rank " + std::to_string(rank) + "  " + std::string(name_of(stream));
}

// Returns what the colour of an instruction means, in the words of the page.
std::string sort_of(const Instruction& instruction, Body::Kind body) {
  switch (instruction.stream) {
    case Stream::compute:
      if (body == Body::Kind::step_begin || body == Body::Kind::step_end) return "step";
      return instruction.phase == Phase::forward     ? "forward"
             : instruction.phase == Phase::recompute ? "recompute"
                                                     : "backward";
    case Stream::tensor_comm:
      return "tensor group";
    case Stream::shard_comm:
      return "data and shards";
    case Stream::pipe_send:
    case Stream::pipe_recv:
    case Stream::pipe_send_back:
    case Stream::pipe_recv_back:
      return "pipeline";
    case Stream::copy_out:
    case Stream::copy_in:
      return "host copies";
    default:
      return "context and experts";
  }
}

}  // namespace

TEST_CASE("every instruction is a span of its rank's and stream's lane", "[tools][report]") {
  const Scene scene;
  const json data = json::parse(timeline_data(scene.timeline, scene.stages));
  std::map<std::string, std::size_t> next;
  std::map<std::string, json> lanes;
  for (const json& lane : data["lanes"]) lanes[lane["label"]] = lane["spans"];
  SimTime last = 0;
  for (const TimelineEntry& entry : scene.timeline.entries) {
    const Instruction& instruction = scene.instruction_of(entry);
    const std::string label = label_of(entry.rank, instruction.stream);
    CAPTURE(label);
    REQUIRE(lanes.contains(label));
    const json& span = lanes[label].at(next[label]++);
    CHECK(span[0].get<double>() == Approx(static_cast<double>(entry.begin) * 1e-6));
    CHECK(span[1].get<double>() == Approx(1));
    CHECK(data["words"][span[2].get<std::size_t>()] ==
          instruction_name(instruction, scene.program_of(entry)));
    CHECK(data["sorts"][span[3].get<std::size_t>()][0] ==
          sort_of(instruction, scene.body_of(entry).kind));
    CHECK(span[4] == scene.task_of(entry).micro_batch_index);
    last = std::max(last, entry.end);
  }
  CHECK(data["step_us"].get<double>() == Approx(static_cast<double>(last) * 1e-6));
  CHECK(lanes.size() == next.size());
  for (const auto& [label, count] : next) CHECK(lanes[label].size() == count);
}

TEST_CASE("in a long timeline each span is a whole task on a stream", "[tools][report]") {
  const Scene scene;
  const std::size_t entries = scene.timeline.entries.size();
  CHECK(timeline_data(scene.timeline, scene.stages, entries) ==
        timeline_data(scene.timeline, scene.stages));  // as many as may be
  const json data = json::parse(timeline_data(scene.timeline, scene.stages, entries - 1));
  // A span goes from the first to the last instruction of a task on a stream.
  struct Span {
    int task = -1;
    SimTime begin = 0, end = 0;
    Body::Kind kind = Body::Kind::load;
  };
  std::map<std::string, std::vector<Span>> expected;
  for (const TimelineEntry& entry : scene.timeline.entries) {
    auto& spans = expected[label_of(entry.rank, scene.instruction_of(entry).stream)];
    if (spans.empty() || spans.back().task != entry.task)
      spans.push_back({entry.task, entry.begin, 0, scene.body_of(entry).kind});
    spans.back().end = entry.end;
  }
  const std::map<Body::Kind, std::string> names = {{Body::Kind::forward, "forward"},
                                                   {Body::Kind::backward, "backward"},
                                                   {Body::Kind::step_begin, "step begins"},
                                                   {Body::Kind::step_end, "step ends"}};
  REQUIRE(data["lanes"].size() == expected.size());
  for (const json& lane : data["lanes"]) {
    const std::vector<Span>& spans = expected.at(lane["label"]);
    CAPTURE(lane["label"]);
    REQUIRE(lane["spans"].size() == spans.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const json& span = lane["spans"][i];
      CHECK(span[0].get<double>() == Approx(static_cast<double>(spans[i].begin) * 1e-6));
      CHECK(span[1].get<double>() ==
            Approx(static_cast<double>(spans[i].end - spans[i].begin) * 1e-6));
      CHECK(data["words"][span[2].get<std::size_t>()] == names.at(spans[i].kind));
    }
  }
}

TEST_CASE("times by kind are means over the ranks of each stage, and over the stages",
          "[tools][report]") {
  const Scene scene;
  const Mesh mesh = scene.stages.front().settings->mesh();
  // The predicted timeline has only the first rank of each stage, and each instruction takes three
  // times as long.
  Timeline predicted;
  for (TimelineEntry entry : scene.timeline.entries) {
    const auto first = std::ranges::find(scene.stage_of, scene.stage_of[entry.rank]);
    if (first - scene.stage_of.begin() != entry.rank) continue;
    entry.end = entry.begin + 3'000'000;
    predicted.entries.push_back(entry);
  }
  // These are the numbers of instructions by kind, summed over the two stages. The mean over the
  // stages is half of them.
  std::map<std::string, double> counts;
  for (const TimelineEntry& entry : predicted.entries) {
    Instruction instruction = scene.instruction_of(entry);
    instruction.module = -1;
    const bool sends = instruction.kind == InstructionKind::send;
    const bool receives = instruction.kind == InstructionKind::recv;
    counts[sends      ? "send"
           : receives ? "recv"
                      : instruction_name(instruction, scene.program_of(entry))] += 1;
  }
  const std::vector<KindTime> kinds = kind_times(predicted, scene.timeline, scene.stages, mesh);
  REQUIRE(kinds.size() == counts.size());
  CHECK(counts.at("send") > 0);
  double before = std::numeric_limits<double>::infinity();
  for (const KindTime& kind : kinds) {
    CAPTURE(kind.kind);
    CHECK(kind.predicted_s == Approx(counts.at(kind.kind) / 2 * 3e-6));
    CHECK(kind.measured_s == Approx(counts.at(kind.kind) / 2 * 1e-6));
    CHECK(kind.measured_s <= before * (1 + 1e-9));
    before = kind.measured_s;
  }
}
