// Tests that a rank calls its communicators as the instructions of its Program say: groups, bytes,
// types, whether sums are added, and whether a gather uses one level over all hosts.
#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/catch.h"
#include "tests/exec/counting_world.h"
#include "tests/exec/small_run.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

std::string number_of(Dtype dtype) { return std::to_string(static_cast<int>(dtype)); }

// Returns the calls of one instruction, in a group of this many ranks of which this is number
// `own`.
std::vector<CountedCall> calls_of(const Instruction& instruction, const Task& task, int ranks,
                                  int own) {
  const TensorType in = instruction.inputs.empty() ? TensorType{} : instruction.inputs[0].type;
  const GroupKind group = instruction.group;
  const auto elements = in.shape.elements();
  switch (instruction.kind) {
    case InstructionKind::all_reduce:
      return {{group, "all_reduce", elements,
               number_of(in.dtype) + (instruction.maximum ? " maximum" : "")}};
    case InstructionKind::all_gather:
      if (instruction.outputs.size() > 1) return {{group, "gather_apart", in.bytes(), ""}};
      return {{group, "all_gather", in.bytes(), instruction.flat ? "flat" : ""}};
    case InstructionKind::reduce_scatter: {
      if (instruction.inputs.size() > 1)
        return {{group, "reduce_apart", elements, number_of(in.dtype)}};
      // The first sum of a step is written, later ones are added to it.
      const bool begins = task.first && (instruction.overwrites & 1U) != 0;
      return {{group, "reduce_scatter", elements / ranks,
               number_of(in.dtype) + (instruction.accumulate && !begins ? " adds" : "")}};
    }
    case InstructionKind::all_to_all:
      return {{group, "all_to_all", in.bytes() / ranks, ""}};
    case InstructionKind::ring_shift:
      return {{group, "recv", in.bytes(), std::to_string((own + ranks - 1) % ranks)},
              {group, "send", in.bytes(), std::to_string((own + 1) % ranks)}};
    case InstructionKind::broadcast:
      return {{group, "broadcast", in.bytes(), std::to_string(instruction.root)}};
    case InstructionKind::reduce:
      return {{group, "reduce", elements,
               number_of(in.dtype) + " " + std::to_string(instruction.root)}};
    case InstructionKind::send:
      return {{GroupKind::pipeline, "send", in.bytes(), std::to_string(instruction.peer)}};
    case InstructionKind::recv:
      return {{GroupKind::pipeline, "recv", instruction.outputs[0].type.bytes(),
               std::to_string(instruction.peer)}};
    default:
      return {};
  }
}

std::vector<CountedCall> expected_calls(const SmallRun& run, int rank) {
  const Mesh& mesh = run.mesh;
  const Coordinates own = mesh.coordinates(rank);
  const Program& program = run.stages[static_cast<std::size_t>(own.pipeline)];
  std::vector<CountedCall> calls;
  for (const Task& task : program.tasks)
    for (const Instruction& instruction :
         program.bodies[static_cast<std::size_t>(task.body)].instructions) {
      if (!runs(instruction, task)) continue;
      if (!concerns(program, instruction, {own.rdp, own.tensor})) continue;
      int ranks = 1, place = 0;
      if (instruction.group != GroupKind::none) {
        const std::vector<int> members = mesh.group(instruction.group, rank);
        ranks = static_cast<int>(members.size());
        place = static_cast<int>(std::ranges::find(members, rank) - members.begin());
      }
      for (const CountedCall& call : calls_of(instruction, task, ranks, place))
        calls.push_back(call);
    }
  return calls;
}

// Returns the pipeline's messages, sorted, or all other calls. Messages are posted ahead of their
// turn, so their order is not the Program's.
std::vector<CountedCall> in_order(std::vector<CountedCall> calls, bool messages) {
  std::erase_if(calls, [&](const CountedCall& call) {
    return call.group == GroupKind::world || (call.group == GroupKind::pipeline) != messages;
  });
  if (messages)
    std::ranges::sort(calls, {}, [](const CountedCall& call) {
      return std::tuple(call.what, call.amount, call.how);
    });
  return calls;
}

struct Case {
  std::string family;
  SmallDegrees degrees;
  std::function<void(Plan&)> change = [](Plan&) {};
};

}  // namespace

TEST_CASE("a rank's calls are its Program's collectives and messages, one by one",
          "[exec][comm][runtime]") {
  const std::vector<Case> cases = {
      {"gpt", {.data = 4}},
      {"gpt", {.data = 4, .zero_stage = 1}},
      {"gpt", {.data = 4, .zero_stage = 2}},
      {"gpt", {.data = 4, .zero_stage = 3}},
      {"gpt",
       {.data = 4, .zero_stage = 3},
       [](Plan& p) { p.parallelism.hierarchical_gather = false; }},
      {"gpt", {.data = 4, .zero_stage = 3}, [](Plan& p) { p.parallelism.shard = 2; }},
      {"gpt", {.data = 4, .zero_stage = 1}, [](Plan& p) { p.parallelism.shard_whole = true; }},
      {"gpt",
       {.data = 4, .zero_stage = 2},
       [](Plan& p) { p.parallelism.reduce_gradients = ReduceGradients::each; }},
      {"gpt",
       {.pipeline = 2, .tensor = 2, .data = 2, .zero_stage = 1},
       [](Plan& p) { p.parallelism.sequence_parallel = true; }},
      {"gpt", {.pipeline = 2, .virtual_stages = 2}},
      {"llama", {.data = 2, .context = 2}},
      {"llama",
       {.data = 2, .context = 2},
       [](Plan& p) { p.parallelism.context_exchange = ContextExchange::all_to_all; }},
      {"llama",
       {.data = 2, .context = 2},
       [](Plan& p) { p.parallelism.context_exchange = ContextExchange::all_gather; }},
      {"mixtral", {.data = 4, .zero_stage = 1}, [](Plan& p) { p.parallelism.expert = 2; }},
      {"gpt", {.data = 2}, [](Plan& p) { p.training.precision = Precision::bf16; }},
  };
  int flat = 0, in_levels = 0, adds = 0, writes = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Model model = small_model(cases[i].family);
    Plan plan = small_plan(model, cases[i].degrees);
    cases[i].change(plan);
    CAPTURE(i, describe(plan));
    const int ranks = plan.degrees().ranks();
    for (const int rank : {0, ranks - 1}) {
      // A last stage that holds a part of the vocabulary makes no finite loss by itself.
      if (plan.parallelism.tensor > 1 && rank > 0) continue;
      CountingWorld world(rank, ranks);
      SmallRun run(model, plan, world);
      world.calls.clear();
      run.step(1);
      const std::vector<CountedCall> expected = expected_calls(run, rank);
      CHECK((in_order(world.calls, false) == in_order(expected, false)));
      CHECK((in_order(world.calls, true) == in_order(expected, true)));
      CHECK(!expected.empty());
      for (const CountedCall& call : expected) {
        flat += call.what == "all_gather" && call.how == "flat";
        in_levels += call.what == "all_gather" && call.how.empty();
        adds += call.what == "reduce_scatter" && call.how.ends_with("adds");
        writes += call.what == "reduce_scatter" && !call.how.ends_with("adds");
      }
    }
  }
  // Each kind of call has occurred.
  CHECK(flat > 0);
  CHECK(in_levels > 0);
  CHECK(adds > 0);
  CHECK(writes > 0);
}
