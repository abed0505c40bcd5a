// Tests on which cluster a recorded step is priced, and what the answer says beside its times.
#include "tools/session/rehearsal.h"
#include "hwprofiles/load.h"
#include "sim/planner/clusters.h"
#include "tests/catch.h"
#include "tests/message_of.h"

using namespace meshwright::tests;

namespace {

const Recording& recorded() {
  static const Recording recording =
      read_recording(read_json_file(MESHWRIGHT_SOURCE_DIR "/tests/tools/recording.json"));
  return recording;
}

Rehearsed on(const RehearsalRequest& request) {
  return rehearsed(recorded(), request, load_known_machine);
}

std::string refusal(const RehearsalRequest& request) {
  return message_of([&] { on(request); });
}

}  // namespace

TEST_CASE("a recorded step is priced on its own machine or on another one with its ranks",
          "[tools][rehearsal]") {
  const Rehearsed own = on({});
  CHECK(own.cluster.machine.name == "p5.48xlarge");
  CHECK(own.cluster.hosts == 1);
  CHECK(own.cluster.processes_per_host == 8);
  CHECK(on({.machine = "g5.xlarge"}).cluster.hosts == 8);
  CHECK(on({.machine = "g5.12xlarge"}).cluster.hosts == 2);
  CHECK(on({.machine = "g5.12xlarge", .count = 4}).cluster.processes_per_host == 2);
  CHECK(on({.machine = "p4d.24xlarge"}).step_time_s > own.step_time_s);
  CHECK(on({.host_factor = 50}).step_time_s > own.step_time_s);
  CHECK(refusal({.machine = "p5.48xlarge", .count = 3}) ==
        "the 8 ranks of the recording cannot be on 3 x p5.48xlarge in equal numbers, up to 8 on a "
        "host; use another --count or machine");
  CHECK(refusal({.machine = "g5.xlarge", .count = 4}).starts_with("the 8 ranks of the recording"));
  CHECK(refusal({.machine = "p6"}).starts_with("unknown machine 'p6'"));
}

TEST_CASE("the answer counts FLOPs, launches, collectives, memory and dollars",
          "[tools][rehearsal]") {
  const Rehearsed own = on({});
  CHECK(own.launches == 4);
  const double flops = 137438953472.0 + 274877906944.0;  // causal attention counts whole
  CHECK(own.model_flops_per_s_per_gpu == Approx(flops / own.step_time_s));
  CHECK(own.mfu ==
        Approx(own.model_flops_per_s_per_gpu / own.cluster.device().peak(Precision::bf16).value));
  REQUIRE(own.collectives.size() == 2);
  CHECK(own.collectives[0].kind == RecordedCollective::all_gather);
  CHECK(own.collectives[0].bytes == 50'000'000);
  CHECK(own.collectives[1].kind == RecordedCollective::send);
  CHECK(own.fits);
  CHECK_FALSE(on({.machine = "g4dn.xlarge"}).fits);  // 16 GiB
  REQUIRE(own.usd_per_step);
  CHECK(*own.usd_per_step == Approx(*own.usd_per_hour / 3600 * own.step_time_s));
  const ReplayedStep& step = own.step;
  CHECK(step.computing + step.exposed_communication + step.exposed_copies + step.idle ==
        step.step_time);
}
