#include "exec/checkpoint/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "exec/runtime/initial.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"

namespace meshwright::exec {

namespace {

constexpr std::string_view peft_prefix = "base_model.model.";

std::vector<float> all_of(const Checkpoint& checkpoint, const Parameter& parameter, int state) {
  const std::int64_t count = parameter.global_shape.elements();
  std::vector<float> values(count);
  const ParameterRun run{0, 0, count};
  checkpoint.read(parameter.name, state, {&run, 1}, values.data());
  return values;
}

// Adds factor * B A to `values`, which is [out, in]. If `in_out` is set, `values` is [in, out] and
// the product is added transposed. `first` is A, [rank, in], and `second` is B, [out, rank]. The
// product is summed in double.
void add_product(std::vector<float>& values, const std::vector<float>& first,
                 const std::vector<float>& second, std::int64_t rank, bool in_out, double factor) {
  const std::int64_t in = static_cast<std::int64_t>(first.size()) / rank;
  const std::int64_t out = static_cast<std::int64_t>(second.size()) / rank;
  std::vector<double> row(in);
  for (std::int64_t o = 0; o < out; ++o) {
    std::ranges::fill(row, 0);
    for (std::int64_t r = 0; r < rank; ++r) {
      const double b = second[o * rank + r];
      const float* a = first.data() + r * in;
      for (std::int64_t i = 0; i < in; ++i) row[i] += b * static_cast<double>(a[i]);
    }
    for (std::int64_t i = 0; i < in; ++i) {
      float& value = values[in_out ? i * out + o : o * in + i];
      value = static_cast<float>(static_cast<double>(value) + factor * row[i]);
    }
  }
}

// Returns peft's `target_modules`. They are the job's names, unless one of these is `all_linear` or
// holds a `*`, which peft would read differently. Then they are the paths of all adapted modules.
std::vector<std::string> target_names(const Lora& lora, const std::vector<Adapter>& adapters) {
  const bool are_plain = std::ranges::none_of(lora.target_modules, [](const std::string& name) {
    return name == all_linear || name.find('*') != std::string::npos;
  });
  if (are_plain) return lora.target_modules;
  std::vector<std::string> names;
  for (const Adapter& adapter : adapters) names.push_back(adapter.module);
  return names;
}

}  // namespace

std::vector<Adapter> adapters_of(const Graph& graph, const Lora& lora) {
  std::map<std::string, bool> in_out;  // by the name of a linear layer's weight
  for (const Node& node : graph.nodes)
    if (node.op == Op::linear)
      in_out[graph.parameters[graph.tensor(node.inputs[1]).parameter].name] =
          node.attributes.weight_in_out;
  std::set<std::string> names;
  for (const Parameter& parameter : graph.parameters) names.insert(parameter.name);
  std::vector<Adapter> adapters;
  for (const Parameter& parameter : graph.parameters) {
    if (!parameter.name.ends_with(".weight")) continue;
    const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
    if (!names.contains(adapter_name(module, false))) continue;
    adapters.push_back({module, parameter.name, adapter_name(module, false),
                        adapter_name(module, true), in_out[parameter.name],
                        lora.alpha / lora.rank});
  }
  return adapters;
}

std::vector<std::string> trained_whole(const Graph& graph) {
  std::vector<std::string> modules;
  for (const Parameter& parameter : graph.parameters) {
    if (!parameter.trainable || parameter.name.starts_with(peft_prefix)) continue;
    const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
    if (std::ranges::find(modules, module) == modules.end()) modules.push_back(module);
  }
  return modules;
}

std::string peft_name(const std::string& parameter) {
  return parameter.starts_with(peft_prefix) ? parameter : std::string(peft_prefix) + parameter;
}

std::string peft_config(const Lora& lora, const std::vector<Adapter>& adapters,
                        const std::vector<std::string>& whole) {
  const bool in_out =
      std::ranges::any_of(adapters, [](const Adapter& each) { return each.weight_in_out; });
  const bool is_whole = lora.alpha == std::floor(lora.alpha) && lora.alpha < 1e15;
  const nlohmann::ordered_json config = {
      {"base_model_name_or_path", nullptr},
      {"bias", "none"},
      {"fan_in_fan_out", in_out},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"lora_alpha", is_whole ? nlohmann::ordered_json(static_cast<std::int64_t>(lora.alpha))
                              : nlohmann::ordered_json(lora.alpha)},
      {"lora_dropout", lora.dropout},
      {"modules_to_save",
       whole.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(whole)},
      {"peft_type", "LORA"},
      {"r", lora.rank},
      {"target_modules", target_names(lora, adapters)},
      {"task_type", whole.empty() ? "CAUSAL_LM" : "SEQ_CLS"},
      {"use_dora", false},
      {"use_rslora", false}};
  return config.dump(2) + "\n";
}

void check_peft_config(const std::string& file, const Lora& lora) {
  Fields fields = read_json_file(file);
  const auto need = [&](std::string_view key, double value, std::string_view ours) {
    const auto found = fields.required<double>(key);
    if (found != value)
      fields.fail(
          key, fmt::format("{} differs from the job's training.lora.{}, {}", found, ours, value));
  };
  need("r", lora.rank, "rank");
  need("lora_alpha", lora.alpha, "alpha");
  if (const auto type = fields.optional<std::string>("peft_type", "LORA"); type != "LORA")
    fields.fail("peft_type", fmt::format("'{}' is not supported yet; use 'LORA'", type));
  for (const std::string_view key : {"use_dora", "use_rslora", "lora_bias"})
    if (fields.optional<bool>(key, false)) fields.fail(key, "is not supported yet; use false");
  for (const std::string_view key : {"rank_pattern", "alpha_pattern"})
    if (fields.has(key) && !fields.raw(key).empty())
      fields.fail(key, "modules that differ are not supported yet; leave it empty");
  if (fields.optional<std::string>("bias", "none") != "none")
    fields.fail("bias", "trained biases are not supported yet; use 'none'");
}

std::vector<float> AdaptedWeights::plain(const std::string& name) const {
  const Parameter& parameter = whole.at(name);
  if (trained.holds(name)) return all_of(trained, parameter, parameter.trainable ? state : 0);
  if (base != nullptr) return all_of(*base, parameter, 0);
  std::vector<float> values(parameter.global_shape.elements());
  fill_initial(parameter, {seed, layers}, 0, static_cast<std::int64_t>(values.size()),
               values.data());
  return values;
}

std::vector<float> AdaptedWeights::merged(const std::string& name) const {
  std::vector<float> values = plain(name);
  for (const Adapter& adapter : adapters)
    if (adapter.weight == name)
      add_product(values, plain(adapter.first), plain(adapter.second),
                  whole.at(adapter.first).global_shape[0], adapter.weight_in_out, adapter.factor);
  return values;
}

void export_merged(const AdaptedWeights& from, const std::map<std::string, Shape>& parameters,
                   const std::string& file, const PublishedParts& parts) {
  std::string last;
  std::vector<float> values;
  export_weights(
      [&](const std::string& name, const ParameterRun& run, float* to) {
        if (name != last) values = from.merged(last = name);
        std::copy_n(values.data() + run.global, run.count, to);
      },
      parameters, file, parts);
}

}  // namespace meshwright::exec
