#include "tools/session/evaluate.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "tools/session/machines.h"
#include "tools/session/settle.h"
#include "tools/session/text.h"

namespace meshwright::session {

namespace {

// Returns the format in which --data files are read if the job has no data. For a model of tokens
// it is the one in which `tokenize` writes them.
TokenFormat usual_format(const Model& model) {
  if (model.reads_images()) return TokenFormat::bytes;
  if (model.classifies_text()) return TokenFormat::labelled;
  return model.vocabulary <= 65536 ? TokenFormat::uint16 : TokenFormat::uint32;
}

// Makes the files that are evaluated the job's `data`. Throws InputError if there are none, or if
// the model's head cannot be evaluated on files.
void choose_data(Job& job, const std::vector<std::string>& given, const Watch& watch) {
  if (job.model.head == Head::qa)
    throw InputError(job.file +
                     ": the model's head answers questions, for which there are no data "
                     "files; evaluate one whose head is over the vocabulary, or has "
                     "classes");
  if (!given.empty()) {
    if (!job.data) {
      job.data.emplace();
      job.data->format = usual_format(job.model);
      watch.note(fmt::format("data.format: {}; a job with data.format says another",
                             info(job.data->format).name));
    }
    job.data->files = given;
    job.data->evaluation.reset();
  } else if (!job.data) {
    throw InputError(job.file +
                     ": names no data to evaluate; give --data FILE, or the job "
                     "data.evaluation");
  } else if (job.data->evaluation) {
    job.data->files = job.data->evaluation->files;
  }
  if (job.model.head == Head::mlm && !job.data->mask_token)
    throw InputError(job.file +
                     ": /data/mask_token: is missing; the model predicts masked tokens, so say "
                     "which token stands for them");
  job.data->weights.clear();
  job.data->shuffle = false;
}

// Returns how many sequences are evaluated: the batches that are asked for, or what `train`
// evaluates, or all. Throws InputError if more batches are asked for than the files have.
std::int64_t sequences_of(const Job& job, const Loader& loader, std::optional<int> batches) {
  if (!batches && evaluates(job))
    return evaluation_batches(job, loader) * job.plan.training.global_batch;
  if (!batches) return loader.sequences();
  const std::int64_t wanted = *batches * job.plan.training.global_batch;
  if (wanted > loader.sequences())
    throw InputError(fmt::format(
        "--steps {}: {} has {} sequences, {} whole batches of {} "
        "(training.global_batch)",
        *batches, list_of(job.data->files, "and"), loader.sequences(),
        loader.sequences() / job.plan.training.global_batch, job.plan.training.global_batch));
  return wanted;
}

}  // namespace

Evaluated evaluate(const JobRequest& wanted, const EvaluateRequest& how, const Watch& watch,
                   const std::function<bool()>& goes_on) {
  const auto begin = std::chrono::steady_clock::now();
  Job job = read_job_of(wanted, watch);
  choose_data(job, how.data, watch);
  Loader loader(loader_options(on_one_process(job)));
  for (const std::string& remark : loader.remarks()) watch.warn(remark);
  Evaluated result;
  result.files = job.data->files;
  result.of_sequences = sequences_of(job, loader, how.batches);
  LoadedModel model(job, how, wanted, watch);
  result.weights = model.path();
  result.step = model.step();
  for (; !result.complete(); ++result.sequences) {
    if (!goes_on()) break;
    const Evaluation of_sequence = model.runtime().evaluate(result.sequences, loader);
    result.loss += of_sequence.loss;
    result.targets += of_sequence.targets;
  }
  if (result.targets == 0 && !result.complete()) throw StopRequested();
  if (result.targets == 0)
    throw InputError(list_of(result.files, "and") + ": has no token whose loss counts");
  result.loss /= static_cast<double>(result.targets);
  if (job.model.head == Head::lm || job.model.head == Head::mlm)
    result.perplexity = std::exp(result.loss);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  result.seconds = wall.count();
  return result;
}

}  // namespace meshwright::session
