// Tests tensor communication that overlaps with compute, in simulated time.
#include <fmt/format.h>

#include "sim/predict/breakdown.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

Model wide_model() {
  Model model = small_model(4);
  model.hidden = 4096;
  model.heads = model.kv_heads = 32;
  model.head_dim = 128;
  model.ffn = 16384;
  model.positions = 2048;
  return model;
}

struct Pair {
  std::string machine;
  int tensor = 2;
  bool rows = false;
  int chunks = 1;

  Plan plan(bool overlap) const {
    Plan plan;
    plan.training.micro_batch = 1;
    plan.training.global_batch = 2 * (8 / tensor);
    plan.training.sequence_length = 2048;
    plan.training.precision = Precision::fp16;
    Parallelism& p = plan.parallelism;
    p.tensor = tensor;
    p.data = 8 / tensor;
    p.sequence_parallel = rows;
    p.overlap_tensor = overlap;
    p.tensor_chunks = overlap ? chunks : 1;
    return plan;
  }

  Prediction simulate(bool overlap) const {
    const Cluster cluster{load_machine(machine), 1, 8, {}, {}};
    return predict(compiled_for(wide_model(), plan(overlap), cluster), cluster);
  }
};

std::vector<Pair> pairs() {
  std::vector<Pair> found;
  for (const char* machine : {"p3.16xlarge", "p5.48xlarge"})
    for (const int tensor : {2, 4, 8})
      for (const bool rows : {false, true})
        for (const int chunks : {1, 2}) found.push_back({machine, tensor, rows, chunks});
  return found;
}

// Returns the exposed seconds of the tensor group, on the first stage.
double exposed(const Prediction& prediction) {
  return breakdown(prediction).front().exposed_s[static_cast<std::size_t>(GroupKind::tensor)];
}

}  // namespace

TEST_CASE("tensor communication beside compute makes a step faster", "[tensor_overlap]") {
  for (const Pair& pair : pairs()) {
    INFO(fmt::format("{} tensor {} rows {} chunks {}", pair.machine, pair.tensor, pair.rows,
                     pair.chunks));
    const Prediction before = pair.simulate(false), after = pair.simulate(true);
    CHECK(after.step_time_s < before.step_time_s);
    CHECK(exposed(after) < exposed(before));
    // Not all is hidden, and kernels are slower meanwhile.
    CHECK(after.step_time_s > before.step_time_s - exposed(before));
  }
}
