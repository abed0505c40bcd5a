// Runs the command `compile JOB`, which compiles one plan at every level of the training compiler,
// and shows what each pass saves and the largest batch that then fits.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "models/core/json.h"
#include "models/program/program_json.h"
#include "sim/compile/compile.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/prediction.h"
#include "tools/session/choose.h"
#include "tools/session/dump_passes.h"
#include "tools/session/json_text.h"
#include "tools/session/machines.h"
#include "tools/session/measured_steps.h"
#include "tools/session/text.h"
#include "tools/session/train.h"
#include "tools/session/write_file.h"

namespace meshwright::tools {

namespace {

using nlohmann::json;

// Returns the levels at which a model can be compiled. `full` rewrites operations, but the file of
// a captured model does not describe its operations.
std::vector<CompilerLevel> levels_of(const Model& model) {
  if (model.captured) return {CompilerLevel::none, CompilerLevel::fused};
  return {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full};
}

struct Row {
  LevelReport report;
  std::optional<double> measured_step_s;

  const Plan& plan() const { return report.compiled.plan; }
  const std::string& level() const {
    return compiler_names()[static_cast<std::size_t>(plan().training.compiler)];
  }
  // Returns the memory of the stage with the highest peak memory.
  const StageMemory& memory() const {
    return *std::ranges::max_element(report.prediction.memory, {}, &StageMemory::peak_bytes);
  }
};

const std::string& word_of(MemoryOf whose) {
  return memory_of_names()[static_cast<std::size_t>(whose)];
}

json pass_json(const PassEffect& pass) {
  const GraphSize &before = pass.before, &after = pass.after;
  return {{"name", pass.name},
          {"wall_s", pass.seconds},
          {"kernels", after.work.kernels},
          {"kernels_saved", before.work.kernels - after.work.kernels},
          {"bytes_moved", after.work.bytes},
          {"bytes_moved_saved", before.work.bytes - after.work.bytes},
          {"kept_activation_bytes", after.kept_bytes},
          {"kept_activation_bytes_saved", before.kept_bytes - after.kept_bytes},
          {"compute_before_s", before.work.time_s},
          {"compute_after_s", after.work.time_s}};
}

// Returns the ratio of the largest micro-batch to the plan's.
double growth(const Plan& plan, const LargestBatch& largest) {
  return static_cast<double>(largest.micro_batch) / plan.training.micro_batch;
}

json largest_json(const Plan& plan, const LargestBatch& largest) {
  if (largest.micro_batch == 0) return nullptr;
  const double rate = plan.training.learning_rate, k = growth(plan, largest);
  return {{"micro_batch", largest.micro_batch},
          {"global_batch", with_micro_batch(plan, largest.micro_batch).training.global_batch},
          {"peak_memory_bytes", largest.peak_memory_bytes},
          {"learning_rate_linear", linear_learning_rate(rate, k)},
          {"learning_rate_square_root", square_root_learning_rate(rate, k)}};
}

json frameworks_json(const Plan& plan, const std::vector<FrameworkBatch>& batches) {
  json list = json::array();
  for (const FrameworkBatch& batch : batches)
    list.push_back(
        {{"memory_of", word_of(batch.whose)}, {"largest", largest_json(plan, batch.largest)}});
  return list;
}

json row_json(const Row& row) {
  const Prediction& prediction = row.report.prediction;
  json passes = json::array();
  for (const PassEffect& pass : row.report.passes) passes.push_back(pass_json(pass));
  json memory = {{"library_bytes", row.memory().library_bytes}};
  for (int cls = 0; cls < memory_class_count; ++cls)
    memory[std::string(name_of(static_cast<MemoryClass>(cls))) + "_bytes"] =
        row.memory().class_bytes[static_cast<std::size_t>(cls)];
  return {
      {"compiler", row.level()},
      {"kernels", row.report.step.kernels},
      {"bytes_moved", row.report.step.bytes},
      {"step_time_s", prediction.step_time_s},
      {"measured_step_time_s", row.measured_step_s ? json(*row.measured_step_s) : json(nullptr)},
      {"fits", prediction.fits},
      {"peak_memory_bytes", prediction.peak_memory_bytes},
      {"memory", memory},
      {"compile_wall_s", row.report.compile_s},
      {"passes", passes},
      {"largest", largest_json(row.plan(), row.report.largest)}};
}

Table level_table(const std::vector<Row>& rows, bool measured) {
  std::vector<std::string> head{"level", "kernels", "moved", "step"};
  if (measured) head.emplace_back("measured");
  head.insert(head.end(), {"compiled in", "activations", "workspace", "peak", ""});
  Table table(head);
  table.may_lack({"compiled in", "workspace"});
  const auto of_class = [](const Row& row, MemoryClass cls) {
    return show_bytes(static_cast<double>(row.memory().class_bytes[static_cast<std::size_t>(cls)]));
  };
  for (const Row& row : rows) {
    const Prediction& prediction = row.report.prediction;
    std::vector<std::string> cells{row.level(), std::to_string(row.report.step.kernels),
                                   show_bytes(row.report.step.bytes),
                                   show_seconds(prediction.step_time_s)};
    if (measured) cells.push_back(row.measured_step_s ? show_seconds(*row.measured_step_s) : "-");
    cells.insert(cells.end(),
                 {show_seconds(row.report.compile_s), of_class(row, MemoryClass::activations),
                  of_class(row, MemoryClass::workspace),
                  show_bytes(static_cast<double>(prediction.peak_memory_bytes)),
                  prediction.fits ? "fits" : "does not fit"});
    table.add(std::move(cells));
  }
  return table;
}

Table memory_table(const std::vector<Row>& rows) {
  const auto bytes_of = [](const Row& row, int cls) {
    return row.memory().class_bytes[static_cast<std::size_t>(cls)];
  };
  std::vector<int> shown;
  for (int cls = 0; cls < memory_class_count; ++cls)
    if (std::ranges::any_of(rows, [&](const Row& row) { return bytes_of(row, cls) > 0; }))
      shown.push_back(cls);
  std::vector<std::string> head{"peak memory"};
  for (const int cls : shown) head.emplace_back(name_of(static_cast<MemoryClass>(cls)));
  head.emplace_back("library");
  Table table(head);
  table.may_lack({"communication", "library", "workspace"});
  for (const Row& row : rows) {
    std::vector<std::string> cells{row.level()};
    for (const int cls : shown)
      cells.push_back(show_bytes(static_cast<double>(bytes_of(row, cls))));
    cells.push_back(show_bytes(static_cast<double>(row.memory().library_bytes)));
    table.add(std::move(cells));
  }
  return table;
}

// Returns the table of the largest batches that fit: with this engine at each level, and with the
// frameworks for which they are known.
Table largest_table(const std::vector<Row>& rows, const std::vector<FrameworkBatch>& frameworks) {
  Table table(
      {"largest batch", "micro-batch", "global batch", "peak", "rate x k", "rate x sqrt k"});
  const auto add = [&](const std::string& name, const Plan& plan, const LargestBatch& largest) {
    if (largest.micro_batch == 0) return table.add({name, "none fits"});
    const double rate = plan.training.learning_rate, k = growth(plan, largest);
    table.add({name, std::to_string(largest.micro_batch),
               std::to_string(with_micro_batch(plan, largest.micro_batch).training.global_batch),
               show_bytes(static_cast<double>(largest.peak_memory_bytes)),
               fmt::format("{:.3e}", linear_learning_rate(rate, k)),
               fmt::format("{:.3e}", square_root_learning_rate(rate, k))});
  };
  for (const Row& row : rows) add(row.level(), row.plan(), row.report.largest);
  for (const FrameworkBatch& batch : frameworks)
    add(word_of(batch.whose), rows.front().plan(), batch.largest);
  return table;
}

// Returns the value after a pass, followed by its change if there is one: "1204 -34".
std::string with_change(const std::string& after, const std::string& change, double difference) {
  return difference == 0 ? after : after + (difference > 0 ? " +" : " -") + change;
}

std::string with_change(double after, double before, std::string (*show)(double)) {
  return with_change(show(after), show(std::abs(after - before)), after - before);
}

std::string show_whole(double count) { return fmt::format("{:.0f}", count); }

Table pass_table(const Row& row) {
  Table table({row.level(), "took", "kernels", "moved", "kept", "compute"});
  table.may_lack({"took"});
  for (const PassEffect& pass : row.report.passes) {
    const GraphSize &before = pass.before, &after = pass.after;
    if (after == before) continue;
    table.add({std::string(pass.name), show_seconds(pass.seconds),
               with_change(static_cast<double>(after.work.kernels),
                           static_cast<double>(before.work.kernels), show_whole),
               with_change(after.work.bytes, before.work.bytes, show_bytes),
               with_change(after.kept_bytes, before.kept_bytes, show_bytes),
               with_change(after.work.time_s, before.work.time_s, show_seconds)});
  }
  return table;
}

// Returns lines that list the passes that changed nothing, and the time that they took together.
// Returns "" if every pass changed something.
std::string idle_passes_text(const std::vector<PassEffect>& passes) {
  constexpr std::size_t columns = 110;
  std::string names;
  std::size_t line = 0;
  double seconds = 0;
  for (const PassEffect& pass : passes) {
    if (pass.before != pass.after) continue;
    seconds += pass.seconds;
    const bool full = line + pass.name.size() > columns;
    names += full ? "\n  " : " ";
    names += pass.name;
    line = (full ? 2 : line + 1) + pass.name.size();
  }
  return names.empty() ? "" : fmt::format("no change, {}:\n {}\n", show_seconds(seconds), names);
}

std::string text_of(const Job& job, const Chosen& chosen, const std::vector<Row>& rows,
                    const std::vector<FrameworkBatch>& frameworks, bool measured) {
  const Training& training = chosen.compiled.plan.training;
  std::string text = fmt::format(
      "model    {}   {} parameters   {}   sequence {}   global batch {}\n", job.model.name,
      show_count(static_cast<double>(parameter_count(chosen.compiled.graph))),
      name_of(training.precision), training.sequence_length, training.global_batch);
  text += fmt::format("cluster  {} x {}   ranks {}   {} each\n", chosen.cluster.hosts,
                      chosen.cluster.machine.name, chosen.cluster.ranks(),
                      show_bytes(chosen.cluster.device().memory_bytes));
  text += "plan     " + short_plan_text(chosen.compiled.plan) + "\n\n";
  text += level_table(rows, measured).text() + "\n";
  text += memory_table(rows).text() + "\n";
  text += largest_table(rows, frameworks).text() + "\n";
  text += "Passes, on the graph of one micro-batch: what there is after each, and its change\n";
  for (const Row& row : rows)
    text += "\n" + pass_table(row).text() + idle_passes_text(row.report.passes);
  return text;
}

// Returns the plan at a compiler level. If the job leaves the attention kernel or other choices to
// the compiler, they are made again for this level.
Plan plan_at(CompilerLevel level, const Job& job, const Chosen& chosen) {
  Plan plan = reopened(chosen.compiled.plan, job.plan.training);
  plan.training.compiler = level;
  if (job.is_auto("training.attention"))
    plan.training.attention = default_attention(facts_of(chosen.cluster.machine), plan, job.model);
  return plan;
}

struct Comparison {
  Job job;
  Chosen chosen;
  std::vector<Row> rows;
  std::vector<FrameworkBatch> frameworks;
};

// Compiles the plan at every level, and writes the files that the options and the job's log ask
// for.
Comparison compared(const Options& options, const Watch& watch) {
  Comparison all;
  all.job = asked_job(options, watch);
  const Job& job = all.job;
  const std::vector<std::string> inputs = inputs_of(options, job);
  if (options.measure) check_measurable(job);
  Training at_level = job.plan.training;
  const std::string debug = job.compiler_debug ? debug_folder(job) : "";
  for (const CompilerLevel level : levels_of(job.model)) {
    at_level.compiler = level;
    if (!options.dump.empty()) check_dump("--dump", options.dump, at_level, inputs);
    if (!debug.empty()) check_dump(job.file + ": /log/folder:", debug, at_level, inputs);
  }
  all.chosen = choose_plan(job, asked_machines(options, watch), watch);
  const Chosen& chosen = all.chosen;
  for (const CompilerLevel level : levels_of(job.model)) {
    if (watch.stop && watch.stop()) throw StoppedSearch();
    at_level.compiler = level;
    std::vector<PassObserver> dumps;
    for (const std::string& folder : {options.dump, debug})
      if (!folder.empty()) dumps.push_back(dump_into(folder, at_level));
    all.rows.push_back({compile_at(level, job.model, plan_at(level, job, chosen), chosen.cluster,
                                   [&](const Pass& pass, const Graph& graph, double seconds) {
                                     for (const PassObserver& dump : dumps)
                                       dump(pass, graph, seconds);
                                   }),
                        {}});
    Row& row = all.rows.back();
    if (!options.dump.empty())
      write_file(programs_file(options.dump, at_level),
                 to_json(row.report.compiled.stages).dump(1) + "\n");
    if (options.measure && row.report.prediction.fits)
      row.measured_step_s = measured_step_seconds(threads_per_rank(options.threads, 1), job,
                                                  chosen.cluster, row.report.compiled);
  }
  all.frameworks = framework_batches(job.model, all.rows.front().plan(), chosen.cluster);
  return all;
}

std::string json_of(const Comparison& all) {
  const auto& [job, chosen, rows, frameworks] = all;
  json list = json::array();
  for (const Row& row : rows) list.push_back(row_json(row));
  return json_text({{"name", job.name},
                    {"machine", chosen.machine},
                    {"count", chosen.count},
                    {"parallelism", to_json(chosen.compiled.plan.parallelism)},
                    {"training", to_json(chosen.compiled.plan.training)},
                    {"levels", list},
                    {"frameworks", frameworks_json(rows.front().plan(), frameworks)}},
                   true);
}

int run_compile(const Options& options) {
  const Comparison all = compared(options, printed_watch());
  if (options.json)
    print_text(json_of(all));
  else
    print_to(stdout, "{}", text_of(all.job, all.chosen, all.rows, all.frameworks, options.measure));
  return done;
}

std::string answer_compile(const Options& options, const Watch& watch) {
  return json_of(compared(options, watch));
}

}  // namespace

const Command compile_command = {
    "compile",
    "JOB",
    job_help,
    "the compiler's levels: what each pass saves, the largest batch",
    "json wide set profile measure-afresh measure dump",
    run_compile,
    "Compares the levels of the training compiler (none, fused, full) under the job's plan: "
    "kernels, bytes moved, memory and step time, what each pass saves, the largest micro-batch "
    "that fits, and the learning rate for it. docs/compiler.md describes the passes.",
    answer_compile};

}  // namespace meshwright::tools
