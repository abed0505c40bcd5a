#include "sim/validate/evidence.h"

#include <filesystem>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"
#include "sim/validate/framework_of_source.h"

namespace meshwright::sim {

namespace {

double positive(Fields& fields, std::string_view key) {
  const double value = fields.required<double>(key);
  if (!(value > 0)) fields.fail(key, "must be above 0");
  return value;
}

int at_least_one(Fields& fields, std::string_view key) {
  const int value = fields.required<int>(key);
  if (value < 1) fields.fail(key, "must be 1 or more");
  return value;
}

// The values of NCCL_ALGO (github NVIDIA/nccl src/init.cc), in lower case.
const std::vector<std::string> nccl_algorithms = {
    "ring", "tree", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};

std::string read_algorithm(Fields& fields) {
  if (!fields.has("algorithm")) return "";
  const auto name = fields.required<std::string>("algorithm");
  return nccl_algorithms[choose(fields, "algorithm", "algorithm of NCCL", name, nccl_algorithms)];
}

CollectiveKind read_kind(Fields& fields) {
  const std::vector<std::pair<std::string, CollectiveKind>> kinds = {
      {"all_reduce", CollectiveKind::all_reduce},
      {"all_gather", CollectiveKind::all_gather},
      {"reduce_scatter", CollectiveKind::reduce_scatter},
      {"all_to_all", CollectiveKind::all_to_all},
      {"broadcast", CollectiveKind::broadcast}};
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds) names.push_back(name);
  return kinds[choose(fields, "collective", "collective",
                      fields.required<std::string>("collective"), names)]
      .second;
}

// Reads how a row was measured. For keys that the row leaves out, the values of its file in
// `harness` stay.
Harness read_harness(Fields& fields, Harness harness) {
  if (fields.has("harness"))
    harness.kind = static_cast<HarnessKind>(choose(
        fields, "harness", "harness", fields.required<std::string>("harness"), harness_names()));
  if (fields.has("year")) harness.year = at_least_one(fields, "year");
  return harness;
}

// Marks keys that are for human readers only as read.
void allow_remarks(Fields& fields) {
  for (const char* key : {"notes", "assumed"}) fields.has(key);
}

const std::vector<std::string> peak_memory_words = {"device", "allocator", "compiler"};

std::vector<std::string> assumed_in(Fields& fields) {
  if (!fields.has("assumed")) return {};
  return fields.required<std::vector<std::string>>("assumed");
}

StepRow read_step(Fields fields) {
  StepRow row;
  row.id = fields.required<std::string>("id");
  row.job = fields.raw("job").dump();
  Fields measured = fields.object("measured");
  row.step_time_s = positive(measured, "step_time_s");
  if (measured.has("peak_memory_bytes"))
    row.peak_memory_bytes = positive(measured, "peak_memory_bytes");
  if (measured.has("peak_memory_of"))
    row.peak_memory_of = static_cast<PeakMemoryOf>(
        choose(measured, "peak_memory_of", "reading of memory",
               measured.required<std::string>("peak_memory_of"), peak_memory_words));
  for (const char* key : {"step_time_derived_from", "n", "step_time_range_s"}) measured.has(key);
  measured.done();
  row.assumed = assumed_in(fields);
  allow_remarks(fields);
  fields.done();
  return row;
}

CollectiveRow read_collective(Fields fields, Harness of_file) {
  CollectiveRow row;
  row.id = fields.required<std::string>("id");
  row.kind = read_kind(fields);
  row.machine = fields.required<std::string>("machine");
  row.count = at_least_one(fields, "count");
  row.gpus = at_least_one(fields, "gpus");
  if (row.gpus % row.count != 0) fields.fail("gpus", "is not a multiple of count");
  row.bytes = positive(fields, "bytes");
  row.time_s = positive(fields, "time_s");
  row.algorithm = read_algorithm(fields);
  row.harness = read_harness(fields, of_file);
  for (const char* key : {"bus_bandwidth_bytes_per_s", "nccl"}) fields.has(key);
  allow_remarks(fields);
  fields.done();
  return row;
}

LargestBatchRow read_largest_batch(Fields fields) {
  LargestBatchRow row;
  row.id = fields.required<std::string>("id");
  row.model = fields.required<std::string>("model");
  row.machine = fields.required<std::string>("machine");
  row.sequence_length = at_least_one(fields, "sequence_length");
  row.precision = fields.required<std::string>("precision");
  row.framework = fields.optional<std::string>("framework", "");
  row.dataset = fields.optional<std::string>("dataset", "");
  row.native = at_least_one(fields, "max_batch_native");
  row.compiled = at_least_one(fields, "max_batch_compiled");
  allow_remarks(fields);
  fields.done();
  return row;
}

void read_row(Fields row, Harness of_file, Evidence& evidence) {
  if (row.has("job"))
    evidence.steps.push_back(read_step(std::move(row)));
  else if (row.has("collective"))
    evidence.collectives.push_back(read_collective(std::move(row), of_file));
  else if (row.has("max_batch_native"))
    evidence.largest_batches.push_back(read_largest_batch(std::move(row)));
  else
    row.fail("job", "missing; a row has a 'job', a 'collective' or a 'max_batch_native'");
}

// Reads which framework ran the steps of a file. If the file does not say it, the repository that
// its source names decides.
Framework read_framework(Fields& source, const Evidence& evidence) {
  if (!source.has("framework")) return framework_of_source(evidence.where);
  const auto word = source.required<std::string>("framework");
  return static_cast<Framework>(choose(source, "framework", "framework", word, framework_words()));
}

// Throws InputError, with an example of the right form, if a file is a log of nccl-tests or of a
// training program.
void refuse_logs(const std::string& path, const std::string& text) {
  const auto holds = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  if (text.starts_with('{') || text.starts_with('[')) return;
  const char* row = nullptr;
  const char* program = nullptr;
  if (holds("busbw") || holds("nThread")) {
    program = "nccl-tests";
    row =
        "{\"id\": \"all-reduce-8m\", \"collective\": \"all_reduce\", \"machine\": "
        "\"p4d.24xlarge\", \"count\": 1, \"gpus\": 8, \"bytes\": 8388608, \"time_s\": 174.2e-6}";
  } else if (holds("elapsed time per iteration") || holds("tps:") || holds("train_runtime")) {
    program = "a training";
    row = "{\"id\": \"mine\", \"job\": {...}, \"measured\": {\"step_time_s\": 1.5}}";
  }
  if (program != nullptr)
    throw InputError(path + ": logs of " + program +
                     " are not read; write a file of JSON with a row for each measurement: "
                     "{\"source\": {\"title\": \"mine\"}, \"rows\": [" +
                     row + "]}");
}

}  // namespace

Evidence read_evidence(const std::string& path) {
  const std::string text = read_file(path);
  refuse_logs(path, text);
  Fields file(parse_json(text, path), path);
  Evidence evidence;
  evidence.source = std::filesystem::path(path).stem().string();
  Fields source = file.object("source");
  evidence.title = source.required<std::string>("title");
  evidence.where = source.optional<std::string>("where", "");
  evidence.measured_by = source.optional<std::string>("measured_by", "");
  evidence.framework = read_framework(source, evidence);
  if (source.has("independent_rows"))
    evidence.independent_rows = at_least_one(source, "independent_rows");
  const Harness harness = read_harness(source, {});
  for (const char* key : {"flops_convention", "caveats"}) source.has(key);
  source.done();
  for (Fields& row : file.objects("rows")) read_row(std::move(row), harness, evidence);
  for (StepRow& row : evidence.steps) {
    row.framework = evidence.framework;
    row.states = states_of_source(evidence.where);
  }
  file.done();
  return evidence;
}

}  // namespace meshwright::sim
