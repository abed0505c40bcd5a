// Memory that Megatron-LM does not need although a Program has places for it.
#include "sim/predict/megatron_memory.h"

#include "sim/predict/predict.h"
#include "tests/catch.h"
#include "tests/sim/planned.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

constexpr int layers = 4, hidden = 256, tokens = 2 * 128, per_token = 2;

Compiled compiled_by(const char* framework, const char* recompute) {
  json value = job_json({{"family", "mixtral"},
                         {"hidden", hidden},
                         {"layers", layers},
                         {"heads", 4},
                         {"vocab", 1000},
                         {"positions", 128},
                         {"experts", 4},
                         {"experts_per_token", per_token},
                         {"expert_dropless", true}},
                        "p4d.24xlarge", 1, 2);
  value["training"] = {{"global_batch", 16},    {"micro_batch", 2},    {"sequence_length", 128},
                       {"precision", "bf16"},   {"compiler", "fused"}, {"framework", framework},
                       {"recompute", recompute}};
  value["parallelism"] = {{"data", 8}};
  const Planned planned(value, "p4d.24xlarge", 1);
  return compiled_for(planned.job.model, to_plan(planned.candidates.front(), planned.base),
                      planned.cluster);
}

std::int64_t left_out(const char* framework, const char* recompute = "none") {
  return expert_outputs_left_out(compiled_by(framework, recompute).stages.front());
}

}  // namespace

TEST_CASE("Megatron-LM saves no outputs of experts", "[predict]") {
  const std::int64_t outputs = std::int64_t{layers} * tokens * per_token * hidden * 2;
  CHECK(left_out("megatron-lm") == outputs);
  CHECK(left_out("megatron-bridge") == outputs);
  CHECK(left_out("meshwright") == 0);
  CHECK(left_out("megatron-lm", "full") == 0);  // they are made again
}
