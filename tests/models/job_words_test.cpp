// Compares docs/job-file.md with the rows of models/job/keys.h and with the reader of jobs: each
// key is read, each of its words is understood and written again, a number outside its range is
// rejected, and a job without the key gets the default that the page names.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "models/compiler/schedule/schedule.h"
#include "models/job/identity.h"
#include "models/job/job.h"
#include "models/job/keys.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/models/job_lookup.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

struct Row {
  std::string key, type, fallback;  // cells of the table; `fallback`: the default
};

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(separator, begin)) != std::string::npos;
       begin = at + separator.size())
    parts.push_back(text.substr(begin, at - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

bool takes_two_chunks(const std::string& word) {
  const auto is_it = [&](const ScheduleInfo& each) {
    return each.name == word && each.most_chunks >= 2;
  };
  return std::ranges::any_of(schedule_kinds(), is_it);
}

std::string without(std::string text, const std::string& characters) {
  std::erase_if(text, [&](char c) { return characters.find(c) != std::string::npos; });
  const std::size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

const std::string page_file = std::string(MESHWRIGHT_SOURCE_DIR) + "/docs/job-file.md";

std::string page_text() {
  std::ifstream page(page_file);
  return {std::istreambuf_iterator<char>(page), {}};
}

// Returns the page with `text` between the marks "<!-- WHAT: begin -->" and "<!-- WHAT: end -->".
std::string with_part(std::string page, const std::string& what, const std::string& text) {
  INFO(what);
  const std::string begin = "<!-- " + what + ": begin -->\n";
  const std::size_t from = page.find(begin), to = page.find("<!-- " + what + ": end -->\n");
  REQUIRE((from != std::string::npos && to != std::string::npos));
  return page.replace(from + begin.size(), to - from - begin.size(), text);
}

// Returns the page in which the parts that the program generates are up to date.
std::string with_tables(std::string page) {
  for (const Section& section : sections_of_keys())
    page = with_part(page, "keys of " + std::string(section.name), key_table(section.keys));
  page = with_part(page, "schedules", schedule_table());
  return with_part(page, "what may change", change_list());
}

// Returns the rows of the first table below a heading.
std::vector<Row> rows_of(const std::string& heading) {
  std::istringstream page(page_text());
  std::vector<Row> rows;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## " + heading;
    if (!inside || !line.starts_with("| `")) {
      if (inside && !rows.empty() && line.empty()) break;
      continue;
    }
    const std::vector<std::string> cells = split(line, " | ");
    REQUIRE(cells.size() >= 3);
    rows.push_back({without(cells[0], "`|"), cells[1], without(cells[2], "`")});
  }
  return rows;
}

json base_job() {
  return json::parse(R"({
    "model": "gpt2",
    "training": {"global_batch": 64, "micro_batch": 2, "sequence_length": 512},
    "parallelism": {"pipeline": 2},
    "cluster": {"machine": "p4d.24xlarge"}
  })");
}

Job read(const json& value) { return read_job(value, "job.json", ".", lookup_for_tests); }

// Returns a section of the plan as the job file has it. Values that mean "not set" are left out.
json section_of(const Job& job, const std::string& section) {
  return section == "training" ? to_json(job.plan.training) : to_json(job.plan.parallelism);
}

const std::map<std::string, std::string> sections = {{"Training", "training"},
                                                     {"Parallelism", "parallelism"}};

// Keys whose defaults are rules, with the value that is written for a job without the key. Null
// means that none is written.
const std::map<std::string, json> rules = {{"training/recompute_modules", nullptr},
                                           {"training/recompute_budget", nullptr},
                                           {"training/expert_imbalance", nullptr},
                                           {"training/documents_per_row", nullptr},
                                           {"training/mtp_loss_weight", nullptr},
                                           {"training/predicted_positions", nullptr},
                                           {"training/loss_scale", nullptr},
                                           {"training/cuda_graph", nullptr},
                                           {"training/rematerialize_rows", nullptr},
                                           {"training/loss_block_bytes", nullptr},
                                           {"training/lora", nullptr},
                                           {"training/adafactor", nullptr},
                                           {"training/decay_steps", nullptr},
                                           {"parallelism/active_microbatches", nullptr},
                                           {"parallelism/partition", "auto"}};
// Keys that a job without them leaves open: they are "auto".
const std::set<std::string> open = {"training/micro_batch", "training/precision",
                                    "training/attention", "parallelism/data"};

// Returns the value in a cell of the column "default". An explanation may follow it.
json value_of(const std::string& cell) {
  const std::string value = cell.starts_with('[')
                                ? cell.substr(0, cell.find(']') + 1)
                                : cell.substr(0, std::min(cell.find(':'), cell.find(' ')));
  const json parsed = json::parse(value, nullptr, false);
  return parsed.is_discarded() ? json(value) : parsed;
}

// Returns the value that is written for a key, or null if none is.
json written(const json& section, const std::string& key) {
  return section.contains(key) ? section[key] : json(nullptr);
}

bool is_nothing(const json& value) {
  return value == 0 || value == false || value == json::array();
}

// Returns the words of `a b c` in a type cell, or nothing if it is not a list of words.
std::vector<std::string> words_of(const std::string& type) {
  std::smatch list;
  if (!std::regex_search(type, list, std::regex("`([A-Za-z0-9_+]+( [A-Za-z0-9_+]+)+)`"))) return {};
  return split(list[1], " ");
}

}  // namespace

