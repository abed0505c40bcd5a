#include "hwprofiles/parts.h"

#include <algorithm>

#include "models/core/data_files.h"
#include "models/core/error.h"
#include "models/core/json.h"

namespace meshwright::hwprofiles {

namespace {

constexpr std::size_t deepest = 4;

void join(json& block, const json& over) {
  for (const auto& [key, value] : over.items()) {
    const bool both = key == "source" && value.is_string() && block.contains(key);
    block[key] =
        both ? json(value.get<std::string>() + ". " + block[key].get<std::string>()) : value;
  }
}

class Parts {
 public:
  explicit Parts(std::string root) : root_(std::move(root)) {}

  // Adds the parts of `own`, then the fields of `own` itself, which replace those of its parts.
  void add(Fields own) {
    if (own.has("parts")) {
      const auto names = own.required<std::vector<std::string>>("parts");
      for (const std::string& name : names) add_part(own, name);
    }
    for (const std::string& key : own.keys()) {
      if (key == "parts") continue;
      const json& value = own.raw(key);
      if (value.is_object() && all_.contains(key) && all_[key].is_object()) {
        join(all_[key], value);
      } else {
        all_[key] = value;
      }
      file_of_[key] = own.where();
    }
  }

  const std::vector<std::string>& files() const { return files_; }
  Profile profile(const std::string& where) && {
    return {{std::move(all_), where}, std::move(file_of_)};
  }

 private:
  void add_part(const Fields& own, const std::string& name) {
    const std::string path = root_ + "/" + name + ".json";
    if (!is_data_file(path)) {
      const std::string near = nearest(name, part_names(root_));
      own.fail("parts", "there is no part '" + name + "' (" + path + "); " +
                            (near.empty() ? "" : "did you mean '" + near + "'? ") +
                            "`meshwright list parts` lists them");
    }
    if (std::ranges::find(open_, name) != open_.end() || open_.size() >= deepest)
      own.fail("parts", "'" + name + "' is a part of itself");
    if (std::ranges::find(files_, path) != files_.end()) return;
    files_.push_back(path);
    open_.push_back(name);
    add(read_json_file(path));
    open_.pop_back();
  }

  std::string root_;
  json all_ = json::object();
  std::map<std::string, std::string> file_of_;
  std::vector<std::string> files_, open_;
};

}  // namespace

Profile with_parts(Fields own, const std::string& root) {
  const std::string where = own.where();
  Parts parts(root);
  parts.add(std::move(own));
  return std::move(parts).profile(where);
}

std::vector<std::string> part_names(const std::string& root) {
  std::vector<std::string> names;
  for (const std::string folder : {"", "/gpus", "/interconnects"})
    for (const std::string& name : json_names(root + folder).value_or(std::vector<std::string>()))
      if (folder + name != "prices")
        names.push_back(folder.empty() ? name : folder.substr(1) + "/" + name);
  return names;
}

std::vector<std::string> part_files(const std::string& file, const std::string& root) {
  Parts parts(root);
  parts.add(read_json_file(file));
  return parts.files();
}

}  // namespace meshwright::hwprofiles
