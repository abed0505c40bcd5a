// Compares the whole graph on the CPU backend, forward and backward, with an independent
// implementation: the logits, the loss and the gradient of every parameter of tiny models
// (tests/golden/make_golden.py).
#include <cmath>
#include <cstring>
#include <filesystem>

#include "exec/backends/cpu/cpu_backend.h"
#include "models/architectures/model.h"
#include "models/architectures/onnx/read_onnx.h"
#include "models/compiler/passes/graph/add_adapters.h"
#include "models/compiler/passes/pass.h"
#include "tests/catch.h"
#include "tests/golden/published_golden.h"

using namespace meshwright::tests;

namespace {

// Runs a graph node by node on a backend. Every tensor has memory of its own.
class GraphRunner {
 public:
  GraphRunner(const Graph& graph, Backend& backend) : graph_(graph), backend_(backend) {
    for (const Tensor& tensor : graph.tensors) {
      // All types here are f32 or i32, with 4 bytes per element. Gradients begin at zero, and all
      // other memory at NaN, so that reading unwritten memory shows.
      memory_.emplace_back(tensor.type.shape.elements(),
                           tensor.role == Role::parameter_gradient ? 0.0F : std::nanf(""));
    }
  }

  void set(int tensor, const std::vector<std::int32_t>& values) {
    REQUIRE(values.size() == memory_[tensor].size());
    std::memcpy(memory_[tensor].data(), values.data(), values.size() * 4);
  }
  // Sets a tensor. Padded rows of a vocabulary become zero.
  void set(int tensor, const std::vector<float>& values) {
    REQUIRE(values.size() <= memory_[tensor].size());
    std::fill(memory_[tensor].begin(), memory_[tensor].end(), 0.0F);
    std::copy(values.begin(), values.end(), memory_[tensor].begin());
  }

  void run() {
    for (const Node& node : graph_.nodes) {
      std::vector<TensorType> input_types, output_types;
      std::vector<const void*> inputs;
      std::vector<void*> outputs;
      for (int id : node.inputs) {
        input_types.push_back(graph_.tensor(id).type);
        inputs.push_back(memory_[id].data());
      }
      for (int id : node.outputs) {
        output_types.push_back(graph_.tensor(id).type);
        outputs.push_back(memory_[id].data());
      }
      const OpCall call{node.op, node.attributes, input_types, output_types};
      std::vector<double> scratch(backend_.workspace_bytes(call) / 8 + 1);
      OpContext context;
      context.workspace = scratch.data();
      backend_.run(call, {inputs, outputs}, context);
      backend_.wait();
    }
  }

  const std::vector<float>& value(int tensor) const { return memory_[tensor]; }

 private:
  const Graph& graph_;
  Backend& backend_;
  std::vector<std::vector<float>> memory_;
};

void run_golden(GraphRunner& runner, const Graph& graph, const Golden& golden) {
  runner.set(graph.tokens, golden.integers("tokens"));
  runner.set(graph.targets, golden.integers("targets"));
  if (graph.positions >= 0) runner.set(graph.positions, golden.integers("positions"));
  if (graph.documents >= 0) runner.set(graph.documents, golden.integers("documents"));
  if (graph.decoder_tokens >= 0)
    runner.set(graph.decoder_tokens, golden.integers("decoder_tokens"));
  for (std::size_t i = 0; i < graph.ahead.size(); ++i) {
    const std::string depth = std::to_string(i + 1);
    runner.set(graph.ahead[i].tokens, golden.integers("ahead_tokens/" + depth));
    runner.set(graph.ahead[i].targets, golden.integers("ahead_targets/" + depth));
  }
  for (const Parameter& p : graph.parameters)
    runner.set(p.tensor, golden_of(golden, "weight/", p).values);
  runner.run();
}

// Returns ||a - b|| / ||b|| over the elements that the golden tensor has.
double distance(const std::vector<float>& got, const std::vector<float>& golden) {
  double squares = 0, norm = 0;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    const double difference = double(got[i]) - golden[i];
    squares += difference * difference;
    norm += double(golden[i]) * golden[i];
  }
  return std::sqrt(squares / std::max(norm, 1e-12));
}

