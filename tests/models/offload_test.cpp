// Offloaded activations: fewer copies on the device, the rest in host memory, and every access to
// either in an order that streams and waits enforce.
#include <algorithm>
#include <map>
#include <string>

#include "models/lower/lower.h"
#include "models/plan/walk.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright;

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// What every run comes after, by stream order and waits alone: of each stream the number of its
// runs that must have ended.
class Order {
 public:
  explicit Order(const Program& program) : resolve_(program) {
    std::array<int, stream_count> runs{};
    std::array<std::array<int, stream_count>, stream_count> latest{};
    for (int task = 0; task < static_cast<int>(program.tasks.size()); ++task) {
      const Body& body = program.bodies[at(program.tasks[at(task)].body)];
      for (int i = 0; i < static_cast<int>(body.instructions.size()); ++i) {
        const Instruction& instruction = body.instructions[at(i)];
        if (!meshwright::runs(instruction, program.tasks[at(task)])) continue;
        const auto stream = static_cast<std::size_t>(instruction.stream);
        std::array<int, stream_count> after = latest[stream];
        for (const Wait& wait : instruction.waits)
          if (const RunId id = resolve_(task, wait); id.task >= 0) {
            const Run& other = known_.at({id.task, id.instruction});
            for (std::size_t s = 0; s < stream_count; ++s)
              after[s] = std::max(after[s], other.after[s]);
            after[other.stream] = std::max(after[other.stream], other.number);
          }
        const int number = ++runs[stream];
        known_[{task, i}] = {stream, number, after};
        after[stream] = number;
        latest[stream] = after;
      }
    }
  }
  // Whether the earlier run has ended when the later one begins.
  bool before(RunId earlier, RunId later) const {
    const Run &a = known_.at({earlier.task, earlier.instruction}),
              &b = known_.at({later.task, later.instruction});
    return a.stream == b.stream || b.after[a.stream] >= a.number;
  }

 private:
  struct Run {
    std::size_t stream = 0;
    int number = 0;
    std::array<int, stream_count> after{};
  };
  WaitResolver resolve_;
  std::map<std::pair<int, int>, Run> known_;
};

struct Access {
  RunId run;
  bool write = false, host = false;
  std::int64_t begin = 0, end = 0;
};

std::vector<Access> accesses(const Program& program, int parts) {
  std::vector<Access> found;
  const MemoryPlan& memory = program.memory;
  for (int t = 0; t < static_cast<int>(program.tasks.size()); ++t) {
    const Task& task = program.tasks[at(t)];
    const Body& body = program.bodies[at(task.body)];
    for (int i = 0; i < static_cast<int>(body.instructions.size()); ++i) {
      const Instruction& instruction = body.instructions[at(i)];
      if (!runs(instruction, task)) continue;
      for (const bool write : {false, true})
        for (const Operand& operand : write ? instruction.outputs : instruction.inputs) {
          if (operand.buffer < 0) continue;
          const std::int64_t begin =
              memory.address(operand.buffer, task.slot, task.window) + operand.offset;
          const std::int64_t bytes =
              operand.type.bytes() * (operand.part_of == GroupKind::none ? 1 : parts);
          const bool host = memory.buffers[at(operand.buffer)].region == Region::host;
          found.push_back({{t, i}, write, host, begin, begin + bytes});
        }
    }
  }
  return found;
}

// Accesses to the same memory, one of them a write, that could happen at one time: "": none.
std::string race_in(const Program& program, int parts) {
  const Order order(program);
  const std::vector<Access> all = accesses(program, parts);
  for (std::size_t b = 0; b < all.size(); ++b)
    for (std::size_t a = 0; a < b; ++a) {
      const Access &first = all[a], &second = all[b];
      if (first.host != second.host || !(first.write || second.write) ||
          first.begin >= second.end || second.begin >= first.end)
        continue;
      if (first.run.task == second.run.task && first.run.instruction == second.run.instruction)
        continue;
      if (!order.before(first.run, second.run))
        return "task " + std::to_string(second.run.task) + " instruction " +
               std::to_string(second.run.instruction) + " may run beside task " +
               std::to_string(first.run.task) + " instruction " +
               std::to_string(first.run.instruction);
    }
  return "";
}

Plan offloading(const Model& model, SmallDegrees degrees, const char* offload, int horizon) {
  Plan plan = small_plan(model, degrees);
  plan.training.recompute = Recompute::full;
  plan.parallelism.offload = offload;
  plan.parallelism.offload_horizon = horizon;
  return plan;
}

// micro_batch 2 x sequence 8 x hidden 32 x 4 bytes: the input of a block.
constexpr std::int64_t input = 2 * 8 * 32 * 4;

}  // namespace

