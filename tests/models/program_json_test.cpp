#include "models/program/program_json.h"

#include <nlohmann/json.hpp>

#include "models/program/graph/fusion.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

// Makes `read` share objects with `written` if their contents are equal, because Programs compare
// these objects by address.
void share(Instruction& read, const Instruction& written) {
  const auto &own = read.attributes.fusion, &other = written.attributes.fusion;
  if (own && other && *own == *other) read.attributes.fusion = other;
}

void share(Program& read, const Program& written) {
  if (*read.settings == *written.settings) read.settings = written.settings;
  if (*read.modules == *written.modules) read.modules = written.modules;
  REQUIRE(read.bodies.size() == written.bodies.size());
  for (std::size_t b = 0; b < read.bodies.size(); ++b) {
    auto& own = read.bodies[b].instructions;
    const auto& other = written.bodies[b].instructions;
    REQUIRE(own.size() == other.size());
    for (std::size_t i = 0; i < own.size(); ++i) share(own[i], other[i]);
  }
}

void check_same(std::vector<Program> read, const std::vector<Program>& written) {
  REQUIRE(read.size() == written.size());
  for (std::size_t stage = 0; stage < read.size(); ++stage) {
    Program& own = read[stage];
    const Program& other = written[stage];
    share(own, other);
    CHECK(own.settings == other.settings);
    CHECK(own.modules == other.modules);
    CHECK(own.parameters == other.parameters);
    CHECK(own.buckets == other.buckets);
    CHECK(own.bodies == other.bodies);
    CHECK(own.tasks == other.tasks);
    CHECK(own.memory == other.memory);
    CHECK(own == other);
  }
}

void check_through_json(const Model& model, const Plan& plan) {
  INFO(describe(plan));
  const std::vector<Program> stages = lower_small(model, plan);
  const std::string text = to_json(stages).dump();
  check_same(read_programs(Fields(parse_json(text, "job"), "job")), stages);
}

// Returns the JSON of Programs with one stage, which does one addition.
json smallest() {
  return parse_json(R"({
    "format": 1, "settings": {"training": {"global_batch": 1, "sequence_length": 1, "optimizer": "sgd"}},
    "modules": ["add"],
    "stages": [{
      "parameters": [{"parameter": {"name": "w", "global_shape": [4]}}],
      "buckets": [{"elements": 4, "parameters": [0], "weights": {"buffer": 0, "type": "f32[4]"},
                   "gradients": {"buffer": 1, "type": "f32[4]"}, "first_moment": {"buffer": 2, "type": "f32[4]"}}],
      "bodies": [{"kind": "forward", "chunk": 0, "instructions": [
        {"op": "add", "module": 0, "inputs": [{"buffer": 0, "type": "f32[4]"}, {"buffer": 1, "type": "f32[4]"}],
         "outputs": [{"buffer": 1, "type": "f32[4]"}]},
        {"kind": "all_reduce", "stream": "shard_comm", "group": "rdp", "waits": [{"instruction": 0}],
         "inputs": [{"buffer": 1, "type": "f32[4]"}], "outputs": [{"buffer": 1, "type": "f32[4]"}]}]}],
      "tasks": [{"body": 0, "chunk": 0, "micro_batch_index": 0}],
      "memory": {"arena_bytes": 64, "persistent_bytes": 64, "class_bytes": {"parameters": 64}, "buffers": [
        {"region": "persistent", "bytes": 16}, {"region": "persistent", "bytes": 16, "offset": 16},
        {"region": "persistent", "bytes": 16, "offset": 32}, {"region": "persistent", "bytes": 8, "offset": 48}]},
      "loss_buffer": 3, "norm_buffer": 3, "targets_per_step": 1}]})",
                    "smallest");
}

std::string refusal_of(const json& value) {
  return message_of([&] { read_programs(Fields(value, "job.json")); });
}

}  // namespace

