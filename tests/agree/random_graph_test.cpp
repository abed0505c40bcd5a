// Checks that every pass of the compiler keeps the results of graphs that are drawn at random, by
// itself and with all others in random order. MESHWRIGHT_GRAPHS graphs are drawn, from the seed
// MESHWRIGHT_SEED (1). Graph i of a run is the only one of a run from seed + i.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "exec/backends/cpu/cpu_backend.h"
#include "models/compiler/passes/graph/backward.h"
#include "models/compiler/passes/graph/cleanup.h"
#include "models/compiler/passes/graph/common_subexpressions.h"
#include "models/compiler/passes/pass.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"
#include "tests/agree/graph_values.h"
#include "tests/agree/random_graph.h"
#include "tests/catch.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}
int drawn_graphs() { return setting("MESHWRIGHT_GRAPHS", 5000 / one_in(5)); }
std::uint64_t first_seed() { return static_cast<std::uint64_t>(setting("MESHWRIGHT_SEED", 1)); }

std::string names_of(const std::vector<const Pass*>& passes) {
  std::string names;
  for (const Pass* pass : passes) names.append(" ").append(pass->name);
  return names;
}

// Moves the nodes that make only gradients of parameters to the end, which is how a schedule that
// splits backward passes runs them.
Graph weights_last(Graph graph) {
  const auto makes_weights = [&](const Node& node) {
    return node.phase == Phase::backward &&
           std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](int id) { return graph.tensor(id).role == Role::parameter_gradient; });
  };
  std::stable_partition(graph.nodes.begin(), graph.nodes.end(),
                        [&](const Node& node) { return !makes_weights(node); });
  return cleaned(std::move(graph));
}

// A graph before and after the passes, and the problem that was found.
struct Tried {
  Graph before, after;
  std::vector<const Pass*> passes;
  std::string problem;  // "": none
  bool has_changed = false;

  std::string text() const {
    return problem + "\nbefore:\n" + to_text(before) + "after:\n" + to_text(after);
  }
};

// The passes that add in the same order as the graph before them, and so keep every bit, except as
// keeps_sums_of() says of fused operations. All other passes keep values within a tolerance.
constexpr std::string_view keeps_sums[] = {
    "simplify",      "common_subexpressions", "dead_code", "fuse_loss",
    "recompute",     "rematerialize_rows",    "fuse_rows", "order_operations",
    "reuse_in_place"};

int writers_of(const Graph& graph, int tensor) {
  int writers = 0;
  for (const Node& node : graph.nodes)
    for (const int id : node.outputs) writers += id == tensor ? 1 : 0;
  return writers;
}

// Returns whether all matmuls and sums are as they were, except for what is added to parameter
// gradients.
bool keeps_all_sums(const Tried& tried) {
  const auto keeps = [](const Pass* pass) {
    return std::find(std::begin(keeps_sums), std::end(keeps_sums), pass->name) !=
           std::end(keeps_sums);
  };
  const auto changes_products = [](const Node& node) {
    if (node.op != Op::fused) return false;
    const Fusion& fusion = *node.attributes.fusion;
    return fusion.start >= 0 ||
           (fusion.loop == Fusion::Loop::long_blocks && fusion.rows > fusion.block_rows);
  };
  return std::all_of(tried.passes.begin(), tried.passes.end(), keeps) &&
         std::none_of(tried.after.nodes.begin(), tried.after.nodes.end(), changes_products);
}

// Returns whether a parameter's gradient keeps its sums. Fused operations sum over the rows block
// by block, and operations that add to the same gradient may have been moved past each other.
bool keeps_sums_of(const Tried& tried, std::size_t parameter) {
  const int gradient = tried.after.parameters[parameter].gradient;
  const bool several = writers_of(tried.before, tried.before.parameters[parameter].gradient) > 1;
  return std::none_of(tried.after.nodes.begin(), tried.after.nodes.end(), [&](const Node& node) {
    const bool adds =
        std::find(node.outputs.begin(), node.outputs.end(), gradient) != node.outputs.end();
    if (node.op != Op::fused || !adds) return false;
    return several || node.attributes.fusion->rows > node.attributes.fusion->block_rows;
  });
}

double largest_of(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(double(value)));
  return largest;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::fabs(double(a[i]) - b[i]);
    if (!(off <= worst)) worst = std::isnan(off) ? INFINITY : off;
  }
  return worst;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Rounding errors of large gradients reach small ones. The tolerance is therefore relative to a
