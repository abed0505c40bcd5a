// Compares fused operations on a device with the CPU backend's: matmuls with epilogues, kernels
// that are compiled at run time, and steps that run one by one.
#include "exec/backends/cuda/fused/fused.h"

#include <limits>
#include <set>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/backends/cuda/device/check.h"
#include "exec/backends/cuda/fused/epilogue.h"
#include "exec/backends/cuda/fused/fused_steps.h"
#include "exec/backends/cuda/tables.h"
#include "models/compiler/passes/pass.h"
#include "tests/catch.h"
#include "tests/exec/fusion_cases.h"
#include "tests/exec/op_runner.h"
#include "tests/exec/table_backend.h"
#include "tests/exec/tested_device.h"
#include "tests/models/plans.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using cuda::Epilogue;

namespace {

Training training_of(Precision precision) {
  Training training;
  training.precision = precision;
  training.micro_batch = 3;
  training.sequence_length = 8;
  training.global_batch = 3;
  training.dropout = 0.1;
  training.compiler = CompilerLevel::full;
  return training;
}

// Returns every different fused operation of a model's graph.
std::vector<FusionCase> made_by_passes(const Model& model, Precision precision) {
  Plan plan;
  plan.training = training_of(precision);
  std::vector<FusionCase> cases;
  std::set<std::string> seen;
  for (const Node& node : run_passes(build_graph(model, plan.training), plan).nodes)
    if (node.op == Op::fused && seen.insert(name_of(*node.attributes.fusion)).second)
      cases.push_back(
          {model.name + ": " + name_of(*node.attributes.fusion), *node.attributes.fusion});
  return cases;
}

FusedStep step(Op op, TensorIds inputs, TensorIds outputs) {
  FusedStep made;
  made.op = op;
  made.inputs = inputs;
  made.outputs = outputs;
  made.attributes.gelu_tanh = true;
  return made;
}

// Returns y[10,6] = gelu(x[10,8] W^T) V^T in blocks of 4 rows, and a gradient that sums over them.
Fusion long_blocks(Dtype dtype) {
  Fusion fusion;
  const auto add = [&](Shape shape, bool cut, Dtype of) {
    fusion.operands.push_back({shape, of});
    fusion.cut.push_back(cut ? 1 : 0);
  };
  add({10, 8}, true, dtype);        // 0: x
  add({16, 8}, false, dtype);       // 1: W
  add({6, 16}, false, dtype);       // 2: V
  add({10, 6}, true, dtype);        // 3: y
  add({4, 64}, false, dtype);       // 4: memory for a block of 5 and 6
  add({16, 8}, false, Dtype::f32);  // 5: (+) the gradient of W by gelu's result
  add({10, 16}, true, dtype);       // 6
  add({10, 16}, true, dtype);       // 7
  fusion.inputs = 3, fusion.outputs = 2, fusion.accumulated = 1;
  fusion.rows = 10, fusion.block_rows = 4;
  fusion.loop = Fusion::Loop::long_blocks;
  fusion.steps = {step(Op::linear, {0, 1}, {6}), step(Op::gelu, {6}, {7}),
                  step(Op::linear, {7, 2}, {3}), step(Op::linear_grad_weight, {0, 7}, {5})};
  return fusion;
}

// Returns a fusion with rows of two widths, which no kernel supports.
Fusion two_widths() {
  Fusion fusion;
  const auto add = [&](Shape shape) {
    fusion.operands.push_back({shape, Dtype::f32});
    fusion.cut.push_back(1);
  };
  add({10, 8}), add({10, 6}), add({10, 8}), add({10, 6}), add({10, 8});
  fusion.inputs = 2, fusion.outputs = 2;
  fusion.rows = 10, fusion.block_rows = 4;
  fusion.steps = {step(Op::gelu, {0}, {4}), step(Op::tanh, {4}, {2}), step(Op::relu, {1}, {3})};
  return fusion;
}

struct LayerSizes {
  std::int64_t rows = 10, in = 8;
};

// Returns linear + add_bias + gelu. The bias is the last input. If `kept` is set, gelu's input is
// an output too.
Fusion layer(bool kept, Dtype dtype, LayerSizes sizes = {}) {
  Fusion fusion;
  const auto add = [&](Shape shape, bool cut) {
    fusion.operands.push_back({shape, dtype});
    fusion.cut.push_back(cut ? 1 : 0);
  };
  const std::int64_t rows = sizes.rows, in = sizes.in;
  add({rows, in}, true), add({16, in}, false), add({16}, false), add({rows, 16}, true);
  if (kept) add({rows, 16}, true);
  fusion.inputs = 3, fusion.outputs = kept ? 2 : 1;
  fusion.rows = rows, fusion.block_rows = 4;
  fusion.loop = Fusion::Loop::product_first;
  // The matmul writes its result to the memory of gelu's result, or to the output that is kept.
  const int before = kept ? 4 : 3;
  fusion.steps = {step(Op::linear, {0, 1}, {before}), step(Op::add_bias, {before, 2}, {before}),
                  step(Op::gelu, {before}, {3})};
  return fusion;
}

// Returns linear_grad_input + gelu_grad, and the bias's gradient if `and_bias` is set.
Fusion gradient_of_layer(bool and_bias, Dtype dtype, LayerSizes sizes = {}) {
  Fusion fusion;
  const auto add = [&](Shape shape, bool cut, Dtype of) {
    fusion.operands.push_back({shape, of});
    fusion.cut.push_back(cut ? 1 : 0);
  };
  const std::int64_t rows = sizes.rows, in = sizes.in;
  add({rows, in}, true, dtype), add({in, 16}, false, dtype), add({rows, 16}, true, dtype);
  add({rows, 16}, true, dtype);
  if (and_bias) add({16}, false, Dtype::f32);
  fusion.inputs = 3, fusion.outputs = 1, fusion.accumulated = and_bias ? 1 : 0;
  fusion.rows = rows, fusion.block_rows = 4;
  fusion.loop = Fusion::Loop::product_first;
  fusion.steps = {step(Op::linear_grad_input, {0, 1}, {3}), step(Op::gelu_grad, {2, 3}, {3})};
  if (and_bias) fusion.steps.push_back(step(Op::bias_grad, {3}, {4}));
  return fusion;
}

void compare(TableBackend& tables, const FusionCase& c, std::uint64_t seed, bool overwrites) {
  INFO(c.name << (overwrites ? ", overwriting" : ""));
  const auto cpu = make_cpu_backend(1);
  std::vector<OpTensor> expected = random_operands(c.fusion, seed), found = expected;
  run_fusion(*cpu, c.fusion, expected, overwrites);
  run_fusion(tables, c.fusion, found, overwrites);
  // Outputs may be scratch memory, which is not compared.
  const bool memory = c.fusion.loop == Fusion::Loop::long_blocks;
  for (std::size_t id = 0; id < found.size(); ++id) {
    if (memory && static_cast<int>(id) == c.fusion.inputs + c.fusion.outputs - 1) continue;
    INFO("operand " << id);
    CHECK(distance(found[id], expected[id]) < tolerance_of(c.fusion));
  }
}

void compare(TableBackend& tables, const FusionCase& c, std::uint64_t seed) {
  compare(tables, c, seed, false);
  if (c.fusion.accumulated > 0) compare(tables, c, seed, true);
}

bool has_rows(const Fusion& fusion) {
  return std::all_of(fusion.steps.begin(), fusion.steps.end(),
                     [](const FusedStep& each) { return cuda::row_of(each.op) != nullptr; });
}

Epilogue epilogue_of(const Fusion& fusion) { return cuda::leads_of(fusion).front().form.epilogue; }

}  // namespace

