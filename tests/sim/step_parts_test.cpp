// Tests that the parts of a step add up to its time, and that the changes from one step to another
// add up to their difference, to the picosecond, on random pairs of plans.
#include "sim/predict/step_parts.h"

#include <map>
#include <optional>

#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/fuzz/random_job.h"
#include "tests/sanitized.h"
#include "tests/sim/parts.h"

using namespace meshwright::tests;

namespace {

struct Drawn {
  StepParts parts;
  bool has_faults = false, recomputes = false, is_pipeline = false, is_tensor = false;
};

bool recomputes(const std::vector<Program>& stages) {
  for (const Program& program : stages)
    for (const Body& body : program.bodies)
      for (const Instruction& instruction : body.instructions)
        if (instruction.phase == Phase::recompute) return true;
  return false;
}

std::optional<Drawn> drawn(fuzz::Random& random) {
  try {
    Job job = fuzz::read_random_job(fuzz::random_job(random));
    if (!fuzz::leaves_no_choice(job)) return std::nullopt;
    const fuzz::Rehearsal rehearsal = fuzz::rehearse(std::move(job));
    Timeline timeline;
    const Prediction prediction =
        predict(rehearsal.compiled, rehearsal.cluster,
                {.framework = rehearsal.framework, .timeline = &timeline});
    const Parallelism& degrees = rehearsal.compiled.plan.parallelism;
    return Drawn{step_parts(rehearsal.compiled, rehearsal.cluster, prediction, timeline),
                 !rehearsal.cluster.faults.slow_ranks.empty(),
                 recomputes(rehearsal.compiled.stages), degrees.pipeline > 1, degrees.tensor > 1};
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("the changes from one step to another sum to the difference exactly", "[explain]") {
  constexpr int pairs = sanitized ? 30 : 500;
  fuzz::Random random(21);
  std::optional<Drawn> before;
  std::map<std::string, int> seen;
  for (int compared = 0; compared < pairs;) {
    const std::optional<Drawn> now = drawn(random);
    if (!now) continue;
    CHECK(sum_of(now->parts) == now->parts.step_time);
    for (const StepPart& each : now->parts.parts) {
      INFO(each.cause);
      if (!now->has_faults) CHECK(each.time >= 0);
      seen[each.cause] += each.time != 0;
    }
    if (!now->recomputes) CHECK(part(now->parts, "recomputation") == 0);
    if (!now->is_pipeline) CHECK(part(now->parts, "exposed messages between stages") == 0);
    if (!now->is_tensor) CHECK(part(now->parts, "exposed tensor communication") == 0);
    if (before) {
      SimTime sum = 0;
      for (const PartChange& each : changes(before->parts, now->parts)) {
        CHECK(each.change() != 0);
        sum += each.change();
      }
      CHECK(sum == now->parts.step_time - before->parts.step_time);
      ++compared;
    }
    before = now;
  }
  // Parts that are always 0 would also sum, so each part must often be nonzero.
  for (const char* cause :
       {"matrix products", "attention", "other kernels", "recomputation", "optimizer",
        "kernel launches", "exposed tensor communication", "exposed all-reduce of gradients",
        "exposed sharding", "bubble", "idle"}) {
    INFO(cause);
    CHECK(seen[cause] > pairs / 50);
  }
}