// tensor's largest element or, if that is larger, to this part of the largest element of all
// tensors.
struct Tolerance {
  double of_largest, part_of_all;
};
// In 16 bits another rounding may choose another expert or open another relu. There the test
// compares bits if sums are kept, and the finer comparison is the one in fp32.
constexpr Tolerance of_fp32{1e-5, 0.5}, of_16_bits{0.25, 1};

double largest_of(const std::vector<std::vector<float>>& all) {
  double largest = 0;
  for (const auto& values : all) largest = std::max(largest, largest_of(values));
  return largest;
}

// Some graphs amplify rounding, for example if a row that a relu has almost closed is normalized.
// So passes may change values by twice as much as a change of the parameters' last bits does.
Tolerance widened(const Tolerance& tolerance, const GraphValues& before,
                  const std::vector<GraphValues>& neighbours) {
  double off = 0;
  for (const GraphValues& other : neighbours) {
    off = std::max(off, difference(before.losses, other.losses) / largest_of(before.losses));
    for (std::size_t i = 0; i < before.sums.size(); ++i)
      off = std::max(off, difference(before.sums[i], other.sums[i]) / largest_of(before.sums));
  }
  return {std::max(tolerance.of_largest, 2 * off), tolerance.part_of_all};
}

bool all_finite(const GraphValues& values) {
  const auto finite = [](const std::vector<float>& all) {
    return std::all_of(all.begin(), all.end(), [](float value) { return std::isfinite(value); });
  };
  return finite(values.losses) && std::all_of(values.sums.begin(), values.sums.end(), finite);
}

// Returns how the values differ, or an empty string if they agree.
std::string compare(const GraphValues& before, const GraphValues& after, const Tried& tried,
                    const Tolerance& tolerance) {
  if (!all_finite(before)) return "values before the passes are not finite";
  // If two experts' logits are nearly equal, another rounding may choose the other expert. Then
  // only bits can be compared.
  const bool is_tie = before.closest_choice < tolerance.of_largest;
  const auto check = [&](const std::vector<float>& a, const std::vector<float>& b, bool exact,
                         double least) -> std::string {
    if (a.size() != b.size()) return "another number of elements";
    if (exact)
      return same_bits(a, b) ? "" : fmt::format("other bits, off by {:.2g}", difference(a, b));
    if (is_tie && tried.after.precision == Precision::fp32) return "";
    const double off = difference(a, b), largest = std::max(least, largest_of(b));
    const double allowed = tolerance.of_largest * largest;
    return off <= allowed ? "" : fmt::format("off by {:.2g}, {:.2g} is allowed", off, allowed);
  };
  const bool keeps_all = keeps_all_sums(tried);
  const std::string of_losses = check(after.losses, before.losses, keeps_all, 0);
  if (!of_losses.empty()) return "losses: " + of_losses;
  const double largest = largest_of(before.sums);
  for (std::size_t i = 0; i < before.sums.size(); ++i) {
    const bool exact = keeps_all && keeps_sums_of(tried, i);
    const std::string text =
        check(after.sums[i], before.sums[i], exact, tolerance.part_of_all * largest);
    if (!text.empty())
      return fmt::format(
          "gradient of {}: {}; its largest element is {:.2g}, "
          "of all gradients {:.2g}",
          tried.after.parameters[i].name, text, largest_of(before.sums[i]), largest);
  }
  return "";
}

// Returns how the parameters, inputs and loss differ, to which the rest of the program refers. An
// empty string means that they agree.
std::string compare_surroundings(const Graph& before, const Graph& after) {
  const auto type = [](const Graph& graph, int id) {
    return id < 0 ? TensorType{} : graph.tensor(id).type;
  };
  if (before.parameters.size() != after.parameters.size()) return "another number of parameters";
  for (std::size_t i = 0; i < before.parameters.size(); ++i) {
    const Parameter &a = before.parameters[i], &b = after.parameters[i];
    if (a.name != b.name || !(a.shape == b.shape) ||
        !(type(before, a.tensor) == type(after, b.tensor)) ||
        !(type(before, a.gradient) == type(after, b.gradient)))
      return "parameter " + a.name + " has changed";
  }
  for (int Graph::*id :
       {&Graph::tokens, &Graph::decoder_tokens, &Graph::targets, &Graph::positions, &Graph::loss})
    if (!(type(before, before.*id) == type(after, after.*id)))
      return "an input or the loss has changed";
  return "";
}