TEST_CASE("the tables of the documentation are those of the keys", "[models][job][docs]") {
  const std::string page = page_text(), wanted = with_tables(page);
  if (std::getenv("MESHWRIGHT_UPDATE_DOCS") != nullptr) {  // tools/update_docs
    std::ofstream(page_file) << wanted;
    return;
  }
  INFO("tools/update_docs writes them again");
  CHECK(page == wanted);
}

TEST_CASE("a job without a key gets the default of the documentation", "[models][job][docs]") {
  for (const auto& [heading, section] : sections) {
    const std::vector<Row> rows = rows_of(heading);
    CHECK(rows.size() > 20);
    for (const Row& row : rows) {
      const std::string key = section + "/" + row.key;
      INFO(key << ": " << row.fallback);
      if (row.fallback == "required") continue;
      json job = base_job();
      job[section].erase(row.key);
      if (section == "training" && !job["parallelism"].contains("data"))
        job["parallelism"]["data"] = 4;
      const Job read_back = read(job);
      if (open.contains(key)) {
        CHECK(read_back.is_auto(section + "." + row.key));
        continue;
      }
      const json found = written(section_of(read_back, section), row.key);
      if (rules.contains(key)) {
        CHECK(found == rules.at(key));
        continue;
      }
      const json wanted = value_of(row.fallback);
      CHECK((found == wanted || (found.is_null() && is_nothing(wanted))));
      CHECK_FALSE(read_back.is_auto(section + "." + row.key));
    }
  }
}

TEST_CASE("each word of the documentation is understood, and no other", "[models][job][docs]") {
  const std::map<std::string, std::string> aliases = {{"recompute/each", "full"},
                                                      {"partition/chain", "auto"}};
  int words = 0;
  for (const auto& [heading, section] : sections)
    for (const Row& row : rows_of(heading)) {
      if (row.key == "overlap") continue;  // its value is a list of words
      for (std::string word : words_of(row.type)) {
        ++words;
        if (word == "group_N") word = "group_3";
        if (word == "fp64") continue;  // only for captured models
        json job = base_job();
        job[section][row.key] = word;
        if (takes_two_chunks(word)) job["parallelism"]["virtual_stages"] = 2;
        if (word == "whole") job["parallelism"]["zero_stage"] = 1;
        if (word == "fp8" || word == "flash3" || word == "cudnn")
          job["cluster"]["machine"] = "p5.48xlarge";
        if (word == "nvfp4") job["cluster"]["machine"] = "p6-b200.48xlarge";
        if (row.key == "memory_of") job.erase("parallelism");
        if (row.key == "moments_rounding") job["training"]["moments_precision"] = "bf16";
        INFO(section << "/" << row.key << ": " << word);
        const json found = section_of(read(job), section)[row.key];
        const auto alias = aliases.find(row.key + "/" + word);
        CHECK(found == (alias != aliases.end() ? alias->second : word));
      }
      if (words_of(row.type).empty()) continue;
      json job = base_job();
      job[section][row.key] = "no_such_word";
      INFO(section << "/" << row.key);
      CHECK(message_of([&] { read(job); }).find("no_such_word") != std::string::npos);
    }
  CHECK(words > 45);
}

