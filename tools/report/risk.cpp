#include "tools/report/risk.h"

#include <fmt/format.h>

#include "models/core/json.h"
#include "tools/session/text.h"

namespace meshwright::tools {

namespace {

json spread_json(const Spread& spread) {
  return {{"p10", spread.p10}, {"p50", spread.p50}, {"p90", spread.p90}, {"mean", spread.mean}};
}

std::string_view word(FailureCause cause) {
  return failure_causes()[static_cast<std::size_t>(cause)].name;
}

json causes_json(const RunRisk& risk) {
  json rows = json::array();
  for (const CauseRisk& cause : risk.causes)
    rows.push_back(
        {{"cause", word(cause.cause)}, {"failures", cause.failures}, {"time_s", cause.time_s}});
  return rows;
}

json spare_json(const std::optional<SpareWorth>& spare) {
  if (!spare) return nullptr;
  return {{"spares", spare->spares},
          {"wall_s", spare->wall_s},
          {"usd", spare->usd ? json(*spare->usd) : json(nullptr)}};
}

std::string shares_text(const TimeShares& shares) {
  return fmt::format(
      "steps {}   lost work {}   checkpoints {}   restarts {}   waiting for hosts {}",
      show_percent(shares.steps), show_percent(shares.lost), show_percent(shares.checkpoints),
      show_percent(shares.restarts), show_percent(shares.waiting));
}

std::string causes_text(const RunRisk& risk) {
  std::string text;
  for (const CauseRisk& cause : risk.causes)
    text += fmt::format("{}{} {:.1f} ({})", text.empty() ? "" : "   ", word(cause.cause),
                        cause.failures, show_duration(cause.time_s));
  return text;
}

std::string spare_text(const SpareWorth& spare) {
  const std::string hosts =
      spare.spares == 1 ? "a spare host" : fmt::format("{} spare hosts", spare.spares);
  const bool saves_time = spare.wall_s > 0;
  std::string text = fmt::format("{} {} {}", hosts, spare.spares == 1 ? "saves" : "save",
                                 saves_time ? show_duration(spare.wall_s) : "no time");
  if (spare.usd)
    text += *spare.usd > 0 ? " and " + show_usd(*spare.usd)
                           : " and costs " + show_usd(-*spare.usd) + " more";
  return text;
}

}  // namespace

json risk_json(const RunModel& model, const RunRisk& risk, const std::optional<SpareWorth>& spare) {
  json value = {{"steps", model.steps},
                {"runs", risk.runs},
                {"finishes", risk.finishes},
                {"every_steps", risk.every_steps}};
  if (!risk.finishes) return value;
  const TimeShares& shares = risk.shares;
  value["wall_s"] = spread_json(risk.wall_s);
  value["usd"] = risk.usd ? spread_json(*risk.usd) : json(nullptr);
  value["idle_usd"] = risk.usd ? json(risk.idle_usd) : json(nullptr);
  value["shares"] = {{"steps", shares.steps},
                     {"lost", shares.lost},
                     {"checkpoints", shares.checkpoints},
                     {"restarts", shares.restarts},
                     {"waiting", shares.waiting}};
  value["failures"] = risk.failures;
  value["causes"] = causes_json(risk);
  value["spare_worth"] = spare_json(spare);
  return value;
}

std::string risk_text(const RunModel& model, const RunRisk& risk,
                      const std::optional<SpareWorth>& spare) {
  if (!risk.finishes)
    return fmt::format(
        "risk     does not finish: failures throw {:.0f} steps back faster than they get on\n",
        model.steps);
  std::string text = fmt::format(
      "risk     {:.0f} steps, {} runs   P10 {}   P50 {}   P90 {}   mean {}\n", model.steps,
      risk.runs, show_duration(risk.wall_s.p10), show_duration(risk.wall_s.p50),
      show_duration(risk.wall_s.p90), show_duration(risk.wall_s.mean));
  if (risk.usd)
    text +=
        fmt::format("         cost   P10 {}   P50 {}   P90 {}   mean {}\n", show_usd(risk.usd->p10),
                    show_usd(risk.usd->p50), show_usd(risk.usd->p90), show_usd(risk.usd->mean));
  constexpr double few = 0.05;
  if (risk.failures < few)
    return text + (risk.failures > 0 ? fmt::format("         one failure in {:.0f} such runs\n",
                                                   1 / risk.failures)
                                     : "         no failure in any of them\n");
  text += fmt::format("         time: {}\n", shares_text(risk.shares));
  text += fmt::format("         failures in a run (time lost): {}\n", causes_text(risk));
  if (spare) text += fmt::format("         {}\n", spare_text(*spare));
  return text;
}

}  // namespace meshwright::tools
