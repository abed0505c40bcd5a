#include "sim/planner/space.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <numeric>

#include "models/compiler/frameworks/following.h"
#include "models/compiler/plan/context_rules.h"
#include "models/compiler/plan/micro_batch_limit.h"
#include "models/compiler/plan/units_to_cut.h"
#include "models/compiler/schedule/schedule.h"
#include "models/core/divisors.h"
#include "models/core/error.h"
#include "sim/planner/in_parallel.h"

namespace meshwright::sim {

namespace {

// Returns the values that one key may take: what the job says, or all that make sense.
template <class T>
std::vector<T> choices(const Job& job, std::string_view key, T given, std::vector<T> all) {
  return job.is_auto(key) ? std::move(all) : std::vector<T>{given};
}

// Returns the equal word among `words`, which outlive the job.
std::string_view known_word(std::string_view word, const std::vector<std::string>& words) {
  for (const std::string& known : words)
    if (known == word) return known;
  MESHWRIGHT_CHECK(false, "the reader of jobs knows the word");
  return {};
}

// The least number of tokens of a chunk into which a context group cuts sequences: those of a tile
// of attention.
constexpr int least_chunk_tokens = 128;

// Shares of the blocks that are recomputed, if the job leaves the share to the planner.
const std::vector<double> fractions = {0.25, 0.5, 0.75, 1};

Candidate chosen_with(Candidate candidate, const Saving& saving) {
  candidate.recompute = saving.recompute;
  candidate.recompute_fraction = saving.fraction;
  candidate.offload = saving.offload;
  return candidate;
}
Candidate chosen_with(Candidate candidate, const Kernels& kernels) {
  candidate.sequence_parallel = kernels.sequence_parallel;
  candidate.tensor_chunks = kernels.tensor_chunks;
  candidate.compiler = kernels.compiler;
  candidate.attention = kernels.attention;
  return candidate;
}

const std::string too_many_micro_batches =
    "more than " + std::to_string(most_micro_batches) + " micro-batches in a step";

class Enumerator {
 public:
  Enumerator(const Job& job, const Plan& base, int ranks, int ranks_per_host)
      : job_(job),
        base_(base),
        ranks_(ranks),
        ranks_per_host_(ranks_per_host > 0 ? ranks_per_host : ranks),
        sizes_(job.model.sizes()),
        asked_(base) {}

  // Enumerates the space. Shapes are independent of each other, so threads split them, and the
  // results are joined in the order of the shapes.
  Space run(int threads) {
    const std::vector<Candidate> all = shapes();
    std::vector<Space> found(all.size());
    in_parallel(all.size(), threads, [&](std::size_t i, std::size_t) {
      Enumerator own(job_, base_, ranks_, ranks_per_host_);
      own.split(all[i]);
      found[i] = std::move(own.space_);
    });
    for (Space& each : found) join(std::move(each));
    if (space_.enumerated == 0) reject("the fixed degrees do not multiply to the ranks");
    return std::move(space_);
  }

 private:
  std::vector<Candidate> shapes() const {
    const Parallelism& p = base_.parallelism;
    const std::vector<int> degrees = divisors(ranks_);
    const bool is_cut = !sizes_.latent || p.tensor_layout != TensorLayout::memory;
    const std::vector<int> tensors = is_cut ? degrees : std::vector<int>{1};
    std::vector<Candidate> found;
    for (const int pipeline : choices(job_, "parallelism.pipeline", p.pipeline, degrees))
      for (const int tensor : choices(job_, "parallelism.tensor", p.tensor, tensors))
        for (const int context : choices(job_, "parallelism.context", p.context, contexts())) {
          const std::int64_t model = std::int64_t{pipeline} * tensor * context;
          if (model > ranks_ || ranks_ % model != 0) continue;  // no whole number of replicas
          Candidate shape;
          shape.pipeline = pipeline;
          shape.tensor = tensor;
          shape.context = context;
          shape.data = static_cast<int>(ranks_ / model);
          for (const ContextExchange exchange : exchanges(shape)) {
            shape.context_exchange = exchange;
            shape.context_heads = context_heads(shape);
            found.push_back(shape);
          }
        }
    return found;
  }

