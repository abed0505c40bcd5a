#include "sim/validate/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>

#include "hwprofiles/cores.h"
#include "hwprofiles/stacks.h"
#include "models/compiler/compile.h"
#include "sim/collectives/select.h"
#include "sim/planner/clusters.h"
#include "sim/planner/in_parallel.h"
#include "sim/predict/target.h"
#include "sim/replay/replay.h"
#include "sim/validate/case.h"
#include "sim/validate/collective_case.h"
#include "sim/validate/tunable_constants.h"

namespace meshwright::sim {

namespace {

bool is_free(const TunableConstant& constant, const FitOptions& options) {
  if (options.links_alone) return is_of_links(constant);
  if (options.kernels_of.empty()) return true;
  return !is_of_links(constant) &&
         std::ranges::any_of(constant.kinds, [&](const std::string& kind) {
           return kind.starts_with(options.kernels_of);
         });
}

struct Row {
  double measured = 0, weight = 1;
  std::string source;
  Cluster cluster;       // with the profile whose constants are fitted
  std::string stack;     // software stack, applied to the machine after the constants
  std::string question;  // equal for rows that differ in their plans only; empty: a collective
  std::shared_ptr<const Compiled> compiled;  // null: a collective
  // If set, the step is too long to replay and is extrapolated from two short ones: time = first +
  // periods * (second - first).
  std::shared_ptr<const Compiled> longer;
  double periods = 0;
  CollectiveRow collective;
  std::vector<int> constants;  // indices of the constants that it may depend on
};

double predicted(const Row& row, const Cluster& cluster) {
  if (row.compiled) {
    const Topology topology(cluster);
    const auto step_time = [&](const Compiled& compiled) {
      return to_seconds(replay(compiled.stages, topology).step_time).value;
    };
    const double time = step_time(*row.compiled);
    if (!row.longer) return time;
    return time + row.periods * (step_time(*row.longer) - time);
  }
  return predicted_time(row.collective, cluster).value;
}

// Returns the factor by which a row counts more than others of its source. Plans choose between the
// layouts of one question over several hosts, so each of k layouts counts 1 + (k - 1) / k times.
double weight_of_layout(const Row& row, std::span<const Row> source) {
  if (row.question.empty() || row.cluster.hosts == 1) return 1;
  const auto layouts = std::ranges::count(source, row.question, &Row::question);
  return 2 - 1 / static_cast<double>(layouts);
}

// The fit as vectors: logarithms of the constants relative to their starts, and logarithms of
// predicted / measured times.
class Problem {
 public:
  Problem(std::span<const Evidence> evidence, const FitOptions& options)
      : links_alone_(options.links_alone),
        load_(options.load),
        near_profile_(options.near_profile) {
    for (const TunableConstant& constant : tunable_constants())
      free_.push_back(is_free(constant, options));
    for (const Evidence& each : evidence) {
      const auto& left = options.leave_out;
      if (std::ranges::find(left, each.source) != left.end()) continue;
      add(each);
    }
    for (Row& row : rows_)
      for (std::size_t c = 0; c < tunable_constants().size(); ++c)
        if (free_[c] && concerns(tunable_constants()[c], row.cluster.machine) &&
            depends(row, tunable_constants()[c]))
          row.constants.push_back(static_cast<int>(c));
    if (!options.kernels_of.empty())
      std::erase_if(rows_, [](const Row& row) { return row.constants.empty(); });
    for (std::size_t c = 0; c < tunable_constants().size(); ++c)
      starts_.push_back(start_of(tunable_constants()[c]));
    if (near_profile_)
      for (Row& row : rows_) row.weight = 1;
  }

  const std::vector<Row>& rows() const { return rows_; }
  // Returns the sources of rows that depend on a free constant, in the order of the files.
  std::vector<std::string> sources() const {
    std::vector<std::string> names;
    for (const Row& row : rows_)
      if (!row.constants.empty() && std::ranges::count(names, row.source) == 0)
        names.push_back(row.source);
    return names;
  }

