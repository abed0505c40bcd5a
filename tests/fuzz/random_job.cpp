#include "tests/fuzz/random_job.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "sim/framework/framework_memory.h"
#include "sim/planner/clusters.h"
#include "sim/predict/goodput.h"
#include "sim/predict/target.h"

namespace meshwright::tests::fuzz {

using nlohmann::json;

namespace {

class Draw {
 public:
  explicit Draw(Random& random) : random_(random) {}

  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  bool chance(double probability) { return real(0, 1) < probability; }
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(between(0, static_cast<int>(values.size()) - 1))];
  }
  std::string word(std::initializer_list<const char*> words) {
    return std::data(words)[between(0, static_cast<int>(words.size()) - 1)];
  }
  int divisor_of(int number, int most = 1 << 30) {
    std::vector<int> divisors;
    for (int d = 1; d <= std::min(number, most); ++d)
      if (number % d == 0) divisors.push_back(d);
    return of(divisors);
  }

 private:
  Random& random_;
};

const Machine& machine_of(const std::string& name) {
  static std::map<std::string, Machine> known;
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  const std::string local = std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/tools/local.json";
  return known.emplace(name, name == "local" ? load_machine_file(local) : load_machine(name))
      .first->second;
}

MachineFacts facts_by_name(const std::string& name) { return facts_of(machine_of(name)); }