  void join(Space other) {
    space_.enumerated += other.enumerated;
    for (const auto& [reason, count] : other.rejected) space_.rejected[reason] += count;
    std::ranges::move(other.branches, std::back_inserter(space_.branches));
  }

  void reject(const Violation& reason, std::int64_t count = 1) {
    space_.enumerated += count;
    space_.rejected[reason] += count;
  }
  void reject(const std::string& reason) { reject(Violation{.statement = reason}); }

  // Returns the possible degrees of context. Sequences are split if a causal model predicts every
  // token, into twice as many chunks as ranks.
  std::vector<int> contexts() const {
    const int length = base_.training.sequence_length;
    const bool cuts = job_.model.is_causal() && job_.model.head == Head::lm &&
                      (sizes_.experts == 0 || (sizes_.dropless && !sizes_.balances)) &&
                      (!attends_to_whole_sequences() || may_exchange_heads());
    std::vector<int> found = {1};
    for (const int degree : divisors(ranks_))
      if (cuts && degree > 1 && length % (2 * degree) == 0 &&
          length / (2 * degree) >= least_chunk_tokens)
        found.push_back(degree);
    return found;
  }

  // Returns whether a rank attends to whole sequences: with scores in memory, and in latent
  // attention.
  bool attends_to_whole_sequences() const {
    return sizes_.latent || base_.training.attention == AttentionKernel::unfused;
  }

  bool may_exchange_heads() const {
    return job_.is_auto("parallelism.context_exchange") ||
           base_.parallelism.context_exchange == ContextExchange::all_to_all;
  }

  std::vector<ContextExchange> exchanges(const Candidate& shape) const {
    const ContextExchange given = base_.parallelism.context_exchange;
    if (shape.context == 1) return {given};
    std::vector<ContextExchange> all = {ContextExchange::all_to_all};
    if (!attends_to_whole_sequences())
      all = {ContextExchange::p2p, ContextExchange::all_gather, ContextExchange::all_to_all};
    const bool spans_hosts = shape.tensor * shape.context > ranks_per_host_;
    if (!attends_to_whole_sequences() && spans_hosts && neighbours_on_host(shape) > 1)
      all.push_back(ContextExchange::a2a_p2p);
    return choices(job_, "parallelism.context_exchange", given, std::move(all));
  }

  // Returns how many neighbours exchange heads if ranks are as close as they can be, or 0 if none
  // can.
  int neighbours_on_host(const Candidate& shape) const {
    Parallelism close;
    close.tensor = shape.tensor;
    close.context = shape.context;
    return default_context_heads(close, sizes_, ranks_per_host_);
  }

  // Returns how many ranks exchange heads: the job's number if it is set. 1 means that the exchange
  // does not have two levels.
  int context_heads(const Candidate& shape) const {
    if (shape.context == 1 || shape.context_exchange != ContextExchange::a2a_p2p) return 1;
    const int given = base_.parallelism.context_heads;
    return given > 0 ? given : neighbours_on_host(shape);
  }

  bool tensor_divides(int tensor) const {
    for (const int size : {sizes_.heads, sizes_.kv_heads, sizes_.hidden, sizes_.ffn,
                           sizes_.shared_ffn, sizes_.dense_ffn})
      if (size % tensor != 0) return false;
    return true;
  }

