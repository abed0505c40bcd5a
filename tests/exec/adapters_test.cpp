// Tests what a run that trains adapters saves, what it starts from, and what peft reads of it.
#include "exec/checkpoint/adapters.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/resume.h"
#include "models/compiler/passes/graph/add_adapters.h"
#include "tests/catch.h"
#include "tests/exec/saving_run.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

const std::string golden_root = std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/golden/";

Plan adapting_plan() {
  Plan plan = saving_plan(small_model("gpt"));
  plan.training.lora = Lora{2, 8, 0, {"c_attn", "c_proj"}};
  return plan;
}

bool is_adapter(const std::string& name) { return name.find(".lora_") != std::string::npos; }

// Saves all parameters as the checkpoint of step 0, as imported weights.
void save_as_base(const std::string& folder, const Values& values, const SavingRun& run) {
  MadeParameters made;
  for (const auto& [name, each] : values) made[name] = [&each = each] { return each; };
  Manifest about;
  about.run = "test";
  import_weights(Safetensors(golden_root + "safetensors/gpt2"), shapes_of(run.stages), about,
                 folder, {}, made);
}

}  // namespace

TEST_CASE("a run of adapters continues to the bit, and saves nothing else", "[exec][lora]") {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const TestFolder folder;
    Plan plan = adapting_plan();
    plan.training.precision = precision;
    SavingRun undisturbed(plan), broken(plan), resumed(plan);
    for (int step = 1; step <= 3; ++step) CHECK(undisturbed.step(step) == broken.step(step));
    broken.save(folder.path(), 3);
    const Checkpoint saved(step_folder(folder.path(), 3));
    CHECK(saved.names().size() == 4 * 3 * 2);
    for (const std::string& name : saved.names()) CHECK(is_adapter(name));
    REQUIRE(resumed.resume_from(folder.path()));
    for (int step = 4; step <= 6; ++step) CHECK(resumed.step(step) == undisturbed.step(step));
    CHECK(resumed.hash() == undisturbed.hash());
  }
}

TEST_CASE("the frozen weights of adapters stay in the first checkpoint", "[exec][lora]") {
  const TestFolder folder;
  const Plan plan = adapting_plan();
  Plan other = plan;
  other.training.seed = 5;
  SavingRun from(other), run(plan), again(plan);
  save_as_base(folder.path(), from.parameters(), from);
  const std::optional<Manifest> begun = run.resume_from(folder.path());
  REQUIRE(begun);
  CHECK(begun->base == "step-00000000");
  CHECK(run.hash() == from.hash());
  {
    Saver saver(folder.path(), 1, run.runtime, *run.all,
                [](const std::string& line) { FAIL(line); });
    for (int step = 1; step <= 3; ++step) {
      run.step(step);
      Manifest about = run.about(step);
      about.base = begun->base;
      saver.save(about);
    }
    REQUIRE(saver.finish());
  }
  CHECK(steps_in(folder.path()) == std::vector<std::int64_t>{3, 0});
  const std::optional<Manifest> found = again.resume_from(folder.path());
  REQUIRE(found);
  CHECK(found->step == 3);
  CHECK(found->base == "step-00000000");
  CHECK(again.hash() == run.hash());
}

// Checks that the run is refused whatever part of its folder is lost or damaged, as long as one
// trace is left that it began with imported weights.
TEST_CASE("a run that began with imported weights never begins anew", "[exec][lora]") {
  namespace fs = std::filesystem;
  const TestFolder folder;
  const Plan plan = adapting_plan();
  SavingRun from(plan), run(plan);
  save_as_base(folder.path(), from.parameters(), from);
  const std::string mark = folder.file(std::string(import_mark));
  CHECK(fs::exists(mark));
  CHECK(read_manifest(step_folder(folder.path(), 0)).imported);
  const std::optional<Manifest> begun = run.resume_from(folder.path());
  REQUIRE(begun);
  CHECK(begun->imported);
  CHECK(begun->base_checksum != 0);
  {
    Saver saver(folder.path(), 1, run.runtime, *run.all,
                [](const std::string& line) { FAIL(line); });
    run.step(1);
    Manifest about = run.about(1);
    about.base = begun->base;
    about.base_checksum = begun->base_checksum;
    about.imported = begun->imported;
    saver.save(about);
    REQUIRE(saver.finish());
  }
  const auto refusal = [&] {
    SavingRun again(plan);
    return message_of([&] { again.resume_from(folder.path()); });
  };
  const std::string beginning =
      ": the run began with imported weights, and none of its "
      "checkpoints is good";
  fs::remove_all(step_folder(folder.path(), 0));
  CHECK(refusal().starts_with(folder.path() + beginning));
  fs::remove(mark);
  CHECK(began_with_imported_weights(folder.path()));
  CHECK(refusal().starts_with(folder.path() + beginning));
  // Tries a folder without any trace, one with only a folder of step 0 without a manifest, and one
  // with only the mark.
  fs::remove_all(step_folder(folder.path(), 1));
  CHECK(!began_with_imported_weights(folder.path()));
  CHECK(refusal().empty());
  fs::create_directory(step_folder(folder.path(), 0));
  CHECK(refusal().starts_with(folder.path() + beginning));
  fs::remove(step_folder(folder.path(), 0));
  mark_as_imported(folder.path());
  CHECK(refusal().starts_with(folder.path() + beginning));
}