bool is_backward(const Pass& pass) {
  const auto* function = std::get_if<PlanPass>(&pass.function);
  return function != nullptr && *function == &backward;
}

bool before_backward(const Pass& pass) {
  const auto passes = training_passes();
  const auto backward_pass = std::find_if(passes.begin(), passes.end(), is_backward);
  return &pass < &*backward_pass;
}

// Returns the passes that keep what one rank computes: those after `backward`, and the compiler's
// own before it. (The others before it cut the model; `quantize` rounds, in precisions that are not
// drawn.)
std::vector<const Pass*> tested_passes() {
  std::vector<const Pass*> tested;
  for (const Pass& pass : training_passes()) {
    const bool of_compiler = pass.optional || pass.levels != at_every_level;
    // Passes that round weights change values: they are tested where models are trained.
    const std::string_view name = pass.name;
    const bool keeps_values = !is_backward(pass) && name != "quantize" && name != "widen_weights";
    if (keeps_values && (of_compiler || !before_backward(pass))) tested.push_back(&pass);
  }
  return tested;
}

bool runs_at(const Pass& pass, CompilerLevel level) {
  return (pass.levels >> static_cast<unsigned>(level) & 1U) != 0;
}

// Returns the passes of the level in random order. Optional ones appear up to twice.
std::vector<const Pass*> draw_passes(Draw& draw, CompilerLevel level) {
  std::vector<const Pass*> drawn;
  for (const Pass* pass : tested_passes()) {
    if (!runs_at(*pass, level)) continue;
    const int times = pass->optional ? draw.of({0, 1, 1, 2}) : 1;
    for (int i = 0; i < times; ++i) drawn.push_back(pass);
  }
  for (int i = static_cast<int>(drawn.size()) - 1; i > 0; --i)
    std::swap(drawn[static_cast<std::size_t>(i)],
              drawn[static_cast<std::size_t>(draw.below(i + 1))]);
  std::stable_partition(drawn.begin(), drawn.end(),
                        [](const Pass* pass) { return before_backward(*pass); });
  return drawn;
}

// Makes the blocks of fused operations shorter, because small graphs have few rows.
void shorten_blocks(Graph& graph, Draw& draw) {
  for (Node& node : graph.nodes) {
    if (node.op != Op::fused) continue;
    Fusion fusion = *node.attributes.fusion;
    fusion.block_rows = draw.between(1, static_cast<int>(fusion.block_rows));
    node.attributes.fusion = std::make_shared<const Fusion>(std::move(fusion));
  }
}

bool are_same(const Graph& a, const Graph& b) {
  return to_text(a) == to_text(b) &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const Tensor& x, const Tensor& y) { return x.alias_of == y.alias_of; });
}

class Trial {
 public:
  explicit Trial(Backend& backend) : backend_(backend) {}

  Tried run(std::uint64_t seed, RandomGraph drawn, std::vector<const Pass*> passes,
            Draw* shorter = nullptr) {
    Tried tried{{}, drawn.forward, std::move(passes), ""};
    try {
      const Plan& plan = drawn.plan;
      verify(tried.after, "the generator");
      tried.before = backward(std::move(drawn.forward), plan);
      verify(tried.before, "backward");
      bool differentiated = false;
      const auto differentiate = [&] {
        if (!differentiated) tried.after = backward(std::move(tried.after), plan);
        differentiated = true;
      };
      for (const Pass* pass : tried.passes) {
        if (!before_backward(*pass)) differentiate();
        tried.after = pass->run(std::move(tried.after), plan);
        verify(tried.after, pass->name);
      }
      differentiate();
      tried.has_changed = !are_same(tried.before, tried.after);
      if (shorter != nullptr) shorten_blocks(tried.after, *shorter);
      if (plan.parallelism.schedule == ScheduleKind::zero_bubble)
        tried.after = weights_last(std::move(tried.after));
      tried.problem = compare_surroundings(tried.before, tried.after);
      if (!tried.problem.empty()) return tried;
      const GraphValues before = values_of(tried.before, seed, backend_);
      const GraphValues after = values_of(tried.after, seed, backend_);
      const Tolerance tolerance = tried.after.precision == Precision::fp32 ? of_fp32 : of_16_bits;
      tried.problem = compare(before, after, tried, tolerance);
      if (tried.problem.empty()) return tried;
      tried.problem = compare(before, after, tried,
                              widened(tolerance, before, neighbours_of(tried.before, seed)));
    } catch (const std::exception& error) {
      tried.problem = error.what();
    }
    return tried;
  }