  Cluster changed(const Row& row, const Eigen::VectorXd& x) const {
    Cluster cluster = row.cluster;
    for (int c = 0; c < x.size(); ++c)
      if (free_[c] && concerns(tunable_constants()[c], cluster.machine))
        tunable_constants()[c].place(cluster.machine) = value(c, x);
    cluster.machine = with_stack(std::move(cluster.machine), row.stack);
    return cluster;
  }

  bool may_change(int c) const { return free_[c]; }
  double start(int c) const { return starts_[c]; }
  double value(int c, const Eigen::VectorXd& x) const { return start(c) * std::exp(x[c]); }

  Eigen::VectorXd errors(const Eigen::VectorXd& x) const {
    Eigen::VectorXd result(std::ssize(rows_));
    in_parallel(rows_.size(), usable_cores(), [&](std::size_t i, std::size_t) {
      result[static_cast<Eigen::Index>(i)] =
          std::log(predicted(rows_[i], changed(rows_[i], x)) / rows_[i].measured);
    });
    return result;
  }

  Eigen::MatrixXd derivatives(const Eigen::VectorXd& x, const Eigen::VectorXd& errors,
                              const std::function<void(double share)>& watch) const {
    std::atomic<std::size_t> predictions = 0;
    std::size_t all = 0;
    for (const Row& row : rows_) all += row.constants.size();
    constexpr double step = 0.02;
    Eigen::MatrixXd result = Eigen::MatrixXd::Zero(std::ssize(rows_), x.size());
    in_parallel(rows_.size(), usable_cores(), [&](std::size_t i, std::size_t) {
      const auto row = static_cast<Eigen::Index>(i);
      for (const int c : rows_[i].constants) {
        Eigen::VectorXd moved = x;
        moved[c] += step;
        result(row, c) =
            (std::log(predicted(rows_[i], changed(rows_[i], moved)) / rows_[i].measured) -
             errors[row]) /
            step;
        if (watch) watch(static_cast<double>(++predictions) / static_cast<double>(all));
      }
    });
    return result;
  }

 private:
  bool depends(const Row& row, const TunableConstant& constant) const {
    if (constant.name.starts_with("network") && row.cluster.hosts == 1) return false;
    return row.compiled ? constant.of_plan(row.compiled->plan) : is_of_links(constant);
  }

  // Returns the value at which the fit of a constant starts. With `near_profile` it is the
  // profile's value. If that is 0, the constant stays 0, because the fit only multiplies it.
  double start_of(const TunableConstant& constant) const {
    if (!near_profile_ || rows_.empty()) return constant.start;
    Machine machine = rows_.front().cluster.machine;
    return concerns(constant, machine) ? constant.place(machine) : constant.start;
  }

  const Machine& machine(const std::string& name) {
    const auto found = machines_.find(name);
    if (found != machines_.end()) return found->second;
    return machines_.emplace(name, load_(name)).first->second;
  }

  void add(const StepRow& row) {
    StepCase step = case_of(row, machine(machine_of(row)));
    Row added;
    added.measured = row.step_time_s;
    added.cluster = step.cluster;
    added.cluster.machine = machine(machine_of(row));
    added.stack = step.job.cluster.stack;
    added.question = step.question;
    const auto compiled = [&](std::int64_t micro_batches) {
      Plan plan = step.plan;
      plan.training.global_batch =
          plan.training.global_batch / step.plan.micro_batches() * micro_batches;
      return std::make_shared<const Compiled>(
          compile(step.job.model, plan, target_of(step.cluster, plan.training)));
    };
    const std::int64_t batches = step.plan.micro_batches(), period = step.plan.parallelism.pipeline;
    if (batches > 6 * period) {
      added.compiled = compiled(2 * period);
      added.longer = compiled(3 * period);
      added.periods = static_cast<double>(batches - 2 * period) / static_cast<double>(period);
    } else {
      added.compiled = compiled(batches);
    }
    rows_.push_back(std::move(added));
  }

