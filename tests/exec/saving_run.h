// A small run of one process that is saved and resumed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/checkpoint/resume.h"
#include "exec/checkpoint/saver.h"
#include "tests/exec/small_run.h"

namespace meshwright::tests {

Plan saving_plan(const Model& model);

struct SavingRun : SmallRun {
  explicit SavingRun(const Plan& plan, const Model& model = small_model("gpt"), int threads = 1);

  double step(int number) { return SmallRun::step(number).loss; }
  std::optional<Manifest> resume_from(const std::string& folder);  // its lines go to `said`
  Manifest about(int number) const;                                // after that many steps
  // Saves the run's state and waits. An error is a failure of the test.
  void save(const std::string& folder, int number, int keep = 9);

  const std::unique_ptr<Communicator> all;
  std::vector<std::string> said;
};

std::vector<std::int64_t> steps_in(const std::string& folder);  // newest first

}  // namespace meshwright::tests
