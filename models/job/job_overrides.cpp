#include "models/job/job_overrides.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "models/core/error.h"
#include "models/core/json.h"
#include "models/job/keys.h"
#include "models/job/written_numbers.h"

namespace meshwright::job {

namespace {

std::vector<std::string> parts_of(const std::string& key) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = key.find('.', begin);
    parts.push_back(key.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

json value_of(const std::string& text) {
  try {
    return parse_json(text, "--set");
  } catch (const InputError&) {
    return text;
  }
}

// Returns whether people read the number in two ways, such as 15.000 dollars, while JSON has only
// one. Only keys that count something or are in dollars have such numbers.
bool is_doubtful(const std::string& key, const std::string& text) {
  return std::ranges::any_of(written_keys(), [&](const WrittenKey& row) {
    const bool is_whole = row.quantity == NumberKind::count || row.quantity == NumberKind::usd;
    return is_whole && key == std::string(row.section) + "." + std::string(row.key) &&
           !written_number(text, row.quantity);
  });
}

// Replaces instance_type and instance_count by an equal `cluster`, so that `--set
// cluster.KEY=VALUE` changes only one key of a job that names its instances in the short form.
void spell_out_instances(json& job) {
  if (job.contains("cluster") || !job.contains("instance_type")) return;
  job["cluster"]["machine"] = job["instance_type"];
  if (job.contains("instance_count")) job["cluster"]["count"] = job["instance_count"];
  job.erase("instance_type");
  job.erase("instance_count");
}

class Walk {
 public:
  Walk(const std::string& text, const std::string& key, const std::string& file)
      : place_(file + ": --set " + text + ": "), parts_(parts_of(key)) {}

  json& target(json& job) const {
    json* node = &job;
    for (const std::string& part : parts_) node = &step(*node, part);
    return *node;
  }
  const std::string& first() const { return parts_.front(); }

 private:
  json& step(json& node, const std::string& part) const {
    if (part.empty()) throw InputError(place_ + "a part of the key is empty; use a.b.c");
    if (node.is_null()) node = json::object();  // a key that was just created
    if (node.is_object()) return node[part];
    if (!node.is_array())
      throw InputError(place_ + "there is nothing below " + node.dump() + " called '" + part +
                       "'; set the key above it");
    const bool number =
        part.size() < 9 && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (!number || std::stoul(part) >= node.size())
      throw InputError(place_ + "'" + part + "' is no index of a list of " +
                       std::to_string(node.size()) + "; count from 0");
    return node[std::stoul(part)];
  }

  std::string place_;
  std::vector<std::string> parts_;
};

}  // namespace

void spell_out_auto(json& job) {
  if (!job.contains("parallelism") || job["parallelism"] != "auto") return;
  json spelled = json::object();
  Parallelism unset;
  for (const Key& key : parallelism_keys(unset))
    if (key.is_auto_with_section()) spelled[std::string(key.name)] = "auto";
  job["parallelism"] = spelled;
}

void open_left_out(json& job) {
  if (!job.is_object() || job.contains("distribution")) return;
  spell_out_auto(job);
  json& parallelism = job["parallelism"];
  if (parallelism.is_null()) parallelism = json::object();
  if (parallelism.is_object()) {
    // If the job gives the stages of modules, their number is fixed.
    const json partition = parallelism.value("partition", json());
    const bool has_stages =
        partition.is_object() ||
        (partition.is_string() && partition.get_ref<const std::string&>().ends_with(".json"));
    Parallelism unset;
    for (const Key& key : parallelism_keys(unset)) {
      const bool is_fixed = key.name == "offload" ||
                            (has_stages && (key.name == "pipeline" || key.name == "schedule" ||
                                            key.name == "virtual_stages"));
      if (key.is_auto_with_section() && !is_fixed)
        parallelism.emplace(std::string(key.name), "auto");
    }
  }
  if (!job.contains("training") || !job["training"].is_object()) return;
  json& training = job["training"];
  const bool recomputes =
      std::ranges::any_of(std::array{"recompute", "recompute_modules", "recompute_budget"},
                          [&](const char* key) { return training.contains(key); });
  if (!recomputes) training["recompute"] = "auto";
}

void apply_override(json& job, const std::string& text, const std::string& file) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw InputError(file + ": --set " + text + ": expected KEY=VALUE");
  const auto trimmed = [](std::string part) {
    part.erase(0, std::min(part.find_first_not_of(' '), part.size()));
    while (part.ends_with(' ')) part.pop_back();
    return part;
  };
  const Walk walk(text, trimmed(text.substr(0, equals)), file);
  if (walk.first() == "parallelism" && text.find('.') < equals) spell_out_auto(job);
  if (walk.first() == "cluster") spell_out_instances(job);
  const std::string value = trimmed(text.substr(equals + 1));
  const json read = value_of(value);
  const bool stays_text = read.is_number() && is_doubtful(trimmed(text.substr(0, equals)), value);
  walk.target(job) = stays_text ? json(value) : read;
}

}  // namespace meshwright::job