TEST_CASE("each number and flag of the documentation is read, and comes back",
          "[models][job][docs]") {
  const std::set<std::string> elsewhere = {
      "training/predicted_positions",  // only for other models
      "training/recompute_budget",    "parallelism/expert",
      "parallelism/expert_tensor",    "training/router_bias_update_rate",
      "training/expert_imbalance",    "training/measure_expert_load",
      "training/expert_skew",
      "training/documents_per_row",  // only with packing
      "training/mtp_layers",          "training/mtp_loss_weight"};
  int read_back = 0;
  for (const auto& [heading, section] : sections)
    for (const Row& row : rows_of(heading)) {
      const std::string key = section + "/" + row.key;
      INFO(key << ": " << row.type);
      json job = base_job(), value;
      if (row.type.starts_with("bool")) value = row.fallback != "true";
      if (row.type.starts_with("integer") || row.type.starts_with("0 to 3")) value = 2;
      if (row.type.starts_with("number") || row.type.starts_with("above 0")) value = 0.25;
      if (row.type.starts_with("0 to 1") || row.type.starts_with("0 to below 1")) value = 0.5;
      if (value.is_null() || elsewhere.contains(key)) continue;
      if (row.key == "global_batch") value = 32;
      if (row.key == "data") value = 4;  // of 8 ranks
      if (row.key == "virtual_stages") job["parallelism"]["schedule"] = "interleaved";
      if (row.key == "decay_steps")
        job["training"]["learning_rate_schedule"] = "warmup_stable_decay";
      if (row.key == "shard") job["parallelism"]["zero_stage"] = 1;
      if (row.key == "recompute_fraction") job["training"]["recompute"] = "full";
      if (row.key == "fp8_gathers") job["parallelism"]["zero_stage"] = 3;
      if (row.key.starts_with("fp8_") || row.key.ends_with("_layers_in_bf16"))
        job["training"]["precision"] = "fp8", job["cluster"]["machine"] = "p5.48xlarge";
      job[section][row.key] = value;
      CHECK(section_of(read(job), section)[row.key] == value);
      ++read_back;
    }
  CHECK(read_back > 30);
}

TEST_CASE("a number outside its range is refused by its key", "[models][job][docs]") {
  int refused = 0;
  const auto check = [&](std::string_view section, const Key& key, double number) {
    json job = base_job();
    job["data"] = {{"files", {"a.bin"}}};
    job["checkpoint"] = {{"folder", "saved"}, {"every_steps", 3}};
    job["failures"] = {{"recovery", "in_job"}};
    const std::string place = "/" + std::string(section) + "/" + std::string(key.name);
    job[json::json_pointer(place)] = number;
    INFO(place << ": " << number);
    CHECK(message_of([&] { read(job); }).starts_with("job.json: " + place + ": "));
    ++refused;
  };
  for (const Section& section : sections_of_keys())
    for (const Key& key : section.keys) {
      const auto [low, high, above_low, below_high, by_reader] = key.range;
      if (std::isfinite(low)) check(section.name, key, above_low ? low : low - 1);
      if (std::isfinite(high)) check(section.name, key, below_high ? high : high + 1);
    }
  CHECK(refused > 45);
}

TEST_CASE("a key without effect is warned of once", "[models][job]") {
  json job = base_job();
  job["parallelism"].merge_patch({{"context_exchange", "all_gather"},
                                  {"offload_horizon", 3},
                                  {"max_live_parameters", 9},
                                  {"context_heads", 2}});
  const std::vector<std::string> expected = {
      "job.json: /parallelism/max_live_parameters: no effect below zero_stage 3",
      "job.json: /parallelism/offload_horizon: no effect while offload is none",
      "job.json: /parallelism/context_exchange: no effect while context is 1",
      "job.json: /parallelism/context_heads: no effect while context_exchange is not 'a2a+p2p'"};
  CHECK(read(job).warnings == expected);
}

TEST_CASE("the documentation names every key of a job that is written", "[models][job][docs]") {
  for (const auto& [heading, section] : sections) {
    std::set<std::string> named;
    for (const Row& row : rows_of(heading)) named.insert(row.key);
    const json written_back = section_of(read(base_job()), section);
    for (const auto& [key, value] : written_back.items()) {
      INFO(section << "/" << key);
      CHECK(named.contains(key));
    }
  }
}

