// A model may be larger than a rank's memory, so its initial values are made in shares: a rank
// makes only those that it holds.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/agree/training.h"
#include "tests/exec/small_run.h"
#include "tests/exec/worlds.h"

using namespace meshwright::tests;

namespace {

constexpr double mebibyte = 1 << 20;

// Resets the peak that peak_bytes() returns.
void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

// Returns the peak of resident memory, in bytes, since forget_peak().
double peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      double kibibytes = 0;
      status >> kibibytes;
      return kibibytes * 1024;
    }
  return 0;
}

// Returns a model of 4 blocks with 12 * 768^2 weights each, and 16384 words: 157 MiB in fp32.
Model large_model() {
  const nlohmann::json value = {{"family", "gpt"}, {"hidden", 768},  {"layers", 4},
                                {"heads", 12},     {"vocab", 16384}, {"positions", 16}};
  return read_model(Fields(value, "large"));
}

double bytes_of_weights(const Program& program) {
  double bytes = 0;
  for (const Bucket& bucket : program.buckets)
    bytes += static_cast<double>(bucket.weights.type.bytes());
  return bytes;
}

void check_peak(const Model& model, const Plan& plan, World& world) {
  INFO(describe(plan));
  const std::vector<Program> stages = lower_small(model, plan);
  const Mesh mesh(plan.degrees(), plan.parallelism.placement);
  const double own =
      bytes_of_weights(stages[static_cast<std::size_t>(mesh.coordinates(world.rank()).pipeline)]);
  CHECK(own < 0.3 * 157 * mebibyte);
  forget_peak();
  const double before = peak_bytes();
  const SmallRun run(model, plan, world, stages);
  CHECK(peak_bytes() - before <= own + 8 * mebibyte);
  CHECK(peak_bytes() - before >= 0.9 * own);  // the measure sees what is written
}

}  // namespace

TEST_CASE("making the initial values takes the memory of a rank's own part", "[agree][mpi]") {
  if (test_world().size() != 4) return;
  const Model model = large_model();
  Plan sharded = small_plan(model, {1, 1, 4, 1, 3});
  check_peak(model, sharded, test_world());
  Plan columns = small_plan(model, {1, 4, 1});
  columns.parallelism.tensor_layout = TensorLayout::memory;
  check_peak(model, columns, test_world());
  check_peak(model, small_plan(model, {1, 2, 2, 1, 3}), test_world());
}
