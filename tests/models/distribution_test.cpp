#include "models/job/distribution.h"
#include <algorithm>

#include "tests/catch.h"
#include "tests/models/distributions.h"

using namespace meshwright::tests;

TEST_CASE("version 1: pipeline and microbatches", "[models][distribution]") {
  const Job job = read(version_1({{"partitions", 2}, {"microbatches", 4}, {"ddp", true}}));
  const Parallelism& p = job.plan.parallelism;
  CHECK(p.pipeline == 2);
  CHECK(p.data == 8);                         // 16 / 2
  CHECK(job.plan.training.micro_batch == 2);  // 64 / (8 * 4)
  CHECK(job.plan.micro_batches() == 4);
  CHECK(p.schedule == ScheduleKind::one_f_one_b);
  CHECK(p.active_microbatches == 4);  // the library's default, partitions + 2
  CHECK(p.partitioner == Partitioner::tree);
  CHECK(p.memory_weight == 0.8);  // the library's default with optimize "memory"
  CHECK(p.placement == "cluster");
  CHECK(job.plan.training.precision == Precision::fp32);
  CHECK(job.autos.contains("training.micro_batch") == false);
  CHECK(job.warnings.empty());
}

TEST_CASE("version 1: the other words of the pipeline", "[models][distribution]") {
  const Job job = read(version_1({{"pipeline_parallel_degree", 2},
                                  {"microbatches", 4},
                                  {"pipeline", "simple"},
                                  {"optimize", "speed"},
                                  {"placement_strategy", "spread"},
                                  {"overlapping_allreduce", false},
                                  {"fp16", true},
                                  {"ddp", true},
                                  {"shard_optimizer_state", true}}));
  const Parallelism& p = job.plan.parallelism;
  CHECK(p.schedule == ScheduleKind::gpipe);
  CHECK(p.active_microbatches == 0);
  CHECK(p.memory_weight == 0.2);
  CHECK(p.placement == "spread");
  CHECK_FALSE(p.overlap_gradients);
  CHECK(p.zero_stage == 1);
  CHECK(job.plan.training.precision == Precision::fp16);
  REQUIRE(job.plan.training.loss_scale.has_value());
  CHECK_FALSE(job.plan.training.loss_scale->dynamic);
  CHECK(job.plan.training.loss_scale->initial == 1);
  CHECK(job.warnings.empty());
}

TEST_CASE("version 1: tensor parallelism", "[models][distribution]") {
  const Job job = read(version_1({{"tensor_parallel_degree", 4},
                                  {"ddp", true},
                                  {"optimize", "speed"},
                                  {"prescaled_batch", true}}));
  CHECK(job.plan.parallelism.tensor == 4);
  CHECK(job.plan.parallelism.data == 4);
  CHECK(job.plan.parallelism.tensor_layout == TensorLayout::speed);
  CHECK_FALSE(job.plan.parallelism.tensor_batch_own);
  CHECK(job.warnings.empty());
  // The library's defaults are layout `memory` and a batch of its own for each of the 16 ranks.
  const Job defaults =
      read(version_1({{"tensor_parallel_degree", 4}, {"ddp", true}, {"microbatches", 2}}));
  CHECK(defaults.plan.parallelism.tensor_layout == TensorLayout::memory);
  CHECK(defaults.plan.parallelism.tensor_batch_own);
  CHECK(defaults.plan.training.micro_batch == 8);  // 64 / (4 replicas * 2); 2 for each rank
  CHECK(refused(version_1({{"tensor_parallel_degree", 4}, {"ddp", true}, {"microbatches", 8}})) ==
        "microbatches: global_batch 64 is not a multiple of 16 data-parallel ranks x microbatches "
        "8 = 128, because each of 4 tensor ranks reads a batch of its own; use global_batch 128, "
        "or prescaled_batch true");
  CHECK(refused(version_1({{"tensor_parallel_degree", 8},
                           {"ddp", true},
                           {"optimize", "speed"},
                           {"prescaled_batch", true}})) ==
        "tensor_parallel_degree: 8 does not divide 12 heads; use 1, 2 or 4");
}