TEST_CASE("which steps are a product's epilogue", "[exec][cuda]") {
  const auto steps_of = [](const Fusion& fusion) { return cuda::leads_of(fusion).front().steps; };
  Fusion kept = layer(true, Dtype::bf16), dropped = layer(false, Dtype::bf16);
  CHECK(epilogue_of(kept) == Epilogue::gelu_bias_saved);
  CHECK(epilogue_of(dropped) == Epilogue::gelu_bias);
  CHECK(steps_of(kept) == 3);
  CHECK(steps_of(dropped) == 3);
  const Fusion gradient = gradient_of_layer(true, Dtype::bf16);
  CHECK(epilogue_of(gradient) == Epilogue::gelu_grad);
  CHECK(steps_of(gradient) == 2);
  CHECK(without_led(gradient, cuda::leads_of(gradient).front()).steps.size() == 2);

  // cuBLASLt has gelu in the tanh form only.
  for (Fusion* fusion : {&kept, &dropped}) {
    fusion->steps.back().attributes.gelu_tanh = false;
    CHECK(epilogue_of(*fusion) == Epilogue::bias);
  }
  // The bias has another type, or is computed by the node itself.
  Fusion other = layer(false, Dtype::bf16);
  other.operands[2].dtype = Dtype::f32;
  CHECK(epilogue_of(other) == Epilogue::none);
  // The matmul's result is read again after gelu.
  Fusion again = layer(true, Dtype::bf16);
  again.steps[1] = step(Op::gelu, {4}, {3});
  again.steps[2] = step(Op::add, {3, 4}, {3});
  CHECK(epilogue_of(again) == Epilogue::gelu_saved);
  CHECK(cuda::leads_of(again).size() == 2);
}

