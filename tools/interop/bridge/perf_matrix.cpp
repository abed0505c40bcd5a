// Reads the performance matrix of Megatron-Bridge (scripts/performance, 2025): one file that holds,
// by GPU, number of GPUs and precision, the settings that its launcher puts into the recipe.
#include <set>

#include "models/core/error.h"
#include "tools/interop/amounts.h"
#include "tools/interop/bridge/bridge.h"

namespace meshwright::interop {

namespace {

constexpr std::string_view matrix = "perf_matrix.";

struct Cell {
  std::string gpu, count, kind, name;  // "h100", "num_gpus_64", "bf16", "tp"
};

Cell cell_of(std::string_view name) {
  Cell cell;
  std::string* const parts[] = {&cell.gpu, &cell.count, &cell.kind};
  name.remove_prefix(matrix.size());
  for (std::string* part : parts) {
    const std::size_t dot = name.find('.');
    if (dot == std::string_view::npos) {
      *part = name;
      return cell;
    }
    *part = name.substr(0, dot);
    name.remove_prefix(dot + 1);
  }
  cell.name = name;
  return cell;
}

std::string choose(const std::set<std::string>& known, const std::string& wanted,
                   const std::string& place, const std::string& what, const std::string& how) {
  if (known.contains(wanted)) return wanted;
  if (wanted.empty() && known.size() == 1) return *known.begin();
  throw InputError(place + ": perf_matrix: " + what +
                   (wanted.empty() ? " is not chosen" : " '" + wanted + "' is not in it") +
                   "; it holds " + list_of({known.begin(), known.end()}, "and") + ": " + how);
}

// Returns the matrix's name of a machine's GPU ("h100" for "p5.48xlarge"), or an empty string if it
// is not known.
std::string gpu_of(const std::string& machine) {
  struct Row {
    const char *machine, *gpu;
  };
  constexpr Row rows[] = {{"p5.", "h100"},        {"dgx-h100", "h100"}, {"h100", "h100"},
                          {"p6-b200", "b200"},    {"dgx-b200", "b200"}, {"gb200", "gb200"},
                          {"p6e-gb200", "gb200"}, {"gb300", "gb300"},   {"dgx-b300", "b300"},
                          {"p6-b300", "b300"}};
  for (const Row& row : rows)
    if (machine.starts_with(row.machine)) return row.gpu;
  return {};
}

std::string kind_of(const JobDraft& given) {
  const json precision = given.value("training.precision");
  const json recipe = given.value("training.fp8_recipe");
  if (precision.is_null()) return {};
  if (precision != "fp8") return precision.is_string() ? precision.get<std::string>() : "";
  return recipe == "tensorwise" ? "fp8_cs" : recipe == "mxfp8" ? "fp8_mx" : "fp8_ds";
}

struct MatrixName {
  std::string_view cell, setting;
};
constexpr MatrixName cell_names[] = {
    {"tp", "model.tensor_model_parallel_size"},
    {"pp", "model.pipeline_model_parallel_size"},
    {"cp", "model.context_parallel_size"},
    {"vp", "model.virtual_pipeline_model_parallel_size"},
    {"ep", "model.expert_model_parallel_size"},
    {"etp", "model.expert_tensor_parallel_size"},
    {"mbs", "train.micro_batch_size"},
    {"gbs", "train.global_batch_size"},
    {"seq_length", "model.seq_length"},
    {"cuda_graphs", "model.enable_cuda_graph"},
    {"use_megatron_fsdp", "ddp.use_megatron_fsdp"},
    {"recompute_num_layers", "model.recompute_num_layers"},
    {"cpu_offloading_num_layers", "model.cpu_offloading_num_layers"},
    {"nccl_ub", "ddp.nccl_ub"},
    {"keep_fp8_transpose_cache_when_using_custom_fsdp", "ddp.keep_fp8_transpose_cache"},
};

std::string setting_of(const std::string& cell) {
  for (const MatrixName& row : cell_names)
    if (row.cell == cell) return std::string(row.setting);
  return "perf_matrix." + cell;
}

json precision_of(const std::string& kind) {
  return kind == "fp8_ds"   ? "bf16_with_fp8_delayed_scaling_mixed"
         : kind == "fp8_cs" ? "bf16_with_fp8_current_scaling_mixed"
         : kind == "fp8_mx" ? "bf16_with_mxfp8_mixed"
         : kind == "nvfp4"  ? "bf16_with_nvfp4_mixed"
                            : "bf16_mixed";
}

}  // namespace

Settings choose_from_matrix(const Settings& settings, const JobDraft& given) {
  std::string place;
  std::set<std::string> gpus;
  for (const Setting& each : settings.all()) {
    if (!each.name.starts_with(matrix)) continue;
    if (place.empty()) place = each.place;
    gpus.insert(cell_of(each.name).gpu);
  }
  if (gpus.empty()) return settings;
  const std::string gpu = choose(gpus, gpu_of(given.word("cluster.machine", "")), place, "a GPU",
                                 "give --set cluster.machine, a machine that has it");
  std::set<std::string> counts, kinds;
  for (const Setting& each : settings.all())
    if (const Cell cell = cell_of(each.name.starts_with(matrix) ? each.name : std::string(matrix));
        cell.gpu == gpu)
      counts.insert(cell.count);
  const std::int64_t hosts = given.count("cluster.count", 0);
  const std::string count =
      choose(counts,
             hosts > 0 && counts.size() > 1
                 ? "num_gpus_" + std::to_string(product({hosts, gpu.starts_with("gb") ? 4 : 8}))
                 : "",
             place, "a number of GPUs", "give --set cluster.count");
  for (const Setting& each : settings.all())
    if (each.name.starts_with(matrix))
      if (const Cell cell = cell_of(each.name);
          cell.gpu == gpu && cell.count == count && cell.kind != "common")
        kinds.insert(cell.kind);
  const std::string kind = choose(kinds, kind_of(given), place, "a precision",
                                  "give --set training.precision, and training.fp8_recipe");

  Settings chosen;
  std::int64_t per_host = 0;
  for (const Setting& each : settings.all()) {
    if (!each.name.starts_with(matrix)) {
      chosen.add(each.name, each.value, each.place);
      continue;
    }
    const Cell cell = cell_of(each.name);
    if (cell.gpu != gpu || cell.count != count || (cell.kind != kind && cell.kind != "common")) {
      chosen.add("other:" + each.name, each.value, each.place);
    } else if (cell.name == "num_gpus_per_node") {
      if (each.value.is_number_integer()) per_host = each.value.get<std::int64_t>();
      chosen.add("torchrun.nproc-per-node", each.value, each.place);
    } else if (!cell.name.empty()) {
      chosen.add(setting_of(cell.name), each.value, each.place);
      // The number alone has no effect, so Bridge's launcher turns the feature on with it.
      if (cell.name == "cpu_offloading_num_layers" && !each.value.is_null())
        chosen.add("model.cpu_offloading", true, each.place);
      if (cell.name == "recompute_num_layers" && !each.value.is_null()) {
        chosen.add("model.recompute_granularity", "full", each.place);
        chosen.add("model.recompute_method", "block", each.place);
      }
    }
  }
  chosen.add("mixed_precision", precision_of(kind), place);
  if (kind == "fp8_cs") chosen.add("mixed_precision.first_last_layers_bf16", false, place);
  const std::size_t digits = count.find_last_of('_');
  if (per_host > 0 && digits != std::string::npos &&
      count.find_first_not_of("0123456789", digits + 1) == std::string::npos &&
      count.size() - digits - 1 < 8 && count.size() > digits + 1)
    chosen.add("torchrun.nnodes", std::stoll(count.substr(digits + 1)) / per_host, place);
  return chosen;
}

}  // namespace meshwright::interop