TEST_CASE("version 1: sharded data parallelism", "[models][distribution]") {
  const Job job = read(version_1({{"sharded_data_parallel_degree", 8},
                                  {"bf16", true},
                                  {"ddp", true},
                                  {"microbatches", 2},
                                  {"sdp_reduce_bucket_size", 1000},
                                  {"sdp_max_live_parameters", 2000}}));
  const Parallelism& p = job.plan.parallelism;
  CHECK(p.zero_stage == 3);
  CHECK(p.shard == 8);
  CHECK(p.reduce_bucket_bytes == 2000);  // 1000 elements of bf16
  CHECK(p.max_live_parameters == 2000);
  CHECK(p.persistence_threshold == 1'000'000);
  CHECK(job.plan.training.gradient_clip == 1.0);
  CHECK(job.plan.training.precision == Precision::bf16);
  CHECK(job.plan.training.micro_batch == 2);  // 64 / (16 * 2)
  CHECK(p.hierarchical_gather);
  CHECK(job.warnings.empty());
  const Job flat = read(version_1({{"sharded_data_parallel_degree", 2},
                                   {"ddp", true},
                                   {"sdp_reduce_bucket_size", 1000},
                                   {"sdp_hierarchical_allgather", false}}));
  CHECK_FALSE(flat.plan.parallelism.hierarchical_gather);
  CHECK(flat.plan.parallelism.reduce_bucket_bytes == 0);  // only degrees above 2 have buckets
  CHECK(flat.warnings.size() == 1);
  CHECK(warns(flat, "sdp_reduce_bucket_size"));
}

TEST_CASE("version 1: optimizer state sharding shares out whole parameters",
          "[models][distribution]") {
  const Job job = read(
      version_1({{"shard_optimizer_state", true}, {"ddp", true}, {"pipeline_parallel_degree", 2}}));
  CHECK(job.plan.parallelism.zero_stage == 1);
  CHECK(job.plan.parallelism.shard_whole);
  CHECK(job.plan.shard_group() == 8);
}

TEST_CASE("version 1: rules between degrees", "[models][distribution]") {
  const auto one = [](const json& parameters) { return refused(version_1(parameters)); };
  CHECK(one({{"partitions", 2}, {"pipeline_parallel_degree", 4}}) ==
        "partitions: 2 contradicts pipeline_parallel_degree 4, of which it is the old name; give "
        "one of them");
  CHECK(one({{"partitions", 3}}) ==
        "partitions: 3 does not divide the 16 processes; use 1, 2, 4 or 8");
  CHECK(one({{"tensor_parallel_degree", 2}}) ==
        "ddp: must be true with tensor_parallel_degree 2, which runs across data-parallel ranks; "
        "use true, or degree 1");
  CHECK(one({{"bf16", true}}) ==
        "bf16: needs sharded_data_parallel_degree above 1; give it, or use \"fp16\": true");
  CHECK(one({{"bf16", true}, {"fp16", true}}) == "bf16: true beside fp16; use one of them");
  CHECK(one({{"sharded_data_parallel_degree", 2}, {"partitions", 2}}) ==
        "sharded_data_parallel_degree: 2 does not go with pipeline_parallel_degree 2; use 1 for "
        "one of them");
  CHECK(one({{"sharded_data_parallel_degree", 3}}) ==
        "sharded_data_parallel_degree: 3 does not divide 16 processes / tensor_parallel_degree 1 = "
        "16; use 1, 2, 4, 8 or 16");
  CHECK(one({{"sharded_data_parallel_degree", 2}, {"shard_optimizer_state", true}}) ==
        "shard_optimizer_state: does not go with sharded_data_parallel_degree 2, which shards it "
        "already; use false");
  CHECK(one({{"microbatches", 3}}) ==
        "microbatches: global_batch 64 is not a multiple of data 16 x microbatches 3 = 48; use "
        "global_batch 96");
}

