#include "models/compiler/frameworks/stages.h"

#include <algorithm>

#include "models/architectures/architecture.h"
#include "models/compiler/partition/partition.h"
#include "models/core/error.h"
#include "models/program/graph/graph.h"

namespace meshwright::compiler {

namespace {

bool is_block(const std::string& path, const ArchitectureInfo& names) {
  return path.starts_with(std::string(names.block) + ".");
}

const ArchitectureInfo& info_of(std::string_view model_type) {
  for (const ArchitectureRow& row : all_architectures)
    if (row.info.name == model_type) return row.info;
  return info(Architecture::llama);  // mistral and others that have its names
}

// Returns the layout from `at` on, up to the closing parenthesis if `inside`, with every repetition
// written out. Throws InputError if parentheses, letters or counts are wrong, or if the result is
// too long.
std::string expand(std::string_view text, std::size_t& at, int depth) {
  constexpr std::size_t most = 4096;
  constexpr int deepest = 16;
  std::string result;
  while (at < text.size()) {
    const char c = text[at++];
    std::string piece;
    if (c == ')') {
      if (depth == 0) throw InputError("a ')' without its '('");
      return result;
    }
    if (c == '(' && depth == deepest) throw InputError("parentheses in more than 16 levels");
    if (c == '(')
      piece = expand(text, at, depth + 1);
    else if (c == 'E' || c == 't' || c == 'm' || c == 'L' || c == '|')
      piece = c;
    else if (c != ',' && c != ' ')
      throw InputError(std::string("'") + c + "' is none of E, t, m, L, | and *");
    if (at < text.size() && text[at] == '*') {
      std::size_t number = 0, digits = 0;
      for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9' && digits < 4;
           ++at, ++digits)
        number = 10 * number + static_cast<std::size_t>(text[at] - '0');
      if (digits == 0 || number * piece.size() > most)
        throw InputError("a '*' needs a number of repetitions");
      std::string all;
      for (std::size_t i = 0; i < number; ++i) all += piece;
      piece = all;
    }
    result += piece;
    if (result.size() > most) throw InputError("too long");
  }
  if (depth > 0) throw InputError("a '(' without its ')'");
  return result;
}

bool are_even(const std::vector<StageUnits>& stages) {
  for (std::size_t i = 0; i < stages.size(); ++i)
    if (stages[i].layers != stages[0].layers || stages[i].embedding != (i == 0) ||
        stages[i].head != (i + 1 == stages.size()))
      return false;
  return true;
}

}  // namespace

std::vector<StageUnits> stages_of(const Plan& plan, const Model& model) {
  if (plan.virtual_stage_count() == 1) return {};
  const Graph graph = build_graph(model, plan.training);
  std::vector<int> stage_of_unit = plan.stage_of_unit;
  if (stage_of_unit.empty()) {
    const std::vector<double> alike(graph.units.size(), 1);
    stage_of_unit = partition(graph, plan, alike, alike);
  }
  const ArchitectureInfo& names = info(model.architecture);
  std::vector<StageUnits> stages(plan.virtual_stage_count());
  bool after_blocks = false;
  for (std::size_t u = 0; u < graph.units.size(); ++u) {
    StageUnits& stage = stages[stage_of_unit[u]];
    const std::string& path = graph.units[u].path;
    if (graph.units[u].predicts_ahead) continue;
    if (is_block(path, names)) {
      ++stage.layers;
      after_blocks = true;
    } else if (!after_blocks) {
      stage.embedding = true;
    } else if (u + 1 == graph.units.size()) {
      stage.head = true;
    }
  }
  return are_even(stages) ? std::vector<StageUnits>{} : stages;
}

std::string layout_text(const std::vector<StageUnits>& stages, int mtp_layers) {
  std::string text;
  for (const StageUnits& stage : stages) {
    if (&stage != &stages.front()) text += '|';
    if (stage.embedding) text += 'E';
    text.append(stage.layers, 't');
    if (stage.head) text.append(mtp_layers, 'm') += 'L';
  }
  return text;
}

std::vector<StageUnits> read_layout(std::string_view text) {
  std::size_t at = 0;
  const std::string all = expand(text, at, 0);
  if (const std::size_t last = all.rfind('|'); last != std::string::npos && all.find('m') < last)
    throw InputError("'m': multi-token prediction is on the stage of the loss (L) here");
  std::vector<StageUnits> stages(1);
  for (const char c : all) {
    if (c == '|') stages.emplace_back();
    stages.back().embedding |= c == 'E';
    stages.back().layers += c == 't';
    stages.back().head |= c == 'L';
  }
  if (!stages.front().embedding || !stages.back().head)
    throw InputError("the embedding (E) is on the first stage, the loss (L) on the last");
  for (const char once : {'E', 'L'})
    if (std::ranges::count(all, once) > 1)
      throw InputError(std::string("there is more than one ") + once);
  return stages;
}

std::map<std::string, int> first_units(const std::vector<StageUnits>& stages,
                                       const ArchitectureInfo& names) {
  std::map<std::string, int> first = {{std::string(names.embeddings.unit), 0}};
  int layer = 0;
  for (int i = 0; i < static_cast<int>(stages.size()); ++i) {
    const StageUnits& stage = stages[i];
    if (stage.layers > 0)
      first[std::string(names.block) + "." + std::to_string(layer)] = i;
    else if (stage.head)
      first[std::string(names.head.unit)] = i;
    layer += stage.layers;
  }
  return first;
}

nlohmann::json partition_of(const std::vector<StageUnits>& stages, std::string_view model_type) {
  if (are_even(stages)) return "even";
  return first_units(stages, info_of(model_type));
}

void name_stages(Plan& plan, const Model& model) {
  Parallelism& p = plan.parallelism;
  const bool is_found = !plan.stage_of_unit.empty() || p.partitioner == Partitioner::manual ||
                        p.partitioner == Partitioner::even;
  if (plan.virtual_stage_count() > 1 && !is_found) return;
  const std::vector<StageUnits> stages = stages_of(plan, model);
  if (std::ranges::find(stages, StageUnits{}) != stages.end()) return;
  plan.stage_of_unit.clear();
  p.manual_stage.clear();
  p.names_every_unit = false;
  p.partitioner = Partitioner::even;
  if (stages.empty()) return;
  p.partitioner = Partitioner::manual;
  for (const auto& [path, stage] : first_units(stages, info(model.architecture)))
    p.manual_stage[path] = stage;
}

}  // namespace meshwright::compiler
