// Tests models that were captured from PyTorch: how their files are read, and the graphs and
// Programs that are made of them.
#include "models/architectures/captured/captured_model.h"

#include "models/compiler/compile.h"
#include "models/compiler/passes/pass.h"
#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"
#include "models/program/crossing.h"
#include "models/program/graph/segment.h"
#include "models/program/program_json.h"
#include "tests/catch.h"
#include "tests/models/captured.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

std::string refusal(const json& content) {
  try {
    read_captured_json(content);
  } catch (const InputError& error) {
    const std::string message = error.what();
    return message.substr(message.find(": /") + 2);
  }
  return "";
}

std::string refusal(const Plan& plan, const Model& model) {
  const Ruling ruling = broken_rule(plan, model.sizes());
  return ruling ? ruling->key : "";
}

double flops_of(const json& kernels, int samples) {
  double flops = 0;
  for (const json& kernel : kernels)
    if (kernel.contains("flops"))
      flops += kernel["flops"][0].get<double>() + samples * kernel["flops"][1].get<double>();
  return flops;
}

}  // namespace

TEST_CASE("a captured model has its segments, parameters and units", "[captured]") {
  const Model model = read_captured_json(captured_json(3));
  REQUIRE(model.captured);
  CHECK(model.name == "own");
  CHECK(model.captured->segments.size() == 8);
  CHECK(model.captured->parameters.size() == 1 + 3 * 4);
  CHECK(model.captured->tokens_per_sample == 8);
  CHECK(model.sizes().captured);
  // Each half of a block has more than a twentieth of the model's work, so it is a unit.
  std::vector<std::string> paths;
  for (const CapturedUnit& unit : model.captured->units) paths.push_back(unit.path);
  CHECK(paths == std::vector<std::string>{"embed", "h.0", "h.0.mlp", "h.1", "h.1.mlp", "h.2",
                                          "h.2.mlp", "head"});
  CHECK(model.captured->units[1].is_block);
  CHECK_FALSE(model.captured->units.back().is_block);
}

TEST_CASE("blocks of a deep captured model stay whole", "[captured]") {
  const Model model = read_captured_json(captured_json(40));
  CHECK(model.captured->units.size() == 42);
  CHECK(model.captured->units[40].path == "h.39");
}

TEST_CASE("faults of a captured file are named with their place", "[captured]") {
  struct Fault {
    const char* pointer;
    json value;
    const char* message;
  };
  const Fault faults[] = {
      {"/captured", 2, "/captured: format 2 is not known"},
      {"/precision", "int8", "/precision: unknown precision 'int8'"},
      {"/micro_batch", 0, "/micro_batch: 0 is out of range"},
      {"/loss", 99, "/loss: no segment makes tensor 99"},
      {"/loss", "last", "/loss: expected an integer"},
      {"/loss", 0, "/loss: tensor 0 is larger than one number"},
      {"/micro_batch", "2", "/micro_batch: expected an integer"},
      {"/segments", {{"kind", 0}}, "/segments: expected a list of objects"},
      {"/kinds/1/saved", -1, "/kinds/1/saved: is negative"},
      {"/kinds/1/forward/0/bytes", "8", "/kinds/1/forward/0/bytes: must be a number"},
      {"/segments/2/reads", {2}, "/segments/2/reads: no earlier segment makes tensor 2"},
      {"/segments", json::array(), "/segments: is empty"},
      {"/segments/1/kind", 7, "/segments/1/kind: 7 is out of range"},
      {"/segments/1/reads", {5}, "/segments/1/reads: no earlier segment makes tensor 5"},
      {"/segments/1/reads", {99}, "/segments/1/reads: there is no tensor 99"},
      {"/segments/1/makes", {0}, "/segments/1/makes: tensor 0 has a maker already"},
      {"/segments/1/saves", {4}, "/segments/1/saves: the segment neither reads nor makes"},
      {"/segments/1/color", 1, "/segments/1/color: unknown key"},
      {"/tensors/0/bytes", {0, -8}, "/tensors/0/bytes: is negative for some micro-batch"},
      {"/tensors/0/bytes", {1}, "/tensors/0/bytes: a pair is [fixed, per sample]"},
      {"/parameters/0/dtype", "int7", "/parameters/0/dtype: 'int7' is no type"},
      {"/parameters/0/shape", {0}, "/parameters/0/shape: a parameter has at least one"},
      {"/parameters/0/shape", {1e9, 1e9}, "/parameters/0/shape: more than 1e15 elements"},
      {"/kinds/1/forward/0/kind", "magic", "/kinds/1/forward/0/kind: unknown kind of kernel"},
      {"/inputs/0/batch_axis", 2, "/inputs/0/batch_axis: 2 is out of range"}};
  for (const Fault& fault : faults) {
    json content = captured_json(2);
    content[json::json_pointer(fault.pointer)] = fault.value;
    INFO(fault.pointer << " " << fault.value);
    CHECK(refusal(content).starts_with(fault.message));
  }
}

