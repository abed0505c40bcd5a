#include "tools/session/worded_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "hwprofiles/machine_words.h"
#include "models/architectures/usual_shape.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/core/written_number.h"
#include "models/job/job_overrides.h"
#include "models/job/written_numbers.h"
#include "models/program/graph/adapters.h"
#include "models/program/graph/graph.h"
#include "sim/advise/batch_law.h"
#include "tools/session/questions.h"
#include "tools/session/text.h"

namespace meshwright::session {

namespace {

// Compute-optimal training has about this many tokens for each parameter (Hoffmann et al., Training
// compute-optimal large language models, 2022).
constexpr double tokens_per_parameter = 20;

struct Task {
  const char* name;
  int longest;           // most tokens of a sequence, if the model takes more
  int batch;             // sequences; 0: the scaling law gives it
  double learning_rate;  // 0: the job's default
};
// Published recipes of fine-tuning have 16 to 128 sequences per step (Alpaca, LoRA, Tulu). The
// value 64 lies between them.
constexpr Task tasks[] = {
    {"pretrain", 8192, 0, 0},
    {"finetune", 4096, 64, 1e-5},
    {"lora", 4096, 64, 2e-4},
    {"qlora", 4096, 64, 2e-4},
};

// Returns the name in `tasks` that a word means, or else the word's letters in lower case.
std::string plain_task(const std::string& name) {
  std::string word;
  for (const unsigned char c : name)
    if (std::isalpha(c)) word += static_cast<char>(std::tolower(c));
  if (word == "pretraining") return "pretrain";
  for (const char* tuning : {"finetuning", "sft", "fullfinetune", "fullfinetuning", "full",
                             "instructiontuning", "instruct", "tune", "continuedpretraining"})
    if (word == tuning) return word == "continuedpretraining" ? "pretrain" : "finetune";
  if (word == "adapter" || word == "adapters" || word == "peft") return "lora";
  if (word == "train" || word == "training" || word == "fromscratch") return "pretrain";
  return word;
}

const Task& task_of(const std::string& name) {
  if (name.empty()) return tasks[0];
  const auto row = std::ranges::find(tasks, plain_task(name), &Task::name);
  const std::string plain = plain_task(name);
  for (const char* other : {"rlhf", "dpo", "ppo", "grpo", "orpo", "kto", "rl", "distillation"})
    if (plain == other)
      throw InputError("--task: '" + name +
                       "' is not priced here; its steps of training alone are those of finetune or "
                       "lora");
  if (row == std::end(tasks))
    throw InputError("--task: unknown task '" + name + "'; known: " + list_of(task_names(), "and"));
  return *row;
}

// Returns training.lora for adapters of a usual rank on all linear layers of blocks. With
// `in_4_bits`, the weights that are not trained have 4 bits, as in QLoRA.
json usual_lora(bool in_4_bits) {
  json lora = {{"rank", 16}, {"alpha", 32}, {"target_modules", std::string(all_linear)}};
  if (in_4_bits) lora["base_weights"] = "nf4", lora["double_quantization"] = true;
  return lora;
}

Model model_of(const json& value, const std::string& folder) {
  if (value.is_object()) {
    Fields fields(value, "job", "/model");
    return fields.has("model_type") ? read_huggingface(std::move(fields))
                                    : read_model(std::move(fields));
  }
  const auto ref = value.get<std::string>();
  if (const auto words = model_of_words(ref)) return read_model(Fields(*words, "job", "/model"));
  return load_model(ref, folder);
}

// Returns the machines of --on as a value of cluster.machine: one string, or a list if commas,
// semicolons, "|", "and" or "or" separate several. A comma within a number, as in "1,024xH100",
// separates nothing.
json machines_of_words(const std::string& words) {
  const auto is_digit = [&](std::size_t at) {
    return at < words.size() && std::isdigit(static_cast<unsigned char>(words[at])) != 0;
  };
  json list = json::array();
  std::string word;
  const auto add = [&] {
    word.erase(0, std::min(word.find_first_not_of(' '), word.size()));
    while (word.ends_with(' ')) word.pop_back();
    if (!word.empty()) list.push_back(word);
    word.clear();
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_within_number = words[i] == ',' && i > 0 && is_digit(i - 1) && is_digit(i + 1) &&
                                  is_digit(i + 2) && is_digit(i + 3) && !is_digit(i + 4);
    const std::string_view rest = std::string_view(words).substr(i);
    if ((words[i] == ',' && !is_within_number) || words[i] == ';' || words[i] == '|') {
      add();
    } else if (rest.starts_with(" and ") || rest.starts_with(" or ")) {
      add();
      i += rest.starts_with(" and ") ? 4 : 3;
    } else {
      word += words[i];
    }
  }
  add();
  return list.size() == 1 ? list.front() : list.empty() ? json(words) : list;
}

// Returns the words of the request, except its task, as overrides of the job's keys.
std::vector<std::string> overrides_of(const JobRequest& request) {
  std::vector<std::string> all;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) all.push_back(std::string(key) + "=" + json(value).dump());
  };
  add("model", request.model);
  add("objective.tokens", request.tokens);
  add("training.global_batch", request.batch);
  add("training.sequence_length", request.length);
  if (!request.on.empty()) all.push_back("cluster.machine=" + machines_of_words(request.on).dump());
  if (request.count) all.push_back(fmt::format("cluster.count={}", *request.count));
  return all;
}