TEST_CASE("each word means what it says", "[models][job][docs]") {
  const auto with = [](const std::string& key, const json& value) {
    json job = base_job();
    job["training"][key] = value;
    return read(job).plan.training;
  };
  CHECK(with("optimizer", "adamw").optimizer == OptimizerKind::adamw);
  CHECK(with("optimizer", "adam").optimizer == OptimizerKind::adam);
  CHECK(with("optimizer", "lamb").optimizer == OptimizerKind::lamb);
  CHECK(with("optimizer", "sgd").optimizer == OptimizerKind::sgd);
  CHECK(with("optimizer", "lion").optimizer == OptimizerKind::lion);
  CHECK(with("optimizer", "muon").optimizer == OptimizerKind::muon);
  CHECK(with("optimizer", "adafactor").optimizer == OptimizerKind::adafactor);
  CHECK(with("recompute", "selective").recompute == Recompute::selective);
  CHECK(with("recompute", "full").recompute == Recompute::full);
  CHECK(with("recompute", "contiguous").recompute == Recompute::contiguous);
  CHECK(with("recompute", "group_3").recompute == Recompute::group);
  CHECK(with("recompute", "group_3").recompute_group == 3);
  CHECK(with("attention", "unfused").attention == AttentionKernel::unfused);
  CHECK(with("attention", "flash").attention == AttentionKernel::flash);
  CHECK(with("attention", "flash2").attention == AttentionKernel::flash2);
  CHECK(with("compiler", "none").compiler == CompilerLevel::none);
  CHECK(with("compiler", "full").compiler == CompilerLevel::full);
  const auto in_memory_of = [](const char* whose) {
    json job = base_job();
    job.erase("parallelism");
    job["training"]["memory_of"] = whose;
    return read(job).plan.training.memory_of;
  };
  CHECK(in_memory_of("engine") == MemoryOf::engine);
  CHECK(in_memory_of("pytorch") == MemoryOf::pytorch);
  CHECK(in_memory_of("xla") == MemoryOf::xla);
  CHECK(with("precision", "fp16").precision == Precision::fp16);
  CHECK(with("precision", "tf32").precision == Precision::tf32);
  CHECK(with("precision", "bf16").precision == Precision::bf16);
  CHECK(with("gradient_reduce_precision", "fp16").gradient_reduce == Dtype::f16);
  CHECK(with("gradient_reduce_precision", "bf16").gradient_reduce == Dtype::bf16);
  CHECK(with("master_weights", "fp32").master_weights == MasterWeights::fp32);
  CHECK(with("master_weights", "none").master_weights == MasterWeights::none);
  CHECK(with("moments_precision", "bf16").moments == Dtype::bf16);
  CHECK(with("moments_precision", "8bit").moments == Dtype::block8);
  CHECK_FALSE(with("moments_rounding", "nearest").moments_at_random);
  json rounded = base_job();
  rounded["training"]["moments_precision"] = "bf16";
  rounded["training"]["moments_rounding"] = "stochastic";
  CHECK(read(rounded).plan.training.moments_at_random);
  CHECK(with("learning_rate_schedule", "linear").learning_rate_schedule ==
        LearningRateSchedule::linear);
  CHECK(with("learning_rate_schedule", "cosine").learning_rate_schedule ==
        LearningRateSchedule::cosine);
  CHECK(with("learning_rate_schedule", "warmup_stable_decay").learning_rate_schedule ==
        LearningRateSchedule::warmup_stable_decay);
  CHECK(with("learning_rate_schedule", "inverse_sqrt").learning_rate_schedule ==
        LearningRateSchedule::inverse_sqrt);
  const auto cut = [](const std::string& key, const json& value) {
    json job = base_job();
    job["parallelism"][key] = value;
    if (value.is_string() && takes_two_chunks(value.get<std::string>()))
      job["parallelism"]["virtual_stages"] = 2;
    if (value == "whole") job["parallelism"]["zero_stage"] = 1;
    return read(job).plan.parallelism;
  };
  CHECK(cut("schedule", "gpipe").schedule == ScheduleKind::gpipe);
  CHECK(cut("schedule", "1f1b").schedule == ScheduleKind::one_f_one_b);
  CHECK(cut("schedule", "interleaved").schedule == ScheduleKind::interleaved);
  CHECK(cut("schedule", "zero_bubble").schedule == ScheduleKind::zero_bubble);
  CHECK(cut("schedule", "zero_bubble_v").schedule == ScheduleKind::zero_bubble_v);
  CHECK(cut("schedule", "interleaved_zero_bubble").schedule ==
        ScheduleKind::interleaved_zero_bubble);
  CHECK(cut("schedule", "dualpipe_v").schedule == ScheduleKind::dualpipe_v);
  CHECK(cut("tensor_layout", "speed").tensor_layout == TensorLayout::speed);
  CHECK(cut("tensor_layout", "memory").tensor_layout == TensorLayout::memory);
  CHECK(cut("tensor_batch", "own").tensor_batch_own);
  CHECK(cut("context_exchange", "all_gather").context_exchange == ContextExchange::all_gather);
  CHECK(cut("context_exchange", "all_to_all").context_exchange == ContextExchange::all_to_all);
  CHECK(cut("context_exchange", "a2a+p2p").context_exchange == ContextExchange::a2a_p2p);
  CHECK(cut("shard_layout", "whole").shard_whole);
  CHECK(cut("overlap", {"gradients"}).overlap_gradients);
  CHECK_FALSE(cut("overlap", {"gradients"}).overlap_parameters);
  CHECK(cut("overlap", {"parameters"}).overlap_parameters);
  CHECK(cut("overlap", {"tensor"}).overlap_tensor);
  CHECK_FALSE(cut("overlap", json::array()).overlap_gradients);
}

