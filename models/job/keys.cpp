#include "models/job/keys.h"

#include <fmt/format.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "models/job/sections.h"

namespace meshwright::job {

using nlohmann::json;

namespace {

template <class T>
void check_range(const Fields& fields, const Key& key, T number) {
  const auto [low, high, above_low, below_high, by_reader] = key.range;
  const auto value = static_cast<double>(number);
  if (!by_reader || (value <= high && (above_low ? value > low : value >= low))) return;
  fields.fail(key.name, above_low ? fmt::format("{} must be above {}", number, low)
                        : high < std::numeric_limits<double>::infinity()
                            ? fmt::format("{} is out of range; use {} to {}", number, low, high)
                        : low == 0 ? fmt::format("{} is negative; use 0 or more", number)
                                   : fmt::format("{} is too small; use {} or more", number, low));
}

// Reads a key's value from the job file into the variable of its row, for each kind of variable.
struct Reader {
  Fields& fields;
  const Key& key;
  Job& job;

  template <class T>
  T number() const {
    const T value = fields.required<T>(key.name);
    check_range(fields, key, value);
    return value;
  }

  void operator()(bool* place) const { *place = fields.required<bool>(key.name); }
  void operator()(int* place) const { *place = number<int>(); }
  void operator()(std::int64_t* place) const { *place = number<std::int64_t>(); }
  void operator()(std::uint64_t* place) const {
    *place = static_cast<std::uint64_t>(number<std::int64_t>());
  }
  void operator()(double* place) const { *place = number<double>(); }
  template <class T>
  void operator()(std::optional<T>* place) const {
    (*this)(&place->emplace());
  }
  void operator()(std::string* place) const { *place = fields.required<std::string>(key.name); }
  void operator()(std::vector<std::string>* place) const {
    *place = fields.required<std::vector<std::string>>(key.name);
  }
  void operator()(std::vector<double>* place) const {
    *place = fields.required<std::vector<double>>(key.name);
    for (const double number : *place) check_range(fields, key, number);
  }
  void operator()(const Choice& choice) const {
    const std::string word = word_of(fields, key.name);
    choice.choose(
        static_cast<std::size_t>(choose(fields, key.name, choice.what, word, choice.words)));
  }
  void operator()(Path path) const {
    *path.place = resolve(job, fields.required<std::string>(key.name));
  }
  void operator()(Paths paths) const {
    *paths.place = fields.required<std::vector<std::string>>(key.name);
    for (std::string& path : *paths.place) path = resolve(job, path);
  }
  void operator()(const Object& object) const {
    const bool is_file = object.from_file != nullptr && !fields.is_object(key.name);
    Fields inside = is_file ? object.from_file(fields, job) : fields.object(key.name);
    object.read(inside, job);
    inside.done();
  }
  void operator()(const Code& code) const { code.read(fields, job); }
};

void read_key(Fields& fields, const Key& key, Job& job) {
  const std::string& pointer = fields.pointer();  // "" at the top of a file of its own
  const std::string section = pointer.empty() ? "" : pointer.substr(1);
  if (!fields.has(key.name) && key.how != How::required) {
    const std::string path = section + "." + std::string(key.name);
    if (key.how == How::auto_if_missing) job.autos.insert(path);
    if (key.may_be_auto()) job.left_out.insert(path);
    return;
  }
  if (key.may_be_auto() && take_auto(fields, key.name, section, job)) return;
  std::visit(Reader{fields, key, job}, key.place);
}

// Returns the value of a row's variable as JSON, or null if it is unset.
struct Writer {
  const std::string& folder;

  template <class T>
  json operator()(const T* place) const {
    return *place;
  }
  template <class T>
  json operator()(const std::optional<T>* place) const {
    return *place ? json(**place) : json(nullptr);
  }
  json operator()(const Choice& choice) const { return choice.words.at(choice.chosen()); }
  json operator()(Path path) const {
    return path.place->empty() ? "" : from_folder(folder, *path.place);
  }
  json operator()(Paths paths) const {
    json list = json::array();
    for (const std::string& path : *paths.place) list.push_back(from_folder(folder, path));
    return list;
  }
  json operator()(const Object& object) const {
    const Keys keys = object.given();
    return keys.empty() ? json(nullptr) : write_keys(keys, folder);
  }
  json operator()(const Code& code) const { return code.write(); }
};

bool is_set(const json& value) {
  return value != 0 && value != false && value != "" && value != json::array();
}

}  // namespace

void read_keys(Fields& fields, const Keys& keys, Job& job) {
  for (const Key& key : keys) read_key(fields, key, job);
}

json value_of(const Key& key, const std::string& folder) {
  return std::visit(Writer{folder}, key.place);
}

json write_keys(const Keys& keys, const std::string& folder) {
  json section = json::object();
  for (const Key& key : keys) {
    json value = value_of(key, folder);
    if (value.is_null() || (key.is_written_if_set() && !is_set(value))) continue;
    section[std::string(key.name)] = std::move(value);
  }
  return section;
}

const std::vector<Section>& sections_of_keys() {
  static Plan plan;
  static Job job;
  static Failures failures;
  static DataFiles data;
  static Job::Checkpoint checkpoint;
  static const std::vector<Section> sections = {{"cluster", cluster_keys(job.cluster)},
                                                {"training", training_keys(plan.training)},
                                                {"parallelism", parallelism_keys(plan.parallelism)},
                                                {"objective", objective_keys(job.objective)},
                                                {"faults", faults_keys(job.cluster.faults)},
                                                {"failures", failures_keys(failures)},
                                                {"data", data_keys(data)},
                                                {"checkpoint", checkpoint_keys(checkpoint)},
                                                {"log", log_keys(job.log)}};
  return sections;
}

std::string word_of(Fields& fields, std::string_view key) {
  const bool is_simple =
      fields.has(key) && (fields.raw(key).is_boolean() || fields.raw(key).is_number());
  return is_simple ? fields.raw(key).dump() : fields.required<std::string>(key);
}

}  // namespace meshwright::job