TEST_CASE("Programs are the same after a way through JSON", "[models][program][release]") {
  for (const char* family : {"gpt", "llama", "bert"}) {
    const Model model = small_model(family);
    std::size_t turn = 0;
    for (Plan plan : small_plans(model)) {
      if (++turn % 7 != 0) continue;  // every seventh plan has all schedules and degrees
      plan.training.compiler = static_cast<CompilerLevel>(turn % 3);
      plan.training.precision = turn % 2 == 0 ? Precision::fp32 : Precision::fp16;
      plan.training.optimizer = static_cast<OptimizerKind>(turn % 4);
      plan.training.dropout = turn % 5 == 0 ? 0.1 : 0;
      plan.snapshot = turn % 3 == 0;
      check_through_json(model, plan);
    }
  }
}

TEST_CASE("Programs with owners, experts, parts of sequences and offloading are too",
          "[models][program]") {
  const Model gpt = small_model("gpt"), mixtral = small_model("mixtral");
  Plan owners = small_plan(gpt, {.tensor = 2, .data = 2, .zero_stage = 1});
  owners.parallelism.shard_whole = owners.snapshot = true;
  check_through_json(gpt, owners);
  Plan experts = small_plan(mixtral, {.data = 4, .zero_stage = 2});
  experts.parallelism.expert = 2;
  check_through_json(mixtral, experts);
  for (const ContextExchange exchange :
       {ContextExchange::p2p, ContextExchange::all_gather, ContextExchange::all_to_all}) {
    Plan parts = small_plan(gpt, {.data = 2, .context = 2});
    parts.parallelism.context_exchange = exchange;
    check_through_json(gpt, parts);
  }
  Plan pairs = small_plan(gpt, {.data = 2, .context = 4});
  pairs.parallelism.context_exchange = ContextExchange::a2a_p2p;
  pairs.parallelism.context_heads = 2;
  check_through_json(gpt, pairs);
  check_through_json(gpt, offloading_plan(gpt, {.pipeline = 2}, Offload::activations, 2));
  check_through_json(gpt, offloading_plan(gpt, {.micro_batches = 6}, Offload::layers, 2));
  check_through_json(gpt, offloading_plan(gpt, {.data = 2}, Offload::optimizer, 0));
  Plan states = small_plan(gpt, {.data = 2, .zero_stage = 1});
  states.training.precision = Precision::bf16;
  states.training.master_weights = MasterWeights::remainders;
  states.training.moments = Dtype::bf16;
  states.training.moments_at_random = true;
  states.training.ema_decay = 0.9;
  check_through_json(gpt, states);
  Plan scaled = small_plan(gpt, {});
  scaled.training.precision = Precision::fp16;
  scaled.training.loss_scale = LossScale{.initial = 1024};
  scaled.training.seed = 0xFFFF'FFFF'FFFF'FFFF;
  scaled.training.cuda_graph = false;
  check_through_json(gpt, scaled);
}

TEST_CASE("keys that a short Program leaves out have default values", "[models][program]") {
  const std::vector<Program> stages = read_programs(Fields(smallest(), "smallest"));
  const Program& program = stages.at(0);
  const Bucket& bucket = program.buckets.at(0);
  CHECK(bucket.shard_elements == 4);
  CHECK(bucket.own_weights == bucket.weights);
  CHECK(bucket.own_gradients == bucket.gradients);
  CHECK(bucket.master == bucket.weights);
  CHECK(program.parameters.at(0).parameter.shape == Shape{4});
  CHECK(program.settings->degrees == Degrees{});
  CHECK(to_json(stages) == smallest());
}