TEST_CASE("adapters are refused beside other weights than those they were trained on",
          "[exec][lora]") {
  const TestFolder folder;
  const Plan plan = adapting_plan();
  Plan other_plan = plan;
  other_plan.training.seed = 5;
  SavingRun from(plan), other(other_plan), run(plan);
  save_as_base(folder.path(), from.parameters(), from);
  const std::optional<Manifest> begun = run.resume_from(folder.path());
  REQUIRE(begun);
  const std::set<std::string> frozen = frozen_of(run.stages);
  Manifest trained = run.about(1);
  trained.base = begun->base;
  trained.base_checksum = begun->base_checksum;
  const auto refusal = [&](SavingRun& weights) {
    const TestFolder beside;
    save_as_base(beside.path(), weights.parameters(), weights);
    return message_of([&] {
      check_base(trained, Checkpoint(step_folder(beside.path(), 0)), beside.path(), frozen);
    });
  };
  CHECK(refusal(from).empty());
  CHECK(refusal(other).find("/step-00000000/manifest.json: /shards: are other weights than those "
                            "that the adapters of step 1 were trained on") != std::string::npos);
  trained.base_checksum = 0;  // an older version did not say
  CHECK(refusal(other).empty());
}

TEST_CASE("a base has the name of a folder beside", "[exec][lora]") {
  Manifest manifest;
  manifest.base = "step-00000000";
  CHECK(parse_manifest(encode(manifest), "m").base == manifest.base);
  manifest.base = "../other";
  CHECK(message_of([&] { parse_manifest(encode(manifest), "m"); }).find("/base: is not the name") !=
        std::string::npos);
}

TEST_CASE("merged weights are W + alpha / rank B A, whichever way they are stored",
          "[exec][lora]") {
  for (const char* family : {"gpt", "llama"}) {
    const TestFolder folder;
    const Model model = small_model(family);
    Plan plan = saving_plan(model);
    plan.training.lora = Lora{2, 6, 0, {"c_attn", "q_proj"}};
    plan.training.lora->target_modules.erase(plan.training.lora->target_modules.begin() +
                                             (family == std::string("gpt") ? 1 : 0));
    SavingRun run(plan, model);
    for (int step = 1; step <= 2; ++step) run.step(step);
    run.save(folder.path(), 2);
    const Values values = run.parameters();
    const Checkpoint saved(step_folder(folder.path(), 2));
    Plan one;
    one.training = plan.training;
    const Graph graph = add_adapters(build_graph(model, one.training), one);
    AdaptedWeights adapted{
        saved,       nullptr, {}, adapters_of(graph, *plan.training.lora), plan.training.seed,
        model.layers};
    for (const Parameter& parameter : graph.parameters) adapted.whole[parameter.name] = parameter;
    REQUIRE(adapted.adapters.size() == 4);
    for (const Adapter& each : adapted.adapters) {
      CHECK(each.weight_in_out == (family == std::string("gpt")));
      const std::vector<float>&w = values.at(each.weight), &a = values.at(each.first),
            &b = values.at(each.second), made = adapted.merged(each.weight);
      CHECK(adapted.plain(each.weight) == w);
      const std::int64_t in = std::ssize(a) / 2, out = std::ssize(b) / 2;
      double moved = 0;
      for (std::int64_t o = 0; o < out; ++o)
        for (std::int64_t i = 0; i < in; ++i) {
          const std::size_t at_w = each.weight_in_out ? i * out + o : o * in + i;
          const double change = double(b[2 * o]) * a[i] + double(b[2 * o + 1]) * a[in + i];
          REQUIRE(made[at_w] == Approx(w[at_w] + 3 * change).margin(1e-7));
          moved = std::max(moved, std::abs(change));
        }
      CHECK(moved > 1e-5);
    }
    const std::string other = graph.parameters.front().name;
    CHECK(adapted.merged(other) == values.at(other));
  }
}