  // Adds the rows of a source. To save time, only each n-th step of a source with more than 80
  // steps is added. All collectives are added, because they are fast to predict. The weights of a
  // source's rows sum to the same number for every source, apart from weight_of_layout().
  void add(const Evidence& evidence) {
    constexpr std::size_t most_rows = 80;
    constexpr double weight_of_source = 24;
    const std::size_t before = rows_.size();
    const std::size_t thin = (evidence.steps.size() + most_rows - 1) / most_rows;
    if (!links_alone_)
      for (std::size_t i = 0; i < evidence.steps.size(); i += thin) add(evidence.steps[i]);
    for (const CollectiveRow& row : evidence.collectives) {
      Row added;
      added.measured = row.time_s;
      added.cluster = cluster_of(row, machine(row.machine));
      added.collective = row;
      rows_.push_back(std::move(added));
    }
    const double count = static_cast<double>(rows_.size() - before);
    for (Row& row : std::span(rows_).subspan(before)) row.source = evidence.source;
    for (Row& row : std::span(rows_).subspan(before))
      row.weight =
          weight_of_source / count * weight_of_layout(row, std::span(rows_).subspan(before));
  }

  bool links_alone_ = false;
  std::vector<Row> rows_;
  std::vector<double> starts_;  // values at which the constants start
  std::vector<bool> free_;      // whether the fit changes each constant
  std::map<std::string, Machine> machines_;
  MachineLoader load_;
  bool near_profile_ = false;
};

constexpr double prior_weight = 0.05;

// Returns the sum of weighted absolute errors (squared errors near zero) and of the priors.
double cost(const Problem& problem, const Eigen::VectorXd& x, const Eigen::VectorXd& errors) {
  constexpr double small = 0.03;
  double sum = 0;
  for (Eigen::Index i = 0; i < errors.size(); ++i) {
    const double size = std::abs(errors[i]);
    const double loss = size < small ? size * size / (2 * small) : size - small / 2;
    sum += problem.rows()[i].weight * loss;
  }
  for (Eigen::Index c = 0; c < x.size(); ++c) {
    const double deviation = x[c] / tunable_constants()[c].spread;
    sum += prior_weight * deviation * deviation / 2;
  }
  return sum;
}

// Keeps constants within their limits. A constant whose start is outside may stay there, because
// profiles may have such values. A constant whose start is 0 is left alone.
void keep_inside(const Problem& problem, Eigen::VectorXd& x) {
  for (int c = 0; c < x.size(); ++c) {
    const TunableConstant& constant = tunable_constants()[c];
    const double start = problem.start(c);
    if (start <= 0) continue;
    x[c] = std::clamp(x[c], std::min(0., std::log(constant.low / start)),
                      std::max(0., std::log(constant.high / start)));
  }
}

// Returns weights of the squared errors, chosen so that near the minimum the errors count as much
// as in cost().
Eigen::VectorXd weights_of(const Problem& problem, const Eigen::VectorXd& errors) {
  Eigen::VectorXd weights(errors.size());
  for (Eigen::Index i = 0; i < errors.size(); ++i)
    weights[i] = problem.rows()[i].weight / std::max(std::abs(errors[i]), 0.03);
  return weights;
}

// Returns J^T W J + prior, the information that rows and prior together have about the constants.
Eigen::MatrixXd information(const Eigen::MatrixXd& jacobian, const Eigen::VectorXd& weights) {
  Eigen::MatrixXd sum = jacobian.transpose() * weights.asDiagonal() * jacobian;
  for (Eigen::Index c = 0; c < sum.cols(); ++c) {
    const double spread = tunable_constants()[c].spread;
    sum(c, c) += prior_weight / (spread * spread);
  }
  return sum;
}

// Returns the root mean square spread of the rows' predictions, given the covariance of the
// constants.
double spread_of(const Eigen::MatrixXd& jacobian, const Eigen::MatrixXd& covariance) {
  if (jacobian.rows() == 0) return 0;
  return std::sqrt((jacobian * covariance * jacobian.transpose()).trace() /
                   static_cast<double>(jacobian.rows()));
}

}  // namespace

Fit fit_constants(std::span<const Evidence> evidence, const FitOptions& options) {
  const Problem problem(evidence, options);
  const auto size = std::ssize(tunable_constants());
  Eigen::VectorXd x = Eigen::VectorXd::Zero(size);
  Eigen::VectorXd errors = problem.errors(x);
  double best = cost(problem, x, errors), damping = 1e-2;
  Eigen::MatrixXd jacobian;
  const auto watch_from = [&](int iteration) -> std::function<void(double)> {
    if (!options.watch) return {};
    return [&, iteration](double share) {
      options.watch((iteration + share) / (options.iterations + 1));
    };
  };
  for (int iteration = 0; iteration < options.iterations; ++iteration) {
    if (options.progress) options.progress(iteration, best);
    jacobian = problem.derivatives(x, errors, watch_from(iteration));
    const Eigen::VectorXd weights = weights_of(problem, errors);
    const Eigen::MatrixXd known = information(jacobian, weights);
    const double before = best;
    for (int attempt = 0; attempt < 6; ++attempt) {
      Eigen::MatrixXd normal = known;
      Eigen::VectorXd right = -jacobian.transpose() * weights.asDiagonal() * errors;
      for (Eigen::Index c = 0; c < size; ++c) {
        const double spread = tunable_constants()[c].spread;
        right[c] -= prior_weight / (spread * spread) * x[c];
        normal(c, c) *= 1 + damping;
        normal(c, c) += 1e-9;
      }
      Eigen::VectorXd next = x + normal.ldlt().solve(right);
      keep_inside(problem, next);
      const Eigen::VectorXd next_errors = problem.errors(next);
      const double next_cost = cost(problem, next, next_errors);
      if (next_cost < best) {
        x = next, errors = next_errors, best = next_cost;
        damping = std::max(1e-4, damping / 5);
        break;
      }
      damping *= 6;
    }
    if (before - best < 1e-4 * before) break;
  }
  Fit fit;
  fit.sources = problem.sources();
  fit.rows = static_cast<int>(problem.rows().size());
  fit.links_alone = options.links_alone;
  jacobian = problem.derivatives(x, errors, watch_from(options.iterations));
  const Eigen::MatrixXd after =
      prior_weight * information(jacobian, weights_of(problem, errors)).inverse();
  Eigen::VectorXd variances(size);
  for (int c = 0; c < size; ++c)
    variances[c] = tunable_constants()[c].spread * tunable_constants()[c].spread;
  fit.spread_before = spread_of(jacobian, variances.asDiagonal());
  fit.spread_after = spread_of(jacobian, after);
  for (int c = 0; c < size; ++c) {
    FittedConstant constant{.name = std::string(tunable_constants()[c].name),
                            .kinds = tunable_constants()[c].kinds,
                            .before = problem.start(c),
                            .after = problem.value(c, x),
                            .held = !problem.may_change(c),
                            .spread_before = tunable_constants()[c].spread,
                            .spread_after = std::sqrt(after(c, c))};
    for (const Row& row : problem.rows())
      constant.rows += static_cast<double>(std::ranges::count(row.constants, c));
    fit.constants.push_back(std::move(constant));
  }
  return fit;
}

Machine with_constants(Machine machine, const Fit& fit) {
  for (std::size_t c = 0; c < fit.constants.size(); ++c)
    if (concerns(tunable_constants()[c], machine) && !fit.constants[c].held &&
        (!fit.links_alone || fit.constants[c].rows > 0))
      tunable_constants()[c].place(machine) = fit.constants[c].after;
  return machine;
}

}  // namespace meshwright::sim