  void split(Candidate shape) {
    const std::int64_t batch = base_.training.global_batch;
    if (!job_.is_auto("parallelism.data") && shape.data != base_.parallelism.data) return;
    if (!tensor_divides(shape.tensor))
      return reject("tensor does not divide heads, hidden and ffn");
    const Parallelism p = to_plan(shape, base_).parallelism;
    if (p.has_two_exchanges() &&
        std::ranges::count(choices_of_context_heads(p, sizes_), shape.context_heads) == 0)
      return reject("context_heads does not divide context, or the heads that it exchanges");
    if (p.exchanges_heads() && p.attends_to_whole_sequences() &&
        std::gcd(sizes_.heads, sizes_.kv_heads) % (shape.tensor * shape.context) != 0)
      return reject("tensor x context does not divide the heads that all_to_all exchanges");
    if (shape.pipeline > 1 && shape.pipeline > units_to_cut(sizes_))
      return reject("more stages than layers, embedding and head");
    if (batch % shape.data != 0) return reject("data does not divide the global batch");
    const std::int64_t per_replica = batch / shape.data;
    for (const int micro_batch :
         choices(job_, "training.micro_batch", base_.training.micro_batch, divisors(per_replica))) {
      if (per_replica % micro_batch != 0) {
        reject("data x micro_batch does not divide the global batch");
        continue;
      }
      if (per_replica / micro_batch > most_micro_batches) {
        reject(too_many_micro_batches);
        continue;
      }
      shape.micro_batch = micro_batch;
      for (const int expert :
           choices(job_, "parallelism.expert", base_.parallelism.expert,
                   divisors(std::gcd(std::max(1, sizes_.experts), shape.replicas())))) {
        shape.expert = expert;
        branch_out(shape, static_cast<int>(per_replica / micro_batch));
      }
    }
  }

  // Erases the elements that break a rule whatever else is chosen, and counts each of them `others`
  // times, once for every combination of the other choices.
  template <class T, class Rule>
  void keep_legal(std::vector<T>& list, std::int64_t others, const Rule& rule) {
    std::erase_if(list, [&](const T& each) {
      const Ruling ruling = rule(each);
      if (ruling) reject(*ruling, others);
      return ruling.has_value();
    });
  }

  // Returns a candidate of the branch, with which the elements of each list of choices are tried.
  // Its undecided choices break no rule by themselves.
  Candidate plain_with(const Candidate& shape, const Kernels& kernels) const {
    Candidate plain = chosen_with(shape, kernels);
    plain.sequence_parallel = false;
    if (base_.parallelism.shard_whole) plain.zero_stage = 1;
    return plain;
  }

  void branch_out(const Candidate& shape, int micro_batches) {
    Branch branch;
    branch.shape = shape;
    branch.placements = placements_of(shape);
    branch.cuts = cuts_of(shape.pipeline, micro_batches);
    branch.shardings = shardings_of(shape, micro_batches);
    std::vector<Kernels> kernels = kernels_of(shape);
    const auto savings = std::ssize(savings_of(kernels.front()));
    const auto all = [&] {
      return std::ssize(branch.placements) * std::ssize(branch.cuts) *
             std::ssize(branch.shardings) * std::ssize(kernels) * savings;
    };
    const auto without = [&](const auto& list) {
      return list.empty() ? 0 : all() / std::ssize(list);
    };
    const Candidate plain = plain_with(shape, kernels.front());
    for (const Ruling& ruling : {rule_against(plain), against_shape(plain)})
      if (ruling) return reject(*ruling, all());
    keep_legal(kernels, without(kernels), [&](const Kernels& each) -> Ruling {
      const std::int64_t rows =
          std::int64_t{shape.micro_batch} * base_.training.sequence_length / shape.context;
      if (each.sequence_parallel && rows % shape.tensor != 0)
        return Violation{.statement = "sequence_parallel needs rows that tensor divides"};
      return against_kernels(chosen_with(shape, each));
    });
    keep_legal(branch.cuts, without(branch.cuts), [&](const PipelineCut& cut) -> Ruling {
      const ScheduleInfo& schedule = schedule_info(cut.schedule);
      if (schedule.in_groups && micro_batches % shape.pipeline != 0)
        return broken("", "{} needs micro-batches in multiples of pipeline", schedule.name);
      const Candidate with = chosen_with(plain, cut);
      const Ruling ruling = rule_against(with, job_.is_auto("parallelism.schedule"));
      return ruling ? ruling : against_cut(with);
    });
    keep_legal(branch.shardings, without(branch.shardings), [&](const Sharding& sharding) {
      return against_sharding(chosen_with(plain, sharding));
    });
    if (all() == 0) return;
    // Kernels with the same attention kernel share one list of ways to save memory, so each
    // attention kernel gets a branch.
    for (std::size_t first = 0; first < kernels.size();) {
      Branch part = branch;
      const AttentionKernel attention = kernels[first].attention;
      while (first < kernels.size() && kernels[first].attention == attention)
        part.kernels.push_back(kernels[first++]);
      part.savings = savings_of(part.kernels.front());
      add(std::move(part));
    }
  }