TEST_CASE("version 1: values out of their range", "[models][distribution]") {
  const std::vector<std::pair<std::string, json>> cases = {
      {"partitions", 0},
      {"microbatches", 0},
      {"pipeline", "_only_forward"},
      {"pipeline", "wavefront"},
      {"optimize", "cost"},
      {"placement_strategy", "DDP"},
      {"auto_partition", false},
      {"default_partition", 1},
      {"default_partition", -1},
      {"horovod", true},
      {"load_partition", true},
      {"memory_weight", 1.5},
      {"active_microbatches", 0},
      {"ddp_port", 1234},
      {"ddp_dist_backend", "auto"},
      {"tensor_parallel_degree", -1},
      {"fp16_params", true},
      {"offload_activations", "yes"},
      {"activation_loading_horizon", 0},
      {"sharded_data_parallel_degree", 0},
      {"sdp_gradient_clipping", 0},
      {"sdp_reduce_bucket_size", 0},
      {"trace_device", "tpu"},
      {"fast_mode", "yes"},
  };
  for (const auto& [key, bad] : cases) {
    CAPTURE(key, bad.dump());
    CHECK(refused(version_1({{key, bad}})).find(key.substr(0, key.find('_'))) != std::string::npos);
  }
}

TEST_CASE("version 1: modules on the stages that a file says", "[models][distribution]") {
  const std::string folder = std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/models/partitions/";
  const auto with_file = [&](const std::string& name, json parameters) {
    parameters["partitions"] = 2;
    parameters["partition_file"] = folder + name;
    return version_1(parameters);
  };
  // The job is partitioned as by smp.partition: modules without a stage of their own go to the
  // default stage.
  const Job manual =
      read(with_file("second_half.json", {{"auto_partition", false}, {"default_partition", 0}}));
  CHECK(manual.plan.parallelism.partitioner == Partitioner::manual);
  CHECK(manual.plan.parallelism.manual_stage.at("") == 0);
  CHECK(manual.plan.parallelism.manual_stage.at("lm_head") == 1);
  const Job loaded = read(with_file("saved.json", {{"load_partition", true}}));
  CHECK(loaded.plan.parallelism.names_every_unit);
  CHECK(loaded.settings_files.size() == 1);  // nothing may be written over it
  CHECK(loaded.plan.parallelism.manual_stage.at("transformer.h.6") == 1);
  // With one stage, no partition_file is needed.
  CHECK(read(version_1({{"partitions", 1}, {"auto_partition", false}, {"default_partition", 0}}))
            .plan.parallelism.pipeline == 1);
  // A stored partition must give every unit a stage.
  CHECK(refused(with_file("second_half.json", {{"load_partition", true}})) ==
        "partition_file: the saved partition has no stage for 'transformer.wte'; save it again "
        "with this model");
  CHECK(refused(version_1({{"partitions", 2}, {"load_partition", true}})) ==
        "load_partition: true needs a partition_file to load; give one (`plan --write-partition "
        "FILE` writes it)");
  CHECK(refused(with_file("falling.json", {{"load_partition", true}}))
            .starts_with("partition_file: 'transformer.h.1' is on stage 0 but runs after "
                         "'transformer.h.0' on stage "
                         "1"));
}

TEST_CASE("version 1: every key without effect says so once", "[models][distribution]") {
  const json parameters = {{"contiguous", false},
                           {"deterministic_server", true},
                           {"skip_tracing", true},
                           {"delayed_parameter_initialization", false},
                           {"sdp_hierarchical_allgather", false},
                           {"fast_mode", true},
                           {"static_mode", true},
                           {"trace_device", "gpu"},
                           {"ddp", true},
                           {"ddp_port", 1234},
                           {"ddp_dist_backend", "auto"},
                           {"partition_file", "stages"},
                           {"tensor_parallel_seed", 1},
                           {"activation_loading_horizon", 4},
                           {"sdp_reduce_bucket_size", 1000},
                           {"sdp_param_persistence_threshold", 1000},
                           {"sdp_max_live_parameters", 1000},
                           {"sdp_gradient_clipping", 1.0},
                           {"default_partition", 0},
                           {"memory_weight", 0.5},
                           {"active_microbatches", 2},
                           {"hybrid_shard_degree", 2},
                           {"microbatchs", 2}};
  const Job job = read(version_1(parameters));
  for (const auto& [key, value] : parameters.items()) {
    CAPTURE(key);
    CHECK(warns(job, key) == (key != "ddp"));
  }
  CHECK(job.warnings.size() == parameters.size() - 1);
}