TEST_CASE("what is wrong in a Program is refused at its place", "[models][program]") {
  struct Wrong {
    const char* pointer;
    json value;
    const char* message;  // the message without the name of the file
  };
  const json operand = {{"buffer", 1}, {"type", "f32[4]"}};
  const std::string add = "/stages/0/bodies/0/instructions/0";
  const std::string sum = "/stages/0/bodies/0/instructions/1";
  const Wrong cases[] = {
      {"/format", 2, "/format: 2 is not known; use 1"},
      {"/stages/0/task", 0, "/stages/0/task: unknown key; did you mean 'tasks'?"},
      {"/stages", json::array(), "/stages: there are none"},
      {"/settings/placement", "DDT",
       "/settings/placement: unknown placement 'DDT'; known: PDT, DPT, PTD, TPD, DTP, TDP, cluster "
       "and spread"},
      {"/settings/degrees",
       {{"data", 4}, {"shard", 3}},
       "/settings/degrees/shard: does not divide data x context"},
      {"/settings/degrees",
       {{"pipeline", 2}},
       "/stages/0/layout/stages: the file has 1 stages, so this and /settings/degrees/pipeline are "
       "that many"},
      {"/stages/0/stage", 1, "/stages/0/stage: stages are given in order, from 0"},
      {"/stages/0/tasks/0/body", 1, "/stages/0/tasks/0/body: 1 names no body; there are 1"},
      {"/stages/0/tasks/0/micro_batch_index", 1,
       "/stages/0/tasks/0/micro_batch_index: 1 names no micro-batch; there are 1"},
      {"/stages/0/tasks/0/slot", 1, "/stages/0/tasks/0/slot: 1 is out of range; use 0 to 0"},
      {"/stages/0/bodies/0/instructions/0/op", "sum",
       "/stages/0/bodies/0/instructions/0/op: unknown op 'sum'; known: "},
      {"/stages/0/bodies/0/instructions/0/kind", "load_input",
       "/stages/0/bodies/0/instructions/0/outputs/0: i32 numbers, as many for each of a "
       "micro-batch's sequences, are needed"},
      {"/stages/0/bodies/0/instructions/0/module", 1,
       "/stages/0/bodies/0/instructions/0/module: 1 names no module; there are 1"},
      {"/stages/0/bodies/0/instructions/0/inputs/1/buffer", 4,
       "/stages/0/bodies/0/instructions/0/inputs/1/buffer: 4 names no buffer; there are 4"},
      {"/stages/0/bodies/0/instructions/0/inputs/1/type", "f32[5]",
       "/stages/0/bodies/0/instructions/0/inputs/1: its 20 bytes do not fit into buffer 1 of 16"},
      {"/stages/0/bodies/0/instructions/0/inputs/1/type", "f32(4)",
       "/stages/0/bodies/0/instructions/0/inputs/1/type: unknown element type 'f32(4)'; known: "
       "f64, f32, f16, bf16, e4m3, e5m2, i32, i16, e2m1, block8, block8u, nf4, nf4_double, "
       "int4_32, int4_64, int4_128 and int4_256"},
      {"/stages/0/bodies/0/instructions/0/inputs/1/type", "f32[4,]",
       "/stages/0/bodies/0/instructions/0/inputs/1/type: 'f32[4,]' is no type; use an element type "
       "and sizes, like f32[4,128]"},
      {"/stages/0/bodies/0/instructions/1/outputs/0/buffer", 0,
       "/stages/0/bodies/0/instructions/1: an all-reduce works in place"},
      {"/stages/0/bodies/0/instructions/1/group", "none",
       "/stages/0/bodies/0/instructions/1/group: a collective has a group"},
      {"/stages/0/bodies/0/instructions/1/waits/0/instruction", 1,
       "/stages: stage 0 body 0 instruction 1 waits for a later one of its task"},
      {"/stages/0/buckets/0/elements", 5,
       "/stages/0/buckets/0/own_weights: fewer than the 5 elements that are stepped"},
      {"/stages/0/parameters/0/parameter/global_shape",
       {5},
       "/stages/0/parameters/0/parameter/shape: reaches beyond its bucket"},
      {"/stages/0/loss_buffer", 4, "/stages/0/loss_buffer: 4 names no buffer; there are 4"},
      {"/stages/0/memory/class_bytes/parameters", 32,
       "/stages: stage 0 memory: the classes do not make up the arena"},
      {"/stages/0/memory/buffers/3/offset", 64,
       "/stages: stage 0 memory: buffer  does not lie in its region"},
  };
  for (const Wrong& wrong : cases) {
    json value = smallest();
    value[json::json_pointer(wrong.pointer)] = wrong.value;
    INFO(refusal_of(value));
    CHECK(refusal_of(value).starts_with(std::string("job.json: ") + wrong.message));
  }
  json single = smallest();
  single[json::json_pointer(add + "/inputs")].erase(1);
  CHECK(refusal_of(single) == "job.json: " + add + "/inputs: 1 where add has 2");
  json empty = smallest();
  empty[json::json_pointer(add)].erase("outputs");
  CHECK(refusal_of(empty) == "job.json: " + add + "/outputs: 0 where add has 1");
  json stepless = smallest();
  stepless[json::json_pointer(add + "/op")] = "fused";
  CHECK(refusal_of(stepless) ==
        "job.json: " + add + "/attributes/fusion: missing; a fused operation has its steps");
  json fused = smallest();
  fused[json::json_pointer(add + "/op")] = "fused";
  fused[json::json_pointer(add + "/attributes")] = {
      {"fusion",
       {{"operands", {"f32[4]", "f32[4]", "f32[4]"}},
        {"cut", {1, 1, 1}},
        {"inputs", 2},
        {"outputs", 1},
        {"rows", 4},
        {"block_rows", 4},
        {"steps", {{{"op", "add"}, {"inputs", {0, 1, 1}}, {"outputs", {2}}}}}}}};
  CHECK(refusal_of(fused) ==
        "job.json: " + add + "/attributes/fusion/steps/0/inputs: 3 where add has 2");
  fused[json::json_pointer(add + "/attributes/fusion/steps/0/inputs")] = {0, 3};
  CHECK(refusal_of(fused) ==
        "job.json: " + add + "/attributes/fusion/steps/0/inputs: 3 names no operand; there are 3");
  fused[json::json_pointer(add + "/attributes/fusion")].erase("block_rows");
  CHECK(refusal_of(fused) ==
        "job.json: " + add + "/attributes/fusion/block_rows: a block has at least one row");
  json unnamed = smallest();
  unnamed[json::json_pointer(add)].erase("op");
  CHECK(refusal_of(unnamed) ==
        "job.json: " + add + "/op: missing; what computes has the name of an operation");
  json alone = smallest();
  alone[json::json_pointer(sum)].erase("outputs");
  CHECK(refusal_of(alone) == "job.json: " + sum + "/outputs: one is needed");
}