TEST_CASE("a captured file that is cut off, or empty, is refused", "[captured]") {
  const TestFolder folder;
  const std::string whole = captured_json(2).dump();
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, whole.size() / 2})
    CHECK_THROWS_AS(load_model(folder.file("own.model.json", whole.substr(0, length)), ""),
                    InputError);
}

TEST_CASE("parameters from which no gradient leads to the loss are frozen", "[captured][lower]") {
  json content = captured_json(4);
  content["tensors"][2]["gradient"] = false;  // the first block is run without gradients
  const Model model = read_captured_json(content);
  int frozen = 0;
  for (const CapturedParameter& each : model.captured->parameters) frozen += each.trainable ? 0 : 1;
  CHECK(frozen == 4);  // the table is also the head's
  CHECK(broken_rule(lower_small(model, captured_plan(4, 1, 0))) == "");
}

TEST_CASE("a captured graph has the captured work, whatever the micro-batch", "[captured]") {
  const json content = captured_json(3);
  const Model model = read_captured_json(content);
  for (const int samples : {1, 2, 5}) {
    Plan plan = captured_plan(1, 1, 0);
    plan.training.micro_batch = samples;
    plan.training.compiler = CompilerLevel::none;
    const Graph graph = run_passes(build_graph(model, plan.training), plan);
    double flops = 0;
    for (const json& segment : content["segments"]) {
      const json& kind = content["kinds"][segment["kind"].get<std::size_t>()];
      flops += flops_of(kind["forward"], samples) + flops_of(kind["backward"], samples);
    }
    CHECK(model_flops(graph) == Approx(flops));
    CHECK(parameter_count(graph) == 100 * 64 + 3 * 4 * 4 * 64 * 64);
    int gradients = 0;
    for (const Node& node : graph.nodes) gradients += node.op == Op::segment_grad ? 1 : 0;
    CHECK(gradients == 8);
    for (const Parameter& parameter : graph.parameters) CHECK(parameter.gradient >= 0);
  }
}

TEST_CASE("what a captured segment saves is kept for its backward, unless it is recomputed",
          "[captured]") {
  const Model model = read_captured_json(captured_json(2));
  const auto slot = [&](CompilerLevel level, Recompute recompute) {
    Plan plan = captured_plan(1, 1, 0);
    plan.training.compiler = level;
    plan.training.recompute = recompute;
    return lower_small(model, plan).front().memory.slots.front().stride;
  };
  const std::int64_t activation = 2 * 4 * 8 * 64, logits = 2 * 4 * 8 * 100;
  // Each of the four halves of blocks saves three activations and its input. The head saves its
  // input and the logits.
  const std::int64_t eager = 4 * 4 * activation + activation + logits;
  const std::int64_t compiled = 4 * 2 * activation + activation + logits;
  const std::int64_t inputs = 4096;  // upper limit, with the alignment of buffers
  CHECK(slot(CompilerLevel::none, Recompute::none) >= eager);
  CHECK(slot(CompilerLevel::none, Recompute::none) <= eager + inputs);
  CHECK(slot(CompilerLevel::fused, Recompute::none) >= compiled);
  CHECK(slot(CompilerLevel::fused, Recompute::none) <= compiled + inputs);
  CHECK(slot(CompilerLevel::none, Recompute::full) <= 5 * activation + logits + inputs);
}

