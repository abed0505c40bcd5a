#include "tools/interop/import.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "models/core/error.h"
#include "models/job/sections.h"
#include "tools/interop/amounts.h"
#include "tools/interop/shell/syntax.h"

namespace meshwright::interop {

namespace {

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return same_name(name, pattern);
  pattern.remove_suffix(1);
  return same_name(name.substr(0, pattern.size()), pattern);
}

// Settings of the commands that start programs (shell/starters.h) have no effect on a plan if no
// rule has read them. cluster_sizes_rule() and other rules read the numbers of hosts and processes.
constexpr std::string_view meeting = "how processes meet";
constexpr WithoutMeaning of_starters[] = {
    {"torchrun.*", meeting},
    {"srun.*", meeting},
    {"mpirun.*", meeting},
    {"deepspeed.*", meeting},
    {"accelerate.*", meeting},
    {"aprun.*", meeting},
    {"jsrun.*", meeting},
    {"flux.*", meeting},
    {"hosts.*", meeting},
    {"sbatch.*", "the queue's; launch files have their own"},
    {"env.*", "the environment of its processes; launch files have their own"},
    {"program.file", "a file that the program is given"},
    {"config-path", "the file of settings, which is read"},
    {"config-name", "the file of settings, which is read"},
    {"program", "what is started"},
};

std::string reason_of(const InteropTarget& target, std::string_view name) {
  for (const WithoutMeaning& row : target.without_meaning)
    if (matches(row.pattern, name)) return std::string(row.reason);
  for (const WithoutMeaning& row : of_starters)
    if (matches(row.pattern, name)) return std::string(row.reason);
  return {};
}

// Applies the rules in order, and records which settings each rule read and which keys it set.
void apply_rules(const Rules& rules, Settings& from, JobDraft& to, std::vector<ReadSetting>& read) {
  for (const Rule& rule : rules) {
    std::vector<const Setting*> mine;
    from.on_read([&](const Setting& setting) {
      if (mine.empty()) to.comes_from(setting.place + ": " + from.spelled(setting.name));
      if (std::ranges::find(mine, &setting) == mine.end()) mine.push_back(&setting);
    });
    to.comes_from({});
    to.take_news();
    const std::size_t open = from.open().size();
    rule.read(from, to);
    from.on_read({});
    // If --set gives a key of this rule, shell variables without a value that the rule met need no
    // answer.
    if (std::ranges::any_of(rule.keys, [&](const std::string& key) { return to.is_given(key); }))
      from.forget_open(open);
    const std::vector<std::string> keys = to.take_news();
    for (const Setting* setting : mine) {
      const auto known = std::ranges::find_if(
          read, [&](const ReadSetting& each) { return each.name == from.spelled(setting->name); });
      if (known == read.end())
        read.push_back({from.spelled(setting->name),
                        setting->value.dump(),
                        setting->place,
                        ReadSetting::Fate::acts,
                        keys,
                        {}});
      else
        known->keys.insert(known->keys.end(), keys.begin(), keys.end());
    }
  }
  to.comes_from({});
}

// Returns the known name that is nearest to `name`, or an empty string if none is near. The names
// are compared as the files spell them, because the rules may have other names.
std::string nearest_name(const Settings& from, const std::string& name,
                         const std::vector<std::string>& known) {
  std::vector<std::string> spelled;
  for (const std::string& each : known) spelled.push_back(from.spelled(each));
  return nearest(from.spelled(name), spelled);
}

std::string hint(const Settings& from, const std::string& name,
                 const std::vector<std::string>& known) {
  const std::string near = nearest_name(from, name, known);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

// Returns whether a part of a setting's name is a word such as "tp", "moe", "zero" or "fp8".
// Without a setting that names a degree of parallelism, experts, a stage or a precision, the job
// would be another one.
bool names_a_plan(const std::string& name) {
  constexpr std::string_view words[] = {
      "parallel", "degree", "expert", "experts", "moe",       "stage",    "stages", "zero",
      "fp8",      "fp16",   "bf16",   "fp4",     "precision", "pipeline", "fsdp",   "shard",
      "sharding", "tp",     "pp",     "cp",      "ep",        "dp"};
  std::string part;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    if (i < name.size() && std::isalnum(static_cast<unsigned char>(name[i])) != 0) {
      part += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
      continue;
    }
    if (std::ranges::find(words, part) != std::end(words)) return true;
    part.clear();
  }
  return false;
}

// Returns whether a value is one of those that usually turn a setting off: false, 0, 1, "none", an
// empty string, null or a spelling of them.
bool leaves_all_as_it_is(const json& value) {
  for (const json& each : {json(false), json(0), json(1), json("0"), json("1"), json("false"),
                           json("False"), json("none"), json("null"), json("")})
    if (value == each) return true;
  return value.is_null();
}

// Returns whether two names are equal, differ by one letter, or by two neighbouring letters that
// are exchanged.
bool is_one_letter_away(std::string_view one, std::string_view other) {
  if (one.size() > other.size()) std::swap(one, other);
  if (other.size() - one.size() > 1) return false;
  std::size_t same = 0;
  while (same < one.size() && one[same] == other[same]) ++same;
  if (one.size() < other.size()) return one.substr(same) == other.substr(same + 1);
  const std::string_view rest = one.substr(same), more = other.substr(same);
  if (rest.size() > 1 && rest[0] == more[1] && rest[1] == more[0])
    return rest.substr(2) == more.substr(2);
  return rest.empty() || rest.substr(1) == more.substr(1);
}

// Returns whether an unknown setting counts as an argument of the training script itself. A name
// that is almost a known one is a mistake instead, and a name that names_a_plan() recognizes never
// counts.
bool is_of_script(const InteropTarget& target, const Settings& from, const std::string& name,
                  const std::vector<std::string>& known) {
  const bool may_be = target.framework == Framework::sagemaker
                          ? name.starts_with("hyperparameters.")
                          : from.are_others_of_script() && name.find('.') == std::string::npos;
  return may_be &&
         std::ranges::none_of(known,
                              [&](const std::string& each) {
                                std::string one = name, other = each;
                                std::ranges::replace(one, '-', '_');
                                std::ranges::replace(other, '-', '_');
                                return is_one_letter_away(one, other);
                              }) &&
         !names_a_plan(name);
}

// Adds the settings that no rule read to `read`, with the reason why they have no meaning, if there
// is one. Throws InputError for an unknown setting without `allow_unknown`, and also with it if the
// setting's name is that of a degree, experts, a stage or a precision and its value may turn it on.
void explain_rest(const InteropTarget& target, const Settings& from, bool allow_unknown,
                  std::vector<ReadSetting>& read) {
  std::vector<std::string> known;
  for (const Rule& rule : target.rules())
    known.insert(known.end(), rule.settings.begin(), rule.settings.end());
  for (const Setting& setting : from.all()) {
    if (setting.is_read) continue;
    std::string reason = setting.value.is_null() ? "says null: left to its default"
                                                 : reason_of(target, setting.name);
    const bool is_known = std::ranges::any_of(
        known, [&](const std::string& each) { return same_name(each, setting.name); });
    if (reason.empty() && !is_known && is_of_script(target, from, setting.name, known))
      reason = "an argument of the script itself";
    if (reason.empty() && is_known) reason = "acts on nothing beside the other settings here";
    if (reason.empty() && names_a_plan(setting.name) && !leaves_all_as_it_is(setting.value))
      throw InputError(setting.place + ": " + from.spelled(setting.name) + ": unknown setting of " +
                       std::string(name_of(target.framework)) + hint(from, setting.name, known) +
                       (hint(from, setting.name, known).empty() ? "; it" : " It") +
                       " names a degree, experts, a stage or a precision, which --allow-unknown "
                       "does not skip: say it with --set, and take it out");
    if (reason.empty() && !allow_unknown) {
      throw InputError(setting.place + ": " + from.spelled(setting.name) + ": unknown setting of " +
                       std::string(name_of(target.framework)) + hint(from, setting.name, known) +
                       (hint(from, setting.name, known).empty() ? "; " : " ") +
                       "--allow-unknown lists it instead");
    }
    read.push_back(
        {from.spelled(setting.name),
         setting.value.dump(),
         setting.place,
         reason.empty() ? ReadSetting::Fate::unknown : ReadSetting::Fate::without_meaning,
         {},
         reason});
  }
}

std::optional<int> ranks_of(const json& job, const MachineLookup& lookup) {
  if (!job.contains("cluster") || !job["cluster"].is_object()) return std::nullopt;
  const json& cluster = job["cluster"];
  const auto count = [&](const char* key) -> double {
    return cluster.contains(key) && cluster[key].is_number() ? cluster[key].get<double>() : 0;
  };
  const double hosts = cluster.contains("count") ? count("count") : 1;
  double each = count("processes_per_host");
  if (!cluster.contains("processes_per_host")) {
    if (!cluster.contains("machine") || !cluster["machine"].is_string()) return std::nullopt;
    try {
      each = lookup(cluster["machine"].get<std::string>()).gpus;
    } catch (const InputError&) {  // the reader of jobs reports it, and "auto" is valid
      return std::nullopt;
    }
  }
  // A number of ranks that is not between 1 and 2^31 - 1 counts as unknown.
  const double ranks = hosts * each;
  const bool is_count = ranks >= 1 && ranks <= std::numeric_limits<int>::max();
  return is_count ? std::optional(static_cast<int>(ranks)) : std::nullopt;
}

// Returns a remedy for a message about degrees that need more ranks than the job has, since
// examples are often written for one host and started on many: the number of hosts to give. Returns
// an empty string if the ranks suffice or are unknown, or if no whole number of hosts has exactly
// the ranks that the degrees need.
std::string with_more_hosts(const JobDraft& draft) {
  const std::int64_t hosts = draft.count("cluster.count");
  const std::int64_t ranks = draft.ranks().value_or(0);
  const auto degree = [&](const char* name) {
    return draft.count(std::string("parallelism.") + name);
  };
  const std::int64_t needed = product(
      {degree("tensor"), degree("pipeline"), std::max(degree("context"), degree("expert"))});
  if (ranks < 1 || needed <= ranks || needed % (ranks / hosts) != 0) return {};
  return "; if more hosts train than the files say, give --set cluster.count=" +
         std::to_string(needed / (ranks / hosts));
}

// Returns a remedy for a message about a global batch that does not fit the number of ranks: the
// largest smaller number of GPUs per host with which it does. Returns an empty string if the job
// sets `cluster.processes_per_host`, or if no smaller number fits.
std::string with_fewer_ranks(const JobDraft& draft) {
  if (draft.has("cluster.processes_per_host")) return {};
  const std::int64_t hosts = draft.count("cluster.count"),
                     batch = draft.count("training.global_batch"),
                     micro = draft.count("training.micro_batch"),
                     degrees = product({draft.count("parallelism.tensor"),
                                        draft.count("parallelism.pipeline"),
                                        draft.count("parallelism.context")});
  const std::int64_t ranks = draft.ranks().value_or(0);
  for (std::int64_t each = ranks / hosts - 1; each >= 1; --each) {
    const std::int64_t data = each * hosts / degrees;
    if (data >= 1 && each * hosts % degrees == 0 && batch % product({data, micro}) == 0)
      return "; if fewer GPUs of each host train, give --set cluster.processes_per_host=" +
             std::to_string(each);
  }
  return {};
}

// Returns the message for a violation that the reader of jobs found. If a setting set the key, the
// message begins with that setting, because users know it, and names the key in parentheses. If no
// setting gives a missing key, the message asks for it with --set. Some messages about degrees and
// about the global batch get a remedy. All others are unchanged.
std::string in_words_of_settings(const Violation& violation, const std::string& file,
                                 const JobDraft& draft) {
  if (violation.file != file || violation.key.empty()) return text_of(violation);
  const std::string &pointer = violation.key, problem = problem_of(violation);
  std::string origin = draft.origin_of_pointer(pointer);
  // If the degrees do not fit together, the message names the setting of the first degree that a
  // setting gives and that is not 1.
  for (const char* key : {"tensor", "pipeline", "context", "expert", "data"})
    if (const std::string name = std::string("parallelism.") + key;
        origin.empty() && pointer == "/parallelism" && draft.value(name) != 1)
      origin = draft.origin_of_pointer("/parallelism/" + std::string(key));
  const bool is_of_ranks = pointer == "/parallelism" || pointer == "/parallelism/expert";
  if (!origin.empty())
    return origin + ": " + problem + " (" + pointer + " of the job)" +
           (is_of_ranks                           ? with_more_hosts(draft)
            : pointer == "/training/global_batch" ? with_fewer_ranks(draft)
                                                  : "");
  if (pointer == "/training/global_batch" && !with_fewer_ranks(draft).empty())
    return file + ": " + problem + " (" + pointer + " of the job)" + with_fewer_ranks(draft);
  std::string key = pointer.substr(1);
  std::ranges::replace(key, '/', '.');
  if (problem.starts_with("missing") || problem.find("is missing") != std::string::npos)
    return file + ": no setting says " + key + "; give it with --set " + key + "=VALUE";
  return text_of(violation);
}

// A value that only the user can give: `what` is missing, and `answer` is the option that gives it,
// such as "--set cluster.count=NUMBER".
struct Question {
  std::string what, answer;
};

// Returns whether a variable that is asked for says a key, so that the key is not asked for too.
bool is_said_by_variable(const Settings& settings, const Rules& rules, const std::string& key) {
  return std::ranges::any_of(settings.open(), [&](const OpenSetting& open) {
    return std::ranges::any_of(rules, [&](const Rule& rule) {
      return std::ranges::find(rule.keys, key) != rule.keys.end() &&
             std::ranges::any_of(rule.settings, [&](const std::string& name) {
               return settings.spelled(name) == open.name;
             });
    });
  });
}

// Opens every setting that a rule knows and only the shell does, so that one message asks for all
// of them although the first one made a rule fail. What --set gives is left out.
void open_the_rest(Settings& settings, const Rules& rules, const JobDraft& draft) {
  const std::vector<Setting> all = settings.all();
  for (const Setting& setting : all) {
    const bool is_known = std::ranges::any_of(rules, [&](const Rule& rule) {
      const auto is_given = [&](const std::string& key) { return draft.is_given(key); };
      return std::ranges::none_of(rule.keys, is_given) &&
             std::ranges::any_of(rule.settings, [&](const std::string& name) {
               return same_name(name, setting.name);
             });
    });
    if (is_known && !setting.is_read) settings.is_open(setting);
  }
}

std::vector<Question> questions_of(const JobDraft& draft, const Settings& settings,
                                   const Rules& rules) {
  std::vector<Question> all;
  const auto add = [&](Question question) {
    if (std::ranges::none_of(all,
                             [&](const Question& each) { return each.answer == question.answer; }))
      all.push_back(std::move(question));
  };
  for (const OpenSetting& each : settings.open())
    add({each.name + " (" + each.value + ", " + each.place + ")",
         "--define " + shell_variable_in(each.value) + "=VALUE"});
  const auto value_of = [](std::string_view key) {
    return key == "model" ? "NAME (of the zoo, or the path of a config.json)"
           : key == "model.vocab_size" || key == "cluster.count" ? "NUMBER"
                                                                 : "VALUE";
  };
  for (const auto& [key, reason] : draft.questions())
    if (!draft.has(key))
      add({(key == "model.vocab_size" ? "the size of the vocabulary" : key) +
               (reason.empty() ? "" : " (" + reason + ")"),
           "--set " + key + "=" + value_of(key)});
  for (const char* key :
       {"model", "cluster.machine", "training.global_batch", "training.sequence_length"})
    if (!draft.has(key) && !draft.will_follow(key) && !is_said_by_variable(settings, rules, key) &&
        !(draft.has("instance_type") && std::string_view(key) == "cluster.machine"))
      add({key, std::string("--set ") + key + "=" + value_of(key)});
  return all;
}

// Throws InputError with all questions that are open.
void check_complete(const JobDraft& draft, const Settings& settings, const Rules& rules,
                    const std::string& file) {
  const std::vector<Question> all = questions_of(draft, settings, rules);
  if (all.empty()) return;
  std::vector<std::string> what;
  std::string answers;
  for (const Question& each : all) {
    what.push_back(each.what);
    answers += " " + each.answer;
  }
  throw InputError(file + ": no setting says " + list_of(what, "and") + "; give " +
                   (all.size() == 1 ? "it" : "them") + " with" + answers);
}

// Returns a short description of the key `model`: its name, or its type and sizes as far as they
// are given.
std::string words_of_model(const json& model) {
  if (model.is_string()) return model.get<std::string>();
  if (!model.is_object()) return model.dump();
  std::string text = "a model";
  for (const char* key : {"model_type", "family"})
    if (model.contains(key) && model[key].is_string()) text = model[key].get<std::string>();
  const auto add = [&](std::initializer_list<const char*> keys, const char* unit) {
    for (const char* key : keys)
      if (model.contains(key) && model[key].is_number()) {
        text += ", " + model[key].dump() + unit;
        return;
      }
  };
  add({"num_hidden_layers", "n_layer", "num_layers", "layers"}, " layers");
  add({"hidden_size", "n_embd", "d_model", "hidden"}, " wide");
  add({"num_local_experts", "num_experts", "n_routed_experts"}, " experts");
  add({"vocab_size", "vocab"}, " words");
  return text;
}

// Returns the short table by which a person sees whether the files were understood.
std::vector<Understood> understood(const JobDraft& draft) {
  constexpr std::pair<const char*, const char*> rows[] = {
      {"model", "model"},
      {"instance_type", "machine"},
      {"cluster.machine", "machine"},
      {"instance_count", "hosts"},
      {"cluster.count", "hosts"},
      {"cluster.processes_per_host", "GPUs of each host"},
      {"parallelism.tensor", "tensor"},
      {"parallelism.pipeline", "pipeline"},
      {"parallelism.context", "context"},
      {"parallelism.expert", "expert"},
      {"parallelism.zero_stage", "ZeRO stage"},
      {"parallelism.shard", "sharded over"},
      {"training.global_batch", "global batch"},
      {"training.micro_batch", "micro-batch"},
      {"training.sequence_length", "sequence length"},
      {"training.precision", "precision"},
      {"training.recompute", "recomputation"}};
  std::vector<Understood> all;
  for (const auto& [key, title] : rows) {
    const json value = draft.value(key);
    std::string pointer = "/" + std::string(key);
    std::ranges::replace(pointer, '.', '/');
    std::string from = draft.origin_of_pointer(pointer);
    if (draft.is_given(key)) from = "--set";
    if (!value.is_null())
      all.push_back({title,
                     std::string_view(key) == "model" ? words_of_model(value)
                     : value.is_string()              ? value.get<std::string>()
                                                      : value.dump(),
                     from});
  }
  if (!draft.has("cluster.count") && !draft.has("instance_count"))
    all.push_back({"hosts", "1", "no setting says it"});
  return all;
}

}  // namespace

