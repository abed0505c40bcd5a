// Translates the stages of torchtitan's pipelines: the schedule, and the modules of each stage.
#include <algorithm>
#include <cctype>
#include <string_view>

#include "models/compiler/frameworks/stages.h"
#include "models/compiler/schedule/schedule.h"
#include "tools/interop/torchtitan/torchtitan.h"

namespace meshwright::interop {

namespace {

// Returns the stages that lists of modules describe, one list for each virtual stage:
// "tok_embeddings", "layers.7", "norm", "output".
std::vector<StageUnits> read_parts(const Settings& from, const Setting& parts) {
  const char* const name = "parallelism.module_fqns_per_model_part";
  std::vector<StageUnits> stages;
  for (const json& part : parts.value) {
    if (!part.is_array()) from.fail(name, "a list of lists of modules is needed");
    StageUnits& stage = stages.emplace_back();
    for (const json& module : part) {
      const std::string path = module.is_string() ? module.get<std::string>() : "";
      stage.embedding |= path == "tok_embeddings";
      stage.head |= path == "output";
      stage.layers += path.starts_with("layers.");
    }
  }
  return stages;
}

// Returns torchtitan's default stages. The embedding and the head count as `first` and `last`
// layers, and the first stages get the layers that are left over
// (torchtitan/distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part()). Throws
// InputError if a stage would have no layer to spare for them.
std::vector<StageUnits> usual_parts(Settings& from, std::int64_t parts, std::int64_t layers,
                                    std::int64_t first, std::int64_t last) {
  const std::int64_t all = layers + first + last;
  const std::int64_t each = all / parts, rest = all % parts;
  if (each == 0 || first > each + (rest > 0) || last > each)
    from.fail("parallelism.pipeline_parallel_degree",
              std::to_string(parts) + " stages are more than " + std::to_string(layers) +
                  " layers, the embedding and the head fill");
  std::vector<StageUnits> stages(parts);
  for (std::int64_t i = 0; i < parts; ++i) {
    StageUnits& stage = stages[i];
    stage.layers =
        static_cast<int>(each + (i < rest) - (i == 0 ? first : 0) - (i + 1 == parts ? last : 0));
  }
  stages.front().embedding = stages.back().head = true;
  return stages;
}

void set_parts(const std::vector<StageUnits>& stages, std::int64_t pipeline, Settings& from,
               JobDraft& to) {
  const auto parts = static_cast<std::int64_t>(stages.size());
  constexpr const char *given = "parallelism.module_fqns_per_model_part",
                       *each = "parallelism.pipeline_parallel_layers_per_stage";
  if (parts == 0 || parts % pipeline != 0)
    from.fail(from.has(given) ? given : each, std::to_string(parts) + " parts do not divide over " +
                                                  std::to_string(pipeline) + " pipeline ranks");
  to.set("parallelism.virtual_stages", parts / pipeline);
  to.set("parallelism.partition", partition_of(stages, "llama"));
}

// A schedule: PyTorch's name, which is compared without regard to case, and the job file's name.
struct ScheduleName {
  std::string_view theirs, ours;
  int parts = 1;  // stages of a rank unless settings give them
};
constexpr ScheduleName schedules[] = {{"1F1B", "1f1b"},
                                      {"GPipe", "gpipe"},
                                      {"Interleaved1F1B", "interleaved", 2},
                                      {"InterleavedZeroBubble", "interleaved_zero_bubble", 2},
                                      {"ZBVZeroBubble", "zero_bubble_v", 2},
                                      {"DualPipeV", "dualpipe_v", 2}};

const ScheduleName* named(std::string_view word) {
  const auto lower = [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  };
  for (const ScheduleName& each : schedules)
    if (std::ranges::equal(each.theirs, word, {}, lower, lower)) return &each;
  return nullptr;
}

void read_stages(Settings& from, JobDraft& to) {
  const auto schedule = from.word("parallelism.pipeline_parallel_schedule");
  const std::int64_t first =
      from.count("parallelism.pipeline_parallel_first_stage_less_layers", 0).value_or(1);
  const std::int64_t last =
      from.count("parallelism.pipeline_parallel_last_stage_less_layers", 0).value_or(1);
  const auto per_stage = from.count("parallelism.pipeline_parallel_layers_per_stage");
  const Setting* const given = from.read("parallelism.module_fqns_per_model_part");
  const std::int64_t pipeline = to.count("parallelism.pipeline");
  if (pipeline == 1) {
    to.set("parallelism.partition", "even");
    return;
  }
  const std::string word = schedule.value_or("1F1B");
  const ScheduleName* const name = named(word);
  if (name == nullptr)
    from.fail("parallelism.pipeline_parallel_schedule",
              "schedule '" + word +
                  "' is not built; 1F1B, GPipe, Interleaved1F1B, InterleavedZeroBubble, "
                  "ZBVZeroBubble and DualPipeV are");
  to.set("parallelism.schedule", std::string(name->ours));
  if (given != nullptr && given->value.is_array())
    return set_parts(read_parts(from, *given), pipeline, from, to);
  const std::int64_t layers = to.model_layers();
  std::int64_t parts = pipeline * name->parts;
  if (per_stage && layers > 0) parts = (layers + first + last + *per_stage - 1) / *per_stage;
  if (layers > 0)
    return set_parts(usual_parts(from, parts, layers, first, last), pipeline, from, to);
  to.set("parallelism.virtual_stages", parts / pipeline);
  to.remark("the layers of each stage follow from the model's; they are cut anew here");
}

void write_stages(const JobValues& from, Settings& to) {
  const Parallelism& p = from.plan.parallelism;
  const std::string_view own = schedule_info(p.schedule).name;
  to.add("parallelism.pipeline_parallel_schedule",
         std::string(std::ranges::find(schedules, own, &ScheduleName::ours)->theirs));
  if (p.pipeline == 1) return;
  std::vector<StageUnits> stages = stages_of(from.plan, from.model);
  if (stages.empty()) {
    stages.resize(from.plan.virtual_stage_count());
    for (StageUnits& stage : stages)
      stage.layers = from.model.layers / from.plan.virtual_stage_count();
    stages.front().embedding = stages.back().head = true;
  }
  json parts = json::array();
  int layer = 0;
  for (const StageUnits& stage : stages) {
    json part = json::array();
    if (stage.embedding) part.push_back("tok_embeddings");
    for (int i = 0; i < stage.layers; ++i) part.push_back("layers." + std::to_string(layer++));
    if (layer == from.model.layers && stage.layers > 0) part.push_back("norm");
    if (stage.head) part.push_back("output");
    parts.push_back(std::move(part));
  }
  to.add("parallelism.module_fqns_per_model_part", std::move(parts));
}

}  // namespace

Rule torchtitan_stages_rule() {
  return {
      {"parallelism.schedule", "parallelism.virtual_stages", "parallelism.partition"},
      {"parallelism.pipeline_parallel_schedule",
       "parallelism.pipeline_parallel_first_stage_less_layers",
       "parallelism.pipeline_parallel_last_stage_less_layers",
       "parallelism.pipeline_parallel_layers_per_stage", "parallelism.module_fqns_per_model_part"},
      read_stages,
      write_stages,
      "without module names the embedding and the head count as a layer each"};
}

}  // namespace meshwright::interop