TEST_CASE("every legal plan of a captured model lowers to sound Programs", "[captured][lower]") {
  int legal = 0;
  for (const bool skips : {false, true}) {
    const Model model = read_captured_json(captured_json(4, skips));
    for (const ScheduleInfo& schedule : schedule_kinds())
      for (const int pipeline : {1, 2, 4})
        for (const int data : {1, 2})
          for (const int zero : {0, 1, 2, 3})
            for (const int virtual_stages : {1, 2})
              for (const Recompute recompute : {Recompute::none, Recompute::full}) {
                Plan plan = captured_plan(pipeline, data, zero);
                plan.parallelism.schedule = schedule.kind;
                plan.parallelism.virtual_stages = virtual_stages;
                plan.training.recompute = recompute;
                if (broken_rule(plan, model.sizes())) continue;
                INFO(describe(plan));
                const std::vector<Program> stages = lower_small(model, plan);
                CHECK(broken_rule(stages).empty());
                ++legal;
              }
  }
  CHECK(legal > 200);
}

TEST_CASE("a captured model is divided in the degrees that it was captured for", "[captured]") {
  json content = captured_json(4);
  for (const bool by_sequence : {false, true}) add_tensor_degree(content, 2, by_sequence);
  add_tensor_degree(content, 4, false);
  const Model model = read_captured_json(content);
  Plan plan = captured_plan(1, 1, 0);
  plan.parallelism.tensor = 2;
  CHECK(refusal(plan, model) == "");
  plan.parallelism.sequence_parallel = true;
  CHECK(refusal(plan, model) == "");
  plan.parallelism.tensor = 4;
  CHECK(refusal(plan, model) == "/parallelism/sequence_parallel");
  plan.parallelism.tensor = 8;
  CHECK(refusal(plan, model) == "/parallelism/tensor");
  plan.parallelism.tensor = 2;
  plan.parallelism.overlap_tensor = true;
  CHECK(refusal(plan, model) == "/parallelism/overlap");
  CHECK(refusal(plan, read_captured_json(captured_json(4))) == "/parallelism/tensor");
}

TEST_CASE("a rank of a tensor group has its parts of a captured model's parameters", "[captured]") {
  json content = captured_json(3);
  add_tensor_degree(content, 2, false);
  const Model model = read_captured_json(content);
  Plan plan = captured_plan(1, 1, 0);
  plan.parallelism.tensor = 2;
  const std::vector<Program> stages = lower_small(model, plan);
  CHECK(broken_rule(stages).empty());
  std::int64_t own = 0;
  int sums = 0;
  for (const StageParameter& each : stages.front().parameters)
    own += each.parameter.shape.elements();
  CHECK(own == 100 * 64 + 3 * 4 * 4 * 64 * 64 / 2);
  for (const Body& body : stages.front().bodies)
    for (const Instruction& each : body.instructions) sums += each.op == Op::tensor_reduce ? 1 : 0;
  CHECK(sums == 2 * 3 * 2);  // of outputs in the forward, of inputs in the backward
}

TEST_CASE("every legal plan of a divided captured model lowers to sound Programs",
          "[captured][lower]") {
  json content = captured_json(4);
  for (const bool by_sequence : {false, true}) add_tensor_degree(content, 2, by_sequence);
  const Model model = read_captured_json(content);
  int legal = 0;
  for (const ScheduleInfo& schedule : schedule_kinds())
    for (const int pipeline : {1, 2, 4})
      for (const int data : {1, 2})
        for (const int zero : {0, 1, 3})
          for (const bool by_sequence : {false, true})
            for (const Recompute recompute : {Recompute::none, Recompute::full}) {
              Plan plan = captured_plan(pipeline, data, zero);
              plan.parallelism.tensor = 2;
              plan.parallelism.sequence_parallel = by_sequence;
              plan.parallelism.schedule = schedule.kind;
              plan.training.recompute = recompute;
              if (broken_rule(plan, model.sizes())) continue;
              INFO(describe(plan));
              CHECK(broken_rule(lower_small(model, plan)) == "");
              ++legal;
            }
  CHECK(legal > 100);
}

