// Translates the settings of Megatron-LM's pipelines: degrees, uneven numbers of layers, and
// layouts (`Ettt|tttt|ttL`), whose letters are explained in the rule's note.
#include "models/compiler/frameworks/stages.h"
#include "models/core/error.h"
#include "tools/interop/amounts.h"
#include "tools/interop/megatron/megatron.h"

namespace meshwright::interop {

namespace {

// Returns the stages of an uneven partition: with given numbers of layers on the first or the last
// stage, or with the embedding or the loss counted as a layer. Returns nothing if no setting asks
// for that, if there are fewer than two stages, or if the number of layers is unknown. Throws
// InputError if the layers do not divide evenly over the remaining stages.
std::vector<StageUnits> uneven_stages(Settings& from, std::int64_t layers, std::int64_t parts) {
  const auto first = from.count("decoder-first-pipeline-num-layers");
  const auto last = from.count("decoder-last-pipeline-num-layers");
  const bool embedding = from.flag("account-for-embedding-in-pipeline-split").value_or(false);
  const bool loss = from.flag("account-for-loss-in-pipeline-split").value_or(false);
  if (layers == 0 || parts < 2 || !(first || last || embedding || loss)) return {};
  const std::int64_t open = parts - (first ? 1 : 0) - (last ? 1 : 0);
  const std::int64_t shared = layers - first.value_or(0) - last.value_or(0) + embedding + loss;
  if (open < 1 || shared < open || shared % open != 0)
    from.fail(first       ? "decoder-first-pipeline-num-layers"
              : last      ? "decoder-last-pipeline-num-layers"
              : embedding ? "account-for-embedding-in-pipeline-split"
                          : "account-for-loss-in-pipeline-split",
              std::to_string(shared) + " layers do not divide evenly over " + std::to_string(open) +
                  " stages");
  std::vector<StageUnits> stages(parts);
  for (StageUnits& stage : stages) stage.layers = static_cast<int>(shared / open);
  stages.front().embedding = stages.back().head = true;
  if (first) stages.front().layers = static_cast<int>(*first);
  if (last) stages.back().layers = static_cast<int>(*last);
  stages.front().layers -= embedding;
  stages.back().layers -= loss;
  return stages;
}

void read_pipeline(Settings& from, JobDraft& to) {
  const std::int64_t pipeline = from.count("pipeline-model-parallel-size").value_or(1);
  to.set("parallelism.pipeline", pipeline);
  const std::int64_t layers = to.model_layers();
  std::int64_t virtual_stages = 1;
  if (const auto given = from.count("num-virtual-stages-per-pipeline-rank"))
    virtual_stages = *given;
  if (const auto each = from.count("num-layers-per-virtual-pipeline-stage")) {
    if (layers == 0 || layers % (*each * pipeline) != 0)
      from.fail("num-layers-per-virtual-pipeline-stage",
                std::to_string(*each) + " layers do not cut " + std::to_string(layers) +
                    " into whole rounds of " + std::to_string(pipeline) + " stages");
    virtual_stages = layers / (*each * pipeline);
  }
  std::vector<StageUnits> stages = uneven_stages(from, layers, product({pipeline, virtual_stages}));
  if (const auto layout = from.word("pipeline-model-parallel-layout")) {
    try {
      stages = read_layout(*layout);
    } catch (const InputError& error) {
      from.fail("pipeline-model-parallel-layout", error.what());
    }
    if (stages.size() % static_cast<std::size_t>(pipeline) != 0)
      from.fail("pipeline-model-parallel-layout", std::to_string(stages.size()) +
                                                      " stages do not divide over " +
                                                      std::to_string(pipeline) + " pipeline ranks");
    virtual_stages = static_cast<std::int64_t>(stages.size()) / pipeline;
  }
  to.set("parallelism.virtual_stages", virtual_stages);
  // Megatron-DeepSpeed has --enable-zbh1-pipeline and --enable-zbh1-exact-semantics for the
  // schedule ZB-H1.
  const bool fills_bubbles = from.flag("enable-zbh1-pipeline").value_or(false) ||
                             from.flag("enable-zbh1-exact-semantics").value_or(false);
  to.set("parallelism.schedule", virtual_stages > 1              ? "interleaved"
                                 : fills_bubbles && pipeline > 1 ? "zero_bubble"
                                                                 : "1f1b");
  to.set("parallelism.partition", stages.empty()
                                      ? json("even")
                                      : partition_of(stages, to.word("model.model_type", "llama")));
}

}  // namespace

Rule megatron_stages_rule() {
  return {{"parallelism.pipeline", "parallelism.virtual_stages", "parallelism.schedule",
           "parallelism.partition"},
          {"pipeline-model-parallel-size", "num-virtual-stages-per-pipeline-rank",
           "num-layers-per-virtual-pipeline-stage", "pipeline-model-parallel-layout",
           "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers",
           "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split",
           "enable-zbh1-pipeline", "enable-zbh1-exact-semantics"},
          read_pipeline,
          [](const JobValues& from, Settings& to) {
            const Parallelism& p = from.plan.parallelism;
            to.add("pipeline-model-parallel-size", p.pipeline);
            const std::vector<StageUnits> stages = stages_of(from.plan, from.model);
            if (!stages.empty())
              to.add("pipeline-model-parallel-layout",
                     layout_text(stages, from.plan.training.mtp_layers));
            else if (p.virtual_stages > 1)
              to.add("num-virtual-stages-per-pipeline-rank", p.virtual_stages);
          },
          "layouts: E embedding, t a layer, m a layer of multi-token prediction, L the head with "
          "the loss; the final norm goes with the last layer"};
}

}  // namespace meshwright::interop
