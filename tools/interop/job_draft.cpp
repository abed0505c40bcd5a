#include "tools/interop/job_draft.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "models/architectures/model.h"
#include "models/job/job_overrides.h"
#include "tools/interop/model_names.h"

namespace meshwright::interop {

namespace {

std::vector<std::string> parts_of(std::string_view key) {
  std::vector<std::string> parts;
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    parts.emplace_back(key.substr(0, dot));
    key.remove_prefix(dot + 1);
  }
  parts.emplace_back(key);
  return parts;
}

}  // namespace

void JobDraft::set(std::string_view key, json value) {
  const auto add_news = [&] {
    if (std::ranges::find(news_, key) == news_.end()) news_.emplace_back(key);
  };
  // The value of --set stays, because rules that depend on the key must see it.
  if (is_given(key)) return add_news();
  json* node = &job_;
  for (const std::string& part : parts_of(key)) {
    if (!node->is_object() && !node->is_null()) return;  // a value that is no object stays
    node = &(*node)[part];
  }
  *node = std::move(value);
  add_news();
  if (!origin_.empty()) origins_.insert_or_assign(std::string(key), origin_);
}

std::vector<std::string> JobDraft::take_news() { return std::exchange(news_, {}); }

bool JobDraft::has(std::string_view key) const { return find(key) != nullptr; }

json JobDraft::value(std::string_view key) const {
  const json* found = find(key);
  return found == nullptr ? json(nullptr) : *found;
}

const json* JobDraft::find(std::string_view key) const {
  const json* node = &job_;
  for (const std::string& part : parts_of(key)) {
    if (!node->is_object() || !node->contains(part)) return nullptr;
    node = &node->at(part);
  }
  return node;
}

double JobDraft::number(std::string_view key, double fallback) const {
  const json found = value(key);
  return found.is_number() ? found.get<double>() : fallback;
}

std::string JobDraft::word(std::string_view key, std::string fallback) const {
  const json found = value(key);
  return found.is_string() ? found.get<std::string>() : std::move(fallback);
}

std::int64_t JobDraft::count(std::string_view key, std::int64_t fallback) const {
  constexpr double most = std::numeric_limits<std::int32_t>::max();
  const json found = value(key);
  if (!found.is_number()) return fallback;
  const double number = found.get<double>();
  return number >= 1 && number <= most ? static_cast<std::int64_t>(number) : 1;
}

std::int64_t JobDraft::model_layers() const {
  json model = value("model");
  if (model.is_string() && architectures::is_zoo_name(model)) model = config_of_zoo(model);
  for (const char* key : {"num_hidden_layers", "n_layer", "num_layers", "layers"})
    if (model.is_object() && model.contains(key))
      if (const json found = model[key]; found.is_number() && found >= 1 && found <= 1e6)
        return found.get<std::int64_t>();
  return 0;
}

void JobDraft::override_with(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    apply_override(job_, text, "import");
    const std::string key = text.substr(0, text.find('='));
    given_.insert(key);
    std::erase_if(origins_, [&](const auto& each) { return each.first == key; });
  }
}

std::string JobDraft::origin_of_pointer(std::string pointer) const {
  while (!pointer.empty()) {
    std::string key = pointer.substr(1);
    std::ranges::replace(key, '/', '.');
    if (const auto found = origins_.find(key); found != origins_.end()) return found->second;
    pointer.resize(pointer.rfind('/'));
  }
  return {};
}

}  // namespace meshwright::interop