Plan plan_of(const Golden& golden, const Model& model) {
  Plan plan;
  const auto& tokens = golden.tensor("tokens").shape;
  plan.training.micro_batch = static_cast<int>(tokens[0]);
  plan.training.global_batch = tokens[0];
  plan.training.sequence_length =
      model.reads_images() ? model.positions : static_cast<int>(tokens[1]);
  plan.training.packing = golden.has("documents") && !model.hides_padding();
  if (golden.has("positions"))
    plan.training.predicted_positions = static_cast<int>(golden.tensor("positions").shape[1]);
  return plan;
}

int logits_of(const Graph& graph) {
  for (const Node& node : graph.nodes)
    if (node.op == Op::cross_entropy || node.op == Op::span_loss) return node.inputs[0];
  return -1;
}

void check_logits(const std::vector<float>& got, std::size_t width, const GoldenTensor& golden) {
  const std::size_t columns = golden.shape.back();
  std::vector<float> unpadded;
  for (std::size_t row = 0; row < golden.values.size() / columns; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      unpadded.push_back(got[row * width + column]);
  CHECK(distance(unpadded, golden.values) < 2e-5);
}

// Checks the losses of multi-token prediction, which are means over the targets that exist.
void check_losses_ahead(const Golden& golden, const Graph& graph, const GraphRunner& runner) {
  for (std::size_t i = 0; i < graph.ahead.size(); ++i) {
    const std::string depth = std::to_string(i + 1);
    double sum = 0, there = 0;
    for (float each : runner.value(graph.ahead[i].loss)) sum += each;
    for (float each : golden.tensor("ahead_targets/" + depth).values) there += each >= 0 ? 1 : 0;
    CHECK(sum / there == Approx(golden.tensor("ahead_loss/" + depth).values[0]).epsilon(1e-5));
  }
}

// Checks the losses and gradients of the graph after all passes.
void check_gradients(const Golden& golden, const Graph& graph) {
  const auto backend = make_cpu_backend(1);
  GraphRunner runner(graph, *backend);
  run_golden(runner, graph, golden);
  double loss = 0;
  for (float each : runner.value(graph.loss)) loss += each;
  for (const Node& node : graph.nodes)  // experts are balanced
    if (node.op == Op::route && node.phase == Phase::forward)
      for (float each : runner.value(node.outputs[2])) loss += each;
  loss /= static_cast<double>(runner.value(graph.loss).size());
  CHECK(loss == Approx(golden.tensor("loss").values[0]).epsilon(1e-5));
  check_losses_ahead(golden, graph, runner);
  for (const Parameter& p : graph.parameters) {
    if (!p.trainable) continue;
    INFO(p.name);
    const std::vector<float> expected = golden_of(golden, "gradient/", p).values;
    double largest = 0;
    for (float value : expected) largest = std::max(largest, std::abs(double(value)));
    // The gradient of a key bias is zero but for rounding.
    if (largest > 1e-6)
      CHECK(distance(runner.value(p.gradient), expected) < 2e-4);
    else
      for (float value : runner.value(p.gradient)) CHECK(std::abs(value) < 1e-5);
  }
}

// Checks the logits of the forward graph.
void check_logits_of(const Golden& golden, const Graph& graph) {
  const auto backend = make_cpu_backend(1);
  GraphRunner runner(graph, *backend);
  run_golden(runner, graph, golden);
  const int logits = logits_of(graph);
  check_logits(runner.value(logits), graph.tensor(logits).type.shape[1], golden.tensor("logits"));
}

// Checks the logits of multi-token prediction in the forward graph.
void check_logits_ahead(const Golden& golden, const Graph& graph) {
  const auto backend = make_cpu_backend(1);
  GraphRunner runner(graph, *backend);
  run_golden(runner, graph, golden);
  std::size_t depth = 0;
  for (const TokenAhead& each : graph.ahead) {
    const int logits = graph.nodes[graph.tensor(each.loss).producer].inputs[0];
    check_logits(runner.value(logits), graph.tensor(logits).type.shape[1],
                 golden.tensor("ahead_logits/" + std::to_string(++depth)));
  }
}

}  // namespace

TEST_CASE("logits, loss and gradients are those of an independent implementation", "[agree]") {
  for (const std::string& folder : golden_folders())
    for (AttentionKernel kernel : {AttentionKernel::unfused, AttentionKernel::flash2})
      for (Recompute recompute : {Recompute::none, Recompute::full}) {
        INFO(folder);
        const Golden golden = load_golden(folder);
        const Model model = load_model(golden.folder, "/");
        if (model.attention_sinks && kernel == AttentionKernel::unfused) continue;
        Plan plan = plan_of(golden, model);
        plan.training.attention = kernel;
        plan.training.recompute = recompute;
        check_gradients(golden, run_passes(build_graph(model, plan.training), plan));
      }
}

