// A job with every choice made, as exports read it. Each key of training and parallelism has a
// value, which may be a default or null.
#pragma once

#include <string>
#include <string_view>

#include "models/core/json.h"
#include "models/job/job.h"

namespace meshwright::interop {

struct JobValues {
  // `plan` is as the framework runs it (as_run_by), with the stage_of_unit of the compiled plan.
  JobValues(const Job& job, Plan plan, std::string machine, int hosts, int gpus_per_host);

  const json& operator[](std::string_view key) const;  // "parallelism.tensor"
  int ranks() const { return hosts * gpus_per_host; }

  const Job& job;
  const Model& model;
  Plan plan;
  std::string machine;
  int hosts = 1, gpus_per_host = 1;  // ranks of a host

 private:
  json values_;
};

}  // namespace meshwright::interop