TEST_CASE("faults of an entry of tensor_parallel are named", "[captured]") {
  struct Fault {
    const char* pointer;
    json value;
    std::string message;
  };
  const Fault faults[] = {
      {"/degree", 1, "/tensor_parallel/0/degree: 1 is out of range"},
      {"/cuts/0/axis", 2, "/tensor_parallel/0/cuts/0/axis: 2 is out of range"},
      {"/cuts/0/parts", {128, 127, 1}, "/tensor_parallel/0/cuts/0/parts: 127 is not a multiple"},
      {"/cuts/0/parts", {128}, "/tensor_parallel/0/cuts/0/parts: do not add up"},
      {"/summed", {99}, "/tensor_parallel/0/summed: there is no parameter 99"},
      {"/segments/1/collective", "sum", "/tensor_parallel/0/segments/1/collective: "},
      {"/segments/1/parameters", {0}, "/tensor_parallel/0/segments/1/collective: an exchange"}};
  for (const Fault& fault : faults) {
    json content = captured_json(2);
    add_tensor_degree(content, 2, false);
    content["tensor_parallel"][0][json::json_pointer(fault.pointer)] = fault.value;
    INFO(fault.pointer << " " << fault.value);
    CHECK(refusal(content).starts_with(fault.message));
  }
  json content = captured_json(2);
  for (int i = 0; i < 2; ++i) add_tensor_degree(content, 2, false);
  CHECK(refusal(content).starts_with("/tensor_parallel/1/degree: 2 is there twice"));
  content = captured_json(2);
  content["segments"][1]["collective"] = "tensor_copy";
  CHECK(refusal(content).starts_with("/segments/1/collective: "));
}

TEST_CASE("parameters that any stages share are summed over them", "[captured][lower]") {
  json content = captured_json(4);
  content["segments"][3]["parameters"].push_back(0);  // the table, in the second block too
  const Model model = read_captured_json(content);
  for (const Program& program : lower_small(model, captured_plan(4, 1, 0))) {
    const bool has_table = std::ranges::any_of(program.parameters, [](const StageParameter& each) {
      return each.parameter.name == "embed.weight";
    });
    CHECK(has_table);
  }
}

TEST_CASE("what crosses a cut of a captured model is named, and what stages pass on",
          "[captured]") {
  const Model model = read_captured_json(captured_json(4, true));
  const std::vector<Crossing> found = crossings(lower_small(model, captured_plan(4, 1, 0)));
  REQUIRE(found.size() == 3);
  const std::int64_t activation = 2 * 4 * 8 * 64;
  for (const Crossing& each : found) {
    CHECK(each.next_stage == each.stage + 1);
    CHECK(each.bytes() == 2 * activation);  // the last block reads what the table makes
    CHECK(each.tensors.size() == 2);
  }
  CHECK(found[1].tensors[0].name.starts_with("h."));
}

TEST_CASE("Programs of a captured model are read as they were written", "[captured]") {
  const Model model = read_captured_json(captured_json(2));
  const std::vector<Program> stages = lower_small(model, captured_plan(2, 2, 1));
  const json written = to_json(stages);
  CHECK(to_json(read_programs(Fields(written, "programs.json"))) == written);
}