// The first stage waits for a gradient before it has sent anything.
TEST_CASE("Programs that would wait for each other are refused", "[models][program]") {
  const Model model = small_model("gpt");
  json value = to_json(lower_small(model, small_plan(model, {.pipeline = 2, .micro_batches = 1})));
  json& tasks = value["stages"][0]["tasks"];
  std::swap(tasks[1], tasks[2]);  // the forward and the backward task
  CHECK(refusal_of(value).starts_with("job.json: /stages: deadlock: stage 0 "));
}

// Kernels use these attributes as counts and divide by some of them.
TEST_CASE("an attribute that no operation can have is refused with its place",
          "[models][program]") {
  const std::string before = "job.json: /stages/0/bodies/0/instructions/0/attributes/";
  json value = smallest();
  json& attributes = value["stages"][0]["bodies"][0]["instructions"][0]["attributes"];
  const auto refused = [&](const char* name, std::int64_t number) {
    attributes = {{name, number}};
    return refusal_of(value);
  };
  for (const char* name :
       {"micro_batch", "sequence_length", "tensor_degree", "context_degree", "head_parts",
        "temperature_floor", "expert_groups", "groups_per_token", "matrices"}) {
    for (const int number : {0, -1})
      CHECK(refused(name, number) == before + name + ": " + std::to_string(number) +
                                         " is out of range; use 1 to 1073741824");
    CHECK(refused(name, 1) == "");
  }
  for (const char* name : {"heads", "kv_heads", "head_dim", "rotary_dim", "window", "chunk",
                           "experts", "experts_per_token", "expert_capacity", "expert_parts"}) {
    CHECK(refused(name, -1) == before + name + ": -1 is out of range; use 0 to 1073741824");
    CHECK(refused(name, 0) == "");
  }
  CHECK(refused("ring_step", -1) == "");
  CHECK(refused("heads", 2147483647) ==
        before + "heads: 2147483647 is out of range; use 0 to 1073741824");
}