// The decay is 0.5. So after one step from x the average is halfway between x and the step's
// result.
TEST_CASE("averages of adapters are merged with the weights that are not trained", "[exec][lora]") {
  const TestFolder folder, merged_weights, merged_averages;
  const Model model = small_model("gpt");
  Plan plan = saving_plan(model);
  plan.training.lora = Lora{2, 6, 0, {"c_attn"}};
  plan.training.ema_decay = 0.5;
  SavingRun run(plan, model);
  const Values before = run.parameters();
  run.step(1);
  run.save(folder.path(), 1);
  const Values after = run.parameters();
  const Checkpoint saved(step_folder(folder.path(), 1));
  REQUIRE(saved.average() > 0);
  Plan one;
  one.training = plan.training;
  const Graph graph = add_adapters(build_graph(model, one.training), one);
  AdaptedWeights weights{
      saved,       nullptr, {}, adapters_of(graph, *plan.training.lora), plan.training.seed,
      model.layers};
  for (const Parameter& parameter : graph.parameters) weights.whole[parameter.name] = parameter;
  AdaptedWeights averages = weights;
  averages.state = saved.average();
  for (const Parameter& parameter : graph.parameters) {
    INFO(parameter.name);
    const std::vector<float>&x = before.at(parameter.name), &y = after.at(parameter.name),
          mean = averages.plain(parameter.name);
    REQUIRE(mean.size() == x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      REQUIRE(mean[i] == Approx((double(x[i]) + y[i]) / 2).margin(1e-7));
  }
  for (const Adapter& each : averages.adapters) {
    const std::vector<float> merged = averages.merged(each.weight),
                             last = weights.merged(each.weight), w = averages.plain(each.weight);
    const std::vector<float>&b0 = before.at(each.second), &b1 = after.at(each.second),
          &a0 = before.at(each.first), &a1 = after.at(each.first);
    const std::size_t in = a0.size() / 2, out = b0.size() / 2;
    double apart = 0;
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t i = 0; i < in; ++i) {
        double change = 0;
        for (std::size_t r = 0; r < 2; ++r)
          change += (double(b0[2 * o + r]) + b1[2 * o + r]) / 2 *
                    ((double(a0[r * in + i]) + a1[r * in + i]) / 2);
        REQUIRE(merged[i * out + o] == Approx(w[i * out + o] + 3 * change).margin(1e-7));
        apart = std::max<double>(apart, std::abs(merged[i * out + o] - last[i * out + o]));
      }
    CHECK(apart > 1e-4);
  }
}

TEST_CASE("peft's config says what the job says", "[exec][lora]") {
  const Lora lora{4, 8, 0.1, {"q_proj", "v_proj"}};
  const auto config = nlohmann::json::parse(peft_config(lora, {}));
  CHECK(config["r"] == 4);
  CHECK(config["lora_alpha"] == 8);
  CHECK(config["lora_dropout"] == 0.1);
  CHECK(config["target_modules"] == nlohmann::json({"q_proj", "v_proj"}));
  CHECK(config["fan_in_fan_out"] == false);
  const Lora all{4, 8, 0, {std::string(all_linear)}};
  const Adapter adapter{"h.0.c_attn", "h.0.c_attn.weight", "", "", true};
  const auto of_all = nlohmann::json::parse(peft_config(all, {adapter}));
  CHECK(of_all["target_modules"] == nlohmann::json({"h.0.c_attn"}));
  CHECK(of_all["fan_in_fan_out"] == true);
  const std::string golden = golden_root + "lora/llama/adapter_config.json";
  check_peft_config(golden, Lora{3, 7.5, 0, {"q_proj"}});
  CHECK(message_of([&] {
          check_peft_config(golden, Lora{4, 7.5, 0, {"q_proj"}});
        }).find("/r: 3 differs from the job's training.lora.rank, 4") != std::string::npos);
}

TEST_CASE("keys of a peft file that no job here has are refused, each in its words",
          "[exec][lora]") {
  const TestFolder folder;
  const nlohmann::json plain = {{"r", 3}, {"lora_alpha", 7.5}};
  const auto said = [&](const nlohmann::json& config) {
    const std::string file = folder.file("adapter_config.json", config.dump());
    const std::string message = message_of([&] {
      check_peft_config(file, Lora{3, 7.5, 0, {"q"}});
    });
    return message.empty() ? message : message.substr(file.size());
  };
  CHECK(said(plain) == "");
  struct Row {
    const char* key;
    nlohmann::json harmless, refused;
    const char* message;
  };
  const Row rows[] = {
      {"r", 3, 4, ": /r: 4 differs from the job's training.lora.rank, 3"},
      {"lora_alpha", 7.5, 8, ": /lora_alpha: 8 differs from the job's training.lora.alpha, 7.5"},
      {"peft_type", "LORA", "LOHA", ": /peft_type: 'LOHA' is not supported yet; use 'LORA'"},
      {"use_dora", false, true, ": /use_dora: is not supported yet; use false"},
      {"use_rslora", false, true, ": /use_rslora: is not supported yet; use false"},
      {"lora_bias", false, true, ": /lora_bias: is not supported yet; use false"},
      {"bias", "none", "all", ": /bias: trained biases are not supported yet; use 'none'"},
      {"rank_pattern",
       nlohmann::json::object(),
       {{"q", 2}},
       ": /rank_pattern: modules that differ are not supported yet; leave it empty"},
      {"alpha_pattern",
       nullptr,
       {{"q", 2}},
       ": /alpha_pattern: modules that differ are not supported yet; leave it empty"},
      {"lora_dropout", 0.1, nullptr, ""},
      {"target_modules", {"a"}, nullptr, ""}};
  for (const Row& row : rows) {
    INFO(row.key);
    nlohmann::json config = plain;
    config[row.key] = row.harmless;
    CHECK(said(config) == "");
    config[row.key] = row.refused;
    CHECK(said(config) == row.message);
  }
  for (const char* key : {"r", "lora_alpha"}) {
    nlohmann::json config = plain;
    config.erase(key);
    CHECK(said(config) == std::string(": /") + key + ": missing; it is required (a number)");
  }
}