TEST_CASE("the smaller sections have the defaults of the documentation", "[models][job][docs]") {
  json job = base_job();
  job["objective"] = json::object();
  job["data"] = {{"files", {"a.bin"}}};
  job["checkpoint"] = {{"folder", "saved"}, {"every_steps", 3}};
  job["failures"] = json::object();
  const Job read_back = read(job);
  CHECK(read_back.objective.minimize == Minimize::step_time);
  CHECK(read_back.objective.price.kind == PriceKind::on_demand);
  CHECK(read_back.objective.price.region.empty());
  CHECK_FALSE(read_back.objective.tokens);
  CHECK(read_back.data->format == TokenFormat::bytes);
  CHECK_FALSE(read_back.data->shuffle);
  CHECK(read_back.data->seed == 0);
  CHECK(read_back.checkpoint->keep == 2);
  CHECK(read_back.checkpoint->every_steps == 3);
  CHECK(read_back.cluster.counts == std::vector<int>{1});
  const Failures& failures = read_back.cluster.failures.value();
  CHECK(failures.recovery == Recovery::restart);
  CHECK(failures.restart_time_s() == 900);
  CHECK(failures.spare_hosts() == 0);
  CHECK(failures.checkpoint_bytes_per_s == 1e9);
  // The rates that docs/job-file.md names, for a host of eight GPUs.
  const double named[] = {1.68e-5, 2.64e-6, 3.3e-7, 0, 2.21e-6};
  for (const FailureCauseInfo& info : failure_causes())
    CHECK(failures.rate_per_host_hour(info.cause, 8) ==
          Approx(8 * named[static_cast<std::size_t>(info.cause)]).epsilon(0.005));
  const auto preemption = [&](const char* price) {
    json spot = job;
    spot["objective"] = {{"price", price}};
    return read(spot).cluster.failures->rate_per_host_hour(FailureCause::preemption, 8);
  };
  CHECK(preemption("on_demand") == 0);
  CHECK(preemption("spot") == Approx(3.06e-4).epsilon(0.005));
  int kind = 0;
  for (const std::string& price : price_kind_names()) {
    job["objective"] = {{"price", price}, {"region", "us-east-2"}};
    CHECK(read(job).objective.price.kind == static_cast<PriceKind>(kind++));
    CHECK(read(job).objective.price.region == "us-east-2");
  }
  int recovery = 0;
  for (const std::string& word : recovery_names()) {
    job["failures"] = {{"recovery", word}};
    CHECK(read(job).cluster.failures->recovery == static_cast<Recovery>(recovery++));
  }
  int expected = 0;
  for (const std::string& minimize : minimize_names()) {
    job["objective"] = {{"minimize", minimize}, {"budget_usd", 100}};
    CHECK(read(job).objective.minimize == static_cast<Minimize>(expected++));
  }
  CHECK(expected == 5);
}
