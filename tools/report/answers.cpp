#include "tools/report/answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "models/job/schema.h"

namespace meshwright {

namespace {

using nlohmann::json;

constexpr AnswerKey simulate_keys[] = {
    {"name", "string", "of the job"},
    {"machine", "string", "of the cluster"},
    {"count", "integer", "hosts"},
    {"step_time_s", "number", "predicted time of a step"},
    {"step_time_interval_s", "array or null", "between its two ends eight in ten steps would lie"},
    {"step_time_interval_s[]", "number", ""},
    {"calibration", "string", "where the constants of the machine's profile are from"},
    {"steps", "integer", "--steps"},
    {"total_time_s", "number", "of these steps"},
    {"sequences_per_s", "number", ""},
    {"tokens_per_s", "number", ""},
    {"model_flops_per_s_per_gpu", "number", "of the model alone, without recomputation"},
    {"mfu", "number", "these as a share of the GPU's peak"},
    {"bubble_fraction", "number", "share of the step that stages are idle in the pipeline"},
    {"exposed_communication_s", "number", "communication that no computation hides"},
    {"fits", "boolean", "in memory"},
    {"memory_limit_bytes", "number", "of a GPU"},
    {"peak_memory_bytes", "integer", "of the fullest stage"},
    {"framework_memory", "object or null",
     "what the framework takes that training.memory_of names"},
    {"framework_memory.peak_memory_bytes", "integer", ""},
    {"framework_memory.memory_limit_bytes", "integer", ""},
    {"memory[].stage", "integer", ""},
    {"memory[].peak_bytes", "integer", "of a GPU of this stage"},
    {"memory[].library_bytes", "integer", "what libraries take beside the plan"},
    {"memory[].parameters_bytes", "integer", "at the peak, of this class"},
    {"memory[].gradients_bytes", "integer", ""},
    {"memory[].optimizer_bytes", "integer", ""},
    {"memory[].activations_bytes", "integer", ""},
    {"memory[].workspace_bytes", "integer", ""},
    {"memory[].communication_bytes", "integer", ""},
    {"memory[].snapshot_bytes", "integer", "for checkpoints in the background"},
    {"memory[].peak_tensors[].name", "string",
     "tensors at the peak, largest first; equal ones are one"},
    {"memory[].peak_tensors[].class", "string", ""},
    {"memory[].peak_tensors[].bytes", "integer", "of all of them"},
    {"memory[].peak_tensors[].count", "integer", ""},
    {"host_memory_bytes", "integer", "that offloading takes of a host"},
    {"host_memory_limit_bytes", "number", ""},
    {"stages[].stage", "integer", "parts of a stage's step; they sum to step_time_s"},
    {"stages[].compute_s", "number", ""},
    {"stages[].launch_s", "number", "kernels wait for the host"},
    {"stages[].exposed_s.*", "number", "by process group; pipeline: messages between stages"},
    {"stages[].bubble_s", "number", ""},
    {"stages[].idle_s", "number", ""},
    {"usd_per_hour", "number or null", "of all hosts"},
    {"usd_per_million_tokens", "number or null", ""},
    {"price", "object or null", "the row of the price list"},
    {"price.kind", "string", ""},
    {"price.region", "string", ""},
    {"price.usd_per_hour", "number", "of one host"},
    {"price.as_of", "string", "date"},
    {"price.source", "string", ""},
    {"price.stale", "boolean", "older than 90 days"},
    {"goodput", "number or null", "share of the time that steps take, where hosts fail"},
    {"checkpoint_interval_s", "number or null", "of the job"},
    {"checkpoint_write_s", "number or null", ""},
    {"best_goodput", "number or null", "with the best interval"},
    {"best_checkpoint_interval_s", "number or null", ""},
    {"cluster_mean_time_between_failures_s", "number or null", ""},
    {"whole_run", "object or null", "without failures, where the job says how long it is"},
    {"whole_run.tokens", "number", ""},
    {"whole_run.time_s", "number", ""},
    {"whole_run.usd", "number or null", ""},
    {"whole_run.idle_usd", "number or null", "of it, for hours of a block after the run"},
    {"whole_run.block_days", "integer or null", "of capacity blocks"},
    {"risk", "object or null", "the whole run where hosts fail"},
    {"risk.steps", "number", ""},
    {"risk.runs", "integer", "that were played"},
    {"risk.finishes", "boolean", "the keys below are there if it does"},
    {"risk.every_steps", "integer", "between checkpoints"},
    {"risk.wall_s?", "object", "time of a run"},
    {"risk.wall_s.p10", "number", "one run in ten is faster"},
    {"risk.wall_s.p50", "number", ""},
    {"risk.wall_s.p90", "number", ""},
    {"risk.wall_s.mean", "number", ""},
    {"risk.usd?", "object or null", "the same of its cost"},
    {"risk.usd.p10", "number", ""},
    {"risk.usd.p50", "number", ""},
    {"risk.usd.p90", "number", ""},
    {"risk.usd.mean", "number", ""},
    {"risk.idle_usd?", "number or null", ""},
    {"risk.shares?", "object", "of the time"},
    {"risk.shares.steps", "number", ""},
    {"risk.shares.lost", "number", "work that is done again"},
    {"risk.shares.checkpoints", "number", ""},
    {"risk.shares.restarts", "number", ""},
    {"risk.shares.waiting", "number", "for hosts"},
    {"risk.failures?", "number", "in a run, in the mean"},
    {"risk.causes[]?.cause", "string", ""},
    {"risk.causes[]?.failures", "number", "in a run, in the mean"},
    {"risk.causes[]?.time_s", "number", "that they cost"},
    {"risk.spare_worth?", "object or null", "what spare hosts save"},
    {"risk.spare_worth.spares", "integer", ""},
    {"risk.spare_worth.wall_s", "number", ""},
    {"risk.spare_worth.usd", "number or null", ""},
    {"parallelism", "parallelism", "the plan, with every choice made"},
    {"training", "training", ""},
    {"instructions", "integer", "that were replayed"},
    {"simulation_wall_s", "number", "that the replay took"},
};

constexpr AnswerKey plan_keys[] = {
    {"search_wall_s", "number", "that the search took"},
    {"candidates_enumerated", "integer", "plans"},
    {"candidates_simulated", "integer", "of them"},
    {"proven_gap", "number or null", "no plan is better than the first by a larger share"},
    {"memory_margin", "number", "share of a GPU's memory that is left free"},
    {"plans[].plan", "string", "in short: p4 t2 d2 mb2"},
    {"plans[].parallelism", "parallelism", ""},
    {"plans[].training", "training", ""},
    {"plans[].cluster.machine", "string", ""},
    {"plans[].cluster.count", "integer", "hosts"},
    {"plans[].gpus", "integer", ""},
    {"plans[].step_time_s", "number", ""},
    {"plans[].step_time_interval_s", "array or null",
     "between its two ends eight in ten steps would lie"},
    {"plans[].step_time_interval_s[]", "number", ""},
    {"plans[].tokens_per_s", "number", ""},
    {"plans[].peak_memory_bytes", "integer", ""},
    {"plans[].framework_memory", "object or null",
     "what the framework takes that training.memory_of names"},
    {"plans[].framework_memory.peak_memory_bytes", "integer", ""},
    {"plans[].framework_memory.memory_limit_bytes", "integer", ""},
    {"plans[].usd_per_hour", "number or null", "of all hosts"},
    {"plans[].usd_per_million_tokens", "number or null", ""},
    {"plans[].mfu", "number", ""},
    {"plans[].bubble_fraction", "number", ""},
    {"plans[].exposed_communication_s", "number", ""},
    {"plans[].goodput", "number or null", "where hosts fail"},
    {"plans[].total_tokens", "number", "of the whole job"},
    {"plans[].total_time_s", "number", ""},
    {"plans[].total_usd", "number or null", ""},
    {"plans[].total_idle_usd", "number or null", "of it, for hours of a block after the run"},
    {"plans[].price", "object or null", "as in simulate"},
    {"plans[].price.kind", "string", ""},
    {"plans[].price.region", "string", ""},
    {"plans[].price.usd_per_hour", "number", "of one host"},
    {"plans[].price.as_of", "string", "date"},
    {"plans[].price.source", "string", ""},
    {"plans[].price.stale", "boolean", "older than 90 days"},
    {"plans[].frameworks[]", "string", "that can run it"},
    {"plans[].pareto", "boolean", "no other plan beats it in both time and money"},
    {"rejected[].reason", "string", "why plans were not simulated"},
    {"rejected[].count", "integer", ""},
    {"closest_miss?", "object", "the plan that needs least more memory than there is"},
    {"closest_miss.cluster.machine", "string", ""},
    {"closest_miss.cluster.count", "integer", ""},
    {"closest_miss.parallelism", "parallelism", ""},
    {"closest_miss.peak_memory_bytes", "integer", ""},
    {"closest_miss.memory_limit_bytes", "number", ""},
};

constexpr AnswerKey validate_keys[] = {
    {"rows[].id", "string", "a measurement: of a step, of a collective or of a largest batch"},
    {"rows[].source", "string", "the file"},
    {"rows[].predicted_step_time_s?", "number", ""},
    {"rows[].measured_step_time_s?", "number", ""},
    {"rows[].predicted_interval_s?", "array or null",
     "between its two ends eight in ten steps would lie"},
    {"rows[].predicted_interval_s[]", "number", ""},
    {"rows[].predicted_peak_memory_bytes?", "number", ""},
    {"rows[].measured_peak_memory_bytes?", "number or null", ""},
    {"rows[].fits?", "boolean", ""},
    {"rows[].predicted_time_s?", "number", "of a collective"},
    {"rows[].measured_time_s?", "number", ""},
    {"rows[].model?", "string", "of a largest batch"},
    {"rows[].machine?", "string", ""},
    {"rows[].column?", "string", "native or compiled"},
    {"rows[].predicted_max_batch?", "integer", ""},
    {"rows[].measured_max_batch?", "integer", ""},
    {"rows[].full_max_batch?", "integer", "by level full of the training compiler"},
    {"sources[]", "errors", "of each file"},
    {"overall", "errors", "of all steps"},
    {"machines[]", "machine errors", "of all steps, by machine"},
    {"peak_memory[]", "errors", "of peak memory, by file"},
    {"collectives_from_1_MiB[]", "cluster errors", "by cluster"},
    {"collectives_below_1_MiB[]", "cluster errors", ""},
    {"scaling[].source", "string", "pairs of steps on one GPU and on several"},
    {"scaling[].ids[]", "string", ""},
    {"scaling[].gpus[]", "integer", ""},
    {"scaling[].predicted_efficiency", "number", ""},
    {"scaling[].measured_efficiency", "number", ""},
    {"scaling[].within_3_points", "boolean", ""},
    {"fits[].source", "string", ""},
    {"fits[].largest_batches", "integer", "rows that were tried to their limit"},
    {"fits[].said_to_fit_at_1.25x", "integer", "of them, with a batch that is a quarter larger"},
    {"fits[].measured_steps", "integer", ""},
    {"fits[].said_not_to_fit", "integer", "of them"},
    {"skipped[].id", "string", "rows that are not predicted"},
    {"skipped[].reason", "string", ""},
};

constexpr AnswerKey error_keys[] = {
    {"source", "string", "the file"},
    {"rows", "integer", ""},
    {"mape", "number", "mean of the errors' sizes, as a share of what was measured"},
    {"median_ape", "number", ""},
    {"p90_ape", "number", "nine rows in ten are better"},
    {"bias", "number", "mean of the errors; below 0: predicted too fast"},
    {"inside_interval?", "number", "share of rows within the predicted interval"},
    {"pairs_in_order?", "number", "share of pairs of plans that are put in the right order"},
    {"regret?", "number", "how much slower the plan is that was predicted to be fastest"},
    {"constant_mfu?", "number", "the simplest predictor: the median of the measured ones"},
    {"constant_mfu_mape?", "number", "its error"},
};

constexpr AnswerTable tables[] = {
    {"simulate", simulate_keys}, {"plan", plan_keys}, {"validate", validate_keys}};

json object_type() {
  return {{"type", "object"}, {"properties", json::object()}, {"additionalProperties", false}};
}

json schema_of_keys(std::span<const AnswerKey> keys);

json schema_of_type(std::string_view type, std::string_view meaning) {
  json schema;
  if (type == "parallelism" || type == "training") {
    schema = job_schema()["properties"][std::string(type)];
    if (schema.contains("anyOf")) schema = schema["anyOf"][0];
    schema.erase("required");
  } else if (type.ends_with("errors")) {
    schema = schema_of_keys(error_keys);
    if (type != "errors") {  // by another word than the file
      const std::string by(type.substr(0, type.find(' ')));
      schema["properties"].erase("source");
      schema["properties"][by] = {{"type", "string"}};
      for (json& key : schema["required"])
        if (key == "source") key = by;
    }
  } else {
    const bool nullable = type.ends_with(" or null");
    const std::string word(type.substr(0, type.size() - (nullable ? 8 : 0)));
    if (word == "object") schema = object_type();
    if (word == "array") schema["items"] = json::object();
    schema["type"] = nullable ? json{word, "null"} : json(word);
  }
  if (!meaning.empty()) schema["description"] = meaning;
  return schema;
}

// A point before a digit is one of the name.
std::size_t end_of_name(std::string_view path) {
  std::size_t end = path.find('.');
  while (end < path.size() && end + 1 < path.size() && path[end + 1] >= '0' && path[end + 1] <= '9')
    end = path.find('.', end + 1);
  return std::min(end, path.size());
}

// The place of `path` in `schema`; what leads to it is made on the way.
json& place_of(json& schema, std::string_view path) {
  json* at = &schema;
  while (!path.empty()) {
    const std::size_t end = end_of_name(path);
    std::string key(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
    const bool optional = key.ends_with('?');
    if (optional) key.pop_back();
    const bool list = key.ends_with("[]");
    if (list) key.resize(key.size() - 2);
    if (!at->contains("type")) at->update(object_type());
    if (key == "*") {
      json& any = (*at)["additionalProperties"];
      if (!any.is_object()) any = json::object();
      at = &any;
      continue;
    }
    const bool is_new = !(*at)["properties"].contains(key);
    json& child = (*at)["properties"][key];
    if (is_new && !optional) (*at)["required"].push_back(key);
    at = &child;
    if (!list) continue;
    if (!at->contains("type")) *at = {{"type", "array"}};
    at = &(*at)["items"];
    if (at->is_null()) *at = json::object();
  }
  return *at;
}

json schema_of_keys(std::span<const AnswerKey> keys) {
  json schema = object_type();
  for (const AnswerKey& key : keys)
    place_of(schema, key.path) = schema_of_type(key.type, key.meaning);
  return schema;
}

}  // namespace

std::span<const AnswerTable> answer_tables() { return tables; }

std::span<const AnswerKey> keys_of_errors() { return error_keys; }

json answer_schema(const AnswerTable& table) {
  json schema = schema_of_keys(table.keys);
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "What meshwright " + std::string(table.command) + " --json prints";
  return schema;
}

}  // namespace meshwright
