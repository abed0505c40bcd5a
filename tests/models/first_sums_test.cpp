// Tests that the first gradient of a step overwrites the sum of the last step, and that all sums
// that no instruction overwrites are cleared.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/program/graph/op_call.h"
#include "models/program/graph/op_table.h"
#include "tests/catch.h"
#include "tests/models/plans.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

// Tracks which bytes of the gradient buffers were written in this step. A step begins with none.
class OfThisStep {
 public:
  explicit OfThisStep(const Program& program) : program_(program) {
    for (const Bucket& bucket : program.buckets)
      known_[bucket.gradients.buffer].assign(
          static_cast<int>(program.memory.buffers[bucket.gradients.buffer].bytes), false);
  }

  // Returns the first instruction that reads, or adds to, a sum of an earlier step, or null if
  // there is none.
  const Instruction* stale() {
    for (const Task& task : program_.tasks)
      for (const Instruction& instruction : program_.bodies[task.body].instructions)
        if (runs(instruction, task) && !run(instruction, task)) return &instruction;
    return nullptr;
  }

 private:
  bool run(const Instruction& instruction, const Task& task) {
    const bool clears = instruction.kind == InstructionKind::compute && instruction.op == Op::zero;
    for (const Operand& input : instruction.inputs)
      if (!is_known(input)) return false;
    for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
      const Operand& output = instruction.outputs[i];
      if (clears || (overwrites_in(instruction, task) >> i & 1U) != 0)
        set(output);
      else if (!is_known(output))
        return false;
    }
    return true;
  }
  bool is_known(const Operand& operand) const {
    const auto found = known_.find(operand.buffer);
    if (found == known_.end()) return true;
    for (std::int64_t i = 0; i < operand.type.bytes(); ++i)
      if (!found->second[static_cast<std::size_t>(operand.offset + i)]) return false;
    return true;
  }
  void set(const Operand& operand) {
    const auto found = known_.find(operand.buffer);
    if (found == known_.end()) return;
    for (std::int64_t i = 0; i < operand.type.bytes(); ++i)
      found->second[static_cast<std::size_t>(operand.offset + i)] = true;
  }

  const Program& program_;
  std::map<int, std::vector<bool>> known_;
};

std::int64_t gradient_bytes(const Program& program) {
  std::int64_t bytes = 0;
  for (const Bucket& bucket : program.buckets) bytes += bucket.gradients.type.bytes();
  return bytes;
}

bool is_overwritten(const Program& program, const StageParameter& parameter) {
  const Operand& gradients = program.buckets[parameter.bucket].gradients;
  const std::int64_t begin = gradients.offset + parameter.offset * bytes_of(gradients.type.dtype);
  for (const Body& body : program.bodies)
    for (const Instruction& instruction : body.instructions)
      for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
        const Operand& output = instruction.outputs[i];
        if ((instruction.overwrites >> i & 1U) != 0 && output.buffer == gradients.buffer &&
            output.offset == begin)
          return true;
      }
  return false;
}

bool is_gradient(const Program& program, const Operand& operand) {
  for (const Bucket& bucket : program.buckets)
    if (bucket.gradients.buffer == operand.buffer) return true;
  return false;
}

// The bytes of gradients that the body step_begin clears, and in how many parts.
struct Cleared {
  std::int64_t bytes = 0;
  int parts = 0;
};
Cleared cleared(const Program& program) {
  Cleared sum;
  for (const Instruction& instruction : program.bodies.front().instructions) {
    if (instruction.op != Op::zero) continue;
    for (const Operand& output : instruction.outputs) {
      if (!is_gradient(program, output)) continue;
      sum.bytes += output.type.bytes();
      ++sum.parts;
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("no gradient is added to what the last step has left", "[models][lower]") {
  int programs = 0, overwriting = 0;
  const auto check = [&](const Model& model, const Plan& plan) {
    INFO(name_of(model.architecture) << " " << describe(plan));
    for (const Program& program : lower_small(model, plan)) {
      const Instruction* stale = OfThisStep(program).stale();
      INFO((stale != nullptr ? info(stale->op).name : "none"));
      CHECK(stale == nullptr);
      ++programs;
      overwriting += cleared(program).bytes < gradient_bytes(program) ? 1 : 0;
    }
  };
  const Model gpt = small_model("gpt"), mixtral = small_model("mixtral");
  int turn = 0;
  for (const Plan& plan : small_plans(gpt))
    if (is_tried(turn++, 3)) check(gpt, plan);
  for (const int pipeline : {1, 2})
    for (const int zero : {0, 1, 2, 3}) {
      Plan plan = small_plan(
          mixtral, {.pipeline = pipeline, .data = 2, .micro_batches = 6, .zero_stage = zero});
      plan.parallelism.expert = 2;
      check(mixtral, plan);
    }
  CHECK(overwriting > programs / 2);
}

TEST_CASE("the test of what the last step has left notices a clear that is missing",
          "[models][lower]") {
  const Model model = small_model("gpt");
  Program program = lower_small(model, small_plan(model, {})).front();
  Instruction& clear = program.bodies.front().instructions.front();
  REQUIRE(clear.op == Op::zero);
  REQUIRE(is_gradient(program, clear.outputs.back()));
  clear.outputs.pop_back();
  CHECK(OfThisStep(program).stale() != nullptr);
}

// The gradient of an embedding reaches only some rows of its table, so it cannot overwrite the sum.
// It comes last in a backward pass. If the head shares the table, the head's gradient has
// overwritten the sum before.
TEST_CASE("only tables that no product writes first are cleared", "[models][lower]") {
  for (const CompilerLevel level : {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full})
    for (const char* family : {"gpt", "llama"}) {
      const Model model = small_model(family);
      Plan plan = small_plan(model, {});
      plan.training.compiler = level;
      if (level == CompilerLevel::none) plan.training.attention = AttentionKernel::unfused;
      INFO(family << " " << static_cast<int>(level));
      const Program program = lower_small(model, plan).front();
      std::vector<std::string> added;
      for (const StageParameter& each : program.parameters)
        if (!is_overwritten(program, each)) added.push_back(each.parameter.name);
      const bool gpt = std::string_view(family) == "gpt";
      CHECK(added ==
            std::vector<std::string>{gpt ? "transformer.wpe.weight" : "model.embed_tokens.weight"});
    }
}

TEST_CASE("only the gradient of the position table is cleared in GPT-2", "[models][lower]") {
  const Model model = load_model("gpt2", "/");
  for (const int micro_batches : {1, 4}) {
    const Program program =
        lower_small(model, small_plan(model, {.micro_batches = micro_batches})).front();
    const Cleared found = cleared(program);
    CHECK(found.bytes == 4 * 1024 * 768);
    CHECK(found.parts == 1);
    CHECK(gradient_bytes(program) > 100 * found.bytes);
  }
}

// A body runs for every micro-batch, but only the first run of a step overwrites.
TEST_CASE("the first micro-batch overwrites, later ones add", "[models][lower]") {
  const Model model = small_model("gpt");
  const Program program = lower_small(model, small_plan(model, {.micro_batches = 4})).front();
  int first = 0, later = 0;
  for (const Task& task : program.tasks)
    for (const Instruction& instruction : program.bodies[task.body].instructions) {
      if (instruction.overwrites == 0) continue;
      (overwrites_in(instruction, task) != 0 ? first : later) += 1;
    }
  CHECK(first > 10);
  CHECK(later == 3 * first);
}
