#include "models/compiler/frameworks/framework.h"

#include <algorithm>

#include "models/compiler/frameworks/limit_rows.h"
#include "models/compiler/frameworks/pytorch.h"
#include "models/core/enum_words.h"
#include "models/core/error.h"
#include "models/core/other_words.h"

namespace meshwright::compiler {

namespace {

struct Row {
  Framework framework;
  const FrameworkLimits* limits;  // null: it runs every plan, or its limits are not known
  bool is_written = true;         // tools/interop writes its settings
};
// Plain PyTorch has the limits that its frameworks share.
const FrameworkLimits pytorch_alone = {pytorch_limits(), settle_as_pytorch};

// The frameworks in the order of the enumerators.
constexpr Row rows[] = {
    {Framework::meshwright, nullptr, false},
    {Framework::megatron_lm, &megatron_lm_limits},
    {Framework::megatron_bridge, &megatron_bridge_limits},
    {Framework::torchtitan, &torchtitan_limits},
    {Framework::deepspeed, &deepspeed_limits},
    {Framework::accelerate, &accelerate_limits},
    {Framework::sagemaker, &sagemaker_limits},
    {Framework::hyperpod, &hyperpod_limits},
    // transformers' Trainer runs on accelerate.
    {Framework::transformers, &accelerate_limits, false},
    {Framework::pytorch, &pytorch_alone, false},
    {Framework::jax, nullptr, false},
    {Framework::tensorflow, nullptr, false},
};
static_assert(has_row_of_each<Framework::tensorflow>(rows, &Row::framework));

const Row& row_of(Framework framework) { return rows[static_cast<std::size_t>(framework)]; }

// Limits that every framework with limits has, because meshwright does not write these settings, or
// writes only some of their values.
constexpr Limit of_all[] = {
    {"training.learning_rate_schedule", "is written with constant, linear and cosine",
     [](const Plan& p, const Model&) {
       return p.training.learning_rate_schedule <= LearningRateSchedule::cosine;
     },
     [](Plan& p, const Model&) {
       p.training.learning_rate_schedule = LearningRateSchedule::constant;
       p.training.decay_steps = 0;
     }},
    only<&Training::router_bias_update_rate, 0>("training.router_bias_update_rate",
                                                "is written with models without such biases only"),
    only<&Training::moments_at_random, false>("training.moments_rounding",
                                              "rounds moments to nearest"),
    {"training.ema_decay", "is written without an average of the weights",
     [](const Plan& p, const Model&) { return !p.training.averages(); },
     [](Plan& p, const Model&) { p.training.ema_decay = 0; }},
    {"training.packing", "is written with rows of one document",
     [](const Plan& p, const Model&) { return !p.training.packing; },
     [](Plan& p, const Model&) {
       p.training.packing = false;
       p.training.documents_per_row.reset();
     }},
    {"training.expert_imbalance", "has no such setting; it is of predictions",
     [](const Plan& p, const Model&) { return !p.training.expert_imbalance; },
     [](Plan& p, const Model&) { p.training.expert_imbalance.reset(); }},
    only<&Training::expert_skew, 0>("training.expert_skew",
                                    "has no such setting; it is of predictions"),
    only<&Training::measure_expert_load, false>("training.measure_expert_load",
                                                "has no such setting; it is of runs here"),
    only<&Training::gradient_clip_value, 0>("training.gradient_clip_value", "clips by norm"),
};

// A limit of every framework with limits, except Megatron-LM and Megatron-Bridge.
constexpr Limit of_others = {"training.mtp_layers", "is written without multi-token prediction",
                             [](const Plan& p, const Model&) { return p.training.mtp_layers == 0; },
                             [](Plan& p, const Model&) {
                               p.training.mtp_layers = 0;
                               p.training.mtp_loss_weight.reset();
                             }};

// Limits of the frameworks whose settings describe a model that they build themselves.
constexpr Limit of_builders[] = {
    {"model", "builds its models itself (deepspeed and accelerate take a captured one)",
     [](const Plan&, const Model& m) { return !m.captured; }, nullptr},
    {"training.lora", "is written with training of the whole model only",
     [](const Plan& p, const Model&) { return !p.training.lora; },
     [](Plan& p, const Model&) { p.training.lora.reset(); }}};

bool takes_own_models(Framework framework) {
  return framework == Framework::deepspeed || framework == Framework::accelerate ||
         framework == Framework::transformers || framework == Framework::pytorch;
}

bool is_megatron(Framework framework) {
  return framework == Framework::megatron_lm || framework == Framework::megatron_bridge;
}

// Returns the limits of every framework, in the order of the enumerators: its own, and those that
// several frameworks share.
const std::vector<std::vector<Limit>>& limits() {
  static const std::vector<std::vector<Limit>> all = [] {
    std::vector<std::vector<Limit>> lists(std::size(rows));
    for (std::size_t i = 0; i < std::size(rows); ++i) {
      if (rows[i].limits == nullptr) continue;
      if (!takes_own_models(rows[i].framework))
        lists[i].assign(std::begin(of_builders), std::end(of_builders));
      const std::span<const Limit> own = rows[i].limits->limits;
      lists[i].insert(lists[i].end(), own.begin(), own.end());
      lists[i].insert(lists[i].end(), std::begin(of_all), std::end(of_all));
      if (!is_megatron(rows[i].framework)) lists[i].push_back(of_others);
    }
    return lists;
  }();
  return all;
}

// Returns the axes of a placement that have more than one rank, in their order.
std::string order_of(const Parallelism& p, std::string_view placement) {
  std::string order;
  for (const char axis : order_of_axes(placement)) {
    const int ranks = axis == 'P' ? p.pipeline : axis == 'T' ? p.tensor : p.data * p.context;
    if (ranks > 1) order += axis;
  }
  return order;
}

}  // namespace

const std::vector<std::string>& framework_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Row& row : rows)
      if (row.is_written) all.emplace_back(name_of(row.framework));
    return all;
  }();
  return names;
}

