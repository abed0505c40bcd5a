#include "tools/report/run_report.h"

#include <fmt/format.h>

#include "tools/report/prediction.h"
#include "tools/report/whole_run.h"

namespace meshwright::tools {

namespace {

// Returns a value of the whole run, and its range if the step takes as long as the ends of its
// interval: "2.7 h (2.4 h to 2.8 h with 80 % probability)".
std::string with_range(double value, const Prediction& p, std::string (*show)(double)) {
  if (!p.interval) return show(value);
  return fmt::format("{} ({} to {} with 80 % probability)", show(value),
                     show(value * p.interval->low_s / p.step_time_s),
                     show(value * p.interval->high_s / p.step_time_s));
}

// Returns the table with the percentiles and the mean of time and cost under failures.
Table spread_of(const RunRisk& risk) {
  Table table({"of the runs", "10 % are below", "half are below", "90 % are below", "mean"});
  const auto add = [&](const char* name, const Spread& spread, std::string (*show)(double)) {
    table.add({name, show(spread.p10), show(spread.p50), show(spread.p90), show(spread.mean)});
  };
  add("time", risk.wall_s, show_duration);
  if (risk.usd) add("cost", *risk.usd, show_usd);
  return table;
}

}  // namespace

void add_whole_run(HtmlPage& page, const Job& job, const Training& training, const Cluster& cluster,
                   const Prediction& prediction, const std::optional<WholeRun>& run) {
  const auto whole = steps_in_a_row(job, training, cluster, prediction.step_time_s);
  if (!whole) return;
  page.heading("Whole run");
  std::vector<HtmlPage::Fact> facts = {
      {"trains on", show_count(whole->tokens) + " tokens"},
      {"time without failures", with_range(whole->time_s, prediction, show_duration)}};
  if (whole->bill)
    facts.push_back({"cost without failures", with_range(whole->bill->usd, prediction, show_usd)});
  page.facts(facts);
  if (!run) {
    page.paragraph("The job does not say how often hosts fail (key failures).");
  } else if (!run->risk.finishes) {
    page.paragraph(
        "Under its failures the run does not finish: they throw it back faster than it "
        "gets on.");
  } else {
    page.paragraph(
        fmt::format("Under its failures, {} simulated runs; in the mean {:.1f} failures "
                    "in each:",
                    run->risk.runs, run->risk.failures));
    page.table(spread_of(run->risk));
  }
}

}  // namespace meshwright::tools