  // Adds a branch, and finds its pairs of choices that break a rule.
  void add(Branch branch) {
    const Candidate plain = plain_with(branch.shape, branch.kernels.front());
    const std::int64_t per_pair = std::ssize(branch.kernels) * std::ssize(branch.placements);
    const bool chosen = job_.is_auto("parallelism.schedule") || job_.is_auto("parallelism.offload");
    for (const PipelineCut& cut : branch.cuts) {
      const Candidate with = chosen_with(plain, cut);
      const std::int64_t savings = std::ssize(branch.savings);
      std::int64_t legal_shardings = 0;
      for (const Sharding& sharding : branch.shardings) {
        const Ruling ruling = against_sharding(chosen_with(with, sharding));
        branch.cut_takes_sharding.push_back(!ruling);
        if (ruling)
          reject(*ruling, per_pair * savings);
        else
          ++legal_shardings;
      }
      for (const Saving& saving : branch.savings) {
        const Ruling ruling = against_saving(chosen_with(with, saving), chosen);
        branch.cut_takes_saving.push_back(!ruling);
        if (ruling && legal_shardings > 0) reject(*ruling, per_pair * legal_shardings);
      }
    }
    for (std::size_t saving = 0; saving < branch.savings.size(); ++saving)
      space_.enumerated += per_pair * branch.count_with(saving);
    space_.branches.push_back(std::move(branch));
  }

  // Returns the pipeline cuts: 1f1b, zero_bubble, gpipe, and the schedules of several virtual
  // stages.
  std::vector<PipelineCut> cuts_of(int pipeline, int micro_batches) const {
    const Parallelism& p = base_.parallelism;
    const bool free_schedule = job_.is_auto("parallelism.schedule");
    const bool free_chunks = job_.is_auto("parallelism.virtual_stages");
    if (!free_schedule && (schedule_info(p.schedule).most_chunks == 1 || !free_chunks))
      return {{p.schedule, free_chunks ? 1 : p.virtual_stages}};
    const bool splits = !p.offloads_activations() && !base_.training.recompute_budget;
    std::vector<PipelineCut> found;
    if (free_schedule && (free_chunks || p.virtual_stages == 1)) {
      found.push_back({ScheduleKind::one_f_one_b, 1});
      if (pipeline > 1) {
        if (splits) found.push_back({ScheduleKind::zero_bubble, 1});
        if (p.active_microbatches == 0) found.push_back({ScheduleKind::gpipe, 1});
      }
    }
    for (const ScheduleInfo& info : schedule_kinds()) {
      const bool tried = free_schedule ? !info.splits_backwards ||
                                             (splits && zero_bubble_idles(pipeline, micro_batches))
                                       : info.kind == p.schedule;
      // dualpipe_v is not tried, because it idles as long as zero_bubble_v and saves more
      // activations.
      if (free_schedule && info.kind == ScheduleKind::dualpipe_v) continue;
      if (info.most_chunks == 1 || !tried) continue;
      for (const int chunks : chunks_of(info, pipeline))
        if (chunks > 1 || !free_schedule) found.push_back({info.kind, chunks});
    }
    if (found.empty())
      found.push_back({free_schedule ? ScheduleKind::interleaved : p.schedule,
                       free_chunks ? 1 : p.virtual_stages});
    return found;
  }

  // Returns whether zero_bubble leaves more than a little of the step idle: with equal tasks, p - 1
  // in addition to 3 m. Schedules with several virtual stages that also split backwards could save
  // no more.
  static bool zero_bubble_idles(int pipeline, int micro_batches) {
    constexpr double little = 0.05;
    const double idle = pipeline - 1;
    return idle > little * (3.0 * micro_batches + idle);
  }