json draw_model(Draw& draw) {
  const int heads = draw.of<int>({1, 2, 4, 4, 8, 8, 12, 16});
  json model = {{"family", draw.word({"gpt", "gpt", "llama", "llama", "bert", "mpt", "bloom",
                                      "mixtral", "seq2seq", "vit"})},
                {"hidden", heads * draw.of<int>({8, 16, 32, 64, 128})},
                {"layers", draw.chance(0.9) ? draw.between(1, 8) : draw.between(9, 32)},
                {"heads", heads}};
  const std::string family = model["family"];
  if (draw.chance(0.3)) model["ffn"] = 16 * draw.between(1, 200);
  if (family == "vit") {
    const int patch = draw.of<int>({4, 8, 16});
    model["patch_size"] = patch;
    model["image_size"] = patch * draw.between(2, 12);
    model["channels"] = draw.of<int>({1, 3});
    model["classes"] = draw.between(2, 1000);
    return model;
  }
  model["vocab"] = draw.between(10, 60'000);
  model["positions"] = 2048;
  if ((family == "llama" || family == "mixtral") && draw.chance(0.5))
    model["kv_heads"] = draw.divisor_of(heads);
  if (family != "mixtral" && draw.chance(0.2)) model["gated_ffn"] = draw.chance(0.5);
  if (draw.chance(0.2)) model["tied_embeddings"] = draw.chance(0.5);
  if (family == "mixtral") {
    model["experts"] = draw.of<int>({2, 4, 8});
    model["experts_per_token"] = draw.between(1, 2);
    if (draw.chance(0.4)) model["expert_dropless"] = true;
    if (draw.chance(0.4)) model["router_aux_loss_coef"] = 0;
  }
  if (family == "bert") model["head"] = draw.word({"mlm", "qa", "classification"});
  if ((family == "gpt" || family == "llama") && draw.chance(0.1)) model["head"] = "classification";
  if (model.value("head", "") == "classification") model["classes"] = draw.between(2, 1000);
  return model;
}

json draw_training(Draw& draw, const json& model, int data) {
  const int micro_batch = draw.of<int>({1, 1, 2, 2, 3, 4, 8});
  json training = {{"micro_batch", micro_batch},
                   {"global_batch", data * micro_batch * draw.of<int>({1, 2, 2, 4, 4, 6, 8, 16})},
                   {"sequence_length", 16 * draw.of<int>({1, 2, 4, 8, 16, 32, 64})}};
  if (model["family"] == "vit") {
    const int side = model["image_size"].get<int>() / model["patch_size"].get<int>();
    training["sequence_length"] = side * side + 1;
  }
  if (draw.chance(0.5))
    training["precision"] = draw.word({"fp32", "tf32", "fp16", "fp16", "bf16", "fp8", "nvfp4"});
  if (training.value("precision", "") == "fp8") {
    training["fp8_recipe"] = draw.word({"delayed", "tensorwise", "blockwise", "mxfp8"});
    if (draw.chance(0.5)) training["fp8_experts"] = draw.chance(0.5);
    if (draw.chance(0.2)) training["fp8_gathers"] = true;
  } else if (training.value("precision", "") == "nvfp4") {
    if (draw.chance(0.5)) training["fp8_experts"] = draw.chance(0.5);
  }
  if (training.contains("precision") && draw.chance(0.3)) {
    const std::string precision = training["precision"];
    const int layers = model["layers"], first = draw.between(0, layers);
    if (precision == "fp8" || precision == "nvfp4") {
      training["first_layers_in_bf16"] = first;
      if (draw.chance(0.9)) training["last_layers_in_bf16"] = draw.between(0, layers - first);
    }
  }
  if (draw.chance(0.2)) training["gradient_reduce_precision"] = draw.word({"fp32", "fp16", "bf16"});
  if (draw.chance(0.5))
    training["recompute"] =
        draw.word({"none", "selective", "full", "each", "contiguous", "group_2", "group_3"});
  else if (draw.chance(0.1))
    training["recompute_budget"] = draw.real(0.3, 1);
  if (training.contains("recompute") && draw.chance(0.2))
    training["recompute_fraction"] = draw.real(0, 1);
  if (draw.chance(0.5)) training["attention"] = draw.word({"unfused", "flash", "flash2"});
  if (draw.chance(0.5)) training["compiler"] = draw.word({"none", "fused", "full"});
  if (draw.chance(0.4))
    training["optimizer"] =
        draw.word({"adamw", "adam", "lamb", "sgd", "lion", "muon", "adafactor"});
  if (training.value("optimizer", "") == "adafactor" && draw.chance(0.5))
    training["adafactor"] = {{"clip_threshold", draw.real(0.5, 2)},
                             {"scale_parameter", draw.chance(0.5)},
                             {"relative_step", draw.chance(0.5)}};
  if (draw.chance(0.2)) training["master_weights"] = draw.word({"fp32", "remainders", "none"});
  if (draw.chance(0.1)) training["moments_precision"] = draw.word({"fp32", "bf16", "8bit"});
  if (draw.chance(0.1)) training["moments_rounding"] = draw.word({"nearest", "stochastic"});
  if (draw.chance(0.1)) training["ema_decay"] = draw.real(0, 1);
  if (draw.chance(0.2)) training["fuse_gradient_accumulation"] = draw.chance(0.5);
  if (draw.chance(0.2)) training["cross_entropy_fusion"] = draw.chance(0.5);
  if (draw.chance(0.2))
    training["gradient_clip"] = draw.real(0.1, 2);
  else if (draw.chance(0.1))
    training["gradient_clip_value"] = draw.real(0.1, 2);
  if (draw.chance(0.2))
    training["learning_rate_schedule"] =
        draw.word({"constant", "linear", "cosine", "warmup_stable_decay", "inverse_sqrt"});
  if (training.value("learning_rate_schedule", "") == "warmup_stable_decay" && draw.chance(0.5))
    training["decay_steps"] = draw.between(1, 100);
  const std::string precision = training.value("precision", "");
  if (precision != "fp8" && precision != "nvfp4" && draw.chance(0.1))
    training["lora"] = {{"rank", draw.between(1, 8)}, {"target_modules", "all-linear"}};
  if (training.contains("lora") && draw.chance(0.4)) {
    json& lora = training["lora"];
    lora["base_weights"] = draw.word({"unquantized", "nf4", "nf4", "int4"});
    if (lora["base_weights"] == "nf4") lora["double_quantization"] = draw.chance(0.5);
    if (lora["base_weights"] == "int4") lora["group_size"] = draw.of<int>({32, 64, 128, 256});
  }
  if (model.value("expert_dropless", false) && draw.chance(0.3))
    training["expert_imbalance"] = draw.real(1, 4);
  if (draw.chance(0.2)) training["dropout"] = draw.real(0, 0.5);
  if (draw.chance(0.1)) training["steps"] = draw.between(1, 1000);
  if (draw.chance(0.1)) {
    training["packing"] = true;
    if (draw.chance(0.7)) training["documents_per_row"] = draw.real(1, 16);
  }
  return training;
}

json draw_parallelism(Draw& draw, const json& model, int ranks) {
  json p = json::object();
  const int layers = model["layers"], heads = model["heads"];
  const int pipeline = draw.divisor_of(ranks, layers + 2);
  const int tensor = draw.divisor_of(std::gcd(ranks / pipeline, model.value("kv_heads", heads)));
  int rest = ranks / pipeline / tensor;
  const int context = draw.chance(0.15) ? draw.divisor_of(rest, 4) : 1;
  const int data = rest / context;
  p["pipeline"] = pipeline;
  p["tensor"] = tensor;
  if (context > 1) {
    p["context"] = context;
    p["context_exchange"] = draw.word({"p2p", "all_gather", "all_to_all", "a2a+p2p"});
    if (p["context_exchange"] == "a2a+p2p" && draw.chance(0.5)) p["context_heads"] = 2;
  }
  p["data"] = data;
  if (model["family"] == "mixtral" && draw.chance(0.6))
    p["expert"] = draw.divisor_of(std::gcd(data, model["experts"].get<int>()));
  if (model["family"] == "mixtral" && draw.chance(0.3)) {
    p["expert_tensor"] = draw.chance(0.6) ? 1 : tensor;
    if (p["expert_tensor"] == 1 && draw.chance(0.5))
      p["expert"] = draw.divisor_of(std::gcd(data * tensor, model["experts"].get<int>()));
  }
  if (pipeline > 1) {
    p["schedule"] = draw.word({"gpipe", "1f1b", "1f1b", "interleaved", "zero_bubble",
                               "zero_bubble_v", "interleaved_zero_bubble", "dualpipe_v"});
    if (p["schedule"] == "zero_bubble_v" || p["schedule"] == "dualpipe_v")
      p["virtual_stages"] = draw.chance(0.9) ? 2 : 1;
    if (p["schedule"] == "interleaved" || p["schedule"] == "interleaved_zero_bubble")
      p["virtual_stages"] = std::max(1, draw.between(1, std::max(1, (layers + 2) / pipeline)));
  }
  if (rest > 1 && draw.chance(0.6)) {
    p["zero_stage"] = draw.between(0, 3);
    if (p["zero_stage"] > 0 && draw.chance(0.3)) p["shard"] = draw.divisor_of(rest);
    if (p["zero_stage"] == 1 && !p.contains("shard") && draw.chance(0.3))
      p["shard_layout"] = "whole";
  }
  if (draw.chance(0.3)) p["reduce_gradients"] = draw.word({"default", "each", "last", "last"});
  if (p.value("zero_stage", 0) == 3 && draw.chance(0.4)) p["reshard_after_forward"] = "never";
  if (tensor > 1) {
    p["sequence_parallel"] = draw.chance(0.5);
    if (draw.chance(0.3)) p["tensor_layout"] = draw.word({"megatron", "speed", "memory"});
    if (draw.chance(0.1)) p["tensor_batch"] = "own";
    if (p.value("tensor_layout", "") == "memory") p["sequence_parallel"] = false;
  }
  if (draw.chance(0.5)) {
    p["overlap"] = json::array();
    for (const char* what : {"gradients", "parameters", "tensor", "expert"})
      if (draw.chance(0.5)) p["overlap"].push_back(what);
    if (draw.chance(0.5)) p["tensor_chunks"] = 1 << draw.between(0, 3);
  }
  if (draw.chance(0.3)) p["pipeline_scatter_gather"] = draw.chance(0.5);
  if (draw.chance(0.4))
    p["placement"] = draw.word({"DPT", "PTD", "TPD", "DTP", "TDP", "PDT", "cluster", "spread"});
  if (draw.chance(0.3)) p["partition"] = draw.word({"auto", "chain", "tree", "even"});
  if (draw.chance(0.2)) p["memory_weight"] = draw.real(0, 1);
  if (draw.chance(0.1)) p["offload"] = draw.word({"activations", "layers", "optimizer"});
  if (draw.chance(0.2)) p["reduce_bucket_bytes"] = 1 << draw.between(10, 27);
  if (draw.chance(0.1)) p["max_live_parameters"] = 1 << draw.between(10, 27);
  if (draw.chance(0.1)) p["persistence_threshold"] = draw.between(0, 100'000);
  if (draw.chance(0.1)) p["hierarchical_gather"] = false;
  return p;
}

json draw_faults(Draw& draw, int hosts, int ranks, const MachineFacts& machine) {
  json faults = json::object();
  for (int i = draw.between(0, 2); i > 0; --i)
    faults["slow_ranks"].push_back(
        draw.chance(0.7) ? json{{"rank", draw.between(0, ranks - 1)}, {"factor", draw.real(1, 4)}}
                         : json{{"host", draw.between(0, hosts - 1)}, {"factor", draw.real(1, 4)}});
  for (int i = draw.between(0, 2); i > 0; --i) {
    json degraded = {{"link", machine.is_cpu       ? "network"
                              : machine.has_nvlink ? draw.word({"nvlink", "pcie", "network"})
                                                   : draw.word({"pcie", "network"})},
                     {"factor", draw.real(0.01, 1)}};
    if (draw.chance(0.7)) degraded["host"] = draw.between(0, hosts - 1);
    faults["degraded_links"].push_back(degraded);
  }
  return faults;
}

json draw_failures(Draw& draw) {
  json failures = json::object();
  for (const FailureCauseInfo& info : failure_causes())
    if (draw.chance(0.5))
      failures[std::string(info.name) + "_per_host_hour"] = std::pow(10, draw.real(-6, 1));
  const std::string recovery = recovery_names()[static_cast<std::size_t>(draw.between(0, 3))];
  if (draw.chance(0.5)) failures["recovery"] = recovery;
  if (failures.contains("recovery") && recovery != "restart" && draw.chance(0.5))
    failures["spares"] = draw.between(1, 4);
  if (draw.chance(0.5)) failures["restart_s"] = draw.real(1, 1000);
  if (draw.chance(0.5)) failures["replacement_s"] = draw.real(0, 10000);
  if (draw.chance(0.5)) failures["preemption_notice_s"] = draw.real(0, 1000);
  if (draw.chance(0.5)) failures["checkpoint_bytes_per_s"] = std::pow(10, draw.real(6, 11));
  return failures;
}

void check_number(double value, const char* what) {
  MESHWRIGHT_CHECK(std::isfinite(value) && value >= 0,
                   std::string(what) + " is " + std::to_string(value));
}

}  // namespace

json random_job(Random& random) {
  Draw draw(random);
  static const std::vector<std::string> machines = [] {
    std::vector<std::string> names = list_machines();
    std::erase(names, "local");
    names.insert(names.end(), 2, "local");
    return names;
  }();
  const std::string machine = draw.of(machines);
  const MachineFacts facts = facts_by_name(machine);
  json cluster = {{"machine", machine}};
  const bool has_network = machine_of(machine).network.nics > 0;
  const int hosts = draw.chance(0.5) ? 1 : draw.of<int>({2, 2, 3, 4, 8});
  const int per_host = facts.is_cpu ? draw.of<int>({1, 2, 4}) : draw.divisor_of(facts.gpus);
  cluster["count"] = hosts;
  cluster["processes_per_host"] = per_host;
  if ((hosts > 1 && !has_network) || draw.chance(0.1)) {
    cluster["network"] = {{"nics", draw.of<int>({1, 2, 4, 8})},
                          {"gbps_per_nic", draw.of<int>({10, 100, 400})}};
    if (draw.chance(0.5)) cluster["network"]["latency_us"] = draw.real(0, 50);
  }
  if (draw.chance(0.2))
    cluster["topology"] = {{"leaf_ports", draw.of<int>({4, 8, 32, 64})},
                           {"oversubscription", draw.real(1, 8)},
                           {"rails", draw.chance(0.5)},
                           {"in_network_reduction", draw.chance(0.3)}};
  if (draw.chance(0.2)) cluster["host_launch_us"] = draw.real(0.1, 50);
  if (draw.chance(0.1)) cluster["stack"] = draw.of<std::string>({"2021", "2023", "2025", "2026"});
  json job = {{"model", draw_model(draw)}, {"cluster", cluster}};
  job["parallelism"] = draw_parallelism(draw, job["model"], hosts * per_host);
  job["training"] = draw_training(draw, job["model"], job["parallelism"]["data"]);
  if (draw.chance(0.4)) job["faults"] = draw_faults(draw, hosts, hosts * per_host, facts);
  if (draw.chance(0.3)) job["failures"] = draw_failures(draw);
  if (draw.chance(0.2))
    job["checkpoint"] = {{"folder", "saved"}, {"every_steps", draw.between(1, 1000)}};
  if (draw.chance(0.1))
    job["objective"] = {{"price", draw.word({"on_demand", "spot", "capacity_block"})}};
  if (draw.chance(0.1)) {
    job["training"]["mtp_layers"] = draw.between(1, 2);
    if (draw.chance(0.5)) job["training"]["mtp_loss_weight"] = draw.real(0, 1);
  }
  json& training = job["training"];
  if (job["model"].value("family", "") == "mixtral" && draw.chance(0.2))
    training["measure_expert_load"] = true;
  if (job["model"].value("expert_dropless", false) && !training.contains("expert_imbalance") &&
      draw.chance(0.3))
    training["expert_skew"] = draw.real(0, 2);
  // Draws from a copy of the generator, so that these keys change none of the draws that follow.
  Random copy = random;
  Draw loading(copy);
  if (loading.chance(0.2))
    job["data"] = {{"bytes_per_sample", loading.real(1, 1e6)},
                   {"storage_bytes_per_s", loading.real(1e6, 1e10)},
                   {"decode_s", loading.real(1e-6, 0.1)},
                   {"workers", loading.between(0, 16)}};
  return job;
}

json random_open_job(Random& random) {
  json job = random_job(random);
  Draw draw(random);
  json& parallelism = job["parallelism"];
  if (draw.chance(0.3)) {
    parallelism = "auto";
  } else {
    for (const char* key : {"pipeline", "tensor", "data", "shard", "expert", "virtual_stages",
                            "schedule", "sequence_parallel", "tensor_chunks", "zero_stage",
                            "reduce_gradients", "reshard_after_forward", "expert_tensor"})
      if (draw.chance(0.4)) parallelism[key] = "auto";
  }
  if (draw.chance(0.5)) job["training"]["micro_batch"] = "auto";
  if (draw.chance(0.3) && !job["training"].contains("recompute_budget"))
    job["training"]["recompute"] = "auto";
  if (draw.chance(0.2)) job["training"]["compiler"] = "auto";
  if (draw.chance(0.3) && job["cluster"]["machine"] != "local") job["cluster"]["count"] = {1, 2};
  job["objective"] = {{"minimize", draw.word({"step_time", "usd", "usd_per_token", "gpus"})}};
  return job;
}

Machine load_machine_of_job(const std::string& name) { return machine_of(name); }

Job read_random_job(const json& value) { return read_job(value, "job.json", ".", facts_by_name); }

bool leaves_no_choice(const Job& job) {
  const std::set<std::string, std::less<>> follow = {"parallelism.data", "training.attention",
                                                     "training.precision"};
  return std::includes(follow.begin(), follow.end(), job.autos.begin(), job.autos.end());
}

Rehearsal rehearse(Job job) {
  const Machine& machine = machine_of(job.cluster.machines.front());
  Rehearsal made{std::move(job), {}, {}, {}};
  made.cluster = make_cluster(made.job.cluster, machine, made.job.cluster.counts.front());
  const Plan plan = settle(made.job, made.cluster.ranks(), facts_of(machine));
  made.compiled = compile(made.job.model, plan, target_of(made.cluster, plan.training));
  made.framework = framework_use(made.job.model, plan.training, made.cluster);
  return made;
}

void check_prediction(const Prediction& p) {
  check_number(p.step_time_s, "step_time_s");
  MESHWRIGHT_CHECK(p.step_time_s > 0, "a step takes no time");
  check_number(p.sequences_per_s, "sequences_per_s");
  check_number(p.tokens_per_s, "tokens_per_s");
  check_number(p.model_flops_per_s_per_gpu, "model_flops_per_s_per_gpu");
  check_number(p.mfu, "mfu");
  check_number(p.bubble_fraction, "bubble_fraction");
  MESHWRIGHT_CHECK(p.bubble_fraction <= 1, "a bubble is longer than its span");
  check_number(p.exposed_communication_s, "exposed_communication_s");
  check_number(static_cast<double>(p.peak_memory_bytes), "peak_memory_bytes");
  check_number(static_cast<double>(p.host_memory_bytes), "host_memory_bytes");
  for (const StageMemory& stage : p.memory) {
    check_number(static_cast<double>(stage.peak_bytes), "peak_bytes");
    for (const std::int64_t bytes : stage.class_bytes)
      check_number(static_cast<double>(bytes), "bytes of a class");
  }
  if (p.usd_per_hour) check_number(*p.usd_per_hour, "usd_per_hour");
  if (p.usd_per_million_tokens) check_number(*p.usd_per_million_tokens, "usd_per_million_tokens");
  if (p.goodput) {
    check_number(p.goodput->share, "goodput");
    MESHWRIGHT_CHECK(
        p.goodput->share <= p.goodput->best_share * (1 + 1e-9) && p.goodput->best_share <= 1,
        "the best goodput is not the best");
  }
}

}  // namespace meshwright::tests::fuzz
