#include "models/core/other_words.h"

#include <algorithm>
#include <iterator>

#include "models/core/letters.h"

namespace meshwright::core {

namespace {

// A word as letters_of() returns it, and the value or the dotted key of a job that it stands for.
struct OtherWord {
  std::string_view word, here;
};

constexpr OtherWord other_values[] = {{"bfloat16", "bf16"},
                                      {"float16", "fp16"},
                                      {"half", "fp16"},
                                      {"float32", "fp32"},
                                      {"float", "fp32"},
                                      {"single", "fp32"},
                                      {"mixed", "bf16"},
                                      {"float8", "fp8"},
                                      {"e4m3", "fp8"},
                                      {"fp4", "nvfp4"},
                                      {"adamwtorch", "adamw"},
                                      {"adamwfused", "adamw"},
                                      {"fusedadam", "adamw"},
                                      {"time", "step_time"},
                                      {"speed", "step_time"},
                                      {"throughput", "step_time"},
                                      {"cost", "usd"},
                                      {"price", "usd"},
                                      {"money", "usd"},
                                      {"dollars", "usd"},
                                      {"costpertoken", "usd_per_token"},
                                      {"ondemandprice", "on_demand"},
                                      {"savingsplan", "savings_1y"},
                                      {"capacityblocks", "capacity_block"},
                                      {"zb", "zero_bubble"},
                                      {"zbh1", "zero_bubble"},
                                      {"zbv", "zero_bubble_v"},
                                      {"interleaved1f1b", "interleaved"},
                                      {"onefoneb", "1f1b"},
                                      {"block", "full"},
                                      {"uniform", "full"},
                                      {"megatron", "megatron-lm"},
                                      {"ptd", "torchtitan"},
                                      {"titan", "torchtitan"},
                                      {"bridge", "megatron-bridge"},
                                      {"zero", "deepspeed"},
                                      {"fsdp", "torchtitan"},
                                      {"fsdp2", "torchtitan"},
                                      {"pytorch", "torchtitan"},
                                      {"huggingface", "accelerate"},
                                      {"hf", "accelerate"},
                                      {"transformers", "accelerate"},
                                      {"trainer", "accelerate"}};

constexpr OtherWord other_keys[] = {{"tp", "parallelism.tensor"},
                                    {"tensor", "parallelism.tensor"},
                                    {"tensorparallel", "parallelism.tensor"},
                                    {"tensorparallelsize", "parallelism.tensor"},
                                    {"tensorparalleldegree", "parallelism.tensor"},
                                    {"tensormodelparallelsize", "parallelism.tensor"},
                                    {"modelparallel", "parallelism.tensor"},
                                    {"mp", "parallelism.tensor"},
                                    {"pp", "parallelism.pipeline"},
                                    {"pipeline", "parallelism.pipeline"},
                                    {"pipelineparallel", "parallelism.pipeline"},
                                    {"pipelineparallelsize", "parallelism.pipeline"},
                                    {"pipelineparalleldegree", "parallelism.pipeline"},
                                    {"pipelinemodelparallelsize", "parallelism.pipeline"},
                                    {"stages", "parallelism.pipeline"},
                                    {"dp", "parallelism.data"},
                                    {"dataparallel", "parallelism.data"},
                                    {"dataparallelsize", "parallelism.data"},
                                    {"dataparalleldegree", "parallelism.data"},
                                    {"ddp", "parallelism.data"},
                                    {"cp", "parallelism.context"},
                                    {"contextparallel", "parallelism.context"},
                                    {"contextparallelsize", "parallelism.context"},
                                    {"ep", "parallelism.expert"},
                                    {"expertparallel", "parallelism.expert"},
                                    {"expertparallelsize", "parallelism.expert"},
                                    {"expertmodelparallelsize", "parallelism.expert"},
                                    {"sp", "parallelism.sequence_parallel"},
                                    {"vp", "parallelism.virtual_stages"},
                                    {"vpp", "parallelism.virtual_stages"},
                                    {"virtualpipelineparallelsize", "parallelism.virtual_stages"},
                                    {"zero", "parallelism.zero_stage"},
                                    {"zerostage", "parallelism.zero_stage"},
                                    {"fsdp", "parallelism.zero_stage"},
                                    {"sharding", "parallelism.zero_stage"},
                                    {"schedule", "parallelism.schedule"},
                                    {"offload", "parallelism.offload"},
                                    {"batch", "training.global_batch"},
                                    {"batch", "training.micro_batch"},
                                    {"batchsize", "training.global_batch"},
                                    {"batchsize", "training.micro_batch"},
                                    {"trainbatchsize", "training.global_batch"},
                                    {"globalbatch", "training.global_batch"},
                                    {"globalbatchsize", "training.global_batch"},
                                    {"gbs", "training.global_batch"},
                                    {"microbatch", "training.micro_batch"},
                                    {"microbatchsize", "training.micro_batch"},
                                    {"mbs", "training.micro_batch"},
                                    {"perdevicebatchsize", "training.micro_batch"},
                                    {"perdevicetrainbatchsize", "training.micro_batch"},
                                    {"trainmicrobatchsizepergpu", "training.micro_batch"},
                                    {"length", "training.sequence_length"},
                                    {"seqlen", "training.sequence_length"},
                                    {"seqlength", "training.sequence_length"},
                                    {"sequencelen", "training.sequence_length"},
                                    {"maxseqlength", "training.sequence_length"},
                                    {"maxseqlen", "training.sequence_length"},
                                    {"maxlength", "training.sequence_length"},
                                    {"contextlength", "training.sequence_length"},
                                    {"blocksize", "training.sequence_length"},
                                    {"cutofflen", "training.sequence_length"},
                                    {"lr", "training.learning_rate"},
                                    {"learningrate", "training.learning_rate"},
                                    {"wd", "training.weight_decay"},
                                    {"warmup", "training.warmup_steps"},
                                    {"optim", "training.optimizer"},
                                    {"optimizer", "training.optimizer"},
                                    {"dtype", "training.precision"},
                                    {"precision", "training.precision"},
                                    {"mixedprecision", "training.precision"},
                                    {"bf16", "training.precision"},
                                    {"fp16", "training.precision"},
                                    {"fp8", "training.precision"},
                                    {"maxsteps", "training.steps"},
                                    {"trainiters", "training.steps"},
                                    {"iterations", "training.steps"},
                                    {"steps", "training.steps"},
                                    {"epochs", "training.steps"},
                                    {"numtrainepochs", "training.steps"},
                                    {"recompute", "training.recompute"},
                                    {"gradientcheckpointing", "training.recompute"},
                                    {"activationcheckpointing", "training.recompute"},
                                    {"recomputegranularity", "training.recompute"},
                                    {"clip", "training.gradient_clip"},
                                    {"maxgradnorm", "training.gradient_clip"},
                                    {"lora", "training.lora"},
                                    {"nodes", "cluster.count"},
                                    {"numnodes", "cluster.count"},
                                    {"nnodes", "cluster.count"},
                                    {"hosts", "cluster.count"},
                                    {"instances", "cluster.count"},
                                    {"instancecount", "cluster.count"},
                                    {"machine", "cluster.machine"},
                                    {"machines", "cluster.machine"},
                                    {"instance", "cluster.machine"},
                                    {"instancetype", "cluster.machine"},
                                    {"type", "cluster.machine"},
                                    {"gpu", "cluster.machine"},
                                    {"gpus", "cluster.processes_per_host"},
                                    {"gpuspernode", "cluster.processes_per_host"},
                                    {"numgpuspernode", "cluster.processes_per_host"},
                                    {"nprocpernode", "cluster.processes_per_host"},
                                    {"tokens", "objective.tokens"},
                                    {"budget", "objective.budget_usd"},
                                    {"maxcost", "objective.budget_usd"},
                                    {"deadline", "objective.deadline_s"},
                                    {"time", "objective.deadline_s"},
                                    {"price", "objective.price"},
                                    {"pricing", "objective.price"},
                                    {"spot", "objective.price"},
                                    {"region", "objective.region"},
                                    {"optimize", "objective.minimize"},
                                    {"params", "model.parameters"},
                                    {"size", "model.parameters"},
                                    {"numparameters", "model.parameters"}};

}  // namespace

std::string same_as(std::string_view word, const std::vector<std::string>& known) {
  const std::string letters = letters_of(word);
  if (letters.empty()) return "";
  for (const std::string& each : known)
    if (letters_of(each) == letters) return each;
  for (const OtherWord& row : other_values)
    if (row.word == letters && std::ranges::find(known, row.here) != known.end())
      return std::string(row.here);
  return "";
}

std::vector<std::string> job_keys_for(std::string_view word) {
  const std::string letters = letters_of(word);
  std::vector<std::string> keys;
  for (const OtherWord& row : other_keys)
    if (row.word == letters) keys.emplace_back(row.here);
  return keys;
}

}  // namespace meshwright::core
