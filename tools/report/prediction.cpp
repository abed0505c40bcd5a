#include "tools/report/prediction.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/compiler/passes/graph/fuse_loss.h"
#include "models/compiler/passes/split/pad_vocabulary.h"
#include "models/core/json.h"
#include "models/program/crossing.h"
#include "models/program/peak_tensors.h"

namespace meshwright::tools {

namespace {

json optional_number(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

template <class Number>
json goodput_number(const Prediction& p, const Number& number) {
  return p.goodput ? json(number(*p.goodput)) : json(nullptr);
}

// Returns a line on what level `full` of the compiler chose in order to save memory: whether rows
// are recomputed, and the blocks of the logits. Returns "" if there is nothing to tell.
std::string saved_memory_text(const Compiled& compiled) {
  const Training& training = compiled.plan.training;
  if (training.compiler != CompilerLevel::full) return "";
  std::string text;
  if (training.rematerialize_rows)
    text += fmt::format("   rows made again: {}", *training.rematerialize_rows ? "yes" : "no");
  const LossBlocks loss = loss_blocks(compiled.graph);
  if (loss.rows > 0)
    text += fmt::format("   logits in blocks: {} of {}",
                        (loss.rows + loss.block_rows - 1) / loss.block_rows,
                        show_bytes(static_cast<double>(loss.block_rows * loss.row_bytes)));
  return text.empty() ? text : "      " + text + "\n";
}

// Returns the tensors at a stage's predicted peak, largest first. A framework may hold less of a
// class than the Program has places for (sim/predict/pytorch_memory.h), for example no gradients.
std::vector<PeakTensor> tensors_at_peak(const Program& program, const StageMemory& stage) {
  std::vector<PeakTensor> tensors = peak_tensors(program);
  std::array<std::int64_t, memory_class_count> left = stage.class_bytes;
  for (PeakTensor& each : tensors) {
    if (each.cls == MemoryClass::parameters) continue;  // those that are rounded count apart
    std::int64_t& of_class = left[static_cast<std::size_t>(each.cls)];
    each.bytes = std::min(each.bytes, of_class);
    of_class -= each.bytes;
  }
  std::erase_if(tensors, [](const PeakTensor& each) { return each.bytes == 0; });
  std::ranges::stable_sort(tensors, std::greater{}, &PeakTensor::bytes);
  return tensors;
}

// Returns a line with the kinds of tensors, at most three, that take most of the peak memory on the
// stage with the highest peak.
std::string peak_text(const Compiled& compiled, const Prediction& p) {
  constexpr std::size_t shown = 3;
  const auto fullest = std::ranges::max_element(p.memory, {}, &StageMemory::peak_bytes);
  const auto stage = static_cast<std::size_t>(fullest - p.memory.begin());
  std::vector<PeakTensor> tensors = tensors_at_peak(compiled.stages.at(stage), *fullest);
  tensors.resize(std::min(tensors.size(), shown));
  std::string text;
  for (const PeakTensor& tensor : tensors)
    text += fmt::format("{}{} x {} {}", text.empty() ? "" : ", ", tensor.count, tensor.name,
                        show_bytes(static_cast<double>(tensor.bytes)));
  return fmt::format("         most on stage {}: {}\n", stage, text);
}

}  // namespace

json interval_json(const Prediction& p) {
  return p.interval ? json{p.interval->low_s, p.interval->high_s} : json(nullptr);
}

json rung_prediction_json(const Prediction& p, int today) {
  const auto or_null = [](const std::optional<double>& number) {
    return number ? json(*number) : json(nullptr);
  };
  return {{"step_time_s", p.step_time_s},
          {"step_time_interval_s", interval_json(p)},
          {"mfu", p.mfu},
          {"peak_memory_bytes", p.peak_memory_bytes},
          {"memory_limit_bytes", p.memory_limit_bytes},
          {"usd_per_hour", or_null(p.usd_per_hour)},
          {"usd_per_million_tokens", or_null(p.usd_per_million_tokens)},
          {"goodput", p.goodput ? json(p.goodput->share) : json(nullptr)},
          {"price", price_json(p.price, today)}};
}

json price_json(const std::optional<Price>& price, int today) {
  if (!price) return nullptr;
  return {{"kind", name_of(price->kind)},
          {"region", price->region},
          {"usd_per_hour", price->usd_per_hour},
          {"as_of", price->as_of},
          {"source", price->source},
          {"stale", is_stale(*price, today)}};
}

json bill_json(const std::optional<Bill>& bill) {
  if (!bill) return {{"usd", nullptr}, {"idle_usd", nullptr}, {"block_days", nullptr}};
  return {{"usd", bill->usd}, {"idle_usd", bill->idle_usd}, {"block_days", bill->block_days}};
}

std::string bill_text(const std::optional<Bill>& bill) {
  if (!bill) return "no price";
  std::string text = show_usd(bill->usd);
  if (bill->block_days > 0)
    text += fmt::format(": {} days in capacity blocks, {} of it idle", bill->block_days,
                        show_usd(bill->idle_usd));
  return text;
}

json framework_json(const Prediction& p) {
  if (!p.framework) return nullptr;
  return {{"peak_memory_bytes", p.framework->fit.bytes},
          {"memory_limit_bytes", static_cast<std::int64_t>(p.framework->limit_bytes)}};
}

std::string peak_memory_text(const Plan& plan, const Prediction& p) {
  const std::string own =
      fmt::format("peak {} of {}", show_bytes(static_cast<double>(p.peak_memory_bytes)),
                  show_bytes(p.memory_limit_bytes));
  if (!p.framework) return own;
  const std::string_view whose =
      memory_of_names()[static_cast<std::size_t>(plan.training.memory_of)];
  return fmt::format("{} {} of {}; this engine's {}", whose,
                     show_bytes(static_cast<double>(p.framework->fit.bytes)),
                     show_bytes(p.framework->limit_bytes), own);
}

json prediction_json(const Prediction& p) {
  json memory = json::array();
  for (const StageMemory& stage : p.memory) {
    json row = {{"stage", stage.stage},
                {"library_bytes", stage.library_bytes},
                {"peak_bytes", stage.peak_bytes}};
    for (int cls = 0; cls < memory_class_count; ++cls)
      row[std::string(name_of(static_cast<MemoryClass>(cls))) + "_bytes"] =
          stage.class_bytes[static_cast<std::size_t>(cls)];
    memory.push_back(row);
  }
  return {{"step_time_s", p.step_time_s},
          {"step_time_interval_s", interval_json(p)},
          {"calibration", name_of(p.calibration)},
          {"sequences_per_s", p.sequences_per_s},
          {"tokens_per_s", p.tokens_per_s},
          {"model_flops_per_s_per_gpu", p.model_flops_per_s_per_gpu},
          {"mfu", p.mfu},
          {"bubble_fraction", p.bubble_fraction},
          {"exposed_communication_s", p.exposed_communication_s},
          {"fits", p.fits},
          {"memory_limit_bytes", p.memory_limit_bytes},
          {"peak_memory_bytes", p.peak_memory_bytes},
          {"framework_memory", framework_json(p)},
          {"memory", memory},
          {"host_memory_bytes", p.host_memory_bytes},
          {"host_memory_limit_bytes", p.host_memory_limit_bytes},
          {"usd_per_hour", optional_number(p.usd_per_hour)},
          {"usd_per_million_tokens", optional_number(p.usd_per_million_tokens)},
          {"goodput", goodput_number(p, [](const Goodput& g) { return g.share; })},
          {"checkpoint_interval_s",
           goodput_number(p, [&](const Goodput& g) { return g.every_steps * p.step_time_s; })},
          {"checkpoint_write_s",
           goodput_number(p, [](const Goodput& g) { return g.checkpoint_write_s; })},
          {"best_goodput", goodput_number(p, [](const Goodput& g) { return g.best_share; })},
          {"best_checkpoint_interval_s",
           goodput_number(p, [&](const Goodput& g) { return g.best_every_steps * p.step_time_s; })},
          {"cluster_mean_time_between_failures_s",
           goodput_number(p, [](const Goodput& g) { return g.mean_time_between_failures_s; })},
          {"instructions", p.instructions},
          {"simulation_wall_s", p.simulation_wall_s}};
}

json peak_tensors_json(const Program& program, const StageMemory& stage) {
  json rows = json::array();
  for (const PeakTensor& tensor : tensors_at_peak(program, stage))
    rows.push_back({{"name", tensor.name},
                    {"class", name_of(tensor.cls)},
                    {"bytes", tensor.bytes},
                    {"count", tensor.count}});
  return rows;
}

json cuts_json(const std::vector<Program>& stages) {
  json cuts = json::array();
  for (const Crossing& each : crossings(stages)) {
    json tensors = json::array();
    for (const CrossingTensor& tensor : each.tensors)
      tensors.push_back({{"made_by", tensor.name}, {"bytes", tensor.bytes}});
    cuts.push_back({{"from_stage", each.stage},
                    {"from_chunk", each.chunk},
                    {"to_stage", each.next_stage},
                    {"to_chunk", each.next_chunk},
                    {"bytes", each.bytes()},
                    {"tensors", tensors}});
  }
  return cuts;
}

namespace {

// Returns a line for each cut between stages of a captured model, because such cuts may fall
// anywhere in a block.
std::string cuts_text(const std::vector<Program>& stages) {
  std::string text;
  for (const Crossing& each : crossings(stages)) {
    std::vector<std::pair<std::string, int>> counts;  // numbers of tensors by module, in order
    for (const CrossingTensor& tensor : each.tensors) {
      const std::string module = tensor.name.substr(0, tensor.name.rfind(' '));
      if (counts.empty() || counts.back().first != module) counts.emplace_back(module, 0);
      ++counts.back().second;
    }
    std::string names;
    for (const auto& [module, count] : counts)
      names +=
          (names.empty() ? "" : ", ") + (count > 1 ? fmt::format("{} x ", count) : "") + module;
    text += fmt::format("cut      {} to {}: {} of a micro-batch: {}\n", each.stage, each.next_stage,
                        show_bytes(static_cast<double>(each.bytes())), names);
  }
  return text;
}

}  // namespace

json breakdown_json(const std::vector<StageBreakdown>& stages) {
  json rows = json::array();
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageBreakdown& stage = stages[s];
    json exposed = json::object();
    for (std::size_t group = 0; group < group_kind_count; ++group)
      if (stage.exposed_s[group] > 0)
        exposed[std::string(exposed_name(group))] = stage.exposed_s[group];
    rows.push_back({{"stage", s},
                    {"compute_s", stage.compute_s},
                    {"launch_s", stage.launch_s},
                    {"exposed_s", exposed},
                    {"bubble_s", stage.bubble_s},
                    {"idle_s", stage.idle_s}});
  }
  return rows;
}

std::string goodput_text(const Prediction& p) {
  const Goodput& g = *p.goodput;
  std::string text = fmt::format("a failure every {}, a checkpoint every {} steps ({})",
                                 show_seconds(g.mean_time_between_failures_s), g.every_steps,
                                 show_seconds(g.every_steps * p.step_time_s));
  if (g.every_steps != g.best_every_steps)
    text +=
        fmt::format("; best every {} steps ({}): {}", g.best_every_steps,
                    show_seconds(g.best_every_steps * p.step_time_s), show_percent(g.best_share));
  return text;
}

// Returns a row per stage, with a column per class of memory. The column of snapshots is left out
// if it has only zeros, because most jobs have none.
Table memory_table(const Prediction& p) {
  const auto bytes_of_class = [](const StageMemory& stage, int cls) {
    return stage.class_bytes[static_cast<std::size_t>(cls)];
  };
  std::vector<int> shown;
  for (int cls = 0; cls < memory_class_count; ++cls)
    if (static_cast<MemoryClass>(cls) != MemoryClass::snapshot ||
        std::ranges::any_of(
            p.memory, [&](const StageMemory& stage) { return bytes_of_class(stage, cls) > 0; }))
      shown.push_back(cls);
  std::vector<std::string> head{"stage"};
  for (int cls : shown) head.emplace_back(name_of(static_cast<MemoryClass>(cls)));
  head.insert(head.end(), {"library", "peak"});
  Table table(head);
  table.may_lack({"communication", "library", "workspace"});
  for (const StageMemory& stage : p.memory) {
    std::vector<std::string> row{std::to_string(stage.stage)};
    for (int cls : shown)
      row.push_back(show_bytes(static_cast<double>(bytes_of_class(stage, cls))));
    row.push_back(show_bytes(static_cast<double>(stage.library_bytes)));
    row.push_back(show_bytes(static_cast<double>(stage.peak_bytes)));
    table.add(std::move(row));
  }
  return table;
}

std::string prediction_text(const Model& model, const Compiled& compiled, const Cluster& cluster,
                            const Prediction& p, int today) {
  const Training& training = compiled.plan.training;
  std::string text =
      fmt::format("model    {}   {} parameters   {}   sequence {}   global batch {}\n", model.name,
                  show_count(static_cast<double>(parameter_count(compiled.graph))),
                  name_of(training.precision), training.sequence_length, training.global_batch);
  const std::int64_t padded = padded_vocabulary(model.vocabulary, compiled.plan.parallelism.tensor);
  if (padded != model.vocabulary)
    text += fmt::format("         vocabulary {} padded to {}\n", model.vocabulary, padded);
  text += fmt::format("cluster  {} x {}   {} ranks\n", cluster.hosts, cluster.machine.name,
                      cluster.ranks());
  text += "plan     " + plan_text(compiled.plan) + "\n";
  text += fmt::format("step     {}   {} tokens/s   {:.1f} TFLOP/s per GPU   MFU {}\n",
                      show_seconds(p.step_time_s), show_number(p.tokens_per_s, 0),
                      p.model_flops_per_s_per_gpu / 1e12, show_percent(p.mfu));
  text +=
      p.interval
          ? fmt::format(
                "         {} to {} with 80 % probability, by {} published steps on this kind of "
                "GPU\n",
                show_seconds(p.interval->low_s), show_seconds(p.interval->high_s), p.interval->rows)
          : fmt::format("         profile: {}; no error is known\n", name_of(p.calibration));
  text += fmt::format("         bubble {}   exposed communication {}\n",
                      show_percent(p.bubble_fraction), show_seconds(p.exposed_communication_s));
  if (p.goodput)
    text += fmt::format("goodput  {}: {}\n", show_percent(p.goodput->share), goodput_text(p));
  text += fmt::format("memory   {}   {}\n", peak_memory_text(compiled.plan, p),
                      p.fits ? "fits" : "DOES NOT FIT");
  text += peak_text(compiled, p);
  text += saved_memory_text(compiled);
  if (p.host_memory_bytes > 0)
    text += fmt::format("host     offloaded {} of {}\n",
                        show_bytes(static_cast<double>(p.host_memory_bytes)),
                        show_bytes(p.host_memory_limit_bytes));
  if (model.captured) text += cuts_text(compiled.stages);
  if (p.price)
    text += fmt::format("cost     ${:.2f}/h   ${:.4f} per million tokens   ({}{})\n",
                        *p.usd_per_hour, *p.usd_per_million_tokens, describe(*p.price),
                        is_stale(*p.price, today) ? ": older than 90 days" : "");
  return text + "\n" + memory_table(p).text();
}

}  // namespace meshwright::tools
