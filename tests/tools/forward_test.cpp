// Tests what the forward pass that `evaluate` and `generate` run holds in memory.
#include <map>
#include <nlohmann/json.hpp>

#include "models/compiler/compile_forward.h"
#include "tests/catch.h"

using namespace meshwright::tests;

TEST_CASE("a forward pass alone holds the weights once, and neither gradients nor states",
          "[tools]") {
  const Model model = read_model(Fields({{"family", "gpt"},
                                         {"hidden", 64},
                                         {"layers", 6},
                                         {"heads", 4},
                                         {"vocab", 100},
                                         {"positions", 40}},
                                        "the model"));
  Plan plan;
  plan.training.global_batch = plan.training.micro_batch = 1;
  plan.training.sequence_length = 32;
  plan.snapshot = true;  // as for jobs with checkpoints
  const Compiled compiled = compile_forward(model, plan, {});
  REQUIRE(compiled.stages.size() == 1);
  std::map<MemoryClass, std::int64_t> bytes;
  for (const Buffer& buffer : compiled.stages[0].memory.buffers) bytes[buffer.cls] += buffer.bytes;
  const std::int64_t weights = 4 * parameter_count(compiled.graph);
  CHECK(bytes[MemoryClass::parameters] >= weights);
  CHECK(bytes[MemoryClass::parameters] * 100 < weights * 101);  // padding only
  CHECK(bytes[MemoryClass::gradients] == 0);
  CHECK(bytes[MemoryClass::optimizer] == 0);
  CHECK(bytes[MemoryClass::snapshot] == 0);
  // The blocks use the same memory one after the other. So less is live beside the weights than 34
  // fp32 values per token and element of the width for each of two blocks. For a backward pass in
  // 16 bits one block would keep 34 bytes of each (Korthikanti et al. 2022).
  CHECK(compiled.stages[0].memory.arena_bytes < weights + 2 * 34 * 4 * 32 * 64);
}
