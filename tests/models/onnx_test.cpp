// Compares graphs of ONNX files, which tests/golden/make_onnx.py makes, with graphs of the same
// models' configurations. Also tests which files are rejected.
#include <random>

#include "models/architectures/onnx/imported_graph.h"
#include "models/architectures/onnx/read_onnx.h"
#include "models/architectures/onnx/view.h"
#include "models/compiler/passes/pass.h"
#include "models/program/graph/op_table.h"
#include "tests/models/imported.h"
#include "tests/models/onnx_writer.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

const std::string onnx_folder = source + "/tests/golden/onnx/";

Model of_file(const std::string& name) { return load_model(onnx_folder + name + ".onnx", "/"); }
Model of_config(const std::string& name) {
  return load_model(source + "/tests/golden/transformers/" + name, "/");
}

std::string refusal_of(const std::string& bytes) {
  const TestFolder folder;
  const std::string path = folder.file("m.onnx", bytes);
  const std::string message = message_of([&] {
    const Model model = load_model("m.onnx", folder.path());
    build_graph(model, training_of(2, 4));
  });
  if (message.starts_with(path + ": ")) return message.substr(path.size() + 2);
  return "without the path: " + message;
}

// Returns the nodes of a graph, sorted by names that say what each node does and where. So nodes
// can be compared even if independent nodes come in another order.
std::vector<std::pair<std::string, const Node*>> nodes_by_name(const Graph& graph) {
  std::vector<std::pair<std::string, const Node*>> nodes;
  for (const Node& node : graph.nodes) {
    std::string name = std::to_string(graph.unit_of(node)) + " " + std::string(info(node.op).name);
    for (const int id : node.inputs) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.parameter >= 0)
        name += " " + graph.parameters[static_cast<std::size_t>(tensor.parameter)].name;
      for (int d = 0; d < tensor.type.shape.rank; ++d)
        name += "," + std::to_string(tensor.type.shape[d]);
    }
    nodes.emplace_back(name, &node);
  }
  std::ranges::stable_sort(nodes, {}, &std::pair<std::string, const Node*>::first);
  return nodes;
}

// Checks that two graphs are equal for every plan. Only the modules of activation functions may
// differ.
void check_alike(const Graph& got, const Graph& expected) {
  const auto nodes = nodes_by_name(got), wanted = nodes_by_name(expected);
  REQUIRE(nodes.size() == wanted.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    CAPTURE(wanted[i].first);
    CHECK(nodes[i].first == wanted[i].first);
    Attributes attributes = nodes[i].second->attributes;
    const Attributes& other = wanted[i].second->attributes;
    CHECK(attributes.epsilon == Approx(other.epsilon));  // the file has it as fp32
    attributes.epsilon = other.epsilon;
    if (nodes[i].second->op == Op::rope)
      attributes.kv_heads = other.kv_heads;  // of packed ones only
    CHECK(attributes == other);
  }
  REQUIRE(got.parameters.size() == expected.parameters.size());
  for (const Parameter& b : expected.parameters) {
    CAPTURE(b.name);
    Parameter a = parameter(got, b.name);
    a.tensor = b.tensor;
    CHECK(a == b);
  }
  REQUIRE(got.units.size() == expected.units.size());
  for (std::size_t u = 0; u < got.units.size(); ++u) {
    CHECK(got.units[u].path == expected.units[u].path);
    CHECK(got.units[u].is_block == expected.units[u].is_block);
  }
}

}  // namespace

TEST_CASE("an exported model is the graph of its configuration", "[models][onnx]") {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"gpt2-13", "gpt2"},        {"gpt2-17-mask", "gpt2"},      {"gpt2-18-dynamo", "gpt2"},
      {"gpt2-14-static", "gpt2"}, {"llama-14", "llama"},         {"llama-18-mask", "llama"},
      {"llama-17-sdpa", "llama"}, {"llama-17-external", "llama"}};
  for (const auto& [file, config] : files) {
    INFO(file);
    const Model model = of_file(file), expected = of_config(config);
    CHECK(model.imported->unlike == "");
    CHECK(model.name == file);  // as its file is called
    const ModelSizes got = model.sizes(), sizes = expected.sizes();
    CHECK(got.hidden == sizes.hidden);
    CHECK(got.layers == sizes.layers);
    CHECK(got.heads == sizes.heads);
    CHECK(got.kv_heads == sizes.kv_heads);
    CHECK(got.ffn == sizes.ffn);
    CHECK(got.vocabulary == sizes.vocabulary);
    CHECK(got.learned_positions == sizes.learned_positions);
    if (sizes.learned_positions) CHECK(got.positions == sizes.positions);
    check_alike(build_graph(model, training_of(2, 16)), build_graph(expected, training_of(2, 16)));
  }
}

