#include "tools/session/largest_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/core/error.h"
#include "models/core/written_number.h"
#include "sim/planner/objective.h"
#include "sim/planner/search_until_fits.h"
#include "sim/predict/goodput.h"
#include "tools/session/choose.h"
#include "tools/session/machines.h"

namespace meshwright::session {

namespace {

constexpr std::string_view ending = ":largest";
constexpr double tokens_per_parameter = 20;  // Hoffmann et al. 2022
constexpr double fewest = 1e7, most = 2e12;  // sizes that usual_shape.h knows

// Returns a number of parameters or tokens with two significant digits, rounded down: "6.1B".
std::string two_digits(double number) {
  const double unit = std::pow(10, std::floor(std::log10(number)) - 1);
  const double rounded = std::floor(number / unit * (1 + 1e-9)) * unit;
  return rounded >= 1e12  ? fmt::format("{:.3g}T", rounded / 1e12)
         : rounded >= 1e9 ? fmt::format("{:.3g}B", rounded / 1e9)
                          : fmt::format("{:.3g}M", rounded / 1e6);
}

// Returns the request for a model of one size.
JobRequest sized(const JobRequest& request, double parameters) {
  JobRequest own = request;
  const std::string size = two_digits(parameters);
  own.model = request.model.substr(0, request.model.size() - ending.size()) + ":" + size;
  if (request.tokens.empty())
    own.tokens = two_digits(tokens_per_parameter * *written_number(size, NumberKind::count));
  return own;
}

// Returns the larger of two ratios for a model of this size: its time / the deadline, and its cost
// / the budget. A value above 1 exceeds a limit. It is infinite if no plan fits or the cost is
// unknown.
double excess(const JobRequest& request, double parameters, const SearchOptions& options) {
  const Job job = read_job_of(sized(request, parameters));
  Job free = job;
  free.objective.budget_usd.reset();
  free.objective.deadline_s.reset();
  free.objective.minimize = job.objective.deadline_s ? Minimize::step_time : Minimize::usd;
  const SearchResult found = search_left_out(free, options).result;
  if (found.plans.empty()) return std::numeric_limits<double>::infinity();
  const RankedPlan& best = found.plans.front();
  const WholeJob whole = JobOnCluster(free, best.plan.training, best.cluster)
                             .whole(useful_step_time_s(best.prediction));
  double over = 0;
  if (job.objective.deadline_s) over = whole.time_s / *job.objective.deadline_s;
  if (job.objective.budget_usd)
    over = std::max(over, whole.bill ? whole.bill->usd / *job.objective.budget_usd
                                     : std::numeric_limits<double>::infinity());
  return over;
}

}  // namespace

bool asks_for_largest(const JobRequest& request) { return request.model.ends_with(ending); }

LargestModel largest_model(const JobRequest& request, const SearchOptions& options,
                           const Watch& watch) {
  if (request.by.empty() && request.budget.empty())
    throw InputError("--model " + request.model +
                     ": in which time, or for how much money? Give --by or --budget");
  SearchOptions quick = options;
  quick.keep_best = 1;
  quick.simulate_at_most = 12;
  quick.simulate_for_gap = 0;
  double fits = 0, exceeds = 0;  // 0: no size is known
  double size = 1e9;
  // Time and money grow with about the square of the size if the number of tokens grows with the
  // size, and otherwise with about the size.
  const double power = request.tokens.empty() ? 0.5 : 1;
  for (int tries = 0; tries < 12 && (fits == 0 || exceeds == 0 || exceeds > 1.03 * fits); ++tries) {
    const double over = excess(request, size, quick);
    (over <= 1 ? fits : exceeds) = size;
    double next = std::isfinite(over) ? size * std::pow(over, -power) : size / 2;
    next *= over <= 1 ? 1.01 : 0.99;  // a little beyond the limit that this size predicts
    if (fits > 0 && exceeds > 0 && (next <= fits || next >= exceeds))
      next = std::sqrt(fits * exceeds);
    size = std::clamp(next, fewest, most);
    if (fits == most || exceeds == fewest) break;
  }
  if (fits == 0)
    throw NoPlanFits("no model of this family keeps --by and --budget on these machines");
  const JobRequest found = sized(request, fits);
  watch.note(fmt::format("note: the largest is {}, trained on {} tokens{}", found.model,
                         found.tokens, request.tokens.empty() ? " (20 for each parameter)" : ""));
  return {found.model, found.tokens};
}

}  // namespace meshwright::session
