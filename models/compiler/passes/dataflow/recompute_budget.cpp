#include "models/compiler/passes/dataflow/recompute_budget.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "models/compiler/passes/dataflow/chain_budget.h"
#include "models/compiler/passes/dataflow/kept_sets.h"
#include "models/compiler/passes/dataflow/rematerialize_tensors.h"
#include "models/core/round_up.h"
#include "models/program/graph/op_table.h"
#include "models/program/memory_plan.h"

namespace meshwright::compiler {

namespace {

std::int64_t slot_bytes(const TensorType& type) { return round_up(type.bytes(), arena_alignment); }

// A unit's problem, and the tensor of the graph for each of its items.
struct UnitItems {
  KeptProblem problem;
  std::vector<int> tensor;
};

class Budget {
 public:
  Budget(const Graph& graph, const Plan& plan, const DeviceFacts& device)
      : graph_(graph), plan_(plan), flops_per_byte_(device.flops_per_byte) {
    const bool partitioned = plan.stage_of_unit.size() == graph.units.size();
    stage_ = partitioned ? plan.stage_of_unit : std::vector<int>(graph.units.size(), 0);
    crossing_.resize(1 + *std::ranges::max_element(stage_));
    stages_standing_for_one_ = partitioned ? 1 : plan.virtual_stage_count();
    find_readers();
  }

  BudgetedTensors choose() {
    count_what_crosses();
    for (int unit = 0; unit < static_cast<int>(graph_.units.size()); ++unit) {
      units_.push_back(describe(unit));
      solve(units_.back().problem);
    }
    BudgetedTensors result;
    result.chosen.assign(graph_.tensors.size(), 0);
    for (int stage = 0; stage < static_cast<int>(crossing_.size()); ++stage)
      result.stages.push_back(choose(stage, result.chosen));
    return result;
  }

 private:
  int stage_of(const Node& node) const { return stage_[graph_.unit_of(node)]; }
  const Node& maker_of(int tensor) const { return graph_.nodes[graph_.tensor(tensor).producer]; }

  // Returns the tensor that stands for the memory of this one. A view shares its tensor's memory. A
  // sum over the tensor group overwrites this rank's part of the sum, so both share memory too.
  int place_of(int tensor) const {
    const int base = base_of(graph_, tensor);
    return sum_of_[base] >= 0 ? sum_of_[base] : base;
  }

  bool is_made_forward(int place) const {
    const Tensor& tensor = graph_.tensor(place);
    return tensor.role == Role::activation && tensor.producer >= 0 &&
           maker_of(place).phase == Phase::forward;
  }

  // Returns whether the node is repeated in any case. If ranks hold shares of the rows, they gather
  // whole rows again that the backward reads.
  bool is_regathered(const Node& node) const {
    return graph_.held == Held::rows && node.op == Op::sequence_gather &&
           node.phase == Phase::forward && graph_.tensor(node.inputs[0]).role != Role::input &&
           is_read_backward_[place_of(node.outputs[0])] != 0;
  }

  bool is_loss(int place) const {
    return place == graph_.loss || std::ranges::any_of(graph_.ahead, [&](const TokenAhead& each) {
             return each.loss == place;
           });
  }

  bool is_local(int place) const {
    return is_made_forward(place) && !is_loss(place) && readers_[place].size() <= 1 &&
           (readers_[place].empty() || *readers_[place].begin() == graph_.unit_of(maker_of(place)));
  }

  void find_readers() {
    sum_of_.assign(graph_.tensors.size(), -1);
    is_read_backward_.assign(graph_.tensors.size(), 0);
    readers_.resize(graph_.tensors.size());
    for (const Node& node : graph_.nodes)
      if (node.op == Op::tensor_reduce && node.phase == Phase::forward)
        sum_of_[node.inputs[0]] = node.outputs[0];
    for (const Node& node : graph_.nodes)
      for (int id : node.inputs) {
        readers_[place_of(id)].insert(graph_.unit_of(node));
        if (node.phase != Phase::forward) is_read_backward_[place_of(id)] = 1;
      }
  }