TEST_CASE("no two accesses to the same memory can happen at one time", "[models][lower][offload]") {
  for (const char* family : {"gpt", "bert"})
    for (const char* offload : {"none", "activations", "layers"})
      for (const SmallDegrees degrees :
           {SmallDegrees{1, 1, 1, 6}, SmallDegrees{2, 1, 1, 6}, SmallDegrees{4, 1, 1, 8},
            SmallDegrees{2, 2, 1, 4}, SmallDegrees{2, 1, 1, 8, 0, 2}, SmallDegrees{2, 1, 2, 6, 3}})
        for (const bool gpipe : {false, true})
          for (const int horizon : {1, 2, 3}) {
            if (gpipe && degrees.virtual_stages > 1) continue;
            const Model model = small_model(family);
            Plan plan = offloading(model, degrees, offload, horizon);
            if (gpipe) plan.parallelism.schedule = ScheduleKind::gpipe;
            plan.parallelism.sequence_parallel = degrees.tensor > 1 && gpipe;
            INFO(family << " " << describe(plan) << " offload " << offload << " " << horizon);
            const std::vector<Program> stages = lower_small(model, plan);
            verify(stages);
            for (const Program& program : stages) CHECK(race_in(program, degrees.tensor) == "");
          }
}

TEST_CASE("the test of races finds a missing wait", "[models][lower][offload]") {
  const Model model = small_model("gpt");
  for (const char* offload : {"activations", "layers"}) {
    Plan plan = offloading(model, {.pipeline = 2, .micro_batches = 8}, offload, 1);
    plan.parallelism.schedule = ScheduleKind::gpipe;
    Program program = lower_small(model, plan)[0];
    CHECK(race_in(program, 1) == "");
    for (Body& body : program.bodies)
      for (Instruction& instruction : body.instructions)
        if (instruction.kind == InstructionKind::copy_in) instruction.waits.clear();
    CHECK(race_in(program, 1) != "");
  }
}

TEST_CASE("windows hold what is on its way, host memory the rest", "[models][lower][offload]") {
  const Model model = small_model("gpt");
  // GPipe on 2 stages, 8 micro-batches: stage 0 has two blocks, of which each keeps its input.
  Plan plan = offloading(model, {.pipeline = 2, .micro_batches = 8}, "none", 0);
  plan.parallelism.schedule = ScheduleKind::gpipe;
  const MemoryPlan kept = lower_small(model, plan)[0].memory;
  plan.parallelism.offload = "activations";
  plan.parallelism.offload_horizon = 2;
  const MemoryPlan sent = lower_small(model, plan)[0].memory;
  CHECK(sent.slots[0].slots == 8);
  CHECK(sent.slots[0].stride == kept.slots[0].stride - 2 * input);
  CHECK(sent.windows[0].stride == 2 * input);
  // Forward: the newest and the one that leaves; backward: two to come and the one that is read.
  // Around the turn the last ones stay while the first to come back are loaded.
  CHECK(sent.windows[0].slots >= 3);
  CHECK(sent.windows[0].slots <= 5);
  CHECK(sent.host[0].stride == 2 * input);
  CHECK(sent.host_bytes == sent.host[0].slots * 2 * input);
  CHECK(sent.arena_bytes == kept.arena_bytes - (8 - sent.windows[0].slots) * 2 * input);
  CHECK(kept.host_bytes == 0);
  // With a longer horizon they come back earlier and lie there longer.
  plan.parallelism.offload_horizon = 4;
  CHECK(lower_small(model, plan)[0].memory.windows[0].slots > sent.windows[0].slots);
}

TEST_CASE("what would come back at once never leaves", "[models][lower][offload]") {
  Model model = small_model("gpt");
  model.layers = 8;  // at least one on every stage
  // 1F1B: on the last stage every backward task follows its forward task.
  const Plan plan = offloading(model, {.pipeline = 4, .micro_batches = 8}, "activations", 1);
  const std::vector<Program> stages = lower_small(model, plan);
  CHECK(stages[3].memory.host_bytes == 0);
  for (const Task& task : stages[3].tasks) CHECK(!task.offloaded);
  CHECK(stages[0].memory.host_bytes > 0);
  CHECK(stages[0].memory.windows[0].slots < stages[0].memory.slots[0].slots);
  // A single micro-batch: nothing to save.
  const Program alone =
      lower_small(model, offloading(model, {.micro_batches = 1}, "activations", 1))[0];
  CHECK(alone.memory.host_bytes == 0);
}

TEST_CASE("layers take turns in as many places as the horizon says", "[models][lower][offload]") {
  Model model = small_model("gpt");
  model.layers = 8;
  const Plan none = offloading(model, {.micro_batches = 2}, "none", 0);
  const MemoryPlan kept = lower_small(model, none)[0].memory;
  for (const int horizon : {1, 2, 3, 5}) {
    const Plan plan = offloading(model, {.micro_batches = 2}, "layers", horizon);
    const MemoryPlan sent = lower_small(model, plan)[0].memory;
    const std::int64_t places = std::max(2, horizon);
    CHECK(sent.host_bytes == 8 * input);
    CHECK(sent.arena_bytes == kept.arena_bytes - (8 - places) * input);
  }
}

TEST_CASE("offloading does nothing where nothing is recomputed", "[models][lower][offload]") {
  const Model model = small_model("gpt");
  for (const char* offload : {"activations", "layers"}) {
    Plan plan = offloading(model, {.pipeline = 2, .micro_batches = 4}, offload, 1);
    plan.training.recompute = Recompute::none;
    for (const Program& program : lower_small(model, plan)) {
      CHECK(program.memory.host_bytes == 0);
      CHECK(program.tasks.size() == 2 + 2 * 4);
    }
  }
}
