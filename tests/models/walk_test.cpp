// Tests that the verifier of Programs notices broken rules, in Programs that are made by hand. A
// broken rule aborts, so it is tried in a child process.
#include "models/program/walk.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>

#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

constexpr Operand one{0, 0, {Shape{1}, Dtype::f32}, GroupKind::none};

Instruction compute() {
  Instruction made;
  made.op = Op::zero;
  made.outputs = {one};
  return made;
}

Instruction message(InstructionKind kind, int peer) {
  Instruction made;
  made.kind = kind;
  made.stream = kind == InstructionKind::send ? Stream::pipe_send : Stream::pipe_recv;
  made.peer = peer;
  (kind == InstructionKind::send ? made.inputs : made.outputs) = {one};
  return made;
}

Instruction all_reduce(GroupKind group) {
  Instruction made;
  made.kind = InstructionKind::all_reduce;
  made.stream = Stream::shard_comm;
  made.group = group;
  made.inputs = made.outputs = {one};
  return made;
}

Program program_of(int stage, std::vector<Instruction> instructions) {
  Program program;
  program.stage = stage;
  Buffer buffer;
  buffer.bytes = one.type.bytes();
  program.memory.buffers = {buffer};
  program.bodies = {{Body::Kind::forward, 0, std::move(instructions)}};
  program.tasks = {{0, 0, 0, 0, true, false}, {0, 0, 1, 0, false, true}};
  return program;
}

// Returns Programs in which stage 0 computes and sends, and stage 1 receives and computes. Then
// both reduce over the pipeline.
std::vector<Program> two_stages() {
  Instruction send = message(InstructionKind::send, 1), use = compute();
  send.waits = use.waits = {{Wait::Relation::same_task, -1, 0}};
  return {program_of(
              0, {compute(), send, all_reduce(GroupKind::pipeline), all_reduce(GroupKind::norm)}),
          program_of(1, {message(InstructionKind::recv, 0), use, all_reduce(GroupKind::pipeline),
                         all_reduce(GroupKind::norm)})};
}

Instruction& instruction(std::vector<Program>& stages, std::size_t stage, std::size_t index) {
  return stages[stage].bodies[0].instructions[index];
}

bool passes(const std::vector<Program>& stages) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(2);
    verify(stages);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
  return WIFEXITED(status);
}

// A visitor of the walk that notes which runs have ended and counts them.
struct Recorder {
  std::vector<std::vector<bool>> ran;
  int happened = 0;
  bool done(int rank, int run) const {
    return ran[static_cast<std::size_t>(rank)][static_cast<std::size_t>(run)];
  }
  void reached(const Arrival&, int, std::span<const int>) {}
  void alone(const Arrival& arrival) {
    ran[static_cast<std::size_t>(arrival.rank)][static_cast<std::size_t>(arrival.run)] = true;
    ++happened;
  }
  int next_end() { return -1; }  // a run ends when it begins
  void together(std::span<const Arrival> arrivals) {
    for (const Arrival& arrival : arrivals) alone(arrival);
  }
};

std::string left_after(const std::vector<Program>& stages, LaneOrder order, int& happened) {
  std::vector<Rendezvous> rendezvous_list;
  std::vector<Script> scripts;
  scripts.reserve(stages.size());
  for (const Program& program : stages) scripts.emplace_back(program, order, rendezvous_list);
  const Participants participants = participants_of_stages(scripts, rendezvous_list);
  Recorder recorder;
  for (const Script& script : scripts)
    recorder.ran.emplace_back(static_cast<std::size_t>(script.runs()), false);
  const std::string left = Walk<Recorder>(participants, recorder).run();
  happened = recorder.happened;
  return left;
}

}  // namespace

TEST_CASE("a walk runs everything once", "[walk]") {
  for (const LaneOrder order : {LaneOrder::streams, LaneOrder::inline_order}) {
    int happened = 0;
    CHECK(left_after(two_stages(), order, happened).empty());
    CHECK(happened == 2 * 2 * 4);  // stages x tasks x instructions
  }
}

TEST_CASE("what a stage sends to itself it receives", "[walk]") {
  const Model model = small_model("gpt");
  Plan plan = small_plan(model, {.virtual_stages = 2});
  plan.parallelism.schedule = ScheduleKind::interleaved;
  std::vector<Program> stages = lower_small(model, plan);
  CHECK(broken_rule(stages) == "");
  std::vector<Program> early = stages;
  std::vector<Task>& tasks = early[0].tasks;
  const auto forward_of = [&](int chunk) {
    return std::ranges::find_if(tasks, [&](const Task& task) {
      return task.chunk == chunk && task.micro_batch_index == 0;
    });
  };
  std::iter_swap(forward_of(0), forward_of(1));
  CHECK(broken_rule(early).starts_with("deadlock: stage 0 "));
  for (Body& body : stages[0].bodies)
    for (Instruction& instruction : body.instructions)
      if (instruction.kind == InstructionKind::send) instruction.when = When::first_micro_batch;
  CHECK(broken_rule(stages) ==
        "messages from virtual stage 0 to 1: not as many are received as are sent");
}

