#include "tools/report/answers.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "models/job/schema.h"

namespace meshwright::tools {

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
    {"model_flops_per_s_per_gpu", "number",
     "of the model's products and attention, without recomputation; causal attention counts whole"},
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
    {"cuts[].from_stage", "integer", "what a stage hands to the next one, of one micro-batch"},
    {"cuts[].from_chunk", "integer", ""},
    {"cuts[].to_stage", "integer", ""},
    {"cuts[].to_chunk", "integer", ""},
    {"cuts[].bytes", "integer", ""},
    {"cuts[].tensors[].made_by", "string", "the module and the operation"},
    {"cuts[].tensors[].bytes", "integer", ""},
    {"stages[].stage", "integer", "parts of a stage's step; they sum to step_time_s"},
    {"stages[].compute_s", "number", ""},
    {"stages[].launch_s", "number", "kernels wait for the host"},
    {"stages[].exposed_s.*", "number", "by process group; pipeline: messages between stages"},
    {"stages[].bubble_s", "number", ""},
    {"stages[].idle_s", "number", ""},
    {"usd_per_hour", "number or null", "of all hosts"},
    {"usd_per_million_tokens", "number or null", ""},
    {"price", "price or null", "of a host"},
    {"goodput", "number or null", "share of the time that steps take, where hosts fail"},
    {"checkpoint_interval_s", "number or null", "of the job"},
    {"checkpoint_write_s", "number or null", ""},
    {"best_goodput", "number or null", "with the best interval"},
    {"best_checkpoint_interval_s", "number or null", ""},
    {"cluster_mean_time_between_failures_s", "number or null", ""},
    {"whole_run", "object or null", "without failures, where the job says how long it is"},
    {"whole_run.tokens", "number", ""},
    {"whole_run.time_s", "number", ""},
    {"whole_run.start_s", "number",
     "of it, until hosts are there and have read weights; 0: own hosts, or no length is given"},
    {"whole_run.usd", "number or null", ""},
    {"whole_run.idle_usd", "number or null", "of it, for hours of a block after the run"},
    {"whole_run.block_days", "integer or null", "of capacity blocks"},
    {"risk", "risk or null", "the whole run where hosts fail"},
    {"loading", "loading or null", "where the job says what a sample costs (data.decode_s, ...)"},
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
    {"plans[].start_s", "number",
     "of it, until hosts are there and have read weights; 0: own hosts, or no length is given"},
    {"plans[].total_usd", "number or null", ""},
    {"plans[].total_idle_usd", "number or null", "of it, for hours of a block after the run"},
    {"plans[].price", "price or null", "of a host"},
    {"plans[].frameworks[]", "string", "that can run it"},
    {"plans[].loading", "loading or null", "where the job says what a sample costs"},
    {"plans[].pareto", "boolean", "no other plan beats it in both time and money"},
    {"elsewhere[].framework", "string", "a usual one that can run none of the plans shown"},
    {"elsewhere[].plan", "string or null", "its best plan on the first one's cluster; null: none"},
    {"elsewhere[].step_time_s", "number or null", ""},
    {"elsewhere[].reason", "string or null", "of most rejected plans, if there is none"},
    {"elsewhere[].slower", "number or null", "share by which its step is longer than the first's"},
    {"near_batch", "object or null", "a global batch near the job's that is faster"},
    {"near_batch.global_batch", "integer", "sequences"},
    {"near_batch.faster", "number", "share by which it trains more tokens a second"},
    {"opened[]", "string",
     "keys left out that the planner opened because no plan fits without: parallelism.offload"},
    {"rejected[].reason", "string", "why plans were not simulated"},
    {"rejected[].count", "integer", ""},
    {"rejected[].cause", "string", "slower, memory, limit (deadline or budget) or rule"},
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

constexpr AnswerKey advise_keys[] = {
    {"name", "string", "of the job"},
    {"budget_usd?", "number or null", "the limit of a job, as it was read"},
    {"deadline_s?", "number or null", "the limit of a job, as it was read"},
    {"ladders[].machine", "string", "one ladder for each machine"},
    {"ladders[].stop", "integer or null", "the rung to rent, from 0; null: nothing fits"},
    {"ladders[].reason", "string", "why there"},
    {"ladders[].rungs[].machine", "string", "from one GPU to the most hosts of the job"},
    {"ladders[].rungs[].count", "integer", "hosts"},
    {"ladders[].rungs[].processes_per_host", "integer", ""},
    {"ladders[].rungs[].gpus", "integer", ""},
    {"ladders[].rungs[].reason?", "string",
     "why there is no plan; where there is one, the keys from `plan` on are there instead"},
    {"ladders[].rungs[].closest_miss?", "object", "the plan that needs least"},
    {"ladders[].rungs[].closest_miss.peak_memory_bytes", "integer", ""},
    {"ladders[].rungs[].closest_miss.memory_limit_bytes", "number", ""},
    {"ladders[].rungs[].plan?", "string", "in short: p4 t2 d2 mb2"},
    {"ladders[].rungs[].parallelism?", "parallelism", ""},
    {"ladders[].rungs[].training?", "training", ""},
    {"ladders[].rungs[].frameworks[]?", "string", "that can run the plan"},
    {"ladders[].rungs[].loading?", "loading or null", "where the job says what a sample costs"},
    {"ladders[].rungs[].opened[]?", "string", "keys of the job that were left to the planner"},
    {"ladders[].rungs[].step_time_s?", "number", ""},
    {"ladders[].rungs[].step_time_interval_s?", "array or null",
     "between its two ends eight in ten steps would lie"},
    {"ladders[].rungs[].step_time_interval_s[]", "number", ""},
    {"ladders[].rungs[].tokens_per_s?", "number", ""},
    {"ladders[].rungs[].mfu?", "number", ""},
    {"ladders[].rungs[].efficiency?", "number", "tokens/s per GPU against the first rung's"},
    {"ladders[].rungs[].added_efficiency?", "number", "of the GPUs that this rung adds"},
    {"ladders[].rungs[].peak_memory_bytes?", "integer", ""},
    {"ladders[].rungs[].memory_limit_bytes?", "number", "of a GPU"},
    {"ladders[].rungs[].usd_per_hour?", "number or null", "of all hosts"},
    {"ladders[].rungs[].usd_per_million_tokens?", "number or null", ""},
    {"ladders[].rungs[].goodput?", "number or null", "where hosts fail"},
    {"ladders[].rungs[].total_tokens?", "number or null", "of the whole job"},
    {"ladders[].rungs[].total_time_s?", "number or null", ""},
    {"ladders[].rungs[].start_s?", "number or null", "of it, as plans[].start_s of `plan`"},
    {"ladders[].rungs[].total_usd?", "number or null", ""},
    {"ladders[].rungs[].total_idle_usd?", "number or null",
     "of it, for hours of a block after the run"},
    {"ladders[].rungs[].price?", "price or null", "of a host"},
    {"ladders[].rungs[].largest?", "object or null", "batch that fits"},
    {"ladders[].rungs[].largest.micro_batch", "integer", ""},
    {"ladders[].rungs[].largest.global_batch", "integer", "with as many micro-batches"},
    {"ladders[].rungs[].largest.learning_rate_linear", "number", "in proportion to the batch"},
    {"ladders[].rungs[].largest.learning_rate_square_root", "number", "to its square root"},
    {"ladders[].rungs[].parts_ps?.*", "integer", "of the step, by cause, in picoseconds"},
    {"ladders[].rungs[].communication[]?.group", "string", ""},
    {"ladders[].rungs[].communication[].bytes", "number", "that a rank sends in a step"},
    {"ladders[].rungs[].communication[].time_ps", "integer", ""},
    {"ladders[].rungs[].communication[].exposed_ps", "integer", "of it, that nothing hides"},
    {"ladders[].rungs[].communication[].link", "string", "the slowest on its way"},
    {"ladders[].rungs[].communication[].link_bytes_per_s", "number", ""},
    {"best", "object or null", "the ladder whose plan is best; null: nothing fits"},
    {"shortfall?", "string", "of a job: if nothing fits, by how much, and what would do"},
    {"best.machine", "string", ""},
    {"best.count", "integer", "hosts"},
    {"best.processes_per_host", "integer", ""},
    {"best.reason", "string", "why this many"},
    {"best.useful_global_batch", "number or null", "that learns best from the job's tokens"},
    {"best.elsewhere[].framework", "string", "a usual one that cannot run the plan"},
    {"best.elsewhere[].plan", "string or null", "its best plan on this cluster; null: none"},
    {"best.elsewhere[].step_time_s", "number or null", ""},
    {"best.elsewhere[].reason", "string or null", "of most rejected plans, if there is none"},
    {"best.elsewhere[].slower", "number or null", "share by which its step is longer"},
    {"best.near_batch", "object or null", "a global batch near the job's that is faster"},
    {"best.near_batch.global_batch", "integer", "sequences"},
    {"best.near_batch.faster", "number", "share by which it trains more tokens a second"},
    {"best.risk", "risk or null", "the whole run where hosts fail"},
    {"best.command", "string", "that plans it and goes on from there"},
};

constexpr AnswerKey compile_keys[] = {
    {"name", "string", "of the job"},
    {"machine", "string", ""},
    {"count", "integer", "hosts"},
    {"parallelism", "parallelism", ""},
    {"training", "training", ""},
    {"levels[].compiler", "string", "none, fused, full"},
    {"levels[].kernels", "integer", "of a step"},
    {"levels[].bytes_moved", "number", "that they read and write"},
    {"levels[].step_time_s", "number", ""},
    {"levels[].measured_step_time_s", "number or null", "with --measure"},
    {"levels[].fits", "boolean", "in memory"},
    {"levels[].peak_memory_bytes", "integer", ""},
    {"levels[].memory.library_bytes", "integer", "of the fullest stage, at its peak"},
    {"levels[].memory.parameters_bytes", "integer", ""},
    {"levels[].memory.gradients_bytes", "integer", ""},
    {"levels[].memory.optimizer_bytes", "integer", ""},
    {"levels[].memory.activations_bytes", "integer", ""},
    {"levels[].memory.workspace_bytes", "integer", ""},
    {"levels[].memory.communication_bytes", "integer", ""},
    {"levels[].memory.snapshot_bytes", "integer", ""},
    {"levels[].compile_wall_s", "number", "that compiling took"},
    {"levels[].passes[].name", "string", "on the graph of one micro-batch, in this order"},
    {"levels[].passes[].wall_s", "number", "that the pass took"},
    {"levels[].passes[].kernels", "integer", "after the pass"},
    {"levels[].passes[].kernels_saved", "integer", "below 0: added"},
    {"levels[].passes[].bytes_moved", "number", ""},
    {"levels[].passes[].bytes_moved_saved", "number", ""},
    {"levels[].passes[].kept_activation_bytes", "number", "for the backward pass"},
    {"levels[].passes[].kept_activation_bytes_saved", "number", ""},
    {"levels[].passes[].compute_before_s", "number", ""},
    {"levels[].passes[].compute_after_s", "number", ""},
    {"levels[].largest", "largest batch or null", "null: none fits"},
    {"frameworks[].memory_of", "string", "as training.memory_of names it"},
    {"frameworks[].largest", "largest batch or null", ""},
};

constexpr AnswerKey explain_keys[] = {
    {"from", "side", "the first job, or the predicted step"},
    {"to", "side", "the second job, or the measured step"},
    {"change_ps", "integer", "of the step, in picoseconds; below 0: faster"},
    {"changes[].cause", "string", "they sum to change_ps"},
    {"changes[].from_ps", "integer", ""},
    {"changes[].to_ps", "integer", ""},
    {"changes[].change_ps", "integer", ""},
    {"joined?", "object", "beside a recorded step: its kernels and the measured ones, in order"},
    {"joined.kinds[].kind", "string", ""},
    {"joined.kinds[].predicted_runs", "integer", "in a step; kernels are joined where runs agree"},
    {"joined.kinds[].measured_runs", "integer", ""},
    {"joined.kinds[].predicted_ps", "integer", ""},
    {"joined.kinds[].measured_ps", "integer", ""},
    {"joined.kernels[].name", "string", "the 20 whose time is most off, by operation"},
    {"joined.kernels[].kind", "string", ""},
    {"joined.kernels[].runs", "integer", "in a step"},
    {"joined.kernels[].predicted_ps", "integer", "of all runs"},
    {"joined.kernels[].measured_ps", "integer", ""},
};

constexpr AnswerKey sensitivity_keys[] = {
    {"name", "string", "of the job"},
    {"machine", "string", ""},
    {"count", "integer", "hosts"},
    {"parallelism?", "parallelism", "of a job; a recorded step has no plan"},
    {"training?", "training", ""},
    {"answer", "string", "what inputs are ranked by: usd, tokens or time_s"},
    {"time_s", "number", "of the whole job, or of a step where the job does not say how many"},
    {"tokens", "number", ""},
    {"usd", "number or null", ""},
    {"inputs[].input", "string", "what is changed, alone"},
    {"inputs[].low.value", "string", ""},
    {"inputs[].low.time_s", "number or null", "null: not legal"},
    {"inputs[].low.usd", "number or null", ""},
    {"inputs[].low.tokens", "number or null", ""},
    {"inputs[].high.value", "string", ""},
    {"inputs[].high.time_s", "number or null", ""},
    {"inputs[].high.usd", "number or null", ""},
    {"inputs[].high.tokens", "number or null", ""},
    {"inputs[].width", "number", "between the answers at both ends"},
};

constexpr AnswerKey share_keys[] = {
    {"jobs[].name", "string", ""},
    {"jobs[].machine", "string", ""},
    {"jobs[].count", "integer", "hosts"},
    {"jobs[].first_host", "integer", "of the fabric, from 0"},
    {"jobs[].parallelism", "parallelism", ""},
    {"jobs[].step_time_alone_s", "number", ""},
    {"jobs[].step_time_s", "number", "beside the other jobs"},
    {"jobs[].slow_down", "number", "their quotient"},
    {"jobs[].sends_to_spine", "number", "share of the step alone that it sends there"},
    {"jobs[].spine_share", "number", "of the bandwidth that the others leave meanwhile"},
};

constexpr AnswerKey train_keys[] = {
    {"name", "string", "of the job"},
    {"steps", "integer", "the last one"},
    {"stopped", "boolean", "on request, before the end"},
    {"predicted_step_time_s", "number", ""},
    {"measured_step_time_s", "number", "median"},
    {"predicted_peak_memory_bytes", "integer", "of the fullest stage"},
    {"measured_peak_memory_bytes", "integer", "of the fullest rank"},
    {"measured_peak_memory_bytes_per_rank[]", "integer", ""},
    {"final_loss", "number", ""},
    {"evaluation_loss?", "number", "of the last evaluation"},
    {"best_evaluation_loss?", "number", "the lowest so far"},
    {"best_step?", "integer", "after which it was found"},
    {"parameters_sha256?", "string", "of all parameters; not with --no-hash"},
    {"loss_scale?", "number", "in fp16"},
    {"skipped?", "integer", "steps whose gradients overflowed"},
    {"device", "string", "gpu or cpu"},
    {"measured_memory_per_rank[]?.arena_bytes", "integer", "on GPUs"},
    {"measured_memory_per_rank[].scratch_bytes", "integer", "of operations"},
    {"measured_memory_per_rank[].library_bytes", "integer", ""},
    {"measured_memory_per_rank[].peak_bytes", "integer", ""},
    {"kinds[]?.kind", "string", "of instructions, in a step that was traced"},
    {"kinds[].predicted_s", "number", ""},
    {"kinds[].measured_s", "number", ""},
};

constexpr AnswerKey fit_keys[] = {
    {"machine", "string", ""},
    {"profile", "string", "the file that was written"},
    {"runs[].id", "string", ""},
    {"runs[].measured_step_time_s", "number", ""},
    {"runs[].before_step_time_s", "number", "predicted with the profile as it was"},
    {"runs[].after_step_time_s", "number", "with the new one"},
    {"constants[].name", "string", "those that the runs say something of"},
    {"constants[].before", "number", ""},
    {"constants[].after", "number", ""},
    {"constants[].spread_before", "number", "uncertain by this share"},
    {"constants[].spread_after", "number", ""},
    {"interval_before.low", "number",
     "eight in ten measured steps lie between these multiples of the predicted ones"},
    {"interval_before.high", "number", ""},
    {"interval_before.rows", "integer", "measured steps that it is of"},
    {"interval_after.low", "number", ""},
    {"interval_after.high", "number", ""},
    {"interval_after.rows", "integer", ""},
};

constexpr AnswerKey import_keys[] = {
    {"framework", "string", "whose settings were read"},
    {"job", "object", "the job"},
    {"job.*", "any", "as docs/job-file.md describes it"},
    {"settings[].setting", "string", "each that was read"},
    {"settings[].value", "any", ""},
    {"settings[].place", "string", "file and line, or the key"},
    {"settings[].fate", "string", "acts, without meaning here, or unknown"},
    {"settings[].keys[]?", "string", "of the job, that it sets"},
    {"settings[].reason?", "string", "why it has no meaning here"},
    {"understood[].what", "string", "what a person looks at first: model, batch, degrees, ..."},
    {"understood[].value", "string", ""},
    {"understood[].from", "string", "the setting; empty: the framework's default"},
    {"remarks[]", "string", "what to know besides"},
    {"wrote?", "string", "the job file, if one is named"},
};

constexpr AnswerKey export_keys[] = {
    {"framework", "string", ""},
    {"plan", "string", "in short: p4 t2 d2 mb2"},
    {"cluster.machine", "string", ""},
    {"cluster.count", "integer", "hosts"},
    {"step_time_s", "number", "predicted time of a step"},
    {"peak_memory_bytes", "integer", "of the fullest stage"},
    {"warnings[]", "string", "what the framework does differently"},
    {"files[]", "string", "the names of what is written"},
    {"contents?.*", "string", "the text of each file, without --to"},
};

constexpr AnswerKey scale_keys[] = {
    {"points[].machine", "string", "one point for each number of hosts"},
    {"points[].count", "integer", "hosts"},
    {"points[].gpus", "integer", ""},
    {"points[].tokens_per_s", "number", ""},
    {"points[].efficiency", "number", "tokens/s per GPU against the first point's"},
    {"points[].usd_per_million_tokens", "number or null", ""},
    {"points[].step_time_s", "number", ""},
    {"points[].goodput", "number or null", "where hosts fail"},
    {"points[].parallelism", "parallelism", ""},
    {"points[].frameworks[]", "string", "that can run the plan"},
    {"gaps[].machine", "string", "where there is no plan"},
    {"gaps[].count", "integer", ""},
    {"gaps[].reason", "string", ""},
};

// `list WHAT --json` prints the one key WHAT, `list --json` all of these keys. Only the latter has
// machine_facts.
constexpr AnswerKey list_keys[] = {
    {"models[]?", "string", ""},
    {"machines[]?", "string", ""},
    {"machine_facts[]?", "object", "of each machine, if everything is listed"},
    {"machine_facts[].name", "string", ""},
    {"machine_facts[].gpus", "integer", "of a host"},
    {"machine_facts[].gpu", "string", ""},
    {"machine_facts[].memory_bytes", "number", "of one GPU"},
    {"machine_facts[].usd_per_hour", "number or null", "of a host, on demand"},
    {"parts[]?", "string", "of machine profiles"},
    {"stacks[]?.name", "string", "generations of software"},
    {"stacks[].title", "string", ""},
    {"stacks[].since", "string", "year and month"},
    {"stacks[].until", "string", "empty: today"},
    {"stacks[].software", "string", ""},
    {"stacks[].kernels.*", "number", "by GPU: share of the rates of its profile"},
    {"stacks[].source", "string", ""},
    {"schedules[]?", "string", ""},
    {"recompute[]?", "string", ""},
    {"placements[]?", "string", ""},
    {"optimizers[]?", "string", ""},
    {"attention[]?", "string", ""},
    {"compiler[]?", "string", ""},
    {"passes[]?", "string", ""},
    {"operations[]?", "string", ""},
    {"communicators[]?", "string", ""},
    {"frameworks[]?", "string", ""},
};

constexpr AnswerKey price_keys[] = {
    {"kind", "string", "the row of the price list"},
    {"region", "string", ""},
    {"usd_per_hour", "number", "of one host"},
    {"as_of", "string", "date"},
    {"source", "string", ""},
    {"stale", "boolean", "older than 90 days"},
};

constexpr AnswerKey loading_keys[] = {
    {"read_s", "number", "of each step, by a host from its storage"},
    {"decode_s", "number", "of each step, by the workers of a rank"},
    {"is_bottleneck", "boolean", "one of them is longer than the step"},
    {"workers_needed", "integer", "of each rank, so that decoding keeps up"}};

constexpr AnswerKey risk_keys[] = {
    {"steps", "number", ""},
    {"runs", "integer", "that were played"},
    {"finishes", "boolean", "the keys below are there if it does"},
    {"every_steps", "integer", "between checkpoints"},
    {"wall_s?", "object", "time of a run"},
    {"wall_s.p10", "number", "one run in ten is faster"},
    {"wall_s.p50", "number", ""},
    {"wall_s.p90", "number", ""},
    {"wall_s.mean", "number", ""},
    {"usd?", "object or null", "the same of its cost"},
    {"usd.p10", "number", ""},
    {"usd.p50", "number", ""},
    {"usd.p90", "number", ""},
    {"usd.mean", "number", ""},
    {"idle_usd?", "number or null", ""},
    {"shares?", "object", "of the time"},
    {"shares.steps", "number", ""},
    {"shares.lost", "number", "work that is done again"},
    {"shares.checkpoints", "number", ""},
    {"shares.restarts", "number", ""},
    {"shares.waiting", "number", "for hosts"},
    {"failures?", "number", "in a run, in the mean"},
    {"causes[]?.cause", "string", ""},
    {"causes[]?.failures", "number", "in a run, in the mean"},
    {"causes[]?.time_s", "number", "that they cost"},
    {"spare_worth?", "object or null", "what spare hosts save"},
    {"spare_worth.spares", "integer", ""},
    {"spare_worth.wall_s", "number", ""},
    {"spare_worth.usd", "number or null", ""},
};

constexpr AnswerKey largest_keys[] = {
    {"micro_batch", "integer", ""},
    {"global_batch", "integer", "with as many micro-batches"},
    {"peak_memory_bytes", "integer", ""},
    {"learning_rate_linear", "number", "in proportion to the batch"},
    {"learning_rate_square_root", "number", "to its square root"},
};

constexpr AnswerKey side_keys[] = {
    {"name", "string", "of the job"},
    {"machine", "string", ""},
    {"count", "integer", "hosts"},
    {"parallelism?", "parallelism", "of a job; a recorded step has no plan"},
    {"training?", "training", ""},
    {"step_time_ps", "integer", "in picoseconds"},
    {"tokens_per_s", "number", ""},
    {"stage", "integer", "whose times these are: the one that is busy longest"},
    {"parts[].cause", "string", "they sum to step_time_ps"},
    {"parts[].time_ps", "integer", ""},
    {"communication[]?.kind", "string", "beside a profile of PyTorch: between ranks"},
    {"communication[].time_ps", "integer", ""},
    {"communication[].exposed_ps", "integer", "of it, that nothing covers"},
    {"steps?", "integer", "of a profile: those that were averaged"},
    {"kernels[]?.name", "string", "of a profile: the 20 longest"},
    {"kernels[].kind", "string", ""},
    {"kernels[].time_ps", "integer", ""},
    {"kernels[].runs", "number", "in a step"},
    {"trace?", "string", "of a profile: what was read"},
    {"fits?", "boolean", "into the memory of each GPU; not said beside a profile"},
};

constexpr AnswerKey rehearse_keys[] = {
    {"script", "string", "as it was given"},
    {"recorded_on", "string", "the machine that the script saw"},
    {"machine", "string", "of the cluster"},
    {"count", "integer", "hosts"},
    {"ranks", "integer", "of all hosts"},
    {"global_batch", "integer or null", "samples of a step on all ranks; null: not recorded"},
    {"sequence_length", "integer or null", "tokens of a sample, where it has any"},
    {"step_time_s", "number", "predicted time of a step, where many follow each other"},
    {"step_time_interval_s", "array or null",
     "between its two ends eight in ten steps would lie; null: not known"},
    {"calibration", "string", "where the constants of the machine's profile are from"},
    {"sequences_per_s", "number or null", "samples"},
    {"tokens_per_s", "number or null", "null: samples have no tokens, or were not recorded"},
    {"model_flops_per_s_per_gpu", "number",
     "of products and attention, without recorded recomputation; causal attention counts whole"},
    {"mfu", "number", "these as a share of the GPU's peak"},
    {"hfu", "number", "share of the peak that all FLOPs take, with those of recomputation"},
    {"compute_s", "number", "parts of the step, which sum to step_time_s: something computes"},
    {"exposed_communication_s", "number", "communication that no computation hides"},
    {"exposed_copies_s", "number", "copies from and to the host that nothing hides"},
    {"waiting_s", "number", "a communication waits for another recorded rank"},
    {"idle_s", "number", "the device has nothing to do and waits for the host"},
    {"communication_s", "number", "hidden and exposed"},
    {"host_s", "number", "that the host works, with the driver's part of launches"},
    {"device[].work", "string", "class of work; classes may overlap in several streams"},
    {"device[].time_s", "number", "in a step"},
    {"launches", "integer", "of kernels, in a step"},
    {"instructions", "integer", "events of the recording that were replayed"},
    {"collectives[].kind", "string", "that the recorded rank takes part in"},
    {"collectives[].count", "integer", "in a step"},
    {"collectives[].bytes", "integer", "of all of them, as NCCL counts them"},
    {"peak_allocated_bytes", "integer", "by PyTorch's tensors"},
    {"peak_reserved_bytes", "integer", "by PyTorch's allocator, which gives back what it must"},
    {"peak_memory_bytes", "integer", "on the device: reserved, and what CUDA and NCCL take"},
    {"memory_limit_bytes", "number", "of a GPU, that CUDA and NCCL leave"},
    {"fits", "boolean", "what is allocated, in memory"},
    {"recorded_ranks[].rank", "integer",
     "a stage of the pipeline; the first one's parts are above"},
    {"recorded_ranks[].compute_s", "number", ""},
    {"recorded_ranks[].exposed_communication_s", "number", ""},
    {"recorded_ranks[].waiting_s", "number", ""},
    {"recorded_ranks[].idle_s", "number", ""},
    {"recorded_ranks[].peak_allocated_bytes", "integer", ""},
    {"recorded_ranks[].peak_reserved_bytes", "integer", ""},
    {"ranks_meet", "boolean",
     "false: their messages do not fit each other; the step may be too short"},
    {"usd_per_hour", "number or null", "of all hosts"},
    {"usd_per_step", "number or null", ""},
    {"usd_per_million_tokens", "number or null", ""},
    {"price", "price or null", "of a host"},
    {"notes[]", "string", "which data were made, what was refused"},
    {"goodput", "number or null", "share of the time that steps take, where hosts fail"},
    {"checkpoint_interval_s", "number or null", ""},
    {"checkpoint_write_s", "number or null", ""},
    {"best_goodput", "number or null", "with the best interval"},
    {"best_checkpoint_interval_s", "number or null", ""},
    {"cluster_mean_time_between_failures_s", "number or null", ""},
    {"whole_run", "object or null", "without failures, where training.steps or tokens are set"},
    {"whole_run.tokens", "number or null", "null: samples have no tokens"},
    {"whole_run.time_s", "number", ""},
    {"whole_run.start_s", "number",
     "of it, until hosts are there and have read weights; 0: own hosts, or no length is given"},
    {"whole_run.usd", "number or null", ""},
    {"whole_run.idle_usd", "number or null", "of it, for hours of a block after the run"},
    {"whole_run.block_days", "integer or null", "of capacity blocks"},
    {"risk", "risk or null", "the whole run where hosts fail"},
};

constexpr AnswerKey evaluate_keys[] = {
    {"weights", "string", "the checkpoint, or the folder with model.safetensors"},
    {"step?", "integer", "of the checkpoint"},
    {"files[]", "string", "that were evaluated"},
    {"sequences", "integer", ""},
    {"tokens", "integer", "targets whose loss counts"},
    {"loss", "number", "mean over the targets"},
    {"perplexity?", "number", "e^loss, of a head over the vocabulary"},
    {"complete", "boolean", "false: stopped on request; the loss is of the sequences before"},
    {"evaluate_wall_s", "number", ""},
};

constexpr AnswerKey generate_keys[] = {
    {"weights", "string", "the checkpoint, or the folder with model.safetensors"},
    {"step?", "integer", "of the checkpoint"},
    {"prompt_tokens[]", "integer", "with special tokens that the tokenizer puts before a text"},
    {"tokens[]", "integer", "that were generated"},
    {"text?", "string", "of these tokens; none without a tokenizer"},
    {"ended", "boolean", "the last token ends a text"},
};

constexpr AnswerTable tables[] = {
    {"simulate", simulate_keys}, {"plan", plan_keys},        {"advise", advise_keys},
    {"compile", compile_keys},   {"explain", explain_keys},  {"sensitivity", sensitivity_keys},
    {"scale", scale_keys},       {"share", share_keys},      {"train", train_keys},
    {"validate", validate_keys}, {"fit", fit_keys},          {"import", import_keys},
    {"export", export_keys},     {"list", list_keys},        {"rehearse", rehearse_keys},
    {"evaluate", evaluate_keys}, {"generate", generate_keys}};

constexpr AnswerTable types[] = {{"price", price_keys},     {"risk", risk_keys},
                                 {"loading", loading_keys}, {"largest batch", largest_keys},
                                 {"side", side_keys},       {"errors", error_keys}};

json object_type() {
  return {{"type", "object"}, {"properties", json::object()}, {"additionalProperties", false}};
}

json schema_of_keys(std::span<const AnswerKey> keys);

json schema_of_type(std::string_view type, std::string_view meaning) {
  json schema = json::object();
  if (type == "parallelism" || type == "training") {
    schema = job_schema()["properties"][std::string(type)];
    if (schema.contains("anyOf")) schema = schema["anyOf"][0];
    schema.erase("required");
  } else if (type.ends_with("errors")) {
    schema = schema_of_keys(error_keys);
    if (type != "errors") {  // such as "machine errors"
      const std::string by(type.substr(0, type.find(' ')));
      schema["properties"].erase("source");
      schema["properties"][by] = {{"type", "string"}};
      for (json& key : schema["required"])
        if (key == "source") key = by;
    }
  } else {
    const bool nullable = type.ends_with(" or null");
    std::string word(type.substr(0, type.size() - (nullable ? 8 : 0)));
    const auto* named = std::ranges::find(types, word, &AnswerTable::name);
    if (named != std::end(types)) {
      schema = schema_of_keys(named->keys);
      word = "object";
    } else if (word == "object") {
      schema = object_type();
    }
    if (word == "array") schema["items"] = json::object();
    if (word != "any") schema["type"] = nullable ? json{word, "null"} : json(word);
  }
  if (!meaning.empty()) schema["description"] = meaning;
  return schema;
}

// Returns the length of the first name in `path`, which ends at a dot or at the end of `path`. A
// dot before a digit belongs to the name, as in "said_to_fit_at_1.25x".
std::size_t end_of_name(std::string_view path) {
  std::size_t end = path.find('.');
  while (end < path.size() && end + 1 < path.size() && path[end + 1] >= '0' && path[end + 1] <= '9')
    end = path.find('.', end + 1);
  return std::min(end, path.size());
}

// Returns the schema of the key at `path` in `schema`. Objects and lists that lead to it are added
// if they are missing.
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

std::span<const AnswerTable> answer_types() { return types; }

json answer_schema(const AnswerTable& table) {
  json schema = schema_of_keys(table.keys);
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "What meshwright " + std::string(table.name) + " --json prints";
  return schema;
}

}  // namespace meshwright::tools
