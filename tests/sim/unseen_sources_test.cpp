#include "sim/predict/unseen_sources.h"

#include "tests/catch.h"

using namespace meshwright::tests;

TEST_CASE("kinds that no constant saw have the interval of the sources of such kinds",
          "[predict]") {
  Training training;
  const auto is_unseen = [&](Framework framework, bool has_experts, bool has_adapters) {
    training.framework = framework;
    training.lora.reset();
    if (has_adapters) training.lora.emplace();
    return unseen_sources(training, has_experts).has_value();
  };
  for (const Framework framework :
       {Framework::torchtitan, Framework::deepspeed, Framework::accelerate, Framework::transformers,
        Framework::pytorch})
    CHECK(is_unseen(framework, false, false));
  for (const Framework framework : {Framework::megatron_lm, Framework::megatron_bridge}) {
    CHECK_FALSE(is_unseen(framework, false, false));  // constants were fitted to such steps
    CHECK(is_unseen(framework, true, false));
    CHECK(is_unseen(framework, false, true));
  }
  CHECK_FALSE(is_unseen(Framework::meshwright, true, true));
  training.framework = Framework::pytorch;
  const auto range = unseen_sources(training, false);
  REQUIRE(range);
  CHECK(range->low < 1);
  CHECK(range->high > 1);
  CHECK(range->rows > 100);
}