  // Returns the numbers of virtual stages that divide the layers, or all units. In the latter case
  // embedding and head may be alone.
  std::vector<int> chunks_of(const ScheduleInfo& schedule, int pipeline) const {
    const bool free_chunks = job_.is_auto("parallelism.virtual_stages");
    const int units = units_to_cut(sizes_);
    std::vector<int> found;
    if (pipeline == 1) return found;
    for (int chunks = schedule.least_chunks;
         chunks <= schedule.most_chunks && chunks * pipeline <= units; ++chunks) {
      const int all = chunks * pipeline;
      const bool divides = sizes_.layers % all == 0 || units % all == 0;
      if (free_chunks ? divides || schedule.least_chunks == schedule.most_chunks
                      : chunks == base_.parallelism.virtual_stages)
        found.push_back(chunks);
    }
    return found;
  }

  // Returns the choices of when gradients are reduced that give different plans. ZeRO 1 that
  // reduces in every micro-batch is ZeRO 2, and ZeRO 2 that reduces once a step is ZeRO 1.
  std::vector<ReduceGradients> reductions_of(const Candidate& shape, int stage,
                                             int micro_batches) const {
    using enum ReduceGradients;
    const bool free_stage = job_.is_auto("parallelism.zero_stage");
    std::vector<ReduceGradients> all = {usual};
    if (micro_batches > 1 && stage == 1 && !free_stage && !base_.parallelism.shard_whole)
      all = {usual, each};
    if (micro_batches > 1 && stage == 2 && !free_stage) all = {each, last};
    if (micro_batches > 1 && stage == 2 && free_stage) all = {shape.pipeline == 1 ? usual : each};
    if (micro_batches > 1 && stage == 3) all = {usual, last};
    return choices(job_, "parallelism.reduce_gradients", base_.parallelism.reduce_gradients, all);
  }

  // Returns whether a ZeRO 2 plan equals a ZeRO 1 plan that is also in the space.
  bool is_zero_1(const Candidate& shape, ReduceGradients reduce, int micro_batches) const {
    using enum ReduceGradients;
    const bool same = reduce != usual || shape.pipeline > 1;
    return job_.is_auto("parallelism.zero_stage") &&
           !job_.is_auto("parallelism.reduce_gradients") && micro_batches > 1 && same;
  }

  // Returns whether plans that keep parameters gathered once a step are worth enumerating. With
  // several stages they differ from those of ZeRO 1 only in when parameters are gathered, and would
  // double the space for a few percent.
  bool keeps_something_else(const Candidate& shape) const {
    return shape.pipeline == 1 || !job_.is_auto("parallelism.zero_stage");
  }

  // Returns the shardings: states in as many shards as there are replicas, or in fewer, with copies
  // of all shards. The latter are only combined with the usual choices.
  std::vector<Sharding> shardings_of(const Candidate& shape, int micro_batches) const {
    const Parallelism& p = base_.parallelism;
    const int replicas = shape.replicas();
    std::vector<int> degrees = {1};
    for (const int degree : divisors(replicas))
      if (degree > 1 && degree < replicas && !p.shard_whole) degrees.push_back(degree);
    std::vector<Sharding> found;
    for (const int stage :
         choices(job_, "parallelism.zero_stage", p.zero_stage,
                 replicas > 1 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0})) {
      const bool cuts_matrices = stage > 0 && base_.training.optimizer == OptimizerKind::muon;
      if (cuts_matrices && !p.shard_whole && job_.is_auto("parallelism.zero_stage")) continue;
      if (base_.training.fp8_gathers && stage < 3 && replicas > 1) continue;
      const std::vector<int> shards =
          choices(job_, "parallelism.shard", p.shard, stage > 0 ? degrees : std::vector<int>{1});
      const std::vector<ReduceGradients> reductions = reductions_of(shape, stage, micro_batches);
      if (stage == 2 && is_zero_1(shape, reductions.front(), micro_batches)) continue;
      const std::vector<bool> kept =
          choices(job_, "parallelism.reshard_after_forward", p.keeps_gathered,
                  stage == 3 && keeps_something_else(shape) ? std::vector<bool>{false, true}
                                                            : std::vector<bool>{false});
      for (const ReduceGradients reduce : reductions)
        for (const bool keeps : kept) found.push_back({stage, shards.front(), reduce, keeps});
      for (std::size_t i = 1; i < shards.size(); ++i)
        found.push_back({stage, shards[i], reductions.front(), kept.front()});
    }
    return found;
  }

