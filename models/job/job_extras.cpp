// Reads the small sections of the job file: compiler_config, objective, data, checkpoint and log.
// Also holds what all readers of sections share.
#include <fmt/format.h>
#include <algorithm>
#include <filesystem>

#include "models/core/enum_words.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/job/keys.h"
#include "models/job/sections.h"

namespace meshwright::job {

// Throws InputError if the path contains a null character, because the system would end the path
// there.
std::string resolve(const Job& job, const std::string& path) {
  if (path.find('\0') != std::string::npos)
    throw InputError(job.file + ": the path '" + path +
                     "' contains a null character, which no path can have; leave it out");
  return (std::filesystem::path(job.folder) / path).lexically_normal().string();
}

std::string from_folder(const std::string& folder, const std::string& path) {
  const auto absolute = [](const std::string& each) {
    return std::filesystem::absolute(each).lexically_normal();
  };
  return absolute(path).lexically_proximate(absolute(folder)).string();
}

void warn(Job& job, const Fields& fields, std::string_view key, const std::string& text) {
  job.warnings.push_back(fmt::format("{}: {}/{}: {}", fields.where(), fields.pointer(), key, text));
}

void warn_about_offload(const Fields& fields, std::string_view key, Job& job) {
  const Training& training = job.plan.training;
  if (training.recompute == Recompute::none && training.recompute_modules.empty() &&
      !job.is_auto("training.recompute"))
    warn(job, fields, key, "no effect without activation checkpointing (training.recompute)");
}

bool take_auto(Fields& fields, std::string_view key, const std::string& section, Job& job) {
  if (!fields.is_string(key) || fields.required<std::string>(key) != "auto") return false;
  job.autos.insert(section + "." + std::string(key));
  return true;
}

void read_compiler_config(Fields& job_fields, const ChosenCluster& cluster, Job& job) {
  Fields fields = job_fields.object("compiler_config");
  const bool enabled = fields.optional<bool>("enabled", true);
  const bool debug = fields.optional<bool>("debug", false);
  fields.done();
  if (!enabled) return;
  if (job_fields.has("distribution") && job_fields.object("distribution").has("smdistributed"))
    job_fields.fail("compiler_config",
                    "does not go with distribution.smdistributed; use \"training\": "
                    "{\"compiler\": \"full\"} and \"parallelism\"");
  if (job_fields.object("training").has("compiler"))
    job_fields.fail("compiler_config", "given beside training.compiler; keep one of them");
  const std::vector<std::string> classes = {"p3", "p3dn", "g4dn", "p4d", "g5"};
  const std::string machine_class = cluster.machine.substr(0, cluster.machine.find('.'));
  // The rule only applies to the instance that a job is written for. The same job may be simulated
  // or trained on this computer.
  if (cluster.hosts > 0 && cluster.machine != "local" &&
      std::ranges::find(classes, machine_class) == classes.end())
    job_fields.fail("compiler_config",
                    fmt::format("SageMaker Training Compiler does not know '{}', only {}; use "
                                "\"training\": {{\"compiler\": \"full\"}}",
                                cluster.machine, list_of(classes, "and")));
  const bool distributed = job_fields.has("distribution");
  if (distributed && !job_fields.object("distribution").has("pytorchxla"))
    warn(job, job_fields, "distribution",
         "the compiler's later versions on SageMaker take 'pytorchxla' only; here any goes");
  if (!distributed && cluster.hosts > 1)
    warn(job, job_fields, "compiler_config",
         "on SageMaker several instances need \"distribution\": {\"pytorchxla\": {\"enabled\": "
         "true}}; not needed here");
  job.plan.training.compiler = CompilerLevel::full;
  job.compiler_debug = debug;
  if (debug) warn(job, fields, "debug", "the graph after each pass is written, which takes longer");
}

const std::vector<std::string>& minimize_names() {
  static const std::vector<std::string> names =
      words_up_to<Minimize::gpus>({"step_time", "usd", "usd_per_token", "tokens", "gpus"});
  return names;
}

Keys objective_keys(Objective& objective) {
  using enum How;
  constexpr Range positive = by_reader(above_zero);
  return {
      {"minimize", choice("objective", minimize_names(), objective.minimize), any, plain, "",
       "what the best plan has least of. `tokens`: the plan that trains on the most tokens "
       "within `budget_usd` or `deadline_s`; the table shows how many"},
      {"tokens", &objective.tokens, positive, plain, "training.steps",
       "number of tokens of the whole job"},
      {"deadline_s", &objective.deadline_s, positive, plain, "",
       "plans that take longer are rejected; the fastest is still the best one, unless `minimize` "
       "says otherwise (`--by` looks for the cheapest)"},
      {"budget_usd", &objective.budget_usd, positive, plain, "",
       "plans that cost more are rejected"},
      {"price", choice("kind of price", price_kind_names(), objective.price.kind), any, plain, "",
       "the price of hosts, see `docs/prices.md`; whole runs at `capacity_block` are rounded up "
       "to blocks"},
      {"region", &objective.price.region, any, if_set, "the first with a price",
       "where hosts are paid, such as `us-east-1`"}};
}

void read_objective(Fields fields, Job& job) {
  const Objective& objective = job.objective;
  if (fields.has("spot")) fields.fail("spot", "is \"price\": \"spot\" now");
  if (fields.has("framework")) fields.fail("framework", "is training.framework now");
  read_keys(fields, objective_keys(job.objective), job);
  if (objective.minimize == Minimize::tokens && !objective.budget_usd && !objective.deadline_s)
    fields.fail("minimize",
                "'tokens' is as many as `budget_usd` or `deadline_s` allow; give one of them");
  fields.done();
}

namespace {

// Checks that the format of the data files and the mask token fit the model's head.
void check_targets(const Fields& fields, const Job& job, const DataFiles& data) {
  if (job.model.head == Head::qa)
    fields.fail("files",
                "hold tokens, not the answers that head 'qa' learns; without data it trains on "
                "random ones");
  const bool labelled = data.format == TokenFormat::labelled;
  if (job.model.classifies_text() && !labelled)
    fields.fail("format",
                "a model with head 'classification' learns from labelled texts; use 'labelled'");
  if (labelled && !job.model.classifies_text())
    fields.fail("format", "'labelled' is for models with head 'classification'");
  if (job.model.head != Head::mlm) {
    if (data.mask_token) fields.fail("mask_token", "only a model with head 'mlm' masks tokens");
  } else if (!data.mask_token) {
    fields.fail("mask_token",
                "is missing; say which token stands for a masked one (BERT's [MASK] is 103)");
  } else if (*data.mask_token < 0 || *data.mask_token >= job.model.vocabulary) {
    fields.fail("mask_token", fmt::format("{} is not in the model's vocabulary; use 0 to {}",
                                          *data.mask_token, job.model.vocabulary - 1));
  }
}

void check_weights(const Fields& fields, const DataFiles& data) {
  if (data.weights.empty()) return;
  if (data.weights.size() != data.files.size())
    fields.fail("weights", fmt::format("has {} numbers for {} files; give one for each",
                                       data.weights.size(), data.files.size()));
  const double sum = std::accumulate(data.weights.begin(), data.weights.end(), 0.0);
  const auto least = std::ranges::min_element(data.weights);
  if (!(*least / sum * mixture_stretch >= 1))
    fields.fail(
        "weights",
        fmt::format("{} of {} is too little: of {} sequences none would be of {}; leave the "
                    "file out, or give it more",
                    *least, sum, mixture_stretch, data.files[least - data.weights.begin()]));
}

// Checks `document_end`, the token that ends each document in files of tokens, which packing needs.
// In files of pairs, each pair is a document, so the key is an error there.
void check_documents(const Fields& fields, const Job& job, const DataFiles& data) {
  const bool pairs = data.format == TokenFormat::pairs;
  if (data.document_end && !job.plan.training.packing)
    fields.fail("document_end",
                "goes with training.packing, which tells documents apart; leave it out, or use "
                "that");
  if (data.document_end && pairs)
    fields.fail("document_end", "is of files of tokens; every pair is a document: leave it out");
  if (pairs && job.plan.training.mtp_layers > 0)
    fields.fail("format",
                "'pairs' with training.mtp_layers is not supported yet; use files of tokens, or "
                "leave mtp_layers out");
  if (!job.plan.training.packing || pairs) return;
  if (!data.document_end)
    fields.fail("document_end",
                "is missing; say which token ends each document (GPT-2's <|endoftext|> is 50256), "
                "or leave training.packing out");
  if (*data.document_end < 0 || *data.document_end >= job.model.vocabulary)
    fields.fail("document_end", fmt::format("{} is not in the model's vocabulary; use 0 to {}",
                                            *data.document_end, job.model.vocabulary - 1));
}

void check_pairs(Fields& fields, const Job& job, const DataFiles& data) {
  if (data.format != TokenFormat::pairs) {
    if (fields.has("tokenizer") && data.format != TokenFormat::labelled)
      fields.fail("tokenizer", "goes with the formats 'pairs' and 'labelled' only");
    for (const char* key : {"template", "end_token"})
      if (fields.has(key)) fields.fail(key, "goes with format 'pairs' only");
    return;
  }
  const Model& model = job.model;
  if (model.head != Head::lm || model.has_decoder() || model.reads_images())
    fields.fail("format", "'pairs' are for models that say the next token (head 'lm')");
  if (model.experts > 0)
    fields.fail("format",
                "not supported yet: 'pairs' with experts, whose balancing loss would count the "
                "padding; use a dense model");
  if (data.chat_template == ChatTemplate::plain) return;
  const std::string name = chat_template_names()[static_cast<std::size_t>(data.chat_template)];
  if (data.tokenizer.empty())
    fields.fail("template",
                fmt::format("'{}' has tokens of its own; name the tokenizer.json that has them as "
                            "tokenizer",
                            name));
  if (!data.end_token.empty())
    fields.fail(
        "end_token",
        fmt::format("template '{}' ends what the assistant says itself; leave it out", name));
}

void check_evaluation(Fields& fields, DataFiles::Evaluation& evaluation) {
  if (evaluation.files.empty()) fields.fail("files", "the list is empty; name a file");
}

}  // namespace

Keys evaluation_keys(DataFiles::Evaluation& evaluation) {
  using enum How;
  constexpr Range count = by_reader(at_least_one);
  return {{"files", Paths{&evaluation.files}, any, required, "", "held out"},
          {"every_steps", &evaluation.every_steps, count, required, "", "and after the last step"},
          {"batches", &evaluation.batches, count, if_set, "all", "global batches"}};
}

Keys data_keys(DataFiles& data) {
  using enum How;
  return {
      {"files", Paths{&data.files}, any, if_set, "",
       "files of tokens, or of images. Only a prediction of loading does without them"},
      {"format", choice("format", token_format_names(), data.format), any, plain, "",
       "`bytes`: every byte is a token. `uint16`, `uint32`: little-endian, with llm.c's header "
       "or without. `megatron`: Megatron-LM's indexed datasets, NAME for NAME.bin and NAME.idx. "
       "`pairs`: JSON lines of prompts and completions. `labelled`: JSON lines of texts and "
       "their classes"},
      {"tokenizer", Path{&data.tokenizer}, any, if_set, "every byte is a token",
       "for `pairs` and `labelled`: the model's tokenizer.json"},
      {"template", choice("template", chat_template_names(), data.chat_template), any, plain, "",
       "for `pairs`: how the turns of a conversation become text, see [Pairs](#pairs). A prompt "
       "is a turn of `user`, a completion one of `assistant`"},
      {"end_token", &data.end_token, any, if_set, "none",
       "for `pairs` with the template `plain`: a token after every completion, learned with it, "
       "such as `</s>`"},
      {"weights", &data.weights, by_reader(above_zero), if_set, "",
       "a mixture: share of each file, in any unit, in a stretch of 65,536 sequences. A file "
       "that is used up begins again. Without this key one file follows the other"},
      {"shuffle", &data.shuffle, any, plain, "", "a new order of the windows in every epoch"},
      {"seed", &data.seed, by_reader(at_least_zero), plain, "", "of the order and of the masks"},
      {"mask_token", &data.mask_token, any, plain, "",
       "head `mlm` only, then required: the token that stands for a masked one"},
      {"document_end", &data.document_end, any, plain, "",
       "for `training.packing` with files of tokens, then required: the token that ends each "
       "document. What follows it in a row is another document. With `pairs` each pair is a "
       "document"},
      {"evaluation", object(data.evaluation, evaluation_keys, check_evaluation), any, plain, "",
       "held-out files, in the same `format`: their loss is measured every `every_steps` steps "
       "and after the last one, as the mean over the first `batches` global batches, without "
       "dropout. Sequences after the last whole batch are left out; `train` prints how many"},
      {"bytes_per_sample", &data.loading.bytes_per_sample, by_reader(at_least_zero), if_set, "",
       "bytes of a sequence, or of an image, in storage. `simulate`, `plan` and `advise` say "
       "whether loading keeps up with the step"},
      {"decode_s", &data.loading.decode_s, by_reader(at_least_zero), if_set, "",
       "seconds in which one core decompresses, tokenizes or augments a sample"},
      {"workers", &data.loading.workers, by_reader(at_least_zero), if_set, "1",
       "processes of each rank that load samples, as PyTorch's `num_workers`"},
      {"storage_bytes_per_s", &data.loading.storage_bytes_per_s, by_reader(at_least_zero), if_set,
       "", "bytes that a host reads from its storage in a second"}};
}

// Throws InputError if a prediction of loading lacks one of two keys that belong together.
void check_loading(Fields& fields, const DataLoading& loading) {
  if ((loading.bytes_per_sample > 0) != (loading.storage_bytes_per_s > 0))
    fields.fail(loading.bytes_per_sample > 0 ? "storage_bytes_per_s" : "bytes_per_sample",
                "missing; bytes_per_sample and storage_bytes_per_s go together");
  if (loading.workers > 0 && loading.decode_s == 0)
    fields.fail("decode_s", "missing; workers go with the seconds that a sample takes");
}

void read_data(Fields fields, Job& job) {
  DataFiles data;
  if (job.model.reads_images() && fields.has("format"))
    fields.fail(
        "format",
        "is a format of tokens, but this model reads images, as records of a label and pixels; "
        "leave it out");
  read_keys(fields, data_keys(data), job);
  check_loading(fields, data.loading);
  job.loading = data.loading;
  if (!fields.has("files") && data.loading.any()) return fields.done();
  if (!fields.has("files")) fields.fail("files", "missing; it is required (a list)");
  if (data.files.empty()) fields.fail("files", "the list is empty; name a file");
  check_weights(fields, data);
  check_targets(fields, job, data);
  check_pairs(fields, job, data);
  check_documents(fields, job, data);
  fields.done();
  job.data = std::move(data);
}

Keys checkpoint_keys(Job::Checkpoint& checkpoint) {
  using enum How;
  constexpr Range count = by_reader(at_least_one);
  return {{"folder", Path{&checkpoint.folder}, any, required, "",
           "where checkpoints are saved, each in a folder of its own"},
          {"every_steps", &checkpoint.every_steps, count, required, "",
           "steps from one checkpoint to the next; one is also saved after the last step, and "
           "when the run is asked to stop"},
          {"keep", &checkpoint.keep, count, plain, "", "this many of the newest checkpoints stay"},
          {"keep_best", &checkpoint.keep_best, any, plain, "",
           "a checkpoint is also saved after every evaluation (`data.evaluation`) whose loss is "
           "the lowest so far, and stays until there is a better one"}};
}

void read_checkpoint(Fields fields, Job& job) {
  Job::Checkpoint checkpoint;
  read_keys(fields, checkpoint_keys(checkpoint), job);
  if (checkpoint.keep_best && !(job.data && job.data->evaluation))
    fields.fail("keep_best",
                "the best checkpoint is the one with the lowest evaluation loss; say in "
                "data.evaluation what that is measured on");
  fields.done();
  job.checkpoint = std::move(checkpoint);
  job.plan.snapshot = true;
}

Keys log_keys(Job::Log& log) {
  using enum How;
  return {
      {"json", Path{&log.json}, any, if_set, "",
       "a file of one line per step (`train --log-json` goes before it)"},
      {"tensorboard", Path{&log.tensorboard}, any, if_set, "",
       "a folder for event files with the same values (`docs/running.md`)"},
      {"folder", Path{&log.folder}, any, if_set, "",
       "a folder: the lines of `json` go to `steps.jsonl` in it"},
      {"every", &log.every, by_reader(at_least_one), plain, "1",
       "steps from one printed line to the next; a line is also printed after the last step and "
       "after an evaluation. Files have a line for every step"}};
}

void read_log(Fields fields, Job& job) {
  read_keys(fields, log_keys(job.log), job);
  fields.done();
}

}  // namespace meshwright::job