// Returns a number of the job, or nothing if the job does not have the key or its value is no
// number.
std::optional<double> number_in(const json& job, const char* section, const char* key) {
  const json::json_pointer place(std::string("/") + section + "/" + key);
  return job.contains(place) && job[place].is_number() ? std::optional(job[place].get<double>())
                                                       : std::nullopt;
}

bool has(const json& job, const char* section, const char* key) {
  return job.contains(json::json_pointer(std::string("/") + section + "/" + key));
}

int power_of_two_near(double value) {
  return 1 << std::clamp(static_cast<int>(std::lround(std::log2(value))), 3, 20);
}

// Returns the number of parameters of a model. It does not depend on the length of sequences, which
// may be unknown.
double parameters_of(const Model& model) {
  Training training;
  training.sequence_length =
      std::max(model.positions > 0 ? std::min(model.positions, 128) : 128, 2);
  training.global_batch = training.micro_batch = 1;
  return static_cast<double>(parameter_count(build_graph(model, training)));
}

// Makes overrides for the length and the batch that a job lacks.
class Defaults {
 public:
  Defaults(const json& job, const Model& model, const Task& task, const Watch& watch)
      : job_(job), model_(model), task_(task), watch_(watch) {}

  std::vector<std::string> overrides() {
    add_length();
    if (!has(job_, "training", "global_batch")) add_batch();
    return std::move(overrides_);
  }

 private:
  void add_length() {
    length_ = number_in(job_, "training", "sequence_length").value_or(0);
    if (has(job_, "training", "sequence_length") || model_.captured) return;
    const int most = model_.positions > 0 ? model_.positions : task_.longest;
    length_ = std::min(most, task_.longest);
    add("training.sequence_length", length_);
    watch_.note(most > length_
                    ? fmt::format("note: sequences of {:.0f} tokens, as usual; the model takes up "
                                  "to {} (--length)",
                                  length_, most)
                    : fmt::format("note: sequences of {:.0f} tokens, the model's length (--length)",
                                  length_));
  }

  void add_batch() {
    const bool adapts = task_.batch > 0 || has(job_, "training", "lora");
    const bool has_law =
        model_.is_causal() && model_.head == Head::lm && !model_.captured && !adapts && length_ > 0;
    if (!has_law) {
      const int batch = task_.batch > 0 ? task_.batch : 64;
      add("training.global_batch", batch);
      watch_.note(
          fmt::format("note: a batch of {} sequences, a usual one of {}; no law names it (--batch)",
                      batch, task_.batch > 0 ? task_.name : "such models"));
      return;
    }
    const double parameters = parameters_of(model_);
    const auto given = number_in(job_, "objective", "tokens");
    const double tokens = given.value_or(tokens_per_parameter * parameters);
    const double law = useful_batch_tokens(6 * parameters * tokens);
    const int batch = power_of_two_near(law / length_);
    add("training.global_batch", batch);
    watch_.note(fmt::format(
        "note: a batch of {} sequences, near the {} tokens that the scaling law names for {} of "
        "{} parameters (0.2920 C^0.3271, DeepSeek LLM 2024; --batch)",
        batch, show_count(law), given ? show_count(tokens) + " tokens" : "20 tokens a parameter",
        show_count(parameters)));
  }

