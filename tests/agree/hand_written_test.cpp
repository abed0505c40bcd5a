// The simulator and the engine also take a Program that no compiler made: bigram.json, a table of
// the next word for each of four words, which two ranks train on two tokens each.
#include <cmath>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/runtime/runtime.h"
#include "models/program/program_json.h"
#include "sim/replay/replay.h"
#include "tests/catch.h"
#include "tests/exec/ranks_in_turn.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

std::vector<Program> bigram() {
  return read_programs(read_json_file(MESHWRIGHT_SOURCE_DIR "/tests/agree/bigram.json"));
}

// Returns a cluster of two ranks. Kernels and collectives each move a megabyte a second, so a byte
// takes a microsecond.
Cluster two_slow_ranks() {
  Machine machine;
  machine.gpus = 2;
  machine.gpu.kind = DeviceKind::cpu;
  machine.gpu.sm_count = 2;
  machine.gpu.memory_bandwidth_bytes_per_s = 2e6;
  machine.gpu.peak_flop_per_s[static_cast<std::size_t>(Precision::fp32)] = 1e12;
  machine.shared_memory = SharedMemory{1e6, 1e9};
  return {machine, 1, 2, {}, {}};
}

struct Got {
  StepResult first, second;
  std::vector<float> table;  // after the first step
};

// Trains two steps on the same two sequences: rank 0 reads words 0 and 1 and what follows each,
// rank 1 reads 2 and 3.
Got trained(const std::vector<Program>& stages, const std::string& file) {
  LoaderOptions options;
  options.files = {file};
  options.sequence_length = 2;
  options.vocabulary = 4;
  Loader loader(options);
  const auto backend = make_cpu_backend(1);
  Runtime runtime(stages, world_in_turn(), *backend, {});
  Got got;
  got.first = runtime.step(1, 0, loader);
  runtime.parameters().gather([&](const Parameter&, std::span<const float> values) {
    got.table.assign(values.begin(), values.end());
  });
  got.second = runtime.step(2, 0, loader);
  return got;
}

}  // namespace

TEST_CASE("a Program written by hand takes as long as its bytes", "[agree]") {
  const double kernels = (64 + 8 + 8)   // the gradients and two sums are set to zero
                         + 2 * 32       // rows of the table: read and written
                         + 2 * 32       // the loss, in two passes over the logits
                         + (8 + 8)      // of two rows, summed
                         + 2 * 32       // the logits' gradients
                         + 3 * 32       // read, and added to rows of the gradients
                         + (64 + 8)     // their squares, summed
                         + 16 * 5 * 4;  // weight and momentum read and written, gradient read
  const double collectives = 64 + 8;    // two ranks send half of it and receive half of it, twice
  const ReplayResult result = replay(bigram(), Topology(two_slow_ranks()));
  CHECK(to_seconds(result.step_time).value == Approx((kernels + collectives) * 1e-6));
  CHECK(to_seconds(result.stages[0].exposed_communication).value == Approx(collectives * 1e-6));
}

// At first every word is equally likely, which is a loss of ln 4. The gradient of each row of the
// table is (1/4 - [it is the next word]) / 4, because four targets share the loss: three elements
// of 1/16 and one of -3/16. A step of 1 against it leaves logits of 3/16 and -1/16, which is a loss
// of ln(1 + 3 e^(-1/4)).
TEST_CASE("a Program written by hand trains", "[agree]") {
  const TestFolder folder;
  const std::string file = folder.file("words", std::string("\0\1\2\3\0", 5));
  const std::vector<Program> stages = bigram();
  run_in_turn(2, [&] {
    const Got got = trained(stages, file);
    CHECK(got.first.loss == Approx(std::log(4)));
    CHECK(got.first.grad_norm == Approx(std::sqrt(4 * (3 + 9)) / 16));
    CHECK(got.second.loss == Approx(std::log(1 + 3 * std::exp(-0.25))));
    if (world_in_turn().rank() != 0) return;
    REQUIRE(got.table.size() == 16);
    for (std::size_t word = 0; word < 4; ++word)
      for (std::size_t next = 0; next < 4; ++next)
        CHECK(got.table[4 * word + next] == (next == (word + 1) % 4 ? 0.1875F : -0.0625F));
  });
}