// In the file, which transformers 4.46 wrote, token types are added before positions. In the
// published model they are added after positions.
TEST_CASE("an exported encoder is a masked model", "[models][onnx]") {
  const Model model = of_file("bert-17-mask");
  CHECK(model.head == Head::mlm);
  CHECK_FALSE(model.is_causal());
  Training training = training_of(2, 16);
  training.predicted_positions = 3;
  const Graph graph = build_graph(model, training);
  const Graph expected = build_graph(of_config("bert"), training);
  verify(graph, "lay_out");
  CHECK(nodes_of(graph, Op::select_positions) == 1);
  REQUIRE(graph.nodes.size() == expected.nodes.size());
  CHECK(parameter_count(graph) == parameter_count(expected));
  for (const Parameter& b : expected.parameters) {
    const Parameter& a = parameter(graph, b.name);
    CHECK(a.shape == b.shape);
    CHECK(a.cut == b.cut);
  }
}

// In a model with fresh weights, several vectors have equal values. The exporter writes only one of
// them, but each is a parameter of its own.
TEST_CASE("equal vectors of a file are parameters of their own", "[models][onnx]") {
  const Model model = of_file("gpt2-17-fresh");
  const Model same = theirs(nlohmann::json::parse(
      R"({"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16,
          "vocab_size": 40})"));
  check_alike(build_graph(model, training_of(2, 16)), build_graph(same, training_of(2, 16)));
  const OnnxWeights weights(onnx_folder + "gpt2-17-fresh.onnx");
  CHECK(weights.names().size() == model.imported->parameters.size());
  CHECK(weights.read("transformer.h.1.ln_2.weight") == std::vector<float>(16, 1.0F));
  CHECK(weights.read("transformer.h.1.mlp.c_fc.bias") == std::vector<float>(64, 0.0F));
}

// The planner builds models with other numbers of blocks to find out what one block costs.
TEST_CASE("alike blocks can be more or fewer than the file has", "[models][onnx]") {
  for (const int layers : {1, 2, 3, 7}) {
    Model model = of_file("llama-14"), expected = of_config("llama");
    model.layers = expected.layers = layers;
    check_alike(build_graph(model, training_of(2, 8)), build_graph(expected, training_of(2, 8)));
  }
}

TEST_CASE("views of a tensor are composed as NumPy composes strides", "[models][onnx]") {
  // The view goes from [2,3,8] through [2,3,2,4] to [2,2,3,4], with heads before tokens as in
  // attention.
  const OnnxView whole = whole_view({2, 3, 8});
  CHECK(is_in_order(whole, 48));
  const OnnxView heads = transposed(*reshaped(whole, {2, 3, 2, 4}), {0, 2, 1, 3});
  CHECK(dims_of(heads) == std::vector<std::int64_t>{2, 2, 3, 4});
  CHECK(heads.dims[1] == OnnxView::Dimension{{2, 4}});
  CHECK(heads.dims[2] == OnnxView::Dimension{{3, 8}});
  CHECK(is_permutation(heads, 48));
  CHECK_FALSE(is_in_order(heads, 48));
  // The view is transposed back and gets another shape.
  CHECK(is_in_order(*reshaped(transposed(heads, {0, 2, 1, 3}), {6, 8}), 48));
  // From [2,2,3,4] to [4,3,4]: batch and heads become one dimension, but their strides, 24 and 4,
  // are not those of one contiguous dimension. So the view keeps both.
  const OnnxView joined = *reshaped(heads, {4, 3, 4});
  CHECK(joined.dims[0] == OnnxView::Dimension{{2, 24}, {2, 4}});
  // The second half of the last dimension begins at element 2.
  const OnnxView half = *sliced(heads, 3, 2, 2);
  CHECK(half.offset == 2);
  CHECK(half.dims[3] == OnnxView::Dimension{{2, 1}});
  CHECK_FALSE(is_permutation(half, 48));
  // Each head is repeated.
  const OnnxView twice = expanded(*reshaped(heads, {2, 2, 1, 3, 4}), {2, 2, 2, 3, 4});
  CHECK(reshaped(twice, {2, 4, 3, 4})->dims[1] == OnnxView::Dimension{{2, 4}, {2, 0}});
  // A view of 48 elements cannot get a shape of 50.
  CHECK_FALSE(reshaped(transposed(heads, {0, 2, 1, 3}), {2, 5, 5}).has_value());
}

