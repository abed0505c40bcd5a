// Tests the parts of a step that follow from its timeline: by hand, against the replay's own
// account, and after the timeline was written to a trace and read again.
#include "sim/predict/timeline_parts.h"

#include <fstream>
#include <map>

#include "models/program/mesh.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/sim/parts.h"
#include "tests/sim/plans.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

// Returns a program of one task: compute, communication of tensor ranks, compute, communication of
// data ranks, and a message.
Program by_hand() {
  Program program;
  Body body;
  body.kind = Body::Kind::step_end;  // whose compute is the optimizer's
  const auto add = [&](InstructionKind kind, Stream stream, GroupKind group) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.stream = stream;
    instruction.group = group;
    body.instructions.push_back(instruction);
  };
  add(InstructionKind::optimizer_step, Stream::compute, GroupKind::none);
  add(InstructionKind::all_reduce, Stream::tensor_comm, GroupKind::tensor);
  add(InstructionKind::optimizer_step, Stream::compute, GroupKind::none);
  add(InstructionKind::all_reduce, Stream::shard_comm, GroupKind::rdp);
  add(InstructionKind::recv, Stream::pipe_recv, GroupKind::none);
  program.bodies.push_back(body);
  program.tasks.push_back({});
  return program;
}

std::vector<int> stages_of(const Mesh& mesh) {
  std::vector<int> stages;
  for (int rank = 0; rank < mesh.ranks(); ++rank) stages.push_back(mesh.coordinates(rank).pipeline);
  return stages;
}

}  // namespace

TEST_CASE("time without compute is attributed to the communication that began first", "[explain]") {
  const Program program = by_hand();
  const Cluster cluster = machine_cases().front().cluster();
  Timeline timeline;
  timeline.entries = {{0, 0, 0, 100, 110}, {0, 0, 1, 108, 120}, {0, 0, 2, 125, 130},
                      {0, 0, 3, 118, 122}, {0, 0, 4, 129, 150}, {1, 0, 0, 0, 1000}};
  const StepParts parts = timeline_parts(program, cluster, timeline, 0);
  CHECK(parts.step_time == 50);
  CHECK(sum_of(parts) == 50);
  CHECK(part(parts, "optimizer") == 15);
  CHECK(part(parts, "exposed tensor communication") == 10);    // 110 to 120
  CHECK(part(parts, "exposed all-reduce of gradients") == 2);  // 120 to 122
  CHECK(part(parts, "idle") == 3);                             // 122 to 125
  CHECK(part(parts, "waiting for other stages") == 20);        // 130 to 150
  CHECK(timeline_parts(program, cluster, timeline, 1).step_time == 1000);
  CHECK(timeline_parts(program, cluster, timeline, 2).step_time == 0);
}

TEST_CASE("a predicted timeline has the parts of the replay's account", "[explain]") {
  for (const MachineCase& machine : machine_cases()) {
    const Cluster cluster = machine.cluster();
    for (const PlanCase& each : plans_for(cluster.ranks())) {
      INFO(machine.name << " x" << machine.hosts << " " << each.name);
      const Compiled compiled = compiled_for(small_model(), each.plan, cluster);
      Timeline timeline;
      const Prediction prediction = predict(compiled, cluster, {.timeline = &timeline});
      const StepParts account = step_parts(compiled, cluster, prediction, timeline);
      const Program& program = compiled.stages[static_cast<std::size_t>(account.stage)];
      const std::vector<int> stages = stages_of(program.settings->mesh());
      const auto rank = static_cast<int>(std::ranges::find(stages, account.stage) - stages.begin());
      const StepParts parts = timeline_parts(program, cluster, timeline, rank);
      CHECK(sum_of(parts) == parts.step_time);
      CHECK(parts.step_time <= prediction.step_time);
      // Ranks of a stage may differ in times, but all of them have the same kinds of work.
      for (const char* work : {"matrix products", "attention", "other kernels", "recomputation"})
        CHECK((part(parts, work) > 0) == (part(account, work) > 0));
      if (each.plan.parallelism.pipeline == 1) CHECK(part(parts, "waiting for other stages") == 0);
    }
  }
}

TEST_CASE("a trace that was written is read again: the last step, as it was measured",
          "[explain]") {
  const MachineCase machine = machine_cases().front();
  const Cluster cluster = machine.cluster();
  const PlanCase each = plans_for(cluster.ranks()).back();
  const Compiled compiled = compiled_for(small_model(), each.plan, cluster);
  Timeline timeline;
  predict(compiled, cluster, {.timeline = &timeline});
  const Mesh mesh = compiled.stages.front().settings->mesh();
  const std::vector<int> stages = stages_of(mesh);
  Timeline two_steps = timeline;
  constexpr SimTime later = 1'000'000'000'000;
  for (TimelineEntry entry : timeline.entries) {
    entry.begin += later, entry.end += later;
    two_steps.entries.push_back(entry);
  }
  const TestFolder folder;
  const std::string path = folder.file("trace.json");
  std::ofstream(path) << to_chrome_trace(two_steps, compiled.stages, stages, {}, timeline);
  const Timeline read = read_chrome_trace(path, compiled.stages, stages);
  std::map<std::tuple<int, int, int>, TimelineEntry> found;
  for (const TimelineEntry& entry : read.entries)
    found[{entry.rank, entry.task, entry.instruction}] = entry;
  CHECK(found.size() == read.entries.size());
  int compared = 0;
  for (const TimelineEntry& entry : timeline.entries) {
    const auto it = found.find({entry.rank, entry.task, entry.instruction});
    if (it == found.end()) {
      CHECK(entry.end - entry.begin <= 1000);  // shorter than a nanosecond: not in the trace
      continue;
    }
    ++compared;
    CHECK(std::abs(it->second.begin - entry.begin - later) <= 1000);
    CHECK(std::abs(it->second.end - entry.end - later) <= 1000);
  }
  CHECK(compared > 100);
}

TEST_CASE("a trace of another plan is refused by the instruction that it has not", "[explain]") {
  const MachineCase machine = machine_cases().front();
  const Cluster cluster = machine.cluster();
  const std::vector<PlanCase> plans = plans_for(cluster.ranks());
  const Compiled one = compiled_for(small_model(), plans.front().plan, cluster),
                 other = compiled_for(small_model(), plans.back().plan, cluster);
  Timeline timeline;
  predict(one, cluster, {.timeline = &timeline});
  const TestFolder folder;
  const std::string path = folder.file("trace.json");
  const auto mesh = [](const Compiled& of) { return of.stages.front().settings->mesh(); };
  std::ofstream(path) << to_chrome_trace(timeline, one.stages, stages_of(mesh(one)));
  const std::string message =
      message_of([&] { read_chrome_trace(path, other.stages, stages_of(mesh(other))); });
  CHECK(message.find("is not in this job's plan") != std::string::npos);
  std::ofstream(path) << "[]";
  CHECK(message_of([&] {
          read_chrome_trace(path, one.stages, stages_of(mesh(one)));
        }).find("is no trace") != std::string::npos);
}