TEST_CASE("both versions offload what is checkpointed", "[models][distribution]") {
  const auto read_with = [](const json& distribution, const char* recompute) {
    json value = job_of(distribution);
    value["training"]["recompute"] = recompute;
    return read_job(value, "job.json", ".", lookup_for_tests);
  };
  const json one = {
      {"partitions", 2}, {"microbatches", 4}, {"ddp", true}, {"offload_activations", true}};
  const Job tasks = read_with(version_1(one), "full");
  CHECK(tasks.plan.parallelism.offload == Offload::activations);
  CHECK(tasks.plan.parallelism.horizon() == 4);  // pipeline tasks
  CHECK(!warns(tasks, "offload_activations"));
  CHECK(warns(read_with(version_1(one), "none"), "offload_activations"));
  json alone = one;
  alone["microbatches"] = 1;
  alone["activation_loading_horizon"] = 2;
  const Job one_batch = read_with(version_1(alone), "full");
  CHECK(one_batch.plan.parallelism.horizon() == 2);
  CHECK(warns(one_batch, "offload_activations"));

  // Sharded data parallelism has one stage, so activations are offloaded layer by layer. This helps
  // even with one micro-batch.
  const json sharded = {{"ddp", true},
                        {"sharded_data_parallel_degree", 2},
                        {"microbatches", 1},
                        {"offload_activations", true}};
  const Job by_layer = read_with(version_1(sharded), "full");
  CHECK(by_layer.plan.parallelism.offload == Offload::layers);
  CHECK(by_layer.plan.parallelism.horizon() == 4);  // layers
  CHECK(!warns(by_layer, "offload_activations"));
  CHECK(read_with(version_1(sharded), "selective").plan.parallelism.offload ==
        Offload::activations);

  const Job layers = read_with(version_2({{"sm_activation_offloading", true}}), "full");
  CHECK(layers.plan.parallelism.offload == Offload::layers);
  CHECK(layers.plan.parallelism.horizon() == 2);  // layers
  CHECK(!warns(layers, "sm_activation_offloading"));
  CHECK(warns(read_with(version_2({{"sm_activation_offloading", true}}), "none"),
              "sm_activation_offloading"));
}

TEST_CASE("every key of both tables is known", "[models][distribution]") {
  CHECK(version_1_keys().size() == 39);
  CHECK(version_2_keys().size() == 10);
}

TEST_CASE("version 2: hybrid sharding", "[models][distribution]") {
  const Job all = read(version_2({{"hybrid_shard_degree", 0}}));
  CHECK(all.plan.parallelism.zero_stage == 3);
  CHECK(all.plan.shard_group() == 16);  // the whole cluster
  const Job none = read(version_2({{"hybrid_shard_degree", 1}}));
  CHECK(none.plan.parallelism.zero_stage == 0);
  const Job eight = read(version_2({{"hybrid_shard_degree", 4}, {"tensor_parallel_degree", 2}}));
  CHECK(eight.plan.parallelism.shard == 4);
  CHECK(eight.plan.parallelism.tensor == 2);
  CHECK(eight.plan.parallelism.data == 8);
  json mixtral = job_of(version_2({{"hybrid_shard_degree", 4}, {"expert_parallel_degree", 4}}));
  mixtral["model"] = "mixtral-8x7b";
  const Job experts = read_job(mixtral, "job.json", ".", lookup_for_tests);
  CHECK(experts.plan.parallelism.expert == 4);
  CHECK(experts.plan.parallelism.data == 16);
  CHECK(experts.plan.degrees().expert_shard() == 4);
  const Job parts = read(version_2({{"hybrid_shard_degree", 4}, {"context_parallel_degree", 4}}));
  CHECK(parts.plan.parallelism.context == 4);
  CHECK(parts.plan.parallelism.data == 4);
  CHECK(parts.plan.shard_group() == 4);
  CHECK(read(version_2({{"random_seed", 12}})).plan.training.seed == 12);
}

