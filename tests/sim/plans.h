// Makes small models, machines and plans for tests of the simulator.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "hwprofiles/load.h"
#include "hwprofiles/topology.h"
#include "models/compiler/schedule/schedule.h"
#include "sim/predict/predict.h"
#include "tests/sim/compiled.h"

namespace meshwright::tests {

inline Model small_model(int layers = 6) {
  Model model = load_model("gpt2", ".");
  model.hidden = 256;
  model.layers = layers;
  model.heads = model.kv_heads = 4;
  model.head_dim = 64;
  model.ffn = 1024;
  model.positions = 128;
  model.vocabulary = 1000;
  return model;
}

struct PlanCase {
  std::string name;
  Plan plan;
};

// Returns every legal combination of pipeline x tensor x data x schedule x zero stage on `ranks`
// ranks. Sequence parallelism, recomputation, overlap and placement vary from plan to plan.
inline std::vector<PlanCase> plans_for(int ranks) {
  std::vector<PlanCase> cases;
  int turn = 0;
  struct Kind {
    ScheduleKind schedule;
    int chunks;
  };
  for (int pipeline : {1, 2, 4})
    for (int tensor : {1, 2, 4})
      for (int zero = 0; zero <= 3; ++zero)
        for (const Kind kind :
             {Kind{ScheduleKind::gpipe, 1}, Kind{ScheduleKind::one_f_one_b, 1},
              Kind{ScheduleKind::interleaved, 2}, Kind{ScheduleKind::zero_bubble, 1},
              Kind{ScheduleKind::zero_bubble_v, 2}, Kind{ScheduleKind::interleaved_zero_bubble, 2},
              Kind{ScheduleKind::dualpipe_v, 2}}) {
          const bool splits = schedule_info(kind.schedule).splits_backwards;
          if (splits && zero > 1) continue;
          if (ranks % (pipeline * tensor) != 0) continue;
          const int data = ranks / (pipeline * tensor);
          if (pipeline == 1 && kind.schedule != ScheduleKind::one_f_one_b) continue;
          if (zero > 0 && data == 1) continue;
          ++turn;
          PlanCase made;
          Plan& plan = made.plan;
          plan.training.micro_batch = 2;
          plan.training.global_batch = 2 * 8 * data;
          plan.training.sequence_length = 128;
          plan.training.precision = turn % 3 == 0 ? Precision::fp32 : Precision::fp16;
          plan.training.recompute = turn % 4 == 1 ? Recompute::full : Recompute::none;
          Parallelism& p = plan.parallelism;
          p.pipeline = pipeline, p.tensor = tensor, p.data = data;
          p.schedule = kind.schedule;
          p.virtual_stages = kind.chunks;
          p.zero_stage = zero;
          if (zero > 0 && data % 4 == 0 && turn % 5 == 0) p.shard = 2;
          p.shard_whole = zero == 1 && p.shard == 1 && turn % 3 != 0;
          if (turn % 3 == 2 && !p.shard_whole && !splits)
            p.reduce_gradients = turn % 2 == 0 ? ReduceGradients::each : ReduceGradients::last;
          p.keeps_gathered = zero == 3 && turn % 4 == 2;
          if (turn % 4 > 0) p.max_live_parameters = std::int64_t{300'000} << turn % 4;
          if (turn % 3 == 1) p.persistence_threshold = 70'000;
          p.sequence_parallel = tensor > 1 && turn % 2 == 0;
          p.overlap_gradients = turn % 7 != 0;
          p.overlap_parameters = turn % 5 != 1;
          p.overlap_tensor = turn % 6 < 3;
          p.tensor_chunks = p.overlap_tensor ? 1 << turn % 3 : 1;
          p.pipeline_scatter_gather = turn % 3 != 1;
          p.placement = turn % 4 == 3 ? "TPD" : "DPT";
          p.reduce_bucket_bytes = 1 << 20;
          made.name = fmt::format("p{} t{} d{} zero {} {} turn {}", pipeline, tensor, data, zero,
                                  schedule_info(kind.schedule).name, turn);
          cases.push_back(std::move(made));
        }
  return cases;
}

struct MachineCase {
  std::string name;
  int hosts = 1, per_host = 8;
  Cluster cluster() const { return {load_machine(name), hosts, per_host, {}, {}}; }
};

// Returns clusters with a cube mesh, with an NVSwitch, and with groups over two hosts.
inline const std::vector<MachineCase>& machine_cases() {
  static const std::vector<MachineCase> cases = {
      {"p4d.24xlarge", 1, 8}, {"p3.16xlarge", 1, 8}, {"p3.16xlarge", 2, 4}};
  return cases;
}

}  // namespace meshwright::tests