  // Finds the tensors that each stage keeps in any case: inputs of the model, tensors that another
  // stage sends, losses that the backward phase reads, and tensors that the backward phase and any
  // unit other than the one that makes them read.
  void count_what_crosses() {
    for (const Node& node : graph_.nodes) {
      const int stage = stage_of(node);
      const bool keeps = node.phase != Phase::forward || is_regathered(node);
      for (int id : node.inputs) {
        const int place = place_of(id);
        const bool kept = is_made_forward(place) && keeps && !is_local(place);
        const bool received = is_made_forward(place) && stage_of(maker_of(place)) != stage;
        if (kept || received || graph_.tensor(place).role == Role::input)
          crossing_[stage].insert(place);
      }
    }
  }

  UnitItems describe(int unit) const {
    UnitItems result;
    std::map<int, int> item_of;
    const auto item = [&](int place) {
      const auto [found, is_new] =
          item_of.try_emplace(place, static_cast<int>(result.tensor.size()));
      if (is_new) {
        result.tensor.push_back(place);
        result.problem.items.push_back({slot_bytes(graph_.tensor(place).type), false});
      }
      return found->second;
    };
    for (int step : steps_of(unit)) describe_step(graph_.nodes[step], item, result.problem);
    for (const Node& node : graph_.nodes) {
      if (node.phase == Phase::forward || graph_.unit_of(node) != unit) continue;
      std::set<int> reads;
      for (const TensorIds& ids : {node.inputs, node.outputs})
        for (int id : ids)
          if (const auto found = item_of.find(place_of(id));
              found != item_of.end() && is_local(found->first))
            reads.insert(found->second);
      for (int read : reads) result.problem.items[read].needed = true;
      if (!reads.empty()) result.problem.backward.emplace_back(reads.begin(), reads.end());
    }
    return result;
  }

  // Returns, in order, the forward nodes whose results the backward phase reads, and those of the
  // unit that these nodes need. Results that other units read do not count.
  std::vector<int> steps_of(int unit) const {
    std::vector<int> steps;
    std::vector<char> wanted = is_read_backward_;
    for (int i = static_cast<int>(graph_.nodes.size()) - 1; i >= 0; --i) {
      const Node& node = graph_.nodes[i];
      if (node.phase != Phase::forward || graph_.unit_of(node) != unit ||
          node.op == Op::tensor_copy)
        continue;
      const bool useful = std::ranges::any_of(
          node.outputs, [&](int id) { return is_local(place_of(id)) && wanted[place_of(id)]; });
      if (!useful) continue;
      for (int id : node.inputs) wanted[place_of(id)] = 1;
      steps.push_back(i);
    }
    std::ranges::reverse(steps);
    return steps;
  }

  template <class Item>
  void describe_step(const Node& node, const Item& item, KeptProblem& problem) const {
    const double cost = recompute_cost(graph_, node, flops_per_byte_);
    if (node.op == Op::tensor_reduce) {  // overwrites its input, so it joins the step that makes it
      const int sum = item(place_of(node.outputs[0]));
      for (KeptProblem::Step& step : problem.steps)
        if (std::ranges::count(step.makes, sum) > 0) {
          step.cost += cost;
          return;
        }
    }
    KeptProblem::Step step;
    step.cost = cost;
    step.always = is_regathered(node);
    for (int id : node.inputs) {
      const int place = place_of(id);
      const bool kept = crossing_[stage_of(node)].contains(place);
      if (is_made_forward(place) && !kept) step.reads.push_back(item(place));
    }
    for (int id : node.outputs) step.makes.push_back(item(place_of(id)));
    problem.steps.push_back(std::move(step));
  }

  // Solves a unit's problem. Equal problems, such as those of a model's blocks, are solved once.
  void solve(const KeptProblem& problem) {
    for (std::size_t i = 0; i < problems_.size(); ++i)
      if (problems_[i] == problem) return solved_.push_back(&sets_[i]);
    problems_.push_back(problem);
    sets_.emplace_back(problems_.back());
    solved_.push_back(&sets_.back());
  }

