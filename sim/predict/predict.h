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
  std::int64_t arena_bytes = 0;    // with what frameworks hold differently from the engine
  std::int64_t scratch_bytes = 0;  // of operations, beside the arena; in class_bytes as workspace
  std::int64_t library_bytes = 0;  // context, communicator buffers, BLAS workspace
  // Sum of arena, scratch and library bytes. On a CPU computer it includes what is offloaded.
  std::int64_t peak_bytes = 0;
};

// The share of time that goes into steps that count if hosts fail (goodput.h), for the chosen
// interval between checkpoints and for the best one.
struct Goodput {
  double share = 1, best_share = 1;
  int every_steps = 0, best_every_steps = 0;
  double mean_time_between_failures_s = 0;  // of the cluster
  double checkpoint_write_s = 0;
};

// The range, in seconds, in which four of five measurements of steps like this one would be.
struct StepInterval {
  double low_s = 0, high_s = 0;
  int rows = 0;  // published steps behind it
};

struct Prediction {
  SimTime step_time = 0;
  double step_time_s = 0;
  std::optional<StepInterval> interval;               // none: no step like it was published
  Calibration calibration = Calibration::spec_sheet;  // of the machine's profile
  double sequences_per_s = 0, tokens_per_s = 0;
  double model_flops_per_s_per_gpu = 0, mfu = 0;
  double bubble_fraction = 0, exposed_communication_s = 0;
  bool fits = true;
  double memory_limit_bytes = 0;  // of one GPU
  std::int64_t peak_memory_bytes = 0;
  std::optional<FrameworkUse> framework;  // decides `fits` where training.memory_of names one
  std::vector<StageMemory> memory;
  std::int64_t host_memory_bytes = 0;  // of the ranks of the host where this is most
  double host_memory_limit_bytes = 0;
  std::optional<Price> price;  // of one host; none: not known
  std::optional<double> usd_per_hour, usd_per_million_tokens;
  std::optional<Goodput> goodput;  // none: hosts do not fail
  std::vector<StageTimes> stages;
  std::int64_t instructions = 0;
  double simulation_wall_s = 0;
};

// For one bucket, the bytes that training frameworks hold beside what the Program holds, and those
// that they save. Each is 0 where it does not apply: without fp32 masters or mixed precision, for
// frozen parameters, and for our engine (Machine::runs_engine).
struct FrameworkBytes {
  // Gradients in the 16 bits in which the backward computes them, in addition to the 32 in which
  // they are summed (2 + 2 + 4 + 4 + 8 bytes per parameter in all), unless matmuls sum into the 32
  // themselves. Sharded gradients are handed on one by one, so only those in 32 bits stay.
  std::int64_t second_gradients = 0;
  // Gradients in 32 bits that the rank's optimizer reads, in addition to sums in 16. Optimizers
  // that keep less than fp32 masters read the sums (Apex's DistributedFusedAdam, Transformer
  // Engine's FusedAdam with `use_decoupled_grad`).
  std::int64_t own_gradients = 0;
  // Shards of weights in 16 bits under ZeRO 3. FSDP, of PyTorch as of XLA, has only shards of the
  // fp32 masters, and casts them as it gathers.
  std::int64_t shards_left_out = 0;
};
// Returns these bytes. Only the bucket's sizes and the types of its weights and gradients are read.
FrameworkBytes framework_bytes(const Bucket& bucket, const StepSettings& training,
                               const Machine& machine);

// Returns whether weights that are multiplied in 8 bits, and stay so from step to step, have no
// copy in 16 bits: the primary weights of Transformer Engine, which Megatron's and NeMo's recipes
// ask for (fp8_param_gather). The engine keeps both, as does whoever has no fp32 masters.
bool keeps_8_bits_alone(const StepSettings& training, const Machine& machine);

// Returns the bytes that libraries take on every rank: contexts, workspaces and communicators.
double library_bytes(const Cluster& cluster);

// Return the memory that one stage, or each stage, needs. This is cheap, because nothing is
// replayed.
StageMemory stage_memory(const Program& program, const Cluster& cluster);
std::vector<StageMemory> stage_memory(const std::vector<Program>& stages, const Cluster& cluster);

// Returns the bytes that ranks keep in their host's memory, on the host where this is most.
std::int64_t host_memory_bytes(const std::vector<Program>& stages, const Cluster& cluster);

struct PredictOptions {
  const PriceChoice* price = nullptr;          // null: on demand, in any region
  std::optional<FrameworkUse> framework = {};  // where training.memory_of names one
  Timeline* timeline = nullptr;                // to be filled in
};
Prediction predict(const Compiled& compiled, const Cluster& cluster,
                   const PredictOptions& options = {});

}  // namespace meshwright::sim
