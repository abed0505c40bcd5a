// Tests with which matmuls the collectives of the tensor group overlap.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

Plan tensor_plan(const Model& model, bool rows, int chunks = 0) {
  Plan plan = small_plan(model, {1, 4, 1, 1});
  plan.training.sequence_length = 16;  // 32 rows in two sequences
  plan.parallelism.sequence_parallel = rows;
  plan.parallelism.overlap_tensor = chunks > 0;
  plan.parallelism.tensor_chunks = std::max(1, chunks);
  return plan;
}

const Body& body_of(const Program& program, Body::Kind kind) {
  return *std::ranges::find(program.bodies, kind, &Body::kind);
}

bool is_tensor_collective(const Instruction& instruction) {
  return instruction.stream == Stream::tensor_comm;
}

std::string name(const Program& program, const Instruction& instruction) {
  const std::string path = (*program.modules)[instruction.module];
  return path.substr(path.rfind('.') + 1);
}

// A collective, and the compute instructions that overlap with it: those after it until one waits
// for a collective of the tensor group.
struct Beside {
  Instruction collective;
  std::vector<Instruction> computed;
};

std::vector<Beside> besides(const Body& body) {
  std::vector<Beside> found;
  for (int i = 0; i < static_cast<int>(body.instructions.size()); ++i) {
    if (!is_tensor_collective(body.instructions[i])) continue;
    found.push_back({body.instructions[i], {}});
    for (int later = i + 1; later < static_cast<int>(body.instructions.size()); ++later) {
      const Instruction& next = body.instructions[later];
      if (next.stream != Stream::compute) continue;
      if (std::ranges::any_of(next.waits, [&](const Wait& wait) {
            return wait.relation == Wait::Relation::same_task && wait.instruction >= i &&
                   is_tensor_collective(body.instructions[wait.instruction]);
          }))
        break;
      found.back().computed.push_back(next);
    }
  }
  return found;
}

int count(const std::vector<Instruction>& list, Op op) {
  return static_cast<int>(std::ranges::count(list, op, &Instruction::op));
}

// Returns the rows that an instruction makes if it is the matmul `op`, or a fusion that begins with
// it. Returns 0 otherwise.
std::int64_t rows_of_product(const Instruction& instruction, Op op) {
  if (instruction.kind != InstructionKind::compute) return 0;
  if (instruction.op == op) return instruction.outputs[0].type.shape[0];
  if (instruction.op != Op::fused || instruction.attributes.fusion->steps[0].op != op) return 0;
  std::int64_t rows = 0;
  for (const Operand& part : instruction.outputs) rows += part.type.shape[0];
  return rows;
}

struct Products {
  int count = 0;
  std::int64_t rows = 0;
};

Products products_of(const std::vector<Instruction>& list, Op op) {
  Products products;
  for (const Instruction& instruction : list) {
    const std::int64_t rows = rows_of_product(instruction, op);
    products.count += rows > 0;
    products.rows += rows;
  }
  return products;
}

// Returns the operations of a Program and how often each occurs, without `zero`.
std::map<std::string, int> work_of(const Program& program) {
  std::map<std::string, int> work;
  for (const Body& body : program.bodies)
    for (const Instruction& instruction : body.instructions)
      if (instruction.kind == InstructionKind::compute && instruction.op != Op::zero)
        ++work[std::string(info(instruction.op).name)];
  return work;
}

}  // namespace

TEST_CASE("without overlap nothing is computed beside a tensor group's collective",
          "[models][lower][tensor_overlap]") {
  for (const char* family : {"gpt", "llama"})
    for (const bool rows : {false, true}) {
      const Model model = small_model(family);
      const Program program = lower_small(model, tensor_plan(model, rows)).front();
      for (const Body::Kind kind : {Body::Kind::forward, Body::Kind::backward})
        for (const Beside& each : besides(body_of(program, kind))) CHECK(each.computed.empty());
    }
}

TEST_CASE("an input's gradient is summed beside the gradients of the same weights",
          "[models][lower][tensor_overlap]") {
  for (const char* family : {"gpt", "llama"})
    for (const bool rows : {false, true}) {
      INFO(family << " rows " << rows);
      const Model model = small_model(family);
      const Program before = lower_small(model, tensor_plan(model, rows)).front();
      const Program program = lower_small(model, tensor_plan(model, rows, 1)).front();
      CHECK(work_of(program) == work_of(before));
      const InstructionKind kind =
          rows ? InstructionKind::reduce_scatter : InstructionKind::all_reduce;
      int sums = 0, gathers = 0;
      for (const Beside& each : besides(body_of(program, Body::Kind::backward))) {
        if (each.collective.kind == kind && each.collective.phase == Phase::backward) {
          INFO(name(program, each.collective));
          // Nothing overlaps with the last sum, because the table's gradient needs its result.
          if (each.computed.empty()) continue;
          CHECK(count(each.computed, Op::linear_grad_weight) > 0);
          CHECK(count(each.computed, Op::linear_grad_input) == 0);
          ++sums;
        }
        if (rows && each.collective.kind == InstructionKind::all_gather &&
            each.collective.phase == Phase::recompute) {
          CHECK(count(each.computed, Op::linear_grad_input) > 0);
          CHECK(count(each.computed, Op::linear_grad_weight) == 0);
          ++gathers;
        }
      }
      // These are the first matmuls of attention and of the MLP in every block, and the head.
      CHECK(sums == 2 * model.layers + 1);
      if (rows) CHECK(gathers == 2 * model.layers + 1);
    }
}

TEST_CASE("forward products are cut into chunks beside what they communicate",
          "[models][lower][tensor_overlap]") {
  for (const char* family : {"gpt", "llama"})
    for (const bool rows : {false, true})
      for (const int chunks : {2, 4, 8}) {
        INFO(family << " rows " << rows << " chunks " << chunks);
        const Model model = small_model(family);
        const Program whole = lower_small(model, tensor_plan(model, rows, 1)).front();
        const Program program = lower_small(model, tensor_plan(model, rows, chunks)).front();
        const Body &before = body_of(whole, Body::Kind::forward),
                   &after = body_of(program, Body::Kind::forward);
        const Products uncut = products_of(before.instructions, Op::linear);
        const Products products = products_of(after.instructions, Op::linear);
        CHECK(products.rows == uncut.rows);
        // With sequence parallelism, all matmuls gather or scatter rows and are split into chunks.
        // Without it, only the second matmuls of attention and of the MLP are.
        const int cut = rows ? uncut.count : 2 * model.layers;
        CHECK(products.count == uncut.count + (chunks - 1) * cut);
        // The collectives of all chunks except the last one overlap with a product.
        int beside = 0;
        for (const Beside& each : besides(after))
          beside += products_of(each.computed, Op::linear).count > 0;
        CHECK(beside >= 2 * model.layers * (chunks - 1));
      }
}

TEST_CASE("rows that the chunks do not divide stay whole", "[models][lower][tensor_overlap]") {
  const Model model = small_model("gpt");
  for (const bool rows : {false, true}) {
    const Program whole = lower_small(model, tensor_plan(model, rows, 1)).front();
    const Program program = lower_small(model, tensor_plan(model, rows, 7)).front();
    CHECK(program.bodies == whole.bodies);
  }
}