Imported import_from(ReadFiles files, const ImportOptions& options, const MachineLookup& lookup) {
  const InteropTarget& target = interop_target(files.framework);
  Imported imported;
  imported.framework = files.framework;
  JobDraft draft;
  draft.count_ranks_by([&](const json& job) { return ranks_of(job, lookup); });
  const std::string name = files.name;
  draft.set("name", name);
  if (files.model_config) draft.set("model", *files.model_config);
  draft.override_with(options.overrides);
  const std::vector<std::string> notes = files.settings.notes();
  if (target.translate != nullptr)
    files.settings = target.translate(std::move(files.settings), draft);
  files.settings.is_of(files.first_file);
  try {
    apply_rules(target.rules(), files.settings, draft, imported.settings);
  } catch (const InputError&) {
    // A value that only the shell knows may be why the rule failed. check_complete() asks for it.
    if (files.settings.open().empty()) throw;
    draft.override_with(options.overrides);
    open_the_rest(files.settings, target.rules(), draft);
    check_complete(draft, files.settings, target.rules(), files.first_file);
  }
  explain_rest(target, files.settings, options.allow_unknown, imported.settings);
  draft.override_with(options.overrides);
  check_complete(draft, files.settings, target.rules(), files.first_file);
  imported.job = draft.job();
  for (const auto& list : {notes, files.settings.notes(), draft.remarks()})
    for (const std::string& remark : list)
      if (std::ranges::find(imported.remarks, remark) == imported.remarks.end())
        imported.remarks.push_back(remark);
  imported.understood = understood(draft);
  try {
    read_job(imported.job, files.first_file, ".", lookup);
  } catch (const InputError& error) {
    throw InputError(in_words_of_settings(error.violation(), files.first_file, draft));
  }
  return imported;
}

Imported import_settings(const std::vector<std::string>& files, const ImportOptions& options,
                         const MachineLookup& lookup) {
  return import_from(read_settings(files, options.format, options.defines), options, lookup);
}

}  // namespace meshwright::interop