TEST_CASE("version 1: heads that FlashAttention does not take fall back",
          "[models][distribution]") {
  for (const auto& [heads, kernel] : {std::pair{12, AttentionKernel::flash2},    // 64 wide
                                      std::pair{6, AttentionKernel::unfused},    // 128
                                      std::pair{7, AttentionKernel::flash2},     // 96
                                      std::pair{16, AttentionKernel::unfused}})  // 42
  {
    json value = job_of(version_1({{"partitions", 2}, {"ddp", true}, {"fp16", true}}));
    const int hidden = heads == 7 ? 672 : heads == 16 ? 672 : 768;
    value["model"] = {{"family", "gpt"}, {"hidden", hidden}, {"layers", 4},
                      {"heads", heads},  {"vocab", 99},      {"positions", 512}};
    CAPTURE(heads);
    const Job job = read_job(value, "job.json", ".", lookup_for_tests);
    CHECK(settle(job, 16, lookup_for_tests("p4d.24xlarge")).training.attention == kernel);
  }
}

TEST_CASE("version 2: what MoEConfig says acts or is refused", "[models][distribution]") {
  const auto with = [](const json& config) {
    json value = job_of(version_2({{"expert_parallel_degree", 2}, {"moe_config", config}}));
    value["model"] = {{"family", "mixtral"},
                      {"hidden", 64},
                      {"layers", 2},
                      {"heads", 4},
                      {"vocab", 99},
                      {"ffn", 64},
                      {"router_aux_loss_coef", 0.02}};
    return value;
  };
  const auto error = [&](const json& config) -> std::string {
    try {
      read_job(with(config), "job.json", ".", lookup_for_tests);
    } catch (const InputError& wrong) {
      const std::string text = wrong.what();
      return text.substr(text.find("moe_config"));
    }
    return "";
  };
  const json good = {{"smp_moe", true},
                     {"moe_load_balancing", "aux_loss"},
                     {"moe_aux_loss_coeff", 0.02},
                     {"moe_z_loss_coeff", 0},
                     {"global_token_shuffle", false},
                     {"moe_all_to_all_dispatcher", true}};
  CHECK(read_job(with(good), "job.json", ".", lookup_for_tests).warnings.empty());
  const Job left_out = read_job(with(json::object()), "job.json", ".", lookup_for_tests);
  CHECK(warns(left_out, "moe_config/moe_load_balancing"));
  CHECK(warns(left_out, "moe_config/moe_z_loss_coeff"));
  CHECK(error({{"smp_moe", false}}).starts_with("moe_config/smp_moe: false, but"));
  for (const char* word : {"sinkhorn", "balanced"})
    CHECK(error({{"moe_load_balancing", word}})
              .starts_with("moe_config/moe_load_balancing: is not done here"));
  CHECK(error({{"moe_load_balancing", "none"}}).find("router_aux_loss_coef 0.02") !=
        std::string::npos);
  CHECK(error({{"moe_aux_loss_coeff", 0.001}}).find("make them equal") != std::string::npos);
  CHECK(error({{"global_token_shuffle", true}}) != "");
  CHECK(error({{"moe_all_to_all_dispatcher", false}}) != "");
  CHECK(error({{"smp_mo", true}}).find("did you mean 'smp_moe'?") != std::string::npos);
  CHECK(refused(version_2({{"moe_config", json::object()}})).find("needs a model with experts") !=
        std::string::npos);
}

