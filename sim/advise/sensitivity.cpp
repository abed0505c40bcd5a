#include "sim/advise/sensitivity.h"

#include <algorithm>

#include "models/compiler/compile.h"
#include "models/core/error.h"
#include "sim/framework/framework_memory.h"
#include "sim/predict/goodput.h"
#include "sim/predict/predict.h"
#include "sim/predict/target.h"

namespace meshwright::sim {

namespace {

using Case = SensitivityCase;

enum class Range : std::uint8_t { tenth, fifth, twofold };

double factor_of(Range range, bool high) {
  switch (range) {
    case Range::tenth:
      return high ? 1.1 : 0.9;
    case Range::fifth:
      return high ? 1.2 : 0.8;
    case Range::twofold:
      return high ? 2 : 0.5;
  }
  return 1;
}

std::string text_of(Range range, bool high) {
  switch (range) {
    case Range::tenth:
      return high ? "+10 %" : "-10 %";
    case Range::fifth:
      return high ? "+20 %" : "-20 %";
    case Range::twofold:
      return high ? "x2" : "x1/2";
  }
  return "";
}

void scale_batch(Case& all, double factor) {
  auto& batch = all.plan.training.global_batch;
  batch = factor > 1 ? 2 * batch : batch / 2;
}
void scale_network(Case& all, double factor) {
  all.cluster.machine.network.gbit_per_s_each *= factor;
  auto& given = all.cluster.network_override;
  if (given && given->gbps_per_nic) *given->gbps_per_nic *= factor;
}
void scale_network_latency(Case& all, double factor) {
  CollectiveLatency& latency = all.cluster.machine.network_latency;
  latency.latency_s *= factor;
  latency.step_latency_s *= factor;
  auto& given = all.cluster.network_override;
  if (given && given->latency_us) *given->latency_us *= factor;
}
void scale_launch(Case& all, double factor) {
  all.cluster.machine.host.host_launch_us *= factor;
  if (all.cluster.host_launch_us) *all.cluster.host_launch_us *= factor;
}
void scale_rates(Case& all, double factor) {
  Failures& failures = *all.cluster.failures;
  for (std::size_t cause = 0; cause < failure_cause_count; ++cause)
    failures.per_host_hour[cause] =
        factor *
        failures.rate_per_host_hour(static_cast<FailureCause>(cause), all.cluster.machine.gpus);
}
void scale_restart(Case& all, double factor) {
  Failures& failures = *all.cluster.failures;
  failures.restart_s = factor * failures.restart_time_s();
  failures.replacement_s *= factor;
}
void scale_price(Case& all, double factor) {
  for (Price& price : all.cluster.machine.prices) price.usd_per_hour *= factor;
}
void scale_arithmetic(Case& all, double factor) {
  for (double& peak : all.cluster.machine.gpu.peak_flop_per_s) peak *= factor;
}

// The cases in which an input is varied: always, only for a step that a plan makes, only for a
// recorded step, or only for a cluster whose hosts may fail.
enum class Of : std::uint8_t { any, planned, recorded, failing };

struct Input {
  const char* name;
  Range range;
  Of of;
  void (*scale)(Case&, double factor);
};
constexpr Input inputs[] = {
    {"price of a host", Range::fifth, Of::any, scale_price},
    {"GPU arithmetic", Range::tenth, Of::any, scale_arithmetic},
    {"GPU memory bandwidth", Range::tenth, Of::any,
     [](Case& all, double factor) {
       all.cluster.machine.gpu.memory_bandwidth_bytes_per_s *= factor;
     }},
    {"launch time of a kernel", Range::twofold, Of::planned, scale_launch},
    {"time of the host", Range::fifth, Of::recorded,
     [](Case& all, double factor) { all.host_factor *= factor; }},
    {"spread between GPUs", Range::twofold, Of::any,
     [](Case& all, double factor) {
       all.cluster.machine.gpu.kernels.straggling *= factor;
       all.cluster.machine.gpu.kernels.layer_straggling *= factor;
     }},
    {"NVLink bandwidth", Range::fifth, Of::any,
     [](Case& all, double factor) {
       all.cluster.machine.nvlink.link_bandwidth_bytes_per_s *= factor;
     }},
    {"network bandwidth", Range::fifth, Of::any, scale_network},
    {"network latency", Range::twofold, Of::any, scale_network_latency},
    {"global batch", Range::twofold, Of::planned, scale_batch},
    {"failure rates", Range::twofold, Of::failing, scale_rates},
    {"time to restart", Range::twofold, Of::failing, scale_restart},
    {"bandwidth to storage", Range::twofold, Of::failing,
     [](Case& all, double factor) { all.cluster.failures->checkpoint_bytes_per_s *= factor; }},
};

Prediction predicted(const Job& job, const Case& all) {
  verify(all.plan, job.model.sizes());
  const Compiled compiled = compile(job.model, all.plan, target_of(all.cluster, all.plan.training));
  Prediction prediction =
      predict(compiled, all.cluster, {.price = &job.objective.price, .framework = {}});
  prediction.step_time_s *= all.step_factor;
  prediction.goodput =
      goodput_of(compiled, all.cluster, job.checkpoint ? job.checkpoint->every_steps : 0,
                 prediction.step_time_s);
  return prediction;
}

double number_of(const WholeJob& whole, AnswerUnit answer) {
  return answer == AnswerUnit::usd      ? whole.bill->usd
         : answer == AnswerUnit::tokens ? whole.tokens
                                        : whole.time_s;
}

AnswerUnit answer_of(const Objective& objective, const WholeJob& base) {
  if (objective.minimize == Minimize::tokens) return AnswerUnit::tokens;
  const bool money =
      objective.minimize == Minimize::usd || objective.minimize == Minimize::usd_per_token;
  return money && base.bill ? AnswerUnit::usd : AnswerUnit::seconds;
}

class Changer {
 public:
  Changer(const Case& base, const Sensitivity& result,
          const std::function<WholeJob(const Case&)>& answer)
      : base_(base), result_(result), answer_(answer) {}