  void add(const char* key, double value) {
    overrides_.push_back(fmt::format("{}={:.0f}", key, value));
  }

  const json& job_;
  const Model& model_;
  const Task& task_;
  const Watch& watch_;
  double length_ = 0;
  std::vector<std::string> overrides_;
};

// Returns the job with `overrides`, as far as it is known before it is read.
json job_before(const JobRequest& request, const std::vector<std::string>& overrides) {
  json job = parse_json(request.text ? *request.text : read_file(request.file), request.file);
  for (const std::string& each : overrides) apply_override(job, each, request.file);
  read_written_numbers(job, request.file);
  return job;
}

// Returns the name of a job that words make, such as "Llama-3.1-8B on 60B tokens".
std::string name_of(const JobRequest& request) {
  std::string name = request.model.substr(request.model.rfind('/') + 1);
  if (const std::string task = task_of(request.task).name; task != tasks[0].name)
    name += ", " + task;
  if (!request.tokens.empty()) name += " on " + request.tokens + " tokens";
  return name;
}

// Makes the request one for a job without a file. Adds the keys that such a job has besides its
// words. Throws InputError if no machine is named.
void make_job(JobRequest& request, const Task& task, std::vector<std::string>& overrides) {
  request.file = "command line";
  request.text = "{}";
  overrides.insert(overrides.begin(), "name=" + json(name_of(request)).dump());
  const bool has_machine = std::ranges::any_of(
      request.set, [](const std::string& each) { return each.starts_with("cluster.machine="); });
  if (request.on.empty() && !has_machine)
    throw InputError("--on names the machine, such as --on p5.48xlarge, --on 8xH100 or --on aws");
  const json machines = machines_of_words(request.on);
  const bool counts_hosts =
      request.count || (machines.is_string() && machines_meant(request.on).hosts > 0);
  if (request.any_count && !counts_hosts && !request.on.empty())
    overrides.push_back("cluster.count=auto");
  const std::string_view kind = task.name;
  if (kind == "lora" || kind == "qlora")
    overrides.push_back("training.lora=" + usual_lora(kind == "qlora").dump());
  if (task.learning_rate > 0)
    overrides.push_back(fmt::format("training.learning_rate={}", task.learning_rate));
}

}  // namespace

const std::vector<std::string>& task_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Task& task : tasks) all.emplace_back(task.name);
    return all;
  }();
  return names;
}

JobRequest with_words(const JobRequest& given, const Watch& watch) {
  JobRequest request = given;
  static_cast<JobWords&>(request) = {};
  const Task& task = task_of(given.task);
  const bool is_made = given.file.empty() && !given.text;
  if (!is_made && !given.task.empty())
    throw InputError("--task: goes with --model; a job file says what is trained");
  std::vector<std::string> overrides = overrides_of(given);
  if (is_made) {
    request = given;
    make_job(request, task, overrides);
    static_cast<JobWords&>(request) = {};
  }
  const auto lacks_some = [](const json& job) {
    return !has(job, "training", "sequence_length") || !has(job, "training", "global_batch");
  };
  if (is_made || given.fills_in) {
    std::vector<std::string> all = overrides;
    all.insert(all.end(), request.set.begin(), request.set.end());
    try {
      const json job = job_before(request, all);
      if (job.contains("model") && !job.contains("distribution") && lacks_some(job)) {
        const std::string folder = std::filesystem::path(request.file).parent_path().string();
        const Model model = model_of(job["model"], folder);
        for (const std::string& each : Defaults(job, model, task, watch).overrides())
          overrides.push_back(each);
      }
    } catch (const InputError&) {
      if (is_made) throw;
      // The reader of jobs reports it, with the key.
    }
  }
  overrides.insert(overrides.end(), request.set.begin(), request.set.end());
  request.set = std::move(overrides);
  return request;
}

}  // namespace meshwright::session