  BudgetedStage choose(int stage, std::vector<char>& chosen) const {
    BudgetedStage result;
    std::int64_t crossing = 0;
    for (int place : crossing_[stage]) crossing += slot_bytes(graph_.tensor(place).type);
    std::vector<int> units;
    std::vector<const std::vector<KeptSet>*> frontiers;
    std::int64_t kept = crossing, working = 0;
    for (int unit = 0; unit < static_cast<int>(stage_.size()); ++unit) {
      if (stage_[unit] != stage) continue;
      units.push_back(unit);
      frontiers.push_back(&solved_[unit]->frontier());
      const KeptSet unlimited = solved_[unit]->unlimited();
      kept += unlimited.kept;
      working = std::max(working, unlimited.working);
    }
    result.unlimited = kept + working;
    result.least = crossing + least_budget(frontiers);
    result.budget = budget_of(stage, result);
    const auto sets = choose_along_chain(frontiers, result.budget - crossing);
    MESHWRIGHT_CHECK(sets.has_value(), "the least budget is enough");
    result.kept = crossing;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const KeptSet& set = (*frontiers[u])[(*sets)[u]];
      result.kept += set.kept;
      result.working = std::max(result.working, set.working);
      result.cost += set.cost;
      const std::vector<char> again = solved_[units[u]]->made_again(set);
      const std::vector<int>& tensors = units_[units[u]].tensor;
      for (std::size_t i = 0; i < again.size(); ++i)
        if (again[i] && is_local(tensors[i])) chosen[tensors[i]] = 1;
    }
    return result;
  }

  std::int64_t budget_of(int stage, const BudgetedStage& sizes) const {
    const double given = *plan_.training.recompute_budget;
    const double unlimited = static_cast<double>(sizes.unlimited);
    const double bytes = given <= 1 ? given * unlimited : given * stages_standing_for_one_;
    const auto budget = static_cast<std::int64_t>(std::min(bytes, unlimited));
    if (budget >= sizes.least) return budget;
    if (stages_standing_for_one_ > 1) return sizes.least;
    const double least = static_cast<double>(sizes.least);
    const double share = std::ceil(least / unlimited * 1e4) / 1e4;
    throw BudgetTooSmall(broken(
        "/training/recompute_budget",
        "{} bytes for the activations of a micro-batch on stage {} are too few: of {} bytes "
        "without "
        "recomputation {} must be kept, or made again at one time; use {} or more, or {} bytes",
        budget, stage, sizes.unlimited, sizes.least, fmt::format("{:g}", share), sizes.least));
  }

  const Graph& graph_;
  const Plan& plan_;
  double flops_per_byte_;
  std::vector<int> stage_;  // per unit
  int stages_standing_for_one_ = 1;
  std::vector<int> sum_of_;  // per tensor: the sum that overwrites it, or -1
  // Per tensor that stands for memory: the units that read it.
  std::vector<std::set<int>> readers_;
  std::vector<char> is_read_backward_;   // per place
  std::vector<std::set<int>> crossing_;  // per stage: the tensors that it keeps in any case
  std::vector<UnitItems> units_;
  std::deque<KeptProblem> problems_;     // the different problems
  std::deque<KeptSets> sets_;            // of each of problems_
  std::vector<const KeptSets*> solved_;  // per unit
};

}  // namespace

double recompute_cost(const Graph& graph, const Node& node, double flops_per_byte) {
  std::vector<TensorType> inputs, outputs;
  for (int id : node.inputs) inputs.push_back(graph.tensor(id).type);
  for (int id : node.outputs) outputs.push_back(graph.tensor(id).type);
  if (info(node.op).communication) {
    std::int64_t bytes = 0;
    for (const std::vector<TensorType>& types : {inputs, outputs})
      for (const TensorType& type : types) bytes = std::max(bytes, type.bytes());
    return static_cast<double>(bytes) * memory_bytes_per_link_byte * flops_per_byte;
  }
  std::vector<Kernel> kernels;
  append_kernels({node.op, node.attributes, inputs, outputs}, graph.compiler, kernels);
  double cost = 0;
  for (const Kernel& kernel : kernels)
    cost += std::max(kernel.flops, kernel.bytes * flops_per_byte);
  return cost;
}

BudgetedTensors choose_within_budget(const Graph& graph, const Plan& plan,
                                     const DeviceFacts& device) {
  return Budget(graph, plan, device).choose();
}

Graph recompute_within_budget(const Graph& graph, const Plan& plan, const DeviceFacts& device) {
  return rematerialize_tensors(graph, choose_within_budget(graph, plan, device).chosen);
}

}  // namespace meshwright::compiler
