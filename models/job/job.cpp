#include "models/job/job.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "models/architectures/captured/captured_model.h"
#include "models/architectures/hub_names.h"
#include "models/architectures/usual_shape.h"
#include "models/compiler/partition/partition.h"
#include "models/compiler/passes/pass.h"
#include "models/compiler/plan/context_rules.h"
#include "models/compiler/plan/expert_tensor.h"
#include "models/core/divisors.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/core/other_words.h"
#include "models/core/quote.h"
#include "models/core/utf8.h"
#include "models/job/distribution.h"
#include "models/job/job_overrides.h"
#include "models/job/sections.h"
#include "models/job/written_numbers.h"

namespace meshwright::job {

namespace {

constexpr std::array<const char*, 15> job_keys = {
    "name",           "model",       "training",     "cluster",         "instance_type",
    "instance_count", "parallelism", "distribution", "compiler_config", "objective",
    "faults",         "failures",    "data",         "checkpoint",      "log"};

std::string words_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Returns the section `model`, which gives a family and a number of parameters, with the usual
// sizes for them. Adds a note about these sizes to the job.
Fields with_noted_shape(const Fields& model, Job& job) {
  json sized = with_usual_shape(model);
  job.notes.push_back(fmt::format("a {} of {} parameters has a usual shape: {}",
                                  sized.value("family", ""), words_of(model.raw().at("parameters")),
                                  shape_text(sized)));
  return {std::move(sized), model.where(), model.pointer()};
}

void read_model_section(Fields& fields, Job& job) {
  job.model_json = fields.raw("model").dump();
  if (fields.is_string("model"))
    if (const auto words = model_of_words(fields.required<std::string>("model"))) {
      job.model_json = words->dump();
      job.model = read_model(with_noted_shape(Fields(*words, fields.where(), "/model"), job));
      return;
    }
  if (fields.is_object("model")) {
    Fields model = fields.object("model");
    if (model.raw().contains("parameters") && model.raw().contains("family"))
      model = with_noted_shape(model, job);
    const bool is_config = model.raw().contains("model_type");  // a config.json's content
    job.model = model.raw().contains("captured") ? read_captured(std::move(model))
                : is_config                      ? read_huggingface(std::move(model))
                                                 : read_model(std::move(model));
  } else {
    const std::string ref = fields.required<std::string>("model");
    // A name on the Hub looks like a path. If a file has this path, it is meant.
    const std::string path = resolve(job, ref);
    const bool is_named =
        is_zoo_name(ref) || (!zoo_name_of(ref).empty() && !std::filesystem::exists(path));
    if (!is_named) job.model_path = path;
    if (is_named)
      if (std::string note = note_on_name(ref); !note.empty()) job.notes.push_back(std::move(note));
    try {
      job.model = load_model(ref, job.folder == "." ? "" : job.folder);
    } catch (const InputError& error) {
      fields.fail("model", error.what());
    }
  }
}

// Sets how many positions of a sequence a masked model predicts: 15 %, as in BERT, unless the job
// sets the number. Throws InputError if a job whose model has another head sets it.
void settle_predicted_positions(Job& job) {
  Training& training = job.plan.training;
  if (job.model.head == Head::mlm) {
    if (training.predicted_positions == 0)
      training.predicted_positions =
          std::max(1, static_cast<int>(std::lround(0.15 * training.sequence_length)));
  } else if (training.predicted_positions > 0) {
    throw InputError(
        in_file(job.file, broken("/training/predicted_positions",
                                 "only a model with head 'mlm' has them; leave it out")));
  }
}

// Returns the section `training`. If a job with a captured model does not give sequence_length, it
// is set to the length of the model's samples.
Fields training_of(Fields& fields, const Job& job) {
  Fields training = fields.object("training");
  if (!job.model.captured || training.has("sequence_length")) return training;
  json whole = training.raw();
  whole["sequence_length"] = std::max(1, job.model.sizes().tokens_per_sample);
  return {std::move(whole), training.where(), training.pointer()};
}

// Sets the precision and the micro-batch to those of a captured model, if the job leaves them open.
// In precision fp64, types of sums and moments that are fp32 become fp64 too. Throws InputError if
// the job sets dropout, because the model has its own.
void settle_captured(Job& job) {
  if (!job.model.captured) return;
  const ModelSizes sizes = job.model.sizes();
  Training& training = job.plan.training;
  if (job.autos.erase("training.precision") > 0) training.precision = sizes.precision;
  if (sizes.micro_batch > 0 && job.autos.erase("training.micro_batch") > 0)
    training.micro_batch = sizes.micro_batch;
  if (training.precision == Precision::fp64)
    for (Dtype* const type : {&training.gradient_reduce, &training.moments})
      if (*type == Dtype::f32) *type = Dtype::f64;  // in full, which is the default
  if (training.dropout > 0)
    throw InputError(in_file(
        job.file, broken("/training/dropout",
                         "a captured model has the dropout of its own code; leave the key out")));
}

// Throws InputError if the job sets dropout for a model from an ONNX file, because an exported
// graph does not show where dropout is.
void check_imported(const Job& job) {
  if (job.model.imported && job.plan.training.dropout > 0)
    throw InputError(in_file(
        job.file, broken("/training/dropout",
                         "a model from an ONNX file has none, for exporters leave it out; placing "
                         "it is not supported yet, set it to 0")));
}

Precision default_precision(const MachineFacts& machine) {
  if (machine.is_cpu) return Precision::fp32;
  return machine.has_bf16 ? Precision::bf16 : Precision::fp16;
}

}  // namespace

// An eager framework stores the score matrix in memory (unfused), unless ranks share sequences. On
// a GPU, 32-bit inputs also get the unfused kernel, because fused ones need 16-bit inputs. A model
// with attention sinks always gets a fused kernel. Among the fused kernels, flash2 needs a GPU with
// bf16 or a CPU, and frameworks choose cuDNN's for 16-bit inputs on GPUs that have it.
AttentionKernel default_attention(const MachineFacts& machine, const Plan& plan,
                                  const Model& model) {
  const Precision precision = plan.training.precision;
  const bool has_scores = !model.attention_sinks;
  if (has_scores && plan.training.compiler == CompilerLevel::none && plan.parallelism.context == 1)
    return AttentionKernel::unfused;
  if (machine.is_cpu) return AttentionKernel::flash2;
  const bool in_32_bits = precision == Precision::fp32 || precision == Precision::tf32;
  if (has_scores && in_32_bits) return AttentionKernel::unfused;
  if (machine.has_cudnn_attention && !in_32_bits) return AttentionKernel::cudnn;
  return machine.has_bf16 ? AttentionKernel::flash2 : AttentionKernel::flash;
}

namespace {

void check_precision(Precision precision, const MachineFacts& machine) {
  if (machine.is_cpu && precision == Precision::tf32)
    throw InputError(broken(
        "/training/precision",
        "{} is an arithmetic of GPU tensor cores, the machine is a CPU; use fp32, fp16, bf16, fp8 "
        "or nvfp4",
        name_of(precision)));
  if (machine.is_cpu) return;
  if (precision == Precision::fp64)
    throw InputError(broken("/training/precision",
                            "fp64 is planned and trained on CPUs only; cast the model to fp32 or "
                            "bf16, or use a CPU"));
  const bool there = precision == Precision::bf16    ? machine.has_bf16
                     : precision == Precision::tf32  ? machine.has_tf32
                     : precision == Precision::fp8   ? machine.has_fp8
                     : precision == Precision::nvfp4 ? machine.has_fp4
                                                     : true;
  if (there) return;
  std::vector<std::string> words = {"fp32", "fp16"};
  if (machine.has_tf32) words.push_back("tf32");
  if (machine.has_bf16) words.push_back("bf16");
  if (machine.has_fp8) words.push_back("fp8");
  throw InputError(broken("/training/precision", "the machine's GPUs have no {}; use {}",
                          name_of(precision), list_of(words)));
}

void check_attention(AttentionKernel kernel, const MachineFacts& machine) {
  const bool there = kernel == AttentionKernel::flash3  ? machine.has_flash3
                     : kernel == AttentionKernel::cudnn ? machine.has_cudnn_attention
                                                        : true;
  if (there) return;
  std::vector<std::string> words = {"unfused", "flash", "flash2"};
  if (machine.has_flash3) words.push_back("flash3");
  if (machine.has_cudnn_attention) words.push_back("cudnn");
  throw InputError(broken("/training/attention", "the machine has no kernel {}; use {}",
                          attention_names()[static_cast<std::size_t>(kernel)], list_of(words)));
}

// Checks that the product of the degrees is the number of ranks. With `data_from_rest`, first sets
// `data` to the ranks divided by the other degrees.
void settle_degrees(Plan& plan, int ranks, bool data_from_rest) {
  Parallelism& p = plan.parallelism;
  const double model = static_cast<double>(p.pipeline) * p.tensor * p.context;
  const bool fits = model <= ranks && std::fmod(ranks, model) == 0;
  const std::string rest = fits ? fmt::format("data {}", std::lround(ranks / model))
                                : "degrees whose product divides the ranks";
  if (data_from_rest) {
    if (!fits)
      throw InputError(broken("/parallelism",
                              "pipeline {} x tensor {} x context {} = {} does not divide the "
                              "cluster's {} ranks; use {}",
                              p.pipeline, p.tensor, p.context, model, ranks, rest));
    p.data = static_cast<int>(std::lround(ranks / model));
  } else if (model * p.data != ranks) {
    throw InputError(
        broken("/parallelism",
               "pipeline {} x tensor {} x context {} x data {} = {}, but the cluster has {} "
               "ranks; use {}",
               p.pipeline, p.tensor, p.context, p.data, model * p.data, ranks, rest));
  }
}

// Sets `context_heads` to its default if the exchange of contexts needs it and the job does not
// give it.
void settle_context_heads(Plan& plan, const Model& model, int ranks_per_host) {
  Parallelism& p = plan.parallelism;
  if (p.has_two_exchanges() && p.context_heads == 0)
    p.context_heads = default_context_heads(p, model.sizes(), ranks_per_host);
}

// Sets `expert_tensor` to its default if the job does not give it.
void settle_expert_tensor(Parallelism& parallelism, const ModelSizes& sizes) {
  if (parallelism.expert_tensor == 0)
    parallelism.expert_tensor = default_expert_tensor(parallelism, sizes);
}

int ranks_per_host(const Job& job, const MachineFacts& machine) {
  return job.cluster.processes_per_host > 0 ? job.cluster.processes_per_host : machine.gpus;
}

// Checks that a partition that the job gives by hand, or an even one, can be made: the modules to
// which it gives stages are the model's, and the stages are valid.
void check_partition(const Plan& plan, const Model& model) {
  const Partitioner partitioner = plan.parallelism.partitioner;
  if (partitioner != Partitioner::manual && partitioner != Partitioner::even) return;
  const Graph graph = build_graph(model, plan.training);
  const std::vector<double> alike(graph.units.size(), 1);
  partition(graph, plan, alike, alike);
}

// Verifies the plan. If the micro-batch is open, sets the smallest divisor of the global batch that
// every rule allows. If there is none, throws the error about a micro-batch of one sequence.
void verify_micro_batch(Plan& plan, const Job& job) {
  if (!job.is_auto("training.micro_batch")) return verify(plan, job.model.sizes());
  Ruling about_one;
  for (const int micro_batch : divisors(plan.training.global_batch)) {
    plan.training.micro_batch = micro_batch;
    const Ruling ruling = broken_rule(plan, job.model.sizes());
    if (!ruling) return;
    if (!about_one) about_one = ruling;
  }
  throw InputError(*about_one);
}

Plan settle_plan(const Job& job, int ranks, const MachineFacts& machine) {
  Plan plan = job.plan;
  Training& training = plan.training;
  if (job.is_auto("training.precision")) {
    training.precision = default_precision(machine);
    if (training.master_weights == MasterWeights::none && is_16_bit(training.gradient_reduce) &&
        is_16_bit(storage_of(training.precision)))
      training.gradient_reduce = storage_of(training.precision);
  }
  if (job.is_auto("training.attention"))
    training.attention = default_attention(machine, plan, job.model);
  check_precision(training.precision, machine);
  check_attention(training.attention, machine);
  settle_degrees(plan, ranks, job.is_auto("parallelism.data"));
  settle_context_heads(plan, job.model, ranks_per_host(job, machine));
  settle_expert_tensor(plan.parallelism, job.model.sizes());
  verify_micro_batch(plan, job);
  check_passes_off(plan.training);
  check_partition(plan, job.model);
  return plan;
}

bool has_open_degrees(const Job& job) {
  for (const std::string& key : job.autos)
    if (key.starts_with("parallelism.") && key != "parallelism.data") return true;
  return false;
}

// Checks the rules of a job whose degrees or cluster are open, as far as they do not depend on
// these.
void check_open_job(const Job& job) {
  Plan plan = job.plan;
  Parallelism& p = plan.parallelism;
  p.pipeline = p.data = p.shard = p.expert = p.virtual_stages = 1;
  p.schedule = ScheduleKind::one_f_one_b;
  p.active_microbatches = 0;
  p.partitioner = Partitioner::chain;
  p.manual_stage.clear();
  const bool needs_16_bits =
      plan.training.loss_scale || plan.training.memory_of != MemoryOf::engine;
  if (job.is_auto("training.precision") && needs_16_bits) plan.training.precision = Precision::fp16;
  // Sets open keys to values that break the fewest rules. An open micro-batch becomes the whole
  // global batch, because if a tensor group can divide any micro-batch, it can divide that one. The
  // open degrees decide the number of micro-batches, so it is one here, which breaks no rule.
  Training& training = plan.training;
  if (job.is_auto("training.micro_batch"))
    training.micro_batch = static_cast<int>(training.global_batch);
  if (training.global_batch % training.micro_batch == 0)
    training.global_batch = training.micro_batch;
  if (p.shard_whole && job.is_auto("parallelism.zero_stage")) p.zero_stage = 1;
  if (p.context > 1 && job.is_auto("parallelism.context_exchange"))
    p.context_exchange = job.model.sizes().latent || training.attention == AttentionKernel::unfused
                             ? ContextExchange::all_to_all
                             : ContextExchange::p2p;
  if (job.is_auto("parallelism.tensor")) p.expert_tensor = std::min(p.expert_tensor, 1);
  settle_context_heads(plan, job.model, 1);
  verify(plan, job.model.sizes());
  check_passes_off(plan.training);
}

// Sets how many processes a CPU host starts if the job does not: the number that the given degrees
// need, where open ones count as 1, or 1 if the degrees do not fit the hosts.
void settle_processes(Job& job, const ChosenCluster& cluster) {
  if (!cluster.facts.is_cpu || cluster.hosts == 0 || job.cluster.processes_per_host > 0) return;
  job.cluster.processes_per_host = 1;
  const Parallelism& p = job.plan.parallelism;
  const double product = static_cast<double>(p.pipeline) * p.tensor * p.context * p.data;
  if (product >= 1 && product <= 1e6 && std::fmod(product, cluster.hosts) == 0)
    job.cluster.processes_per_host = static_cast<int>(product) / cluster.hosts;
}

// Warns if a CPU host has more processes than cores. MachineFacts::gpus of a CPU computer is the
// number of its cores, or 0 if that is not known.
void warn_oversubscribed(Job& job, const ChosenCluster& cluster) {
  const int processes = job.cluster.processes_per_host;
  if (cluster.hosts > 0 && cluster.facts.is_cpu && cluster.facts.gpus > 0 &&
      processes > cluster.facts.gpus)
    job.warnings.push_back(fmt::format("{}: {} processes share {} cores of {}", job.file, processes,
                                       cluster.facts.gpus, cluster.machine));
}

// If memory is predicted as a framework's, excludes from the search the keys for which that
// framework's memory is not known. Open attention then becomes unfused.
void leave_out_unknown_memory(Job& job) {
  if (job.plan.training.memory_of == MemoryOf::engine) return;
  std::erase_if(job.autos, [](const std::string& key) {
    return (key.starts_with("parallelism.") && key != "parallelism.data") ||
           key.starts_with("training.recompute");
  });
  if (job.autos.erase("training.attention") > 0)
    job.plan.training.attention = AttentionKernel::unfused;
}

// Returns the name of a job: its key `name`, or the file's name. A file may have any name, but a
// job's name is one line of text.
std::string name_of_job(Fields& fields, const std::string& file) {
  if (fields.has("name")) {
    const auto name = fields.required<std::string>("name");
    if (!is_one_line(name)) fields.fail("name", "holds a control character; use one line of text");
    return name;
  }
  const std::string name = as_utf8(std::filesystem::path(file).stem().string());
  return is_one_line(name) ? name : plain_name(name);
}

void read_small_sections(Fields& fields, Job& job) {
  if (fields.has("objective")) read_objective(fields.object("objective"), job);
  if (fields.has("faults")) read_faults(fields.object("faults"), job);
  if (fields.has("failures")) read_failures(fields.object("failures"), job);
  if (fields.has("data")) read_data(fields.object("data"), job);
  if (fields.has("checkpoint")) read_checkpoint(fields.object("checkpoint"), job);
  if (fields.has("log")) read_log(fields.object("log"), job);
}

// Reads how the job is parallelized, from meshwright's `parallelism` or from SageMaker's
// `distribution`.
void read_cut(Fields& fields, const ChosenCluster& cluster, Job& job) {
  if (!fields.has("distribution")) {
    read_parallelism(fields.has("parallelism") ? fields.object("parallelism")
                                               : Fields(json::object(), job.file, "/parallelism"),
                     job);
    return;
  }
  if (fields.has("parallelism"))
    fields.fail("distribution", "given beside 'parallelism'; keep one of them");
  const std::vector<std::string> keys = fields.object("training").keys();
  read_distribution(fields.object("distribution"), cluster, {keys.begin(), keys.end()}, job);
  job.left_out.clear();
}

bool is_version_2(Fields& fields) {
  return fields.has("distribution") && fields.object("distribution").has("torch_distributed");
}

std::string processes_pointer(Fields& fields) {
  if (fields.has("distribution")) {
    Fields distribution = fields.object("distribution");
    if (distribution.has("mpi") && distribution.object("mpi").has("processes_per_host"))
      return "/distribution/mpi/processes_per_host";
  }
  return "/cluster/processes_per_host";
}

void check_job(Fields& fields, const ChosenCluster& cluster, const MachineLookup& lookup,
               Job& job) {
  settle_processes(job, cluster);
  check_processes(job, processes_pointer(fields), lookup);
  warn_oversubscribed(job, cluster);
  if (fields.has("faults")) check_faults(fields.object("faults"), cluster, job);
  try {
    if (cluster.hosts == 0 || has_open_degrees(job)) {
      check_open_job(job);
    } else {
      const int processes = job.cluster.processes_per_host;
      settle_plan(job, cluster.hosts * (processes > 0 ? processes : cluster.facts.gpus),
                  cluster.facts);
    }
  } catch (const InputError& error) {
    Violation violation = in_file(job.file, error.violation());
    if (fields.has("distribution"))
      violation.key = key_in_distribution(violation.key, is_version_2(fields));
    throw InputError(violation);
  }
}

}  // namespace

Job read_job(const std::string& path, const std::vector<std::string>& overrides,
             const MachineLookup& lookup) {
  return read_job_text(read_file(path), path, overrides, lookup);
}

Job read_job_text(const std::string& text, const std::string& file,
                  const std::vector<std::string>& overrides, const MachineLookup& lookup,
                  LeftOut left_out) {
  json value = parse_json(text, file);
  if (!value.is_object()) Fields(value, file);  // throws an error that says so
  for (const std::string& each : overrides) apply_override(value, each, file);
  if (left_out == LeftOut::is_open) open_left_out(value);
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return read_job(value, file, folder.empty() ? "." : folder, lookup);
}

namespace {

// Returns the degrees that words such as "tp=4,pp=2" or "TP8 PP4" give, as the text of a JSON
// object for `parallelism`. Returns "" if the words give none.
std::string degrees_in(const std::string& words) {
  json degrees = json::object();
  for (std::size_t i = 0; i < words.size();) {
    const auto is = [&](int (*kind)(int)) {
      return i < words.size() && kind(static_cast<unsigned char>(words[i])) != 0;
    };
    std::string name, number;
    while (is(std::isalpha) || (i < words.size() && words[i] == '_')) name += words[i++];
    if (name.empty() && ++i) continue;
    while (i < words.size() && std::string_view(" =:").find(words[i]) != std::string_view::npos)
      ++i;
    while (is(std::isdigit)) number += words[i++];
    for (const std::string& key : job_keys_for(name))
      if (key.starts_with("parallelism.") && !number.empty() && number.size() < 7)
        degrees[key.substr(key.find('.') + 1)] = std::stoi(number);
  }
  return degrees.empty() ? "" : degrees.dump();
}

// Throws InputError if `parallelism` or `cluster` is a string. The message shows the object that is
// probably meant.
void check_sections(const json& job, const std::string& file) {
  const auto refuse = [&](const char* section, const std::string& instead) {
    throw InputError(fmt::format("{}: /{}: expected an object, found {}; write {}", file, section,
                                 job[section].dump(), instead));
  };
  if (job.contains("parallelism") && job["parallelism"].is_string()) {
    const std::string degrees = degrees_in(job["parallelism"].get<std::string>());
    refuse("parallelism", degrees.empty() ? R"("auto", or degrees such as {"tensor":8})" : degrees);
  }
  if (job.contains("cluster") && job["cluster"].is_string())
    refuse("cluster", json{{"machine", job["cluster"]}}.dump());
}

Job read_whole_job(const json& value, const std::string& file, const std::string& folder,
                   const MachineLookup& lookup) {
  json spelled = value;
  Job job;
  if (spelled.is_object()) {
    spelled.erase("$schema");  // only editors use it
    spell_out_auto(spelled);
    check_sections(spelled, file);
    job.notes = read_written_numbers(spelled, file);
  }
  Fields fields(std::move(spelled), file);
  for (const char* key : job_keys) fields.has(key);
  fields.done();
  job.file = file;
  job.folder = folder;
  job.name = name_of_job(fields, file);
  read_model_section(fields, job);
  read_training(training_of(fields, job), job);
  settle_captured(job);
  settle_predicted_positions(job);
  check_imported(job);
  const ChosenCluster cluster = read_cluster(fields, job, lookup);
  if (fields.has("compiler_config")) read_compiler_config(fields, cluster, job);
  read_cut(fields, cluster, job);
  leave_out_unknown_memory(job);
  read_small_sections(fields, job);
  check_job(fields, cluster, lookup, job);
  return job;
}

// Returns the choices of `wrong` with which the whole job is valid. If there are none, because
// another key is wrong too, returns the choices with which the first error is about another key. If
// there are none of these either, returns all choices.
std::vector<std::int64_t> choices_within_all_rules(const Violation& wrong, const json& value,
                                                   const std::string& file,
                                                   const std::string& folder,
                                                   const MachineLookup& lookup) {
  if (wrong.file != file) return wrong.choices;
  const json::json_pointer key(wrong.key);
  if (!value.contains(key)) return wrong.choices;
  // If version 1's old name is given in addition to the new one, both must have the same value.
  const json::json_pointer old_name = key.parent_pointer() / "partitions";
  const bool has_both = key.back() == "pipeline_parallel_degree" && value.contains(old_name);
  std::vector<std::int64_t> right, elsewhere;
  for (const std::int64_t choice : wrong.choices) {
    json changed = value;
    changed[key] = choice;
    if (has_both) changed[old_name] = choice;
    try {
      read_whole_job(changed, file, folder, lookup);
      right.push_back(choice);
    } catch (const InputError& other) {
      const Violation& found = other.violation();
      if (found.file != file || found.key != wrong.key) elsewhere.push_back(choice);
    }
  }
  if (!right.empty()) return right;
  return elsewhere.empty() ? wrong.choices : elsewhere;
}

}  // namespace

Job read_job(const json& value, const std::string& file, const std::string& folder,
             const MachineLookup& lookup) {
  try {
    return read_whole_job(value, file, folder, lookup);
  } catch (const InputError& error) {
    if (error.violation().choices.empty()) throw;
    Violation violation = error.violation();
    violation.choices = choices_within_all_rules(violation, value, file, folder, lookup);
    throw InputError(violation);
  }
}

Plan settle(const Job& job, int ranks, const MachineFacts& machine) {
  try {
    return settle_plan(job, ranks, machine);
  } catch (const InputError& error) {
    throw InputError(in_file(job.file, error.violation()));
  }
}

}  // namespace meshwright::job