  std::vector<Kernels> kernels_of(const Candidate& shape) const {
    std::vector<Kernels> found;
    std::vector<CompilerLevel> levels = {CompilerLevel::none, CompilerLevel::fused};
    if (!sizes_.captured) levels.push_back(CompilerLevel::full);
    for (const CompilerLevel level :
         choices(job_, "training.compiler", base_.training.compiler, levels))
      for (const bool rows :
           choices(job_, "parallelism.sequence_parallel", base_.parallelism.sequence_parallel,
                   shape.tensor > 1 ? std::vector<bool>{false, true} : std::vector<bool>{false}))
        for (const int chunks : tensor_chunks_of(shape))
          found.push_back({rows, chunks, level, attention_of(level, shape.context)});
    return found;
  }

  std::vector<int> tensor_chunks_of(const Candidate& shape) const {
    const Parallelism& p = base_.parallelism;
    const bool cuts = shape.tensor > 1 && p.overlap_tensor;
    return choices(job_, "parallelism.tensor_chunks", p.tensor_chunks,
                   cuts ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{1});
  }

  // Returns the attention kernel that settle() chooses.
  AttentionKernel attention_of(CompilerLevel level, int context) const {
    const bool eager = level == CompilerLevel::none && context == 1 && !sizes_.sinks;
    return eager && job_.is_auto("training.attention") ? AttentionKernel::unfused
                                                       : base_.training.attention;
  }

  // Returns the ways to save memory. Selective recomputation is left out with fused attention,
  // which does not save what would be recomputed. Activations are only offloaded if they are
  // checkpoints of recomputation.
  std::vector<Saving> savings_of(const Kernels& kernels) const {
    const Training& t = base_.training;
    std::vector<Recompute> kinds = {Recompute::none};
    if (kernels.attention == AttentionKernel::unfused && !sizes_.captured)
      kinds.push_back(Recompute::selective);
    kinds.push_back(Recompute::full);
    std::vector<Saving> found;
    for (const Recompute kind : choices(job_, "training.recompute", t.recompute, kinds))
      for (const double fraction :
           choices(job_, "training.recompute_fraction", t.recompute_fraction,
                   kind == Recompute::none ? std::vector<double>{1} : fractions)) {
        std::vector<Offload> offloads = {Offload::none};
        if (kind != Recompute::none && !t.recompute_budget)
          offloads.push_back(Offload::activations);
        if (kind == Recompute::full && !sizes_.has_decoder) offloads.push_back(Offload::layers);
        for (const Offload offload :
             choices(job_, "parallelism.offload", base_.parallelism.offload, offloads))
          found.push_back({kind, fraction, offload});
      }
    return found;
  }

  // Returns one placement for each order of the axes that have more than one rank.
  std::vector<std::string_view> placements_of(const Candidate& shape) const {
    const std::vector<std::string>& words = placements();
    const std::string_view given = known_word(base_.parallelism.placement, words);
    if (!job_.is_auto("parallelism.placement")) return of_framework(shape, {given});
    std::vector<std::string_view> found;
    std::vector<std::string> orders;
    for (const std::string& word : words) {
      if (word.size() != 3) continue;  // another name of one of the others
      std::string order;
      for (const char axis : word) {
        const int ranks = axis == 'P'   ? shape.pipeline
                          : axis == 'T' ? shape.tensor
                                        : shape.replicas();
        if (ranks > 1) order += axis;
      }
      if (std::find(orders.begin(), orders.end(), order) != orders.end()) continue;
      orders.push_back(order);
      found.push_back(word);
    }
    return of_framework(shape, std::move(found));
  }

  // Returns the placements among `found` that the framework has, or PDT if it has none of them.
  std::vector<std::string_view> of_framework(Candidate candidate,
                                             std::vector<std::string_view> found) const {
    std::erase_if(found, [&](const std::string_view placement) {
      candidate.placement = placement;
      return limit_against(candidate, {"parallelism.placement"}).has_value();
    });
    if (found.empty()) found.push_back("PDT");
    return found;
  }

