// From a job to the plan that it will be simulated or trained under: as given, or the planner's
// best where it says auto.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "models/job/job.h"
#include "sim/planner/search.h"
#include "sim/predict/predict.h"

namespace meshwright {

struct Chosen {
  std::string machine;
  int count = 1;
  Cluster cluster;
  Prepared prepared;
  std::optional<SearchResult> search;  // where the job left something to choose
};

bool leaves_a_choice(const Job& job);

// The job leaves a choice and no plan fits: exit code 3.
class NoPlanFits : public std::runtime_error {
 public:
  explicit NoPlanFits(SearchResult result);
  const SearchResult& search() const { return search_; }

 private:
  SearchResult search_;
};

Chosen choose_plan(const Job& job, const MachineLoader& load);

// "no plan fits: the closest needs 51.2 GiB of 40.0 GiB (p4 t2 d1 mb1 ...)"
std::string miss_text(const SearchResult& search);

}  // namespace meshwright