TEST_CASE("fused operations compute what the CPU's do", "[exec][cuda]") {
  const bool refused = GENERATE(false, true);
  refuse_epilogues(refused);
  TableBackend tables;
  std::vector<FusionCase> cases;
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    cases.push_back({"long blocks", long_blocks(dtype)});
    cases.push_back({"a layer that keeps", layer(true, dtype)});
    cases.push_back({"a layer", layer(false, dtype)});
    cases.push_back({"its gradient", gradient_of_layer(false, dtype)});
    cases.push_back({"its gradients", gradient_of_layer(true, dtype)});
  }
  for (const RowSizes& sizes : {RowSizes{3, 7, 37, Dtype::f32}, RowSizes{3, 7, 96, Dtype::bf16}})
    for (FusionCase& c : epilogues(sizes)) {
      for (FusedStep& each : c.fusion.steps) each.attributes.gelu_tanh = true;
      cases.push_back(std::move(c));
    }
  for (std::size_t i = 0; i < cases.size(); ++i) compare(tables, cases[i], i + 1);
  refuse_epilogues(false);
  CHECK(tables.ran.count(Op::fused) == 1);
}

TEST_CASE("kernels compiled at run time count positions and add up rows", "[exec][cuda]") {
  TableBackend tables;
  for (const FusionCase& c : single_operations({3, 7, 40, Dtype::bf16}))
    if (c.name == "dropout, own rows" || c.name == "layer_norm_grad") compare(tables, c, 3);
  compare(tables, residual_and_norm({2, 6, 1540, Dtype::f32}), 4);
  // These rows are kept in shared memory.
  compare(tables, random_body({1, 5, 12288, Dtype::f32}, 23), 5);
}

TEST_CASE("a kernel may ask for all shared memory that others have without asking",
          "[exec][cuda]") {
  TableBackend tables;
  constexpr std::int64_t free = 48 << 10;  // except for static variables
  const auto wants = [](const FusionCase& c) {
    try {
      return cuda::fused_kernel(c.fusion, "body").shared_bytes == free;
    } catch (const NotSupportedYet&) {
      return false;
    }
  };
  std::uint64_t seed = 1;
  while (seed < 100 && !wants(random_body({1, 2, 12288, Dtype::f32}, seed))) ++seed;
  const FusionCase found = random_body({1, 2, 12288, Dtype::f32}, seed);
  REQUIRE(wants(found));
  compare(tables, found, 5);
}

TEST_CASE("steps without a kernel of their own run one by one", "[exec][cuda]") {
  TableBackend tables;
  tables.has_planned_scratch = false;  // steps pass their results in memory
  compare(tables, {"two widths", two_widths()}, 1);
}

TEST_CASE("fused operations of the compiler run on CUDA", "[exec][cuda]") {
  TableBackend tables;
  int played = 0;
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (const char* family : {"gpt", "llama"})
      for (const FusionCase& c : made_by_passes(small_model(family), precision)) {
        if (c.fusion.loop == Fusion::Loop::blocks || !has_rows(c.fusion)) continue;
        compare(tables, c, 7);
        ++played;
      }
  CHECK(played > 0);
}

TEST_CASE("a long vocabulary's loss is fused with its gradient, block by block", "[exec][cuda]") {
  TableBackend tables;
  Model model = small_model("gpt");
  model.vocabulary = 1500;  // rows that a thread block keeps in shared memory
  int played = 0;
  for (const Precision precision : {Precision::fp32, Precision::bf16})
    for (FusionCase& c : made_by_passes(model, precision)) {
      if (c.fusion.loop != Fusion::Loop::long_blocks) continue;
      c.fusion.block_rows = 16;  // of 24: two blocks
      compare(tables, c, 9);
      ++played;
    }
  CHECK(played == 2);
}

TEST_CASE("layers share a kernel, and later runs find it on disk", "[exec][cuda]") {
  const TestFolder folder;
  cuda::KernelCache cache(folder.path(), std::int64_t{64} << 20);
  Fusion fusion;
  for (FusionCase& c : single_operations({}))
    if (c.name == "dropout") fusion = c.fusion;
  const cuda::Device device;
  const auto prepare = [&](cuda::Fusions& fusions) {
    for (const std::uint64_t key : {1, 2}) {
      fusion.steps[0].attributes.dropout_key = key;
      Attributes attributes;
      attributes.fusion = std::make_shared<const Fusion>(fusion);
      CHECK(fusions.prepare({Op::fused, attributes, {}, {}}, device) == 0);
    }
    CHECK(fusions.kernels() == 1);
  };
  cudaDeviceProp properties;
  cuda::check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  const std::string own = "sm_" + std::to_string(properties.major * 10 + properties.minor);
  cuda::Fusions first(cache, own), second(cache, own);
  prepare(first);
  CHECK(cache.counts().misses == 1);
  prepare(second);
  CHECK(cache.counts().misses == 1);
  CHECK(cache.counts().hits == 1);
}