TEST_CASE("instructions of the first or last micro-batch run there only", "[walk]") {
  auto stages = two_stages();
  instruction(stages, 0, 3).when = instruction(stages, 1, 3).when = When::last_micro_batch;
  int happened = 0;
  CHECK(left_after(stages, LaneOrder::streams, happened).empty());
  CHECK(happened == 2 * (4 + 3));
}

TEST_CASE("a deadlock is found and says where", "[walk]") {
  // Each stage receives before it sends the message for which the other stage waits.
  std::vector<Program> stages;
  for (const int stage : {0, 1}) {
    Instruction send = message(InstructionKind::send, 1 - stage);
    send.waits = {{Wait::Relation::same_task, -1, 0}};
    stages.push_back(program_of(stage, {message(InstructionKind::recv, 1 - stage), send}));
  }
  int happened = 0;
  const std::string left = left_after(stages, LaneOrder::streams, happened);
  CHECK(left == "stage 0 task 0 body 0 instruction 1 waits for another stream");
  CHECK(happened == 0);
  CHECK_FALSE(passes(stages));
}

// Sends are one lane and receives another. In a lane, a message blocks the next one until both
// sides have reached it.
TEST_CASE("two messages that are received in another order than they are sent are a deadlock",
          "[walk]") {
  std::vector<Program> stages;
  for (const int stage : {0, 1}) {
    const InstructionKind kind = stage == 0 ? InstructionKind::send : InstructionKind::recv;
    std::vector<Instruction> both{message(kind, 1 - stage), message(kind, 1 - stage)};
    both[1].channel = 1;
    stages.push_back(program_of(stage, both));
  }
  CHECK(passes(stages));
  std::swap(instruction(stages, 1, 0), instruction(stages, 1, 1));
  int happened = 0;
  CHECK(left_after(stages, LaneOrder::streams, happened) ==
        "stage 0 task 0 body 0 instruction 0 waits for its peers");
  CHECK_FALSE(passes(stages));
}

TEST_CASE("the verifier notices each breach", "[walk]") {
  CHECK(passes(two_stages()));
  struct Breach {
    const char* what;
    std::function<void(std::vector<Program>&)> make;
  };
  const Breach breaches[] = {
      {"a wait for a later instruction",
       [](auto& stages) {
         instruction(stages, 0, 0).waits = {{Wait::Relation::same_task, -1, 2}};
       }},
      {"a wait for a body that is not there",
       [](auto& stages) {
         instruction(stages, 0, 1).waits = {{Wait::Relation::latest, 7, 0}};
       }},
      {"an operand without a buffer",
       [](auto& stages) { instruction(stages, 0, 0).outputs[0].buffer = -1; }},
      {"an operand in a buffer that is not there",
       [](auto& stages) { instruction(stages, 0, 0).outputs[0].buffer = 1; }},
      {"an operand that begins before its buffer",
       [](auto& stages) { instruction(stages, 0, 0).outputs[0].offset = -4; }},
      {"an operand that ends behind its buffer",
       [](auto& stages) { instruction(stages, 0, 0).outputs[0].offset = 4; }},
      {"an operand of which the parts of other ranks end behind its buffer",
       [](auto& stages) {
         JobSettings settings;
         settings.degrees.tensor = 2;
         stages[0].settings = std::make_shared<const JobSettings>(settings);
         instruction(stages, 0, 0).outputs[0].part_of = GroupKind::tensor;
       }},
      {"a message of another size",
       [](auto& stages) { instruction(stages, 1, 0).outputs[0].type.shape = {2}; }},
      {"a message of another channel", [](auto& stages) { instruction(stages, 1, 0).channel = 1; }},
      {"a message that nobody receives",
       [](auto& stages) { instruction(stages, 1, 0).when = When::first_micro_batch; }},
      {"micro-batches in another order",
       [](auto& stages) { std::swap(stages[1].tasks[0], stages[1].tasks[1]); }},
      {"a collective of another size",
       [](auto& stages) { instruction(stages, 1, 2).inputs[0].type.dtype = Dtype::f64; }},
      {"a collective that one stage leaves out",
       [](auto& stages) { stages[1].bodies[0].instructions.pop_back(); }},
      {"collectives in another order",
       [](auto& stages) { std::swap(instruction(stages, 1, 2), instruction(stages, 1, 3)); }},
  };
  for (const Breach& breach : breaches) {
    INFO(breach.what);
    auto stages = two_stages();
    breach.make(stages);
    CHECK_FALSE(passes(stages));
  }
}
