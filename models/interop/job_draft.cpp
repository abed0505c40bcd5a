#include "models/interop/job_draft.h"

#include <algorithm>
#include <utility>

#include "models/job/sections.h"

namespace meshwright {

using nlohmann::json;

namespace {

json::json_pointer pointer_of(std::string_view key) {
  std::string pointer = "/" + std::string(key);
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return json::json_pointer(pointer);
}

}  // namespace

void JobDraft::set(std::string_view key, json value) {
  job_[pointer_of(key)] = std::move(value);
  if (std::find(news_.begin(), news_.end(), key) == news_.end()) news_.emplace_back(key);
  if (!origin_.empty()) origins_.insert_or_assign(std::string(key), origin_);
}

std::vector<std::string> JobDraft::take_news() { return std::exchange(news_, {}); }

bool JobDraft::has(std::string_view key) const { return job_.contains(pointer_of(key)); }

json JobDraft::value(std::string_view key) const {
  const json::json_pointer pointer = pointer_of(key);
  return job_.contains(pointer) ? job_.at(pointer) : json(nullptr);
}

void JobDraft::override_with(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    apply_override(job_, text, "import");
    const std::string key = text.substr(0, text.find('='));
    std::erase_if(origins_, [&](const auto& each) { return each.first == key; });
  }
}

std::string JobDraft::origin_of_pointer(std::string pointer) const {
  while (!pointer.empty()) {
    std::string key = pointer.substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    if (const auto found = origins_.find(key); found != origins_.end()) return found->second;
    pointer.resize(pointer.rfind('/'));
  }
  return {};
}

}  // namespace meshwright