  // Returns how a candidate breaks a rule, or nothing if it is legal. A candidate that is legal
  // but not supported is rejected if the planner chose it. If the job asks for it, it is an error.
  Ruling rule_against(const Candidate& candidate, bool chosen = false) const {
    choose(candidate, asked_);
    Ruling ruling = broken_rule(asked_, sizes_);
    if (ruling && ruling->not_yet && !chosen) throw InputError(in_file(job_.file, *ruling));
    return ruling;
  }

  // Returns how a candidate breaks a limit of the framework, among the limits on `keys`, which
  // these choices decide. Limits that depend on other keys are checked when a plan is built
  // (trial.cpp).
  Ruling limit_against(const Candidate& candidate,
                       std::initializer_list<std::string_view> keys) const {
    const Framework framework = job_.objective.framework;
    if (framework == Framework::none) return {};
    const Plan plan = as_run_by(framework, to_plan(candidate, base_), job_.model);
    for (const Limit& limit : limits_of(framework))
      if (std::find(keys.begin(), keys.end(), limit.key) != keys.end() &&
          !limit.holds(plan, job_.model))
        return violation_of(framework, limit);
    return {};
  }

  Ruling against_shape(const Candidate& candidate) const {
    // Sharding is decided later, so a shape is only rejected if every ZeRO stage that the job
    // allows breaks a limit.
    const Parallelism& p = base_.parallelism;
    const bool is_open = job_.is_auto("parallelism.zero_stage");
    Ruling ruling;
    Candidate sharded = candidate;
    sharded.shard = job_.is_auto("parallelism.shard") ? 1 : p.shard;
    for (int stage = is_open ? 0 : p.zero_stage; stage <= (is_open ? 3 : p.zero_stage); ++stage) {
      sharded.zero_stage = stage;
      ruling = limit_against(
          sharded, {"model", "parallelism.pipeline", "parallelism.tensor", "parallelism.context",
                    "parallelism.context_exchange", "parallelism.expert"});
      if (!ruling) return {};
    }
    return ruling;
  }
  Ruling against_cut(const Candidate& candidate) const {
    return limit_against(candidate, {"parallelism.schedule", "parallelism.virtual_stages"});
  }
  Ruling against_sharding(const Candidate& candidate) const {
    if (Ruling ruling = rule_against(candidate)) return ruling;
    return limit_against(
        candidate, {"parallelism.zero_stage", "parallelism.shard", "parallelism.reduce_gradients",
                    "parallelism.reshard_after_forward"});
  }
  Ruling against_saving(const Candidate& candidate, bool chosen) const {
    if (Ruling ruling = rule_against(candidate, chosen)) return ruling;
    return limit_against(
        candidate, {"training.recompute", "training.recompute_fraction", "parallelism.offload"});
  }
  Ruling against_kernels(const Candidate& candidate) const {
    return limit_against(candidate, {"parallelism.sequence_parallel", "parallelism.tensor_chunks",
                                     "training.compiler", "training.attention"});
  }

  const Job& job_;
  const Plan& base_;
  int ranks_, ranks_per_host_;
  ModelSizes sizes_;
  Space space_;
  mutable Plan asked_;  // the base with what a candidate chooses
};

}  // namespace

Candidate chosen_with(Candidate candidate, const PipelineCut& cut) {
  candidate.schedule = cut.schedule;
  candidate.virtual_stages = cut.virtual_stages;
  return candidate;
}

Candidate chosen_with(Candidate candidate, const Sharding& sharding) {
  candidate.zero_stage = sharding.zero_stage;
  candidate.shard = sharding.shard;
  candidate.reduce_gradients = sharding.reduce_gradients;
  candidate.keeps_gathered = sharding.keeps_gathered;
  return candidate;
}

std::int64_t Branch::count_with(std::size_t saving) const {
  std::int64_t count = 0;
  for (std::size_t cut = 0; cut < cuts.size(); ++cut) {
    if (!saves(cut, saving)) continue;
    const auto first =
        cut_takes_sharding.begin() + static_cast<std::ptrdiff_t>(cut * shardings.size());
    count += std::count(first, first + std::ssize(shardings), 1);
  }
  return count;
}

Candidate Branch::with(const Kernels& chosen, const Saving& saving) const {
  return chosen_with(chosen_with(shape, chosen), saving);
}

std::int64_t Space::legal() const {
  std::int64_t count = enumerated;
  for (const auto& [reason, each] : rejected) count -= each;
  return count;
}

