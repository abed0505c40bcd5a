// Tests that a file of Programs is rejected if a number in it that is an index or counts bytes is
// out of range. Tries the Programs of many kinds of plans.
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "models/program/program_json.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

std::string refusal_of(const json& value) {
  return message_of([&] { read_programs(Fields(value, "job.json")); });
}

struct Sort {
  const char* family;
  SmallDegrees degrees;
  void (*change)(Plan&);
};

const Sort sorts[] = {
    {"gpt", {.pipeline = 2, .data = 2, .zero_stage = 2}, [](Plan& plan) { plan.snapshot = true; }},
    {"gpt",
     {.data = 2, .zero_stage = 1},
     [](Plan& plan) {
       plan.training.optimizer = OptimizerKind::lamb;
       plan.training.precision = Precision::fp16;
     }},
    {"llama",
     {.tensor = 2},
     [](Plan& plan) {
       plan.training.optimizer = OptimizerKind::adafactor;
       plan.training.precision = Precision::bf16;
     }},
    {"llama",
     {.data = 2},
     [](Plan& plan) {
       plan.training.optimizer = OptimizerKind::muon;
       plan.training.ema_decay = 0.9;
       plan.training.mtp_layers = 1;
     }},
    {"llama",
     {.data = 2},
     [](Plan& plan) {
       plan.training.precision = Precision::fp8;
       plan.training.fp8_recipe = Fp8Recipe::delayed;
     }},
    {"gpt",
     {.data = 2, .zero_stage = 1},
     [](Plan& plan) { plan.parallelism.offload = Offload::optimizer; }},
    {"mixtral", {.data = 2}, [](Plan& plan) { plan.training.measure_expert_load = true; }},
};

std::vector<Program> programs_of(const Sort& sort) {
  const Model model = small_model(sort.family);
  Plan plan = small_plan(model, sort.degrees);
  sort.change(plan);
  return lower_small(model, plan);
}

// Collects the first integer for every path of keys without indices. One place of each path is
// enough, because a check applies to all of them.
void collect(const json& value, const std::string& pointer, const std::string& path,
             std::vector<std::pair<std::string, std::string>>& found, std::set<std::string>& seen) {
  if (value.is_object()) {
    for (const auto& [key, each] : value.items())
      collect(each, pointer + "/" + key, path + "/" + key, found, seen);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      collect(value[i], pointer + "/" + std::to_string(i), path, found, seen);
  } else if (value.is_number_integer() && seen.insert(path).second) {
    found.emplace_back(pointer, path);
  }
}

bool ends_with_one(const std::string& path, auto... keys) {
  return (path.ends_with(std::string("/") + keys) || ...);
}

// Returns the message with which a file is rejected after one number was changed, or "" if it is
// accepted.
std::string refusal_with(json value, const std::string& pointer, const json& number) {
  value[json::json_pointer(pointer)] = number;
  return refusal_of(value);
}

}  // namespace

TEST_CASE("an index of a Program names something that is there", "[models][program]") {
  std::set<std::string> checked;
  for (const Sort& sort : sorts) {
    const json value = to_json(programs_of(sort));
    REQUIRE(refusal_of(value) == "");
    for (const char* pointer : {"/stages/0/bodies/0/chunk", "/stages/0/bodies/1/chunk"})
      for (const int number : {-2, 1'000'000}) {
        const std::string error = refusal_with(value, pointer, number);
        CHECK(error.starts_with("job.json: " + std::string(pointer) + ": " +
                                std::to_string(number) + " names no chunk"));
      }
    std::vector<std::pair<std::string, std::string>> found;
    std::set<std::string> seen;
    collect(value, "", "", found, seen);
    for (const auto& [pointer, path] : found) {
      if (path.find("/class_bytes/") != std::string::npos) continue;
      if (!ends_with_one(path, "buffer", "body", "module", "bucket", "parameters", "loss_buffer",
                         "norm_buffer"))
        continue;
      INFO(pointer);
      checked.insert(path.substr(path.rfind('/')));
      CHECK(refusal_with(value, pointer, 1'000'000).starts_with("job.json: /"));
      // A negative buffer means that a bucket does not have this operand.
      if (path.starts_with("/stages/buckets/") && path.ends_with("/buffer")) continue;
      CHECK(refusal_with(value, pointer, -2).starts_with("job.json: /"));
    }
    for (const auto& [pointer, path] : found) {
      if (!ends_with_one(path, "bytes", "offset", "elements", "shard_elements", "count", "begin",
                         "arena_bytes", "persistent_bytes"))
        continue;
      INFO(pointer);
      CHECK(refusal_with(value, pointer, -1).starts_with("job.json: /"));
      CHECK(refusal_with(value, pointer, std::int64_t{1} << 51).starts_with("job.json: /"));
    }
  }
  CHECK(checked.size() == 7);
}

TEST_CASE("a step's scalars have buffers that are as large as they need", "[models][program]") {
  int checked = 0;
  for (const Sort& sort : sorts) {
    const std::vector<Program> programs = programs_of(sort);
    const json value = to_json(programs);
    for (std::size_t stage = 0; stage < programs.size(); ++stage) {
      const Program& program = programs[stage];
      const auto parameters = std::ssize(program.parameters), rounded = std::ssize(program.rounded);
      struct Scalar {
        const char* key;
        int buffer;
        std::int64_t bytes;
      };
      for (const Scalar& each :
           {Scalar{"loss_buffer", program.loss_buffer, 8},
            Scalar{"norm_buffer", program.norm_buffer, 8},
            Scalar{"mtp_loss_buffer", program.mtp_loss_buffer, 8},
            Scalar{"loss_scale_buffer", program.loss_scale_buffer, 4},
            Scalar{"loss_scale_state_buffer", program.loss_scale_state_buffer, 6 * 8},
            Scalar{"parameter_norms_buffer", program.parameter_norms_buffer, 2 * parameters * 8},
            Scalar{"largest_buffer", program.largest_buffer, rounded * 2 * 4},
            Scalar{"history_buffer", program.history_buffer, rounded * 1024 * 4}}) {
        if (each.buffer < 0) continue;
        const std::string place = "/stages/" + std::to_string(stage) + "/";
        INFO(place << each.key);
        const std::string bytes =
            place + "memory/buffers/" + std::to_string(each.buffer) + "/bytes";
        const std::string message = "job.json: " + place + each.key +
                                    ": that buffer is not persistent, or has fewer than " +
                                    std::to_string(each.bytes) + " bytes";
        // The buffer has exactly the bytes that are needed, so one byte less is rejected.
        CHECK(program.memory.buffers[each.buffer].bytes == each.bytes);
        CHECK(refusal_with(value, bytes, each.bytes) == "");
        const std::string error = refusal_with(value, bytes, each.bytes - 1);
        CHECK(error == message);
        ++checked;
      }
    }
  }
  CHECK(checked >= 7 * 2 + 6);
}