TEST_CASE("version 2: a warning says that activation offloading is off unless it is given",
          "[models][distribution]") {
  json value = job_of(version_2({{"hybrid_shard_degree", 8}}));
  CHECK(read_job(value, "job.json", ".", lookup_for_tests).warnings.empty());
  value["training"]["recompute"] = "full";
  const Job job = read_job(value, "job.json", ".", lookup_for_tests);
  CHECK(warns(job, "sm_activation_offloading"));
  CHECK(job.plan.parallelism.offload == Offload::none);
}

TEST_CASE("version 2: rules and warnings", "[models][distribution]") {
  const auto one = [](const json& parameters) { return refused(version_2(parameters)); };
  CHECK(one({{"expert_parallel_degree", 2}, {"tensor_parallel_degree", 2}}) ==
        "expert_parallel_degree: 2 does not go with tensor_parallel_degree 2; use 1 for one of "
        "them");
  CHECK(one({{"hybrid_shard_degree", 3}}) ==
        "hybrid_shard_degree: shard 3 x tensor 1 x expert 1 = 3 does not divide the 16 processes; "
        "use degrees whose product does");
  CHECK(one({{"hybrid_shard_degree", 2}, {"context_parallel_degree", 4}}) ==
        "context_parallel_degree: 4 exceeds hybrid_shard_degree 2; use at most that");
  CHECK(one({{"expert_parallel_degree", 2}}) ==
        "expert_parallel_degree: 2 needs a model with experts; use 1, or family 'mixtral'");
  const Job job = read(version_2({{"activation_loading_horizon", 2},
                                  {"fsdp_cache_flush_warnings", true},
                                  {"allow_empty_shards", false},
                                  {"microbatches", 2}}));
  for (const char* key : {"activation_loading_horizon", "fsdp_cache_flush_warnings",
                          "allow_empty_shards", "microbatches"})
    CHECK(warns(job, key));
}

TEST_CASE("a warning says that NCCL replaces SageMaker's library of collectives",
          "[models][distribution]") {
  const auto with = [](const json& parameters) {
    return read({{"smdistributed", {{"dataparallel", parameters}}}});
  };
  const Job on = with({{"enabled", true}});
  CHECK(warns(on, "enabled"));
  CHECK(on.warnings.back().ends_with("NCCL's collectives take the place of SageMaker's own"));
  CHECK(with({{"enabled", true}, {"custom_mpi_options", "-verbose -x LANG"}}).mpi_options ==
        std::vector<std::string>{"-verbose", "-x", "LANG"});
  for (const Job& off : {with({{"enabled", false}}), with(json::object())})
    for (const std::string& warning : off.warnings)
      CHECK(warning.find("NCCL's collectives") == std::string::npos);
}

TEST_CASE("keys of one stage alone, and of the other version, are warned of",
          "[models][distribution]") {
  for (const char* key : {"memory_weight", "active_microbatches"}) {
    INFO(key);
    const json value = std::string(key) == "memory_weight" ? json(0.5) : json(2);
    const Job one = read(version_1({{"partitions", 1}, {"ddp", true}, {key, value}}));
    CHECK(warns(one, key));
    CHECK_FALSE(warns(
        read(version_1({{"partitions", 2}, {"microbatches", 4}, {"ddp", true}, {key, value}})),
        key));
  }
  const Job first = read(version_1({{"partitions", 2}, {"ddp", true}, {"hybrid_shard_degree", 2}}));
  CHECK(warns(first, "hybrid_shard_degree"));
  CHECK(std::ranges::count_if(first.warnings, [](const std::string& warning) {
          return warning.ends_with("a key of version 2, without effect in version 1");
        }) == 1);
  const Job second = read(version_2({{"hybrid_shard_degree", 2}, {"partitions", 2}}));
  CHECK(std::ranges::count_if(second.warnings, [](const std::string& warning) {
          return warning.ends_with("a key of version 1, without effect in version 2");
        }) == 1);
}