TEST_CASE("a captured model in fp64 keeps everything in 8 bytes", "[captured][lower]") {
  json content = captured_json(3);
  const Model model = read_captured_json(content);
  content["precision"] = "fp64";
  const Model wide = read_captured_json(content);
  const auto in_fp64 = [](Plan plan) {
    plan.snapshot = true;
    plan.training.precision = Precision::fp64;
    plan.training.gradient_reduce = plan.training.moments = Dtype::f64;
    plan.training.ema_decay = 0.9;
    return plan;
  };
  for (const int zero : {0, 1, 3}) {
    Plan plan = captured_plan(2, 2, zero);
    const Plan wide_plan = in_fp64(plan);
    plan.snapshot = true;
    plan.training.ema_decay = 0.9;
    const std::vector<Program> stages = lower_small(model, plan);
    const std::vector<Program> wide_stages = lower_small(wide, wide_plan);
    CHECK(broken_rule(wide_stages).empty());
    const json written = to_json(wide_stages);
    CHECK(to_json(read_programs(Fields(written, "programs.json"))) == written);
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      for (const Bucket& bucket : wide_stages[stage].buckets)
        for (const Operand* each : {&bucket.weights, &bucket.gradients, &bucket.first_moment,
                                    &bucket.second_moment, &bucket.average, &bucket.snapshot})
          // Operands that a bucket does not have, such as snapshots of tied copies, have buffer -1.
          CHECK((each->buffer < 0 || each->type.dtype == Dtype::f64));
      const auto& bytes = stages[stage].memory.class_bytes;
      const auto& wide_bytes = wide_stages[stage].memory.class_bytes;
      for (const MemoryClass cls :
           {MemoryClass::parameters, MemoryClass::gradients, MemoryClass::optimizer})
        CHECK(wide_bytes[static_cast<std::size_t>(cls)] ==
              2 * bytes[static_cast<std::size_t>(cls)]);
    }
  }
  const auto refused = [&](const auto& change) {
    Plan plan = in_fp64(captured_plan(1, 2, 0));
    change(plan.training);
    return refusal(plan, wide);
  };
  CHECK(refused([](Training&) {}).empty());
  CHECK(refused([](Training& t) { t.moments = Dtype::bf16; }) == "/training/moments_precision");
  CHECK(refused([](Training& t) { t.gradient_reduce = Dtype::f32; }) ==
        "/training/gradient_reduce_precision");
  CHECK(refused([](Training& t) { t.optimizer = OptimizerKind::muon; }) == "/training/optimizer");
  Plan narrow = captured_plan(1, 2, 0);
  narrow.training.moments = Dtype::f64;
  CHECK(refusal(narrow, model) == "/training/moments_precision");
}

TEST_CASE("plans that would split a captured model's operations are refused", "[captured]") {
  const Model model = read_captured_json(captured_json(4));
  CHECK(refusal(captured_plan(2, 2, 1), model).empty());
  const auto refused = [&](const auto& change) {
    Plan plan = captured_plan(1, 2, 0);
    change(plan);
    return refusal(plan, model);
  };
  CHECK(refused([](Plan& p) { p.parallelism.tensor = 2; }) == "/parallelism/tensor");
  CHECK(refused([](Plan& p) { p.parallelism.context = 2; }) == "/parallelism/context");
  CHECK(refused([](Plan& p) { p.parallelism.expert = 2; }) == "/parallelism/expert");
  CHECK(refused([](Plan& p) { p.training.precision = Precision::bf16; }) == "/training/precision");
  CHECK(refused([](Plan& p) { p.training.compiler = CompilerLevel::full; }).empty());
  CHECK(refused([](Plan& p) { p.training.sequence_length = 16; }) == "/training/sequence_length");
  CHECK(refused([](Plan& p) { p.training.recompute = Recompute::selective; }) ==
        "/training/recompute");
  CHECK(refused([](Plan& p) { p.parallelism.pipeline = 64; }) == "/parallelism/pipeline");
  json fixed = captured_json(4);
  fixed["fixed_micro_batch"] = "a graph has no samples";
  CHECK(refusal(captured_plan(1, 1, 0), read_captured_json(fixed)).empty());
  Plan other = captured_plan(1, 1, 0);
  other.training.micro_batch = 4;
  CHECK(refusal(other, read_captured_json(fixed)) == "/training/micro_batch");
}