 private:
  std::vector<GraphValues> neighbours_of(const Graph& graph, std::uint64_t seed) {
    std::vector<GraphValues> found;
    for (int neighbour = 1; neighbour <= 8; ++neighbour)
      found.push_back(values_of(graph, seed, backend_, neighbour));
    return found;
  }

  Backend& backend_;
};

CompilerLevel level_of(const Pass& pass) {
  for (const CompilerLevel level : {CompilerLevel::full, CompilerLevel::fused})
    if (runs_at(pass, level)) return level;
  return CompilerLevel::none;
}

}  // namespace

TEST_CASE("every pass alone keeps the values of random graphs", "[agree][passes]") {
  const auto backend = make_cpu_backend(1);
  const int graphs = std::max(1, drawn_graphs() / 10);
  for (const Pass* pass : tested_passes()) {
    int changed = 0;
    for (int i = 0; i < graphs; ++i) {
      const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
      INFO("seed " << seed << ", pass " << pass->name);
      RandomGraph drawn = random_graph(seed);
      drawn.plan.training.compiler = drawn.forward.compiler = level_of(*pass);
      const Tried tried = Trial(*backend).run(seed, std::move(drawn), {pass});
      if (!tried.problem.empty()) FAIL(tried.text());
      changed += tried.has_changed ? 1 : 0;
    }
    INFO(pass->name << " changed " << changed << " of " << graphs << " graphs");
    CHECK((changed > 0 || graphs < 100));
  }
}

TEST_CASE("all passes in random order keep the values of random graphs", "[agree][passes]") {
  const auto backend = make_cpu_backend(1);
  const int graphs = drawn_graphs();
  for (int i = 0; i < graphs; ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    Draw draw(~seed);
    RandomGraph drawn = random_graph(seed);
    const auto level = draw.of({CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full,
                                CompilerLevel::full, CompilerLevel::full});
    drawn.plan.training.compiler = drawn.forward.compiler = level;
    const std::vector<const Pass*> passes = draw_passes(draw, level);
    INFO("seed " << seed << ", passes" << names_of(passes));
    const Tried tried =
        Trial(*backend).run(seed, std::move(drawn), passes, draw.one_in(3) ? &draw : nullptr);
    if (!tried.problem.empty()) FAIL(tried.text());
  }
}

TEST_CASE("compiled random graphs have the same bits on any number of threads", "[agree][passes]") {
  const auto one = make_cpu_backend(1), three = make_cpu_backend(3);
  for (int i = 0; i < std::max(1, drawn_graphs() / 20); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    INFO("seed " << seed);
    Draw draw(~seed);
    RandomGraph drawn = random_graph(seed);
    drawn.plan.training.compiler = drawn.forward.compiler = CompilerLevel::full;
    Graph graph = backward(std::move(drawn.forward), drawn.plan);
    for (const Pass* pass : tested_passes())
      if (runs_at(*pass, CompilerLevel::full)) graph = pass->run(std::move(graph), drawn.plan);
    shorten_blocks(graph, draw);
    const GraphValues alone = values_of(graph, seed, *one), shared = values_of(graph, seed, *three);
    CHECK(same_bits(alone.losses, shared.losses));
    for (std::size_t p = 0; p < alone.sums.size(); ++p)
      CHECK(same_bits(alone.sums[p], shared.sums[p]));
  }
}

TEST_CASE("products whose partial sums are summed in place are not shared", "[passes]") {
  Graph graph;
  graph.tensor_degree = 2;
  graph.add_module("head", graph.add_unit("head", false));
  const Shape square{4, 4};
  Parameter parameter;
  parameter.shape = parameter.padded_shape = parameter.global_shape = square;
  const int weight = graph.add_parameter(parameter);
  const int x = graph.add_tensor({square, Dtype::f32}, Role::input);
  Attributes a;
  a.tensor_degree = 2;
  int sums[2];
  for (int& sum : sums) {
    const int partial = graph.output(graph.add(Op::linear, 0, {x, weight}, a));
    sum = graph.output(graph.add(Op::tensor_reduce, 0, {partial}, a));
  }
  graph.loss = graph.output(graph.add(Op::add, 0, {sums[0], sums[1]}, a));
  CHECK(share_common_subexpressions(graph, Plan{}).nodes.size() == graph.nodes.size());
}