TEST_CASE("experts whose rows are counted have the same logits and gradients", "[agree]") {
  for (const std::string& folder : golden_folders()) {
    const Golden golden = load_golden(folder);
    Model model = load_model(golden.folder, "/");
    if (model.experts == 0) continue;
    INFO(folder);
    model.expert_dropless = true;
    for (CompilerLevel level : {CompilerLevel::none, CompilerLevel::fused}) {
      Plan plan = plan_of(golden, model);
      plan.training.compiler = level;
      check_gradients(golden, run_passes(build_graph(model, plan.training), plan));
    }
  }
}

TEST_CASE("logits are those of an independent implementation", "[agree]") {
  for (const std::string& folder : golden_folders()) {
    INFO(folder);
    const Golden golden = load_golden(folder);
    const Model model = load_model(golden.folder, "/");
    check_logits_of(golden, build_graph(model, plan_of(golden, model).training));
  }
}

TEST_CASE("rows of several documents have the logits and gradients of transformers", "[agree]") {
  for (const char* name : {"gpt2", "llama", "gptj"})
    for (const CompilerLevel level : {CompilerLevel::none, CompilerLevel::fused}) {
      INFO(name);
      const Golden golden =
          load_golden(std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/packed/" + name);
      const Model model = load_model(golden.folder, "/");
      Plan plan = plan_of(golden, model);
      plan.training.compiler = level;
      plan.training.attention =
          level == CompilerLevel::none ? AttentionKernel::unfused : AttentionKernel::flash2;
      check_logits_of(golden, build_graph(model, plan.training));
      check_gradients(golden, run_passes(build_graph(model, plan.training), plan));
    }
}

// The golden values come from blocks of transformers that are combined as in the paper and the
// published weights.
TEST_CASE("multi-token prediction has the logits, losses and gradients of PyTorch",
          "[agree][mtp]") {
  for (const char* name : {"deepseek_v3-1", "llama-2"})
    for (const CompilerLevel level :
         {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full})
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        INFO(name << ", level " << static_cast<int>(level));
        const Golden golden =
            load_golden(std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/mtp/" + name);
        const Model model = load_model(golden.folder, "/");
        Plan plan = plan_of(golden, model);
        plan.training.mtp_layers = golden.has("ahead_loss/2") ? 2 : 1;
        plan.training.mtp_loss_weight = 0.3;
        plan.training.recompute = recompute;
        plan.training.compiler = level;
        plan.training.attention =
            level == CompilerLevel::none ? AttentionKernel::unfused : AttentionKernel::flash2;
        const Graph forward = build_graph(model, plan.training);
        check_logits_of(golden, forward);
        check_logits_ahead(golden, forward);
        check_gradients(golden, run_passes(forward, plan));
      }
}

TEST_CASE("logits, loss and gradients of adapters are those of peft", "[agree][lora]") {
  for (const char* name : {"gpt2", "llama"})
    for (const CompilerLevel level :
         {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full}) {
      INFO(name);
      const Golden golden =
          load_golden(std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/lora/" + name);
      const Model model = load_model(golden.folder, "/");
      Plan plan = plan_of(golden, model);
      Fields config = read_json_file(golden.folder + "/adapter_config.json");
      plan.training.lora = Lora{config.required<int>("r"), config.required<double>("lora_alpha"), 0,
                                config.required<std::vector<std::string>>("target_modules")};
      plan.training.compiler = level;
      plan.training.attention =
          level == CompilerLevel::none ? AttentionKernel::unfused : AttentionKernel::flash2;
      check_logits_of(golden, add_adapters(build_graph(model, plan.training), plan));
      const Graph graph = run_passes(build_graph(model, plan.training), plan);
      std::size_t trained = 0;
      for (const Parameter& parameter : graph.parameters) trained += parameter.trainable ? 1 : 0;
      std::size_t expected = 0;
      for (const auto& [tensor, values] : golden.tensors)
        expected += tensor.starts_with("gradient/") ? 1 : 0;
      CHECK(trained == expected);
      check_gradients(golden, graph);
    }
}

namespace {

// Checks the ONNX file of a golden model, whose weights equal those of the golden model to the bit.
void check_onnx_file(const std::string& path, Golden golden) {
  const Model model = load_model(path, "/");
  const OnnxWeights weights(path);
  CHECK(weights.names() == golden.parameters());
  for (const std::string& name : weights.names())
    CHECK(weights.read(name) == golden.tensors.at("weight/" + name).values);
  for (const CompilerLevel level : {CompilerLevel::none, CompilerLevel::fused}) {
    Plan plan = plan_of(golden, model);
    plan.training.compiler = level;
    plan.training.attention =
        level == CompilerLevel::none ? AttentionKernel::unfused : AttentionKernel::flash2;
    const Graph forward = build_graph(model, plan.training);
    check_logits_of(golden, forward);
    check_gradients(golden, run_passes(forward, plan));
  }
}

// Renames a parameter, of which the file has only the first rows.
void rename(Golden& golden, const std::string& before, const std::string& now, std::int64_t rows) {
  for (const std::string kind : {"weight/", "gradient/"}) {
    GoldenTensor kept = golden.tensor(kind + before);
    kept.values.resize(kept.values.size() / kept.shape[0] * rows);
    kept.shape[0] = rows;
    golden.tensors.erase(kind + before);
    golden.tensors[kind + now] = std::move(kept);
  }
}

// Changes the golden tensors to those of a file of tests/golden/onnx_5.
void change_to(const std::string& file, Golden& golden) {
  if (file.starts_with("gemma"))  // both exporters store 1 + the weight of a norm
    for (auto& [name, tensor] : golden.tensors)
      if (name.starts_with("weight/") && name.ends_with("norm.weight"))
        for (float& value : tensor.values) value += 1;
  // An exporter that knows batch and length stores only the rows that are added to the tokens.
  if (file.starts_with("gpt2-dynamo-fixed"))
    rename(golden, "transformer.wpe.weight", "transformer.weight", 12);
  if (file.starts_with("bert-dynamo-fixed")) {
    const std::string module = "bert.embeddings.";
    rename(golden, module + "token_type_embeddings.weight", module + "weight", 1);
    rename(golden, module + "position_embeddings.weight", module + "weight.2", 12);
  }
  const auto rename_whole = [&](const std::string& before, const std::string& now) {
    rename(golden, before, now, golden.tensor("weight/" + before).shape[0]);
  };
  // PyTorch has two names for the bias of an encoder's head, of which exporters take one.
  for (const std::string head : {"cls.predictions", "lm_head"})
    if (file.find("-dynamo") != std::string::npos && golden.has("weight/" + head + ".bias"))
      rename_whole(head + ".bias", head + ".decoder.bias");
  // transformers 5 has another name for the head of GPT-NeoX.
  if (file.starts_with("gpt_neox")) rename_whole("embed_out.weight", "lm_head.weight");
}

}  // namespace

// Tests the golden models as ONNX files (tests/golden/make_onnx.py).
TEST_CASE("graphs of ONNX files have the logits and gradients of PyTorch", "[agree][onnx]") {
  const std::string tests = std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/";
  const std::pair<const char*, const char*> golden_of[] = {
      {"gpt2-13", "gpt2"},        {"gpt2-17-mask", "gpt2"},       {"gpt2-14-static", "gpt2"},
      {"gpt2-18-dynamo", "gpt2"}, {"llama-14", "llama"},          {"llama-18-mask", "llama"},
      {"llama-17-sdpa", "llama"}, {"llama-17-external", "llama"}, {"bert-17-mask", "bert"}};
  for (const auto& [file, folder] : golden_of) {
    INFO(file);
    check_onnx_file(tests + "onnx/" + file + ".onnx",
                    load_golden(tests + "transformers/" + folder));
  }
}

TEST_CASE("ONNX files of transformers 5 have the logits and gradients of PyTorch",
          "[agree][onnx]") {
  const std::string tests = std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(tests + "onnx_5")) {
    if (entry.path().extension() != ".onnx") continue;
    const std::string file = entry.path().stem().string();
    INFO(file);
    Golden golden = load_golden(tests + "transformers/" + file.substr(0, file.find('-')));
    change_to(file, golden);
    check_onnx_file(entry.path().string(), std::move(golden));
    ++files;
  }
  CHECK(files == 27);
}
