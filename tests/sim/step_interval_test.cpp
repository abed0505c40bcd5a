// Tests the interval of a predicted step time, for one host and for several hosts.
#include "hwprofiles/load.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

Prediction predicted(int hosts, const std::optional<Residuals>& residuals) {
  Cluster cluster{load_machine("p4d.24xlarge"), hosts, 8, {}, {}};
  cluster.machine.residuals = residuals;
  Plan plan;
  plan.training.micro_batch = 1;
  plan.training.global_batch = 8 * hosts;
  plan.training.sequence_length = 128;
  plan.parallelism.data = 8 * hosts;
  return predict(compiled_for(small_model(2), plan, cluster), cluster);
}

}  // namespace

TEST_CASE("the interval of one host holds on one host, that of many from two on", "[predict]") {
  const Residuals::Interval one{0.75, 1.5, 11}, many{0.5, 2.25, 23};
  for (const int hosts : {1, 2, 3}) {
    const Residuals::Interval& expected = hosts == 1 ? one : many;
    const Prediction prediction = predicted(hosts, Residuals{one, many});
    REQUIRE(prediction.interval);
    CHECK(prediction.interval->low_s == expected.low * prediction.step_time_s);
    CHECK(prediction.interval->high_s == expected.high * prediction.step_time_s);
    CHECK(prediction.interval->rows == expected.rows);
    CHECK_FALSE(predicted(hosts, std::nullopt).interval);
    CHECK(predicted(hosts, Residuals{one, {}}).interval.has_value() == (hosts == 1));
    CHECK(predicted(hosts, Residuals{{}, many}).interval.has_value() == (hosts > 1));
  }
}
