#include "tools/interop/job_values.h"

#include <algorithm>

#include "models/core/error.h"
#include "models/job/keys.h"

namespace meshwright::interop {

namespace {

json all_of(const Keys& keys) {
  json section = json::object();
  for (const Key& key : keys) section[std::string(key.name)] = value_of(key);
  return section;
}

}  // namespace

JobValues::JobValues(const Job& from, Plan chosen, std::string on, int count, int per_host)
    : job(from),
      model(from.model),
      plan(std::move(chosen)),
      machine(std::move(on)),
      hosts(count),
      gpus_per_host(per_host),
      values_({{"training", all_of(training_keys(plan.training))},
               {"parallelism", all_of(parallelism_keys(plan.parallelism))}}) {}

const json& JobValues::operator[](std::string_view key) const {
  std::string pointer = "/" + std::string(key);
  std::ranges::replace(pointer, '.', '/');
  const json::json_pointer at(pointer);
  MESHWRIGHT_CHECK(values_.contains(at), "a rule names a key of the job file");
  return values_.at(at);
}

}  // namespace meshwright::interop