std::vector<Candidate> Space::candidates() const {
  std::vector<Candidate> all;
  for (const Branch& branch : branches)
    for (std::size_t cut = 0; cut < branch.cuts.size(); ++cut)
      for (std::size_t saving = 0; saving < branch.savings.size(); ++saving)
        for (std::size_t sharding = 0; sharding < branch.shardings.size(); ++sharding) {
          if (!branch.takes(cut, sharding) || !branch.saves(cut, saving)) continue;
          for (const Kernels& kernels : branch.kernels)
            for (const std::string_view placement : branch.placements) {
              Candidate candidate = chosen_with(
                  chosen_with(branch.with(kernels, branch.savings[saving]), branch.cuts[cut]),
                  branch.shardings[sharding]);
              candidate.placement = placement;
              all.push_back(candidate);
            }
        }
  return all;
}

Space enumerate(const Job& job, const Plan& base, int ranks, int ranks_per_host, int threads) {
  return Enumerator(job, base, ranks, ranks_per_host).run(threads);
}

namespace {

// Returns the narrowest type of gradients that a plan may have, so that bounds on time and memory
// hold for every plan.
Dtype narrowest_gradients(const Job& job, const Plan& base) {
  const bool is_open = job.is_auto("parallelism.zero_stage");
  std::vector<Dtype> types;
  for (int stage = 0; stage <= 3; ++stage) {
    if (!is_open && stage != base.parallelism.zero_stage) continue;
    Plan probe = base;
    probe.parallelism.zero_stage = stage;
    probe.parallelism.data = 2;
    types.push_back(
        with_what_follows(job.objective.framework, probe, job.model).training.gradient_reduce);
  }
  return *std::min_element(types.begin(), types.end(),
                           [](Dtype one, Dtype other) { return bytes_of(one) < bytes_of(other); });
}

}  // namespace

Plan base_plan(const Job& job, const MachineFacts& machine) {
  Job alone = job;  // one rank and sequence: nothing but the machine's defaults is decided
  alone.plan.parallelism = Parallelism{};
  alone.plan.training.global_batch = alone.plan.training.micro_batch = 1;
  const Plan settled = settle(alone, 1, machine);
  Plan base = job.plan;
  base.training.precision = settled.training.precision;
  base.training.attention = settled.training.attention;
  if (const Framework framework = job.objective.framework; framework != Framework::none) {
    // Lower bounds look at the base plan, so communication that the framework always overlaps must
    // overlap in it.
    Plan probe = base;
    probe.parallelism.tensor = 2;
    base.parallelism.overlap_tensor =
        as_run_by(framework, probe, job.model).parallelism.overlap_tensor;
    base.training.gradient_reduce = narrowest_gradients(job, base);
  }
  return base;
}

void choose(const Candidate& candidate, Plan& plan) {
  Parallelism& p = plan.parallelism;
  p.pipeline = candidate.pipeline;
  p.tensor = candidate.tensor;
  p.data = candidate.data;
  p.context = candidate.context;
  p.context_exchange = candidate.context_exchange;
  p.context_heads = candidate.context_heads > 1 ? candidate.context_heads : 0;
  p.expert = candidate.expert;
  p.shard = candidate.shard;
  p.virtual_stages = candidate.virtual_stages;
  p.schedule = candidate.schedule;
  p.zero_stage = candidate.zero_stage;
  p.reduce_gradients = candidate.reduce_gradients;
  p.keeps_gathered = candidate.keeps_gathered;
  p.sequence_parallel = candidate.sequence_parallel;
  p.tensor_chunks = candidate.tensor_chunks;
  p.offload = candidate.offload;
  p.placement = candidate.placement;
  Training& t = plan.training;
  t.micro_batch = candidate.micro_batch;
  t.recompute = candidate.recompute;
  t.recompute_fraction = candidate.recompute_fraction;
  t.compiler = candidate.compiler;
  t.attention = candidate.attention;
}

Plan to_plan(const Candidate& candidate, const Plan& base) {
  Plan plan = base;
  choose(candidate, plan);
  return plan;
}

}  // namespace meshwright::sim
