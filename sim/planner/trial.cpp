#include "sim/planner/trial.h"

#include <algorithm>

#include "models/compiler/frameworks/following.h"
#include "models/compiler/passes/dataflow/recompute_budget.h"
#include "models/core/error.h"
#include "sim/framework/framework_memory.h"
#include "sim/planner/rejections.h"
#include "sim/predict/goodput.h"
#include "sim/predict/target.h"

namespace meshwright::sim {

namespace {

double peak_of(const std::vector<StageMemory>& stages) {
  std::int64_t peak = 0;
  for (const StageMemory& stage : stages) peak = std::max(peak, stage.peak_bytes);
  return static_cast<double>(peak);
}

}  // namespace

TrialMaker::TrialMaker(const Job& job, std::string machine, const Cluster& cluster,
                       const Plan& base, double usable)
    : job_(job),
      machine_(std::move(machine)),
      cluster_(cluster),
      base_(base),
      facts_(facts_of(cluster.machine)),
      usable_(usable),
      limit_(usable * cluster.device().memory_bytes) {}

// Compiles a candidate. If it breaks a rule about plans or a limit of the framework, or if the
// job's budget for activations is too small for it, returns nothing and sets `trial.rejected`.
// Throws InputError if the job asks for something that is not supported yet.
std::optional<TrialMaker::Built> TrialMaker::build(const Candidate& candidate, Trial& trial) const {
  try {
    Job decided = job_;
    decided.plan = to_plan(candidate, base_);
    decided.autos.erase("training.micro_batch");
    const Framework framework = job_.plan.training.framework;
    const Plan plan = with_what_follows(
        framework, as_run_by(framework, settle(decided, cluster_.ranks(), facts_), job_.model),
        job_.model);
    if (const Limit* broken = broken_limit(framework, plan, job_.model)) {
      trial.rejected = violation_of(framework, *broken);
      return std::nullopt;
    }
    trial.is_plan = true;
    Compiled compiled = compile(job_.model, plan, target_of(cluster_, plan.training, usable_));
    // The stages that the compiler found may break a limit of the framework.
    const Plan staged = as_run_by(framework, compiled.plan, job_.model);
    if (const Limit* broken = broken_limit(framework, staged, job_.model)) {
      trial.rejected = violation_of(framework, *broken);
      return std::nullopt;
    }
    return Built{std::move(compiled), framework_use(job_.model, plan.training, cluster_)};
  } catch (const BudgetTooSmall&) {
    trial.rejected = Violation{.statement = "training.recompute_budget is too small"};
  } catch (const InputError& error) {
    if (error.violation().not_yet) throw;  // the job asks for what is not supported yet
    trial.rejected = error.violation();
  }
  return std::nullopt;
}

Trial::Need TrialMaker::need_of(const Built& built) const {
  if (const auto& framework = built.framework) {
    const auto bytes = static_cast<double>(framework->fit.bytes);
    const double limit = usable_ * framework->limit_bytes;
    return {bytes, limit, framework->fit.fits && (usable_ == 1 || bytes <= limit)};
  }
  const double peak = peak_of(stage_memory(built.compiled.stages, cluster_));
  return {peak, limit_, peak <= limit_};
}

RankedPlan TrialMaker::simulate(const Built& built) const {
  const Compiled& compiled = built.compiled;
  RankedPlan ranked{compiled.plan, machine_, cluster_.hosts, cluster_, {}, false};
  ranked.prediction =
      predict(compiled, cluster_, {.price = &job_.objective.price, .framework = built.framework});
  ranked.prediction.goodput =
      goodput_of(compiled, cluster_, job_.checkpoint ? job_.checkpoint->every_steps : 0,
                 ranked.prediction.step_time_s);
  return ranked;
}

Trial TrialMaker::build_alone(const Candidate& candidate) const {
  Trial trial;
  if (const auto built = build(candidate, trial)) trial.memory = need_of(*built);
  return trial;
}

Trial TrialMaker::try_out(const Candidate& candidate) const {
  Trial trial;
  const auto built = build(candidate, trial);
  if (!built) return trial;
  trial.memory = need_of(*built);
  if (!trial.memory->fits) return trial;
  const auto on_host = static_cast<double>(host_memory_bytes(built->compiled.stages, cluster_));
  if (on_host > cluster_.machine.host.memory_bytes)
    trial.rejected = reasons::no_host_memory;
  else
    trial.simulated = simulate(*built);
  return trial;
}

}  // namespace meshwright::sim