TEST_CASE("what is no readable ONNX file is refused", "[models][onnx]") {
  CHECK(message_of([] { load_model("m.onnx", "/nowhere"); }) == "/nowhere/m.onnx: no such file");
  CHECK(refusal_of("").starts_with("is not an ONNX file, or was cut off"));
  CHECK(refusal_of("{\"family\": \"gpt\"}").starts_with("is not an ONNX"));
  const std::string whole = content_of(onnx_folder + "gpt2-17-mask.onnx");
  for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{100}})
    CHECK(refusal_of(whole.substr(0, size)).starts_with("is not an ONNX file, or was cut off"));
  for (const int opset : {11, 12, 26, 31})
    CHECK(refusal_of(begun_onnx().file(opset)) ==
          "operator set " + std::to_string(opset) + " is not known; export with 13 to 25");
}

TEST_CASE("what a graph has that is not known is named with its node", "[models][onnx]") {
  OnnxWriter unknown = begun_onnx();
  unknown.node("Einsum", "/h.0/attn/Einsum", {"x", "x"}, {"logits"});
  CHECK(
      refusal_of(unknown.file())
          .starts_with("node /h.0/attn/Einsum: operation Einsum is not known; known: Abs, Add, "));

  OnnxWriter alone = begun_onnx();
  alone.node("Sigmoid", "/h.0/Sigmoid", {"x"}, {"y"});
  alone.node("MatMul", "/head/MatMul", {"y", "head.weight"}, {"logits"});
  CHECK(refusal_of(alone.file())
            .starts_with(
                "node /h.0/Sigmoid: operation Sigmoid is not part of a module that is known"));

  OnnxWriter second = begun_onnx();
  second.node("Relu", "/h.0/Relu", {"head.weight", "x"}, {"logits"});
  CHECK(refusal_of(second.file()) ==
        "node /h.0/Relu: operation Relu is known where its first operand depends on the tokens");

  OnnxWriter no_blocks = begun_onnx();
  no_blocks.node("MatMul", "/head/MatMul", {"x", "head.weight"}, {"logits"});
  CHECK(refusal_of(no_blocks.file()).starts_with("has no blocks with attention"));

  OnnxWriter no_head = begun_onnx();
  no_head.node("Relu", "/Relu", {"x"}, {"logits"});
  CHECK(refusal_of(no_head.file())
            .starts_with(
                "the output is not [batch, sequence, vocabulary] as a linear layer makes it; "));
}

TEST_CASE("names of an ONNX file that are no text are refused", "[models][onnx]") {
  const std::string end = " 'a\xef\xbf\xbd' is not UTF-8; export the model again";
  OnnxWriter node = begun_onnx();
  node.node("Relu", "a\xff", {"x"}, {"logits"});
  CHECK(refusal_of(node.file()) == "the name of node" + end);
  OnnxWriter operation = begun_onnx();
  operation.node("a\xff", "b", {"x"}, {"logits"});
  CHECK(refusal_of(operation.file()) == "the operation" + end);
  OnnxWriter weight = begun_onnx();
  weight.weight("a\xff", {2});
  CHECK(refusal_of(weight.file()) == "the name of initializer" + end);
  OnnxWriter input = begun_onnx();
  input.input("a\xff", {"batch"});
  CHECK(refusal_of(input.file()) == "the name of input" + end);
}