std::string_view name_of(Framework framework) {
  return framework_words()[static_cast<std::size_t>(framework)];
}

bool has_known_limits(Framework framework) {
  return framework == Framework::meshwright || row_of(framework).limits != nullptr;
}

Framework framework_of(std::string_view name) {
  for (const Row& row : rows)
    if (row.is_written && name_of(row.framework) == name) return row.framework;
  const std::string same = same_as(name, framework_names());
  const std::string near = same.empty() ? nearest(name, framework_names()) : same;
  throw InputError("unknown framework '" + std::string(name) + "'; " +
                   (near.empty() ? "known: " + list_of(framework_names(), "and")
                                 : "did you mean '" + near + "'?"));
}

std::span<const Limit> limits_of(Framework framework) {
  return limits()[static_cast<std::size_t>(framework)];
}

const Limit* broken_limit(Framework framework, const Plan& plan, const Model& model) {
  for (const Limit& limit : limits_of(framework))
    if (!limit.holds(plan, model)) return &limit;
  return nullptr;
}

Violation violation_of(Framework framework, const Limit& limit) {
  return broken(limit.key, "{} {}", name_of(framework), limit.why);
}

Plan as_run_by(Framework framework, Plan plan, const Model& model) {
  if (const Row& row = row_of(framework); row.limits != nullptr) row.limits->settle(plan, model);
  return plan;
}

std::optional<Plan> nearest_plan(Framework framework, Plan plan, const Model& model) {
  const Row& row = row_of(framework);
  if (row.limits == nullptr) return plan;
  // Mending one limit may break another, so this repeats, but only a limited number of times.
  for (std::size_t tries = 0; tries < 2 * limits_of(framework).size(); ++tries) {
    plan = as_run_by(framework, std::move(plan), model);
    const Limit* broken = broken_limit(framework, plan, model);
    if (broken == nullptr) break;
    if (broken->mend == nullptr) return std::nullopt;
    broken->mend(plan, model);
    if (plan.training.optimizer != OptimizerKind::adafactor) plan.training.adafactor = {};
  }
  if (broken_limit(framework, plan, model) != nullptr || broken_rule(plan, model.sizes()))
    return std::nullopt;
  return plan;
}

std::vector<std::string> frameworks_that_run(const Plan& plan, const Model& model) {
  std::vector<std::string> names;
  for (const Row& row : rows)
    if (row.is_written &&
        broken_limit(row.framework, as_run_by(row.framework, plan, model), model) == nullptr)
      names.emplace_back(name_of(row.framework));
  return names;
}

void settle_context_exchange(Parallelism& p) {
  if (p.context == 1) p.context_exchange = ContextExchange::p2p;
  if (!p.has_two_exchanges()) p.context_heads = 0;
}

bool same_placement(const Parallelism& parallelism, std::string_view one, std::string_view other) {
  return order_of(parallelism, one) == order_of(parallelism, other);
}

}  // namespace meshwright::compiler
