#include "tools/report/recorded_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "models/core/json.h"
#include "sim/rehearsal/recorded_profile.h"
#include "tools/report/prediction.h"
#include "tools/report/risk.h"
#include "tools/report/timeline_view.h"
#include "tools/report/whole_run.h"

namespace meshwright::tools {

namespace {

double seconds(SimTime time) { return to_seconds(time).value; }

double busy_s(const Rehearsed& all, RecordedWork use) {
  return seconds(all.step.busy[static_cast<std::size_t>(use)]);
}

json device_json(const Rehearsed& all) {
  json rows = json::array();
  for (std::size_t use = 0; use < recorded_work_count; ++use)
    rows.push_back({{"work", name_of(static_cast<RecordedWork>(use))},
                    {"time_s", seconds(all.step.busy[use])}});
  return rows;
}

json collectives_json(const Rehearsed& all) {
  json rows = json::array();
  for (const CollectiveSum& each : all.collectives)
    rows.push_back({{"kind", recorded_collective_names()[static_cast<std::size_t>(each.kind)]},
                    {"count", each.count},
                    {"bytes", each.bytes}});
  return rows;
}

// Returns the unit in which the step's rate is given: "tokens", or "samples" if the recording has
// no tokens.
const char* unit_of(const Rehearsed& all) { return all.has_tokens ? "tokens" : "samples"; }

double rate_of(const Rehearsed& all) {
  return all.has_tokens ? all.prediction.tokens_per_s : all.prediction.sequences_per_s;
}

std::optional<WholeJob> whole_of(const Rehearsed& all) {
  return steps_in_a_row(all.job, all.job.plan.training, all.cluster, all.prediction.step_time_s);
}

template <class Value>
json if_known(bool known, const Value& value) {
  return known ? json(value) : json(nullptr);
}

json run_json(const Rehearsed& all) {
  json whole = whole_run_json(whole_of(all));
  if (!whole.is_null() && !all.has_tokens) whole["tokens"] = nullptr;
  return {
      {"whole_run", whole},
      {"risk", all.run ? risk_json(all.run->model, all.run->risk, all.run->spare) : json(nullptr)}};
}

json ranks_json(const Rehearsed& all) {
  json rows = json::array();
  for (const RehearsedRank& each : all.ranks)
    rows.push_back({{"rank", each.rank},
                    {"compute_s", seconds(each.step.computing)},
                    {"exposed_communication_s", seconds(each.step.exposed_communication)},
                    {"waiting_s", seconds(each.step.waiting)},
                    {"idle_s", seconds(each.step.idle)},
                    {"peak_allocated_bytes", each.memory.peak_allocated_bytes},
                    {"peak_reserved_bytes", each.memory.peak_reserved_bytes}});
  return rows;
}

// Returns the parts of the first rank's step, in the order of the page. Waits for other ranks are a
// part only if several ranks were recorded.
std::vector<std::pair<const char*, double>> parts_of(const Rehearsed& all) {
  const ReplayedStep& step = all.step;
  std::vector<std::pair<const char*, double>> parts = {
      {"compute", seconds(step.computing)},
      {"exposed communication", seconds(step.exposed_communication)},
      {"exposed copies", seconds(step.exposed_copies)}};
  if (all.ranks.size() > 1) parts.emplace_back("waits for others", seconds(step.waiting));
  parts.emplace_back("idle", seconds(step.idle));
  return parts;
}

// Returns a row for each recorded rank.
Table ranks_table(const Rehearsed& all) {
  Table ranks({"rank", "compute", "communication", "waits for others", "idle", "peak allocated",
               "reserved"});
  for (const RehearsedRank& each : all.ranks)
    ranks.add({std::to_string(each.rank), show_seconds(seconds(each.step.computing)),
               show_seconds(seconds(each.step.exposed_communication)),
               show_seconds(seconds(each.step.waiting)), show_seconds(seconds(each.step.idle)),
               show_bytes(static_cast<double>(each.memory.peak_allocated_bytes)),
               show_bytes(static_cast<double>(each.memory.peak_reserved_bytes))});
  return ranks;
}

constexpr const char* do_not_meet =
    "The messages of these ranks do not fit each other, so some begin as if the other rank were "
    "ready; the step may be too short.";

std::string range_text(const Prediction& p) {
  if (!p.interval) return fmt::format("profile: {}; no error is known", name_of(p.calibration));
  return fmt::format("{} to {} with 80 % probability", show_seconds(p.interval->low_s),
                     show_seconds(p.interval->high_s));
}

std::string memory_text(const Rehearsed& all) {
  const Prediction& p = all.prediction;
  return fmt::format(
      "peak {} allocated, {} reserved, of {}; {} of {} on the device   {}",
      show_bytes(static_cast<double>(all.memory.peak_allocated_bytes)),
      show_bytes(static_cast<double>(all.memory.peak_reserved_bytes)),
      show_bytes(p.memory_limit_bytes), show_bytes(static_cast<double>(p.peak_memory_bytes)),
      show_bytes(all.cluster.device().memory_bytes), p.fits ? "fits" : "DOES NOT FIT");
}

// Returns a text such as "$98.32/h   $0.010000 per step   $4.10 per billion tokens   (on demand,
// ...)". The machine must have a price.
std::string cost_text(const Rehearsed& all, int today) {
  const Prediction& p = all.prediction;
  std::string text =
      fmt::format("${:.2f}/h   ${:.6f} per step", *p.usd_per_hour, *all.usd_per_step);
  if (p.usd_per_million_tokens)
    text += fmt::format("   ${:.2f} per billion tokens", *p.usd_per_million_tokens * 1e3);
  return text + fmt::format("   ({}{})", describe(*p.price),
                            is_stale(*p.price, today) ? ": older than 90 days" : "");
}

std::string flops_text(const Rehearsed& all) {
  const Prediction& p = all.prediction;
  std::string text = fmt::format("{:.1f} TFLOP/s per GPU   MFU {}",
                                 p.model_flops_per_s_per_gpu / 1e12, show_percent(p.mfu));
  if (show_percent(all.hfu) != show_percent(p.mfu))
    text += fmt::format("   HFU {}", show_percent(all.hfu));
  return text;
}

std::string batch_text(const Rehearsed& all) {
  const Training& training = all.job.plan.training;
  if (!all.has_batch) return "tokens of a step: not recorded";
  if (!all.has_tokens) return fmt::format("global batch {} samples", training.global_batch);
  const auto tokens = static_cast<double>(training.global_batch) * training.sequence_length;
  if (training.sequence_length == 1) return fmt::format("{} tokens a step", show_count(tokens));
  return fmt::format("sequence {}   global batch {}", training.sequence_length,
                     training.global_batch);
}

Table work_table(const Rehearsed& all) {
  Table device({"on the device", "time", "of the step"});
  for (std::size_t use = 0; use < recorded_work_count; ++use) {
    const double time_s = seconds(all.step.busy[use]);
    if (time_s > 0)
      device.add({std::string(name_of(static_cast<RecordedWork>(use))), show_seconds(time_s),
                  show_percent(time_s / all.prediction.step_time_s)});
  }
  return device;
}

Table collectives_table(const Rehearsed& all) {
  Table collectives({"collective", "count", "bytes"});
  for (const CollectiveSum& each : all.collectives)
    collectives.add({recorded_collective_names()[static_cast<std::size_t>(each.kind)],
                     std::to_string(each.count), show_bytes(static_cast<double>(each.bytes))});
  return collectives;
}

std::string head_text(const Rehearsed& all, int today) {
  const Prediction& p = all.prediction;
  std::string text = fmt::format("script   {}   recorded on {}   {}\n", all.script, all.recorded_on,
                                 batch_text(all));
  text += fmt::format("cluster  {} x {}   {} ranks\n", all.cluster.hosts, all.cluster.machine.name,
                      all.cluster.ranks());
  text += fmt::format("step     {}", show_seconds(p.step_time_s));
  if (all.has_batch) text += fmt::format("   {} {}/s", show_number(rate_of(all), 0), unit_of(all));
  text += fmt::format("   {}\n         {}\n        ", flops_text(all), range_text(p));
  for (const auto& [name, time_s] : parts_of(all))
    text += fmt::format(" {} {}  ", name, show_seconds(time_s));
  text.resize(text.find_last_not_of(' ') + 1);
  text += fmt::format("\nhost     works for {} of the step   {} launches\n",
                      show_seconds(seconds(all.step.host_working)), all.launches);
  if (p.goodput)
    text += fmt::format("goodput  {}: {}\n", show_percent(p.goodput->share), goodput_text(p));
  text += fmt::format("memory   {}\n", memory_text(all));
  if (p.price) text += fmt::format("cost     {}\n", cost_text(all, today));
  if (const auto whole = whole_of(all)) text += whole_run_text(*whole, unit_of(all));
  if (all.run) text += risk_text(all.run->model, all.run->risk, all.run->spare);
  for (const std::string& note : all.notes) text += "note     " + note + "\n";
  return text;
}

std::string ranks_text(const Rehearsed& all) {
  if (all.ranks.size() < 2) return "";
  return "\n" + ranks_table(all).text() + (all.ranks_meet ? "" : do_not_meet + std::string("\n"));
}

}  // namespace

json recorded_step_json(const Rehearsed& all, int today) {
  const ReplayedStep& step = all.step;
  const Training& training = all.job.plan.training;
  json value = prediction_json(all.prediction);
  for (const char* key : {"bubble_fraction", "framework_memory", "memory", "host_memory_bytes",
                          "host_memory_limit_bytes", "simulation_wall_s"})
    value.erase(key);  // a recording does not determine it
  if (!all.has_batch) value["sequences_per_s"] = nullptr;
  if (!all.has_tokens) value["tokens_per_s"] = nullptr;
  value.update(
      {{"script", all.script},
       {"recorded_on", all.recorded_on},
       {"machine", all.cluster.machine.name},
       {"count", all.cluster.hosts},
       {"ranks", all.cluster.ranks()},
       {"global_batch", if_known(all.has_batch, training.global_batch)},
       {"sequence_length", if_known(all.has_tokens, training.sequence_length)},
       {"hfu", all.hfu},
       {"compute_s", seconds(step.computing)},
       {"exposed_copies_s", seconds(step.exposed_copies)},
       {"waiting_s", seconds(step.waiting)},
       {"idle_s", seconds(step.idle)},
       {"communication_s", busy_s(all, RecordedWork::communication)},
       {"host_s", seconds(step.host_working)},
       {"device", device_json(all)},
       {"launches", all.launches},
       {"collectives", collectives_json(all)},
       {"peak_allocated_bytes", all.memory.peak_allocated_bytes},
       {"peak_reserved_bytes", all.memory.peak_reserved_bytes},
       {"usd_per_step", if_known(all.usd_per_step.has_value(), all.usd_per_step.value_or(0))},
       {"recorded_ranks", ranks_json(all)},
       {"ranks_meet", all.ranks_meet},
       {"notes", all.notes},
       {"price", price_json(all.prediction.price, today)}});
  value.update(run_json(all));
  return value;
}

std::string recorded_step_text(const Rehearsed& all, int today) {
  std::string text = head_text(all, today) + ranks_text(all) + "\n" + work_table(all).text();
  return all.collectives.empty() ? text : text + "\n" + collectives_table(all).text();
}

namespace {

// Returns the name of the lane of the timeline in which a span lies: a stream of the device, or
// "host".
std::string lane_of(const Recording& recording, const RecordedSpan& span) {
  if (span.lane != RecordedSpan::Lane::device) return "host";
  return fmt::format("stream {}", recording.events[static_cast<std::size_t>(span.event)].stream);
}

// Returns the name of the operation that issued the event of a span, or a name for the event itself
// if there is no such operation.
std::string operation_of(const Recording& recording, const RecordedSpan& span) {
  if (static_cast<std::size_t>(span.event) >= recording.events.size()) return "end of the step";
  const RecordedEvent& event = recording.events[static_cast<std::size_t>(span.event)];
  if (event.op >= 0) return recording.operations[static_cast<std::size_t>(event.op)];
  return event.what <= Recorded::set ? profiled_name(recording, event) : "wait or mark";
}

std::string name_of_span(const Recording& recording, const RecordedSpan& span) {
  if (span.lane == RecordedSpan::Lane::host_waits) return "waits for the device";
  if (span.lane == RecordedSpan::Lane::host_works) return operation_of(recording, span);
  return profiled_name(recording, recording.events[static_cast<std::size_t>(span.event)]);
}

struct WorkColour {
  const char* name;
  const char* colour;
};
constexpr WorkColour work_colours[] = {{"other kernels", "#f58518"}, {"host works", "#9d755d"},
                                       {"host waits", "#d8d8d8"},    {"matrix products", "#4c78a8"},
                                       {"attention", "#72b7b2"},     {"optimizer", "#b279a2"},
                                       {"host copies", "#bab0ac"},   {"communication", "#e45756"}};

int colour_of(const Recording& recording, const RecordedSpan& span) {
  if (span.lane != RecordedSpan::Lane::device)
    return span.lane == RecordedSpan::Lane::host_works ? 1 : 2;
  switch (recorded_work(recording, recording.events[static_cast<std::size_t>(span.event)])) {
    case RecordedWork::products:
      return 3;
    case RecordedWork::attention:
      return 4;
    case RecordedWork::optimizer:
      return 5;
    case RecordedWork::copies:
      return 6;
    case RecordedWork::communication:
      return 7;
    case RecordedWork::others:
      break;
  }
  return 0;
}

double microseconds(SimTime time) { return static_cast<double>(time) * 1e-6; }

std::string timeline_of(const Recording& recording, const Rehearsed& all) {
  constexpr std::size_t most_spans = 50'000;
  NumberedWords words;
  std::map<std::string, json> lanes;
  for (const RecordedSpan& span : all.spans) {
    const bool small = span.end - span.begin < all.prediction.step_time / 100'000;
    if (small && all.spans.size() > most_spans) continue;
    json& spans = lanes.emplace(lane_of(recording, span), json::array()).first->second;
    spans.push_back({microseconds(span.begin), microseconds(span.end - span.begin),
                     words.number_of(name_of_span(recording, span)), colour_of(recording, span),
                     -1});
  }
  json data = {{"step_us", microseconds(all.prediction.step_time)},
               {"words", words.all()},
               {"lanes", json::array()}};
  for (const WorkColour& sort : work_colours) data["sorts"].push_back({sort.name, sort.colour});
  for (auto& [lane, spans] : lanes)
    data["lanes"].push_back({{"label", lane}, {"spans", std::move(spans)}});
  return data.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

void add_recorded_step(HtmlPage& page, const Recording& recording, const Rehearsed& all,
                       int today) {
  const Prediction& p = all.prediction;
  page.heading("Prediction");
  std::vector<HtmlPage::Fact> facts = {
      {"script",
       fmt::format("{}, recorded on {}; {}", all.script, all.recorded_on, batch_text(all))},
      {"cluster", fmt::format("{} x {}, {} ranks", all.cluster.hosts, all.cluster.machine.name,
                              all.cluster.ranks())},
      {"step time", show_seconds(p.step_time_s)},
      {"its range", range_text(p)},
      {"compute", flops_text(all)},
      {"exposed communication", show_seconds(p.exposed_communication_s)},
      {"host", fmt::format("works for {}, {} launches",
                           show_seconds(seconds(all.step.host_working)), all.launches)},
      {"peak memory", memory_text(all)}};
  if (all.has_batch)
    facts.push_back({std::string(unit_of(all)) + "/s", show_number(rate_of(all), 0)});
  if (p.goodput)
    facts.push_back({"goodput", show_percent(p.goodput->share) + ": " + goodput_text(p)});
  if (p.price) facts.push_back({"cost", cost_text(all, today)});
  page.facts(facts);
  page.heading("Where the time goes");
  std::vector<std::string> names;
  HtmlPage::Bar bar{fmt::format("rank {}", recording.rank), {}};
  for (const auto& [name, time_s] : parts_of(all)) {
    names.emplace_back(name);
    bar.parts.push_back(time_s);
  }
  page.bars(fmt::format("Parts of {}", show_seconds(p.step_time_s)), names, {bar});
  if (all.ranks.size() > 1) page.table(ranks_table(all));
  page.table(work_table(all));
  if (!all.collectives.empty()) page.table(collectives_table(all));
  page.heading("Timeline");
  page.element(timeline_element(timeline_of(recording, all)));
}

namespace {

// Returns a span as an event of a Chrome trace. Thread 0 is the host, and thread N + 1 is stream N.
json trace_event(const Recording& recording, const RecordedSpan& span) {
  const bool on_device = span.lane == RecordedSpan::Lane::device;
  json event = {{"ph", "X"},
                {"pid", recording.rank},
                {"tid", 0},
                {"ts", microseconds(span.begin)},
                {"dur", microseconds(span.end - span.begin)},
                {"name", name_of_span(recording, span)},
                {"cat", on_device ? "kernel" : "cpu_op"}};
  if (!on_device) return event;
  const RecordedEvent& issued = recording.events[static_cast<std::size_t>(span.event)];
  event["tid"] = issued.stream + 1;
  json& more = event["args"] = {{"device", 0}, {"stream", issued.stream}};
  if (issued.what == Recorded::copy) event["cat"] = "gpu_memcpy";
  if (issued.what == Recorded::set) event["cat"] = "gpu_memset";
  if (issued.op >= 0) more["operation"] = operation_of(recording, span);
  if (issued.module >= 0)
    more["module"] = recording.modules[static_cast<std::size_t>(issued.module)];
  if (issued.what != Recorded::kernel) more["bytes"] = issued.bytes;
  if (issued.kernel >= 0)
    more["bytes"] = recording.kernels[static_cast<std::size_t>(issued.kernel)].kernel.bytes;
  if (issued.recomputed) more["recomputed"] = true;
  return event;
}

json named_thread(const Recording& recording, int thread, const std::string& name) {
  return {{"ph", "M"},
          {"pid", recording.rank},
          {"tid", thread},
          {"name", "thread_name"},
          {"args", {{"name", name}}}};
}

}  // namespace

std::string recorded_trace(const Recording& recording, const Rehearsed& all) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"distributedInfo\":" +
                     json({{"rank", recording.rank}, {"world_size", recording.ranks}}).dump() +
                     ",\"traceEvents\":[";
  const auto add = [&](const json& event) {
    if (text.back() != '[') text += ',';
    text += "\n" + event.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  add({{"ph", "M"},
       {"pid", recording.rank},
       {"name", "process_name"},
       {"args", {{"name", fmt::format("rank {} of {}", recording.rank, all.script)}}}});
  add(named_thread(recording, 0, "host"));
  for (int stream = 0; stream < recording.streams; ++stream)
    add(named_thread(recording, stream + 1, fmt::format("stream {}", stream)));
  add({{"ph", "X"},
       {"pid", recording.rank},
       {"tid", 0},
       {"ts", 0},
       {"dur", microseconds(all.prediction.step_time)},
       {"name", "ProfilerStep#0"},
       {"cat", "user_annotation"}});
  for (const RecordedSpan& span : all.spans) add(trace_event(recording, span));
  return text + "\n]}\n";
}

}  // namespace meshwright::tools
