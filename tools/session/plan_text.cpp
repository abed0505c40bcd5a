#include "tools/session/plan_text.h"

#include <fmt/format.h>

#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"
#include "tools/session/text.h"

namespace meshwright::session {

namespace {

std::string schedule_text(const Parallelism& p) {
  std::string text = schedule_names()[static_cast<std::size_t>(p.schedule)];
  if (p.virtual_stages > 1) text += fmt::format(" with {} virtual stages", p.virtual_stages);
  return text;
}

std::string recompute_text(const Training& training) {
  if (!training.recompute_modules.empty())
    return fmt::format("{}", fmt::join(training.recompute_modules, " "));
  if (training.recompute_budget)
    return "budget " + (*training.recompute_budget <= 1 ? show_percent(*training.recompute_budget)
                                                        : show_bytes(*training.recompute_budget));
  std::string text = recompute_word(training);
  if (training.recompute != Recompute::none && training.recompute_fraction < 1)
    text += fmt::format(" of {}", show_percent(training.recompute_fraction));
  return text;
}

const std::string& compiler_word(const Training& training) {
  return compiler_names()[static_cast<std::size_t>(training.compiler)];
}

const std::string& layout_word(const Parallelism& p) {
  return tensor_layout_names()[static_cast<std::size_t>(p.tensor_layout)];
}

const std::string& offload_word(const Parallelism& p) {
  return offload_names()[static_cast<std::size_t>(p.offload)];
}

std::string exchange_text(const Parallelism& p, std::string_view space) {
  if (p.context_exchange == ContextExchange::p2p) return {};
  const std::string& word = context_exchange_names()[static_cast<std::size_t>(p.context_exchange)];
  if (p.has_two_exchanges()) return fmt::format("{}{}/{}", space, word, p.context_heads);
  return fmt::format("{}{}", space, word);
}

// Returns the ways in which gradients are reduced and parameters are gathered, if they differ from
// what is usual for the ZeRO stage.
std::string reductions_text(const Parallelism& p, std::string_view space) {
  std::string text;
  if (p.reduce_gradients != ReduceGradients::usual)
    text += fmt::format("{}reduce {}", space,
                        reduce_gradients_names()[static_cast<std::size_t>(p.reduce_gradients)]);
  if (p.zero_stage == 3 && p.keeps_gathered) text += fmt::format("{}reshard never", space);
  return text;
}

}  // namespace

std::string short_plan_text(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  std::string text =
      fmt::format("p{} t{} d{} mb{}", p.pipeline, p.tensor, p.data, plan.training.micro_batch);
  if (p.context > 1) text += fmt::format(" c{}{}", p.context, exchange_text(p, " "));
  if (p.expert > 1) text += fmt::format(" e{}", p.expert);
  if (p.degrees().experts_over_tensor) text += " et1";
  if (p.expert > 1 && p.expert_dispatch != ExpertDispatch::all_to_all) text += " deduplicated";
  if (p.virtual_stages > 1) text += fmt::format(" v{}", p.virtual_stages);
  const ScheduleKind usual =
      p.virtual_stages > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  if (p.pipeline > 1 && p.schedule != usual)
    text += " " + std::string(schedule_info(p.schedule).name);
  if (p.zero_stage > 0) text += fmt::format(" zero{}", p.zero_stage);
  if (p.zero_stage > 0 && p.shard > 1) text += fmt::format("/{}", p.shard);
  text += reductions_text(p, " ");
  if (p.sequence_parallel) text += " sp";
  if (p.tensor > 1 && p.overlap_tensor) text += fmt::format(" beside{}", p.tensor_chunks);
  if (p.expert > 1 && p.overlap_expert) text += " experts-beside";
  if (p.tensor > 1 && p.tensor_layout != TensorLayout::megatron) text += " " + layout_word(p);
  if (p.tensor > 1 && p.tensor_batch_own) text += " own";
  const Training& training = plan.training;
  if (training.recompute != Recompute::none || !training.recompute_modules.empty() ||
      training.recompute_budget)
    text += " " + recompute_text(plan.training);
  if (p.offload != Offload::none) text += " offload " + offload_word(p);
  if (training.compiler != CompilerLevel::fused) text += " compiler " + compiler_word(training);
  if (p.placement != Parallelism().placement) text += " " + p.placement;
  return text;
}

std::string plan_text(const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  std::string text =
      fmt::format("ranks {} = data {} x {}tensor {} x pipeline {}   {}   {} micro-batches of {}",
                  p.degrees().ranks(), p.data,
                  p.context > 1 ? fmt::format("context {} x ", p.context) : std::string(), p.tensor,
                  p.pipeline, schedule_text(p), plan.micro_batches(), plan.training.micro_batch);
  if (p.context > 1) text += exchange_text(p, "   ");
  if (p.expert > 1)
    text += fmt::format("   experts over {}{}{}", p.expert,
                        p.degrees().experts_over_tensor ? ", whole on tensor ranks" : "",
                        p.overlap_expert ? ", beside compute" : "");
  if (p.expert > 1 && p.expert_dispatch != ExpertDispatch::all_to_all) text += ", tokens sent once";
  if (p.zero_stage > 0) text += fmt::format("   zero {} over {}", p.zero_stage, plan.shard_group());
  text += reductions_text(p, "   ");
  if (p.sequence_parallel) text += "   sequence parallel";
  if (p.tensor > 1 && p.overlap_tensor)
    text += fmt::format(
        "   tensor beside compute, {}",
        p.tensor_chunks == 1 ? "products whole" : fmt::format("products in {}", p.tensor_chunks));
  if (p.tensor > 1 && p.tensor_layout != TensorLayout::megatron)
    text += "   layout " + layout_word(p);
  if (p.tensor > 1 && p.tensor_batch_own) text += "   own batches";
  if (p.placement != Parallelism().placement) text += "   placement " + p.placement;
  text += "   recompute " + recompute_text(plan.training);
  if (p.offload != Offload::none) text += "   offload " + offload_word(p);
  if (p.offloads_activations()) text += fmt::format(", horizon {}", p.horizon());
  return text;
}

std::string opened_text(const std::vector<std::string>& opened) {
  std::vector<std::string> open, set;
  for (const std::string& each : opened)
    (each.find('=') == std::string::npos ? open : set).push_back(each);
  if (!open.empty()) set.insert(set.begin(), list_of(open, "and") + " left to the planner");
  return list_of(set, "and");
}

std::string defaults_text(const Job& job, const Plan& plan) {
  const Parallelism& p = plan.parallelism;
  const Training& t = plan.training;
  const bool names_degrees =
      !job.leaves_out("parallelism.data") ||
      (!job.leaves_out("parallelism.pipeline") && !job.leaves_out("parallelism.tensor"));
  if (p.degrees().ranks() == 1 || names_degrees) return {};
  std::vector<std::string> parts;
  const auto add = [&](bool matters, std::string_view key, const std::string& value) {
    if (matters && job.leaves_out(key))
      parts.push_back(fmt::format("{} {}", key.substr(key.find('.') + 1), value));
  };
  add(true, "parallelism.pipeline", std::to_string(p.pipeline));
  add(true, "parallelism.tensor", std::to_string(p.tensor));
  add(true, "parallelism.data", std::to_string(p.data));
  add(p.data * p.context > 1, "parallelism.zero_stage", std::to_string(p.zero_stage));
  add(p.pipeline > 1, "parallelism.schedule", schedule_text(p));
  const bool recomputes = !t.recompute_modules.empty() || t.recompute_budget;
  add(!recomputes, "training.recompute", recompute_word(t));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace meshwright::session