TEST_CASE("a graph that is not connected is refused", "[models][onnx]") {
  OnnxWriter cycle = begun_onnx();
  cycle.node("Add", "/a", {"x", "z"}, {"y"});
  cycle.node("Add", "/b", {"y", "x"}, {"z"});
  cycle.node("MatMul", "/head/MatMul", {"z", "head.weight"}, {"logits"});
  CHECK(
      refusal_of(cycle.file()) ==
      "node /a: reads z before node /b makes it: the nodes are in a wrong order, or form a cycle");

  OnnxWriter missing = begun_onnx();
  missing.node("Add", "/a", {"x", "nothing"}, {"logits"});
  CHECK(refusal_of(missing.file()) ==
        "node /a: reads nothing, which is no input, no weight and made by no node");

  OnnxWriter twice = begun_onnx();
  twice.node("Relu", "/a", {"x"}, {"x"});
  CHECK(refusal_of(twice.file()) == "node /a: makes x, which is there already");

  OnnxWriter past = begun_onnx();
  past.input("past_key_values.0.key", {"batch", "past"});
  past.node("Add", "/a", {"x", "past_key_values.0.key"}, {"logits"});
  CHECK(refusal_of(past.file())
            .starts_with("node /a: reads the input past_key_values.0.key, which is not known; "
                         "known: input_ids, "));

  OnnxWriter shape = begun_onnx();
  shape.node("Reshape", "/a", {"x", "x"}, {"logits"});
  CHECK(refusal_of(shape.file()) == "node /a: has no operand number 2");
}

TEST_CASE("weights that are not there, or of another size, are refused", "[models][onnx]") {
  OnnxWriter outside = begun_onnx();
  const auto external = [](const std::string& location) {
    return wire_field(13, wire_field(1, std::string("location")) + wire_field(2, location)) +
           wire_field(14, 1);
  };
  outside.weight("a.weight", {4, 4}, external("weights.data"));
  CHECK(refusal_of(outside.file()) ==
        "initializer a.weight: its data lies in 'weights.data', which is not there; put it beside "
        "the model");
  OnnxWriter above = begun_onnx();
  above.weight("a.weight", {4, 4}, external("../weights.data"));
  CHECK(refusal_of(above.file()) ==
        "initializer a.weight: its data lies in '../weights.data'; use a file beside the model");
  OnnxWriter few = begun_onnx();
  few.weight("a.weight", {4, 4}, wire_field(9, std::string("short")));
  CHECK(refusal_of(few.file()) ==
        "initializer a.weight: has 5 bytes of data, but its shape needs 64");
}

// Bytes are changed at random. The result must be an error message or a valid graph.
TEST_CASE("a damaged ONNX file never ends the program", "[models][onnx]") {
  const TestFolder folder;
  std::filesystem::copy_file(onnx_folder + "llama-17-external.data",
                             folder.file("llama-17-external.data"));
  const std::pair<const char*, int> files[] = {
      {"gpt2-18-dynamo", 1000}, {"gpt2-17-fresh", 500}, {"llama-17-external", 50}};
  for (const auto& [name, rounds] : files) {
    const std::string whole = content_of(onnx_folder + name + ".onnx");
    std::mt19937 random(7);
    int graphs = 0, refused = 0;
    for (int round = 0; round < rounds; ++round) {
      std::string changed = whole;
      const int changes = 1 + static_cast<int>(random() % 3);
      for (int i = 0; i < changes; ++i) {
        const std::size_t at = random() % changed.size();
        switch (random() % 4) {
          case 0:
            changed[at] = static_cast<char>(random());
            break;
          case 1:
            changed[at] = static_cast<char>(changed[at] ^ 1 << random() % 8);
            break;
          case 2:
            changed.erase(at, 1);
            break;
          default:
            changed.insert(at, 1, static_cast<char>(random()));
        }
      }
      write_content(folder.file("m.onnx"), changed);
      try {
        const Model model = load_model("m.onnx", folder.path());
        verify(build_graph(model, training_of(1, 4)), "lay_out");
        ++graphs;
      } catch (const InputError&) {
        ++refused;
      }
    }
    CHECK(graphs > 0);
    CHECK(refused > 0);
  }
}
