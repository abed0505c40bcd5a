// Predicts what one step of a compiled job costs on a cluster.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "hwprofiles/machine.h"
#include "models/compiler/compile.h"
#include "sim/framework/framework_memory.h"
#include "sim/replay/replay.h"

namespace meshwright::sim {

struct StageMemory {
  int stage = 0;
  std::array<std::int64_t, memory_class_count> class_bytes{};  // indexed by MemoryClass
  // Bytes of the memory plan, corrected by what a framework holds more or less.
  std::int64_t arena_bytes = 0;
  // Temporary memory of operations outside of the arena. It is counted in class_bytes as workspace.
  std::int64_t scratch_bytes = 0;
  std::int64_t library_bytes = 0;  // context, communicator buffers, BLAS workspace
  // Sum of arena, scratch and library bytes. On a CPU computer it includes offloaded bytes, because
  // they are in the same memory.
  std::int64_t peak_bytes = 0;
};

// The share of time that goes into steps that count if hosts fail (goodput.h), for the chosen
// interval between checkpoints and for the best one.
struct Goodput {
  double share = 1, best_share = 1;
  int every_steps = 0, best_every_steps = 0;
  double mean_time_between_failures_s = 0;  // time between any two failures of the cluster
  double checkpoint_write_s = 0;
};

// The range, in seconds, in which four of five measurements of steps like this one are expected.
struct StepInterval {
  double low_s = 0, high_s = 0;
  int rows = 0;  // number of published steps that it is derived from
};

struct Prediction {
  SimTime step_time = 0;
  double step_time_s = 0;
  // The likely range; none if not enough steps like it were published.
  std::optional<StepInterval> interval;
  // The origin of the constants of the machine's profile.
  Calibration calibration = Calibration::spec_sheet;
  double sequences_per_s = 0, tokens_per_s = 0;
  double model_flops_per_s_per_gpu = 0, mfu = 0;
  double bubble_fraction = 0, exposed_communication_s = 0;
  bool fits = true;
  double memory_limit_bytes = 0;  // memory of one device
  std::int64_t peak_memory_bytes = 0;
  // The memory use of a framework, which decides `fits`. Set if training.memory_of names one.
  std::optional<FrameworkUse> framework;
  std::vector<StageMemory> memory;
  std::int64_t host_memory_bytes = 0;  // of all ranks of a host, on the host with most
  double host_memory_limit_bytes = 0;
  std::optional<Price> price;  // of one host; none: the machine has no such price
  std::optional<double> usd_per_hour, usd_per_million_tokens;
  // Unset if hosts do not fail. predict() leaves it unset, and callers set it by goodput_of().
  std::optional<Goodput> goodput;
  std::vector<StageTimes> stages;
  std::int64_t instructions = 0;
  double simulation_wall_s = 0;
};

// For one bucket, the bytes that training frameworks hold in addition to the bytes that the Program
// holds, and the bytes that they save. All are 0 for full precision, for frozen parameters, and for
// this project's engine (Machine::runs_engine).
struct FrameworkBytes {
  // Gradients in the 16 bits in which the backward computes them, in addition to the 32 bits in
  // which they are summed (with them a parameter takes 2 + 2 + 4 + 4 + 8 bytes), unless matmuls sum
  // into the 32 bits themselves. They are 0 for sharded gradients, which are handed on one by one.
  std::int64_t second_gradients = 0;
  // Gradients in 32 bits that the rank's optimizer reads if sums are in 16 bits and masters in
  // fp32. Optimizers with smaller masters read the sums (Apex's DistributedFusedAdam, Transformer
  // Engine's FusedAdam with `use_decoupled_grad`).
  std::int64_t own_gradients = 0;
  // Shards of weights in 16 bits under ZeRO 3, which are saved. FSDP, of PyTorch as of XLA, has
  // only shards of the fp32 masters, and casts them when it gathers.
  std::int64_t shards_left_out = 0;
};
// Returns the bytes of FrameworkBytes for a bucket. Only its sizes, the types of its weights and
// gradients, and whether it is frozen are read.
FrameworkBytes framework_bytes(const Bucket& bucket, const StepSettings& training,
                               const Machine& machine);

// Returns whether weights that are multiplied in 8 bits, and stay so from step to step, have no
// copy in 16 bits: the primary weights of Transformer Engine, which Megatron's and NeMo's recipes
// ask for (fp8_param_gather). The engine keeps both, as does every framework without fp32 masters.
bool keeps_8_bits_alone(const StepSettings& training, const Machine& machine);

// Returns the bytes that libraries take on every rank: context, workspace and, if there are several
// ranks, communicators.
double library_bytes(const Cluster& cluster);

// Return the memory that one stage, or each stage, needs. This is cheap, because nothing is
// replayed.
StageMemory stage_memory(const Program& program, const Cluster& cluster);
std::vector<StageMemory> stage_memory(const std::vector<Program>& stages, const Cluster& cluster);

// Returns the bytes that ranks keep in their host's memory, on the host where this is most.
std::int64_t host_memory_bytes(const std::vector<Program>& stages, const Cluster& cluster);

struct PredictOptions {
  const PriceChoice* price = nullptr;          // null: a default PriceChoice
  std::optional<FrameworkUse> framework = {};  // required if training.memory_of names a framework
  Timeline* timeline = nullptr;                // filled in if it is not null
};
Prediction predict(const Compiled& compiled, const Cluster& cluster,
                   const PredictOptions& options = {});

}  // namespace meshwright::sim
