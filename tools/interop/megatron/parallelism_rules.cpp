// Translates between Megatron-LM's arguments of degrees, sharding and communication and the section
// `parallelism` of the job file. Names and defaults: megatron/training/arguments.py and the
// dataclasses of megatron.core (0.16).
#include <algorithm>

#include "models/core/error.h"
#include "tools/interop/amounts.h"
#include "tools/interop/megatron/megatron.h"
#include "tools/interop/model_names.h"

namespace meshwright::interop {

namespace {

// Returns the ZeRO stage of Megatron-DeepSpeed: from the configuration of DeepSpeed, or else from
// --zero-stage. Returns nothing if DeepSpeed does not train. If it trains and no setting gives the
// stage, returns nothing and asks the user for it.
std::optional<int> read_deepspeed_stage(Settings& from, JobDraft& to) {
  const bool trains = from.flag("deepspeed").value_or(false);
  from.flag("no-pipeline-parallel");
  const auto of_file = from.count("zero_optimization.stage", 0);
  const auto argument = from.count("zero-stage", 0);
  if (!trains && !of_file && !argument) return std::nullopt;
  if (!of_file && !argument) {
    to.ask("parallelism.zero_stage", "DeepSpeed trains, and its file is not given");
    return std::nullopt;
  }
  const std::int64_t stage = of_file.value_or(argument.value_or(0));
  if (of_file && argument && *of_file != *argument)
    to.remark(from.spelled("zero-stage") + " says stage " + std::to_string(*argument) +
              ", DeepSpeed's file " + std::to_string(*of_file) + ", which counts");
  if (stage > 3)
    from.fail(of_file ? "zero_optimization.stage" : "zero-stage",
              std::to_string(stage) + " is no stage; use 0 to 3");
  return static_cast<int>(stage);
}

void read_sharding(Settings& from, JobDraft& to) {
  const bool distributed = from.flag("use-distributed-optimizer").value_or(false);
  const bool megatron = from.flag("use-megatron-fsdp").value_or(false) ||
                        from.flag("use-custom-fsdp").value_or(false);
  const bool torch = from.flag("use-torch-fsdp2").value_or(false);
  const auto strategy = from.word("data-parallel-sharding-strategy",
                                  {"no_shard", "optim", "optim_grads", "optim_grads_params"});
  int stage = distributed ? 1 : 0;
  if (megatron) {
    const std::string word = strategy.value_or("no_shard");
    stage = word == "optim_grads_params" ? 3 : word == "optim_grads" ? 2 : word == "optim" ? 1 : 0;
  }
  if (torch) {
    stage = 3;
    const bool kept = from.flag("torch-fsdp2-no-reshard-after-forward").value_or(false);
    to.set("parallelism.reshard_after_forward", kept ? "never" : "always");
  }
  if (const auto stage_of_deepspeed = read_deepspeed_stage(from, to)) stage = *stage_of_deepspeed;
  to.set("parallelism.zero_stage", stage);
  to.set("parallelism.reduce_gradients", stage <= 1 ? "last" : "each");
  const std::int64_t copies = from.count("num-distributed-optimizer-instances").value_or(1);
  if (copies <= 1) return;
  const std::optional<int> ranks = to.ranks();
  if (!ranks)
    from.fail("num-distributed-optimizer-instances",
              "needs the number of GPUs; give --set cluster.machine and cluster.count");
  const std::int64_t model_ranks =
      to.count("parallelism.tensor") * to.count("parallelism.pipeline");
  const std::int64_t replicas = *ranks / model_ranks;
  if (replicas % copies != 0)
    from.fail("num-distributed-optimizer-instances", std::to_string(copies) + " does not divide " +
                                                         std::to_string(replicas) +
                                                         " data-parallel ranks");
  to.set("parallelism.shard", replicas / copies);
}

Rule sharding_rule() {
  return {
      {"parallelism.zero_stage", "parallelism.shard", "parallelism.reduce_gradients",
       "parallelism.reshard_after_forward"},
      {"use-distributed-optimizer", "num-distributed-optimizer-instances", "use-megatron-fsdp",
       "data-parallel-sharding-strategy", "use-torch-fsdp2", "torch-fsdp2-no-reshard-after-forward",
       "deepspeed", "zero-stage", "zero_optimization.stage", "no-pipeline-parallel"},
      read_sharding,
      [](const JobValues& from, Settings& to) {
        const Parallelism& p = from.plan.parallelism;
        if (p.zero_stage >= 1) to.add("use-distributed-optimizer", true);
        if (p.zero_stage >= 2) {
          to.add("use-megatron-fsdp", true);
          to.add("data-parallel-sharding-strategy",
                 p.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
        }
        if (p.shard > 1)
          to.add("num-distributed-optimizer-instances", p.data * p.context / p.shard);
      }};
}

Rule bucket_rule() {
  return {{"parallelism.reduce_bucket_bytes"},
          {"ddp-bucket-size"},
          [](Settings& from, JobDraft& to) {
            const auto elements = from.whole("ddp-bucket-size");
            if (to.number("parallelism.zero_stage", 0) >= 2) return;
            const std::int64_t bytes =
                to.value("training.gradient_reduce_precision") == "fp32" ? 4 : 2;
            if (elements) {
              to.set("parallelism.reduce_bucket_bytes", product({*elements, bytes}));
              return;
            }
            // Without a bucket size, megatron.core takes 40 M elements, or 1 M for each rank of the
            // data-parallel group (data times context) if that is more.
            const std::int64_t ranks = to.ranks().value_or(1) / (to.count("parallelism.tensor") *
                                                                 to.count("parallelism.pipeline"));
            to.set("parallelism.reduce_bucket_bytes",
                   std::max<std::int64_t>(40'000'000, 1'000'000 * ranks) * bytes);
          },
          [](const JobValues& from, Settings& to) {
            if (from.plan.parallelism.zero_stage >= 2) return;
            to.add("ddp-bucket-size", from.plan.parallelism.reduce_bucket_bytes /
                                          bytes_of(from.plan.training.gradient_reduce));
          },
          "elements there, bytes here"};
}

Rule overlap_rule() {
  return {{"parallelism.overlap", "parallelism.tensor_chunks"},
          {"overlap-grad-reduce", "overlap-param-gather", "tp-comm-overlap",
           "overlap-dispatch-backward-with-experts-wgrad", "overlap-moe-expert-parallel-comm",
           "moe-shared-expert-overlap"},
          [](Settings& from, JobDraft& to) {
            json overlap = json::array();
            if (from.flag("overlap-grad-reduce").value_or(false)) overlap.push_back("gradients");
            if (from.flag("overlap-param-gather").value_or(false)) overlap.push_back("parameters");
            const std::int64_t tensor = to.count("parallelism.tensor");
            if (tensor > 1) overlap.push_back("tensor");
            // --overlap-dispatch-backward-with-experts-wgrad and --moe-shared-expert-overlap both
            // overlap an expert all-to-all with compute of the same micro-batch.
            const bool beside_shared = from.flag("moe-shared-expert-overlap").value_or(false);
            if (from.flag("overlap-dispatch-backward-with-experts-wgrad").value_or(false) ||
                beside_shared)
              overlap.push_back("expert");
            // With --overlap-moe-expert-parallel-comm, Megatron-Core overlaps the all-to-alls of
            // one micro-batch with the compute of another.
            if (from.flag("overlap-moe-expert-parallel-comm").value_or(false))
              to.remark(from.spelled("overlap-moe-expert-parallel-comm") +
                        ": a forward and a backward that hide each other's exchanges of experts "
                        "are planned with the schedule dualpipe_v only; here exchanges cost their "
                        "time");
            to.set("parallelism.overlap", std::move(overlap));
            if (from.flag("tp-comm-overlap").value_or(false) && tensor > 1)
              to.set("parallelism.tensor_chunks", tensor);
          },
          [](const JobValues& from, Settings& to) {
            const Parallelism& p = from.plan.parallelism;
            if (p.overlap_gradients) to.add("overlap-grad-reduce", true);
            if (p.overlap_parameters) to.add("overlap-param-gather", true);
            if (p.tensor_chunks > 1) to.add("tp-comm-overlap", true);
            if (p.overlap_expert) to.add("overlap-dispatch-backward-with-experts-wgrad", true);
          },
          "the sum of an input's gradient always goes beside the weight's gradient"};
}

// Leaves out the loss that balances experts where ranks share sequences, over which it is defined.
void leave_out_balance(JobDraft& to) {
  json model = to.value("model");
  if (to.count("parallelism.context") == 1 || !model.is_object() ||
      model.value("output_router_logits", json()) != true)
    return;
  model["output_router_logits"] = false;
  to.set("model", std::move(model));
  to.remark(
      "the loss that balances experts is left out, since ranks share sequences; it costs next to "
      "nothing");
}

// Returns the rule for the tensor degree of experts. By default, Megatron-LM splits experts over
// the whole tensor group.
Rule expert_tensor_rule() {
  return {{"parallelism.expert_tensor"},
          {"expert-tensor-parallel-size"},
          [](Settings& from, JobDraft& to) {
            const std::int64_t tensor = to.count("parallelism.tensor");
            const std::int64_t given = from.whole("expert-tensor-parallel-size").value_or(tensor);
            if (experts_of(to) > 1 && tensor > 1) to.set("parallelism.expert_tensor", given);
            leave_out_balance(to);
          },
          [](const JobValues& from, Settings& to) {
            const Parallelism& p = from.plan.parallelism;
            if (p.tensor > 1 && p.expert_tensor > 0)
              to.add("expert-tensor-parallel-size", p.expert_tensor);
          },
          "1 or the tensor degree"};
}

Rule dispatch_rule() {
  return {
      {"parallelism.expert_dispatch"},
      {"moe-token-dispatcher-type", "moe-enable-deepep", "moe-flex-dispatcher-backend"},
      [](Settings& from, JobDraft& to) {
        from.flag("moe-enable-deepep");
        from.word("moe-flex-dispatcher-backend");
        if (from.word("moe-token-dispatcher-type").value_or("") == "flex")
          to.set("parallelism.expert_dispatch", "deduplicated");
      },
      [](const JobValues& from, Settings& to) {
        if (from.job.model.experts == 0) return;
        const bool once = from.plan.parallelism.expert_dispatch == ExpertDispatch::deduplicated;
        to.add("moe-token-dispatcher-type", once ? "flex" : "alltoall");
        if (once) to.add("moe-enable-deepep", true);
      },
      "flex (DeepEP, HybridEP) sends a token once to each host; allgather is taken as alltoall"};
}

Rule scatter_rule() {
  return {{"parallelism.sequence_parallel", "parallelism.pipeline_scatter_gather"},
          {"sequence-parallel"},
          [](Settings& from, JobDraft& to) {
            const bool asked = from.flag("sequence-parallel").value_or(false);
            const bool whole = to.count("parallelism.tensor") == 1;
            to.set("parallelism.sequence_parallel", asked && !whole);
            to.set("parallelism.pipeline_scatter_gather", asked || whole);
          },
          [](const JobValues& from, Settings& to) {
            if (from["parallelism.sequence_parallel"] == true) to.add("sequence-parallel", true);
          }};
}

Rule placement_rule() {
  return {{"parallelism.placement"},
          {"use-tp-pp-dp-mapping"},
          [](Settings& from, JobDraft& to) {
            to.set("parallelism.placement",
                   from.flag("use-tp-pp-dp-mapping").value_or(false) ? "DPT" : "PDT");
          },
          [](const JobValues& from, Settings& to) {
            if (from["parallelism.placement"] == "DPT") to.add("use-tp-pp-dp-mapping", true);
          },
          "without it the order is tensor, context, data, pipeline: PDT"};
}

// Reads the two sizes of a context group: the number of ranks that exchange attention heads in an
// all-to-all, and the number of such groups in a ring.
void read_levels(Settings& from, JobDraft& to, std::int64_t context) {
  constexpr std::string_view name = "hierarchical-context-parallel-sizes";
  const std::vector<std::int64_t> sizes = from.wholes(name);
  const bool is_pair = sizes.size() == 2 && std::min(sizes[0], sizes[1]) > 0;
  if (!is_pair || context % sizes[0] != 0 || context / sizes[0] != sizes[1])
    from.fail(name,
              "'a2a+p2p' needs two sizes, of exchanges of heads and of rings, whose product "
              "is the " +
                  std::to_string(context) + " context ranks");
  const bool rings = sizes[1] > 1, exchanges = sizes[0] > 1;
  to.set("parallelism.context_exchange", !rings ? "all_to_all" : !exchanges ? "p2p" : "a2a+p2p");
  if (rings && exchanges) to.set("parallelism.context_heads", sizes[0]);
}

Rule context_rule() {
  return {
      {"parallelism.context_exchange", "parallelism.context_heads"},
      {"cp-comm-type", "hierarchical-context-parallel-sizes", "ds-sequence-parallel-size"},
      [](Settings& from, JobDraft& to) {
        // In DeepSpeed Ulysses, the ranks that share sequences exchange attention heads.
        if (const auto ranks = from.count("ds-sequence-parallel-size"); ranks && *ranks > 1) {
          to.set("parallelism.context", *ranks);
          to.set("parallelism.context_exchange", "all_to_all");
        }
        const auto words = from.words("cp-comm-type");
        const auto context = to.count("parallelism.context");
        if (words.size() == 1 && words[0] == "a2a+p2p" && context > 1)
          return read_levels(from, to, context);
        from.read("hierarchical-context-parallel-sizes");  // acts with a2a+p2p only
        // Without the argument Megatron-LM takes p2p, which is not built for latent attention.
        const json model = to.value("model");
        if (words.empty() && context > 1 && model.is_object() && model.contains("kv_lora_rank")) {
          to.set("parallelism.context_exchange", "all_to_all");
          to.remark("latent attention exchanges heads (all_to_all) between the " +
                    std::to_string(context) +
                    " ranks that share sequences, and parts of sequences (p2p) there");
        }
        if (words.empty()) return;
        const bool exchanges_heads = words[0] == "a2a";
        if (words.size() > 1 || !(exchanges_heads || words[0] == "p2p" ||
                                  words[0] == "all_gather" || words[0] == "a2a+p2p"))
          from.fail("cp-comm-type", "'" + list_of(words, "and") +
                                        "' is not built; p2p, all_gather, a2a and a2a+p2p are");
        if (context > 1)
          to.set("parallelism.context_exchange", exchanges_heads ? "all_to_all" : words[0]);
      },
      [](const JobValues& from, Settings& to) {
        const Parallelism& p = from.plan.parallelism;
        if (p.context == 1) return;
        if (p.context_exchange == ContextExchange::all_to_all)
          to.add("cp-comm-type", "a2a");
        else
          to.add("cp-comm-type", from["parallelism.context_exchange"]);
        if (p.has_two_exchanges())
          to.add("hierarchical-context-parallel-sizes",
                 json::array({p.context_heads, p.context / p.context_heads}));
      }};
}

}  // namespace

Rules megatron_parallelism_rules() {
  return {
      whole_rule("parallelism.tensor", "tensor-model-parallel-size"),
      megatron_stages_rule(),
      whole_rule("parallelism.context", "context-parallel-size"),
      context_rule(),
      whole_rule("parallelism.expert", "expert-model-parallel-size"),
      expert_tensor_rule(),
      dispatch_rule(),
      scatter_rule(),
      sharding_rule(),
      bucket_rule(),
      overlap_rule(),
      placement_rule(),
  };
}

}  // namespace meshwright::interop