  template <class Change>
  Swing::End end(const std::string& value, const Change& change) const {
    Swing::End end{value, {}, 0};
    Case changed = base_;
    change(changed);
    try {
      end.answer = answer_(changed);
      end.number = number_of(*end.answer, result_.answer);
    } catch (const InputError&) {  // such as a batch that the ranks do not divide
    }
    return end;
  }

  Swing swing(const Input& input) const {
    Swing swing;
    swing.input = input.name;
    for (const bool high : {false, true})
      (high ? swing.high : swing.low) = end(text_of(input.range, high), [&](Case& changed) {
        input.scale(changed, factor_of(input.range, high));
      });
    return swing;
  }

 private:
  const Case& base_;
  const Sensitivity& result_;
  const std::function<WholeJob(const Case&)>& answer_;
};

Sensitivity swings_of(const Job& job, const Case& base, Of kind, const CasePredictor& predict) {
  Objective same_tokens = job.objective;
  const Training& training = base.plan.training;
  if (!job.objective.tokens && job.objective.minimize != Minimize::tokens)
    same_tokens.tokens =
        static_cast<double>(training.steps * training.global_batch * training.sequence_length);
  const auto whole_of = [&](const Case& all, const Prediction& prediction) {
    const Training& trained = all.plan.training;
    return JobOnCluster(same_tokens, trained, all.cluster, start_of_run(job, trained, all.cluster))
        .whole(useful_step_time_s(prediction));
  };
  const std::function<WholeJob(const Case&)> answer = [&](const Case& all) {
    return whole_of(all, predict(all));
  };
  const Prediction before = predict(base);
  const auto& failures = base.cluster.failures;
  Sensitivity result;
  result.base = whole_of(base, before);
  result.answer = answer_of(job.objective, result.base);
  const Changer changer(base, result, answer);
  for (const Input& input : inputs)
    if (input.of == Of::any || input.of == kind || (input.of == Of::failing && failures))
      result.swings.push_back(changer.swing(input));
  if (!failures)
    result.swings.push_back({"failures", changer.end("none", [](Case&) {}),
                             changer.end("as Llama 3's", [](Case& changed) {
                               changed.cluster.failures = Failures{};
                             })});
  if (before.interval) {
    const auto times = [&](double step_s) {
      return [&, step_s](Case& changed) { changed.step_factor = step_s / before.step_time_s; };
    };
    result.swings.push_back({"step time, eight in ten",
                             changer.end("measured low", times(before.interval->low_s)),
                             changer.end("measured high", times(before.interval->high_s))});
  }
  for (Swing& swing : result.swings) swing.base = number_of(result.base, result.answer);
  std::ranges::stable_sort(result.swings, std::greater{}, &Swing::width);
  return result;
}

}  // namespace

double Swing::width() const {
  double least = base, most = base;
  for (const End* end : {&low, &high}) {
    if (!end->answer) continue;
    least = std::min(least, end->number);
    most = std::max(most, end->number);
  }
  return most - least;
}

Sensitivity sensitivity(const Job& job, const Plan& plan, const Cluster& cluster) {
  return swings_of(job, {.plan = plan, .cluster = cluster}, Of::planned,
                   [&](const Case& all) { return predicted(job, all); });
}

Sensitivity sensitivity_of_recorded(const Job& job, const Cluster& cluster,
                                    const CasePredictor& predict) {
  return swings_of(job, {.plan = job.plan, .cluster = cluster}, Of::recorded, predict);
}

}  // namespace meshwright::sim
