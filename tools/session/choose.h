// Chooses the plan that a job will be simulated or trained with: the given one, or the planner's
// best if the job says auto.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/launch/stop.h"
#include "models/compiler/compile.h"
#include "models/job/job.h"
#include "sim/framework/framework_memory.h"
#include "sim/planner/search.h"
#include "sim/predict/predict.h"
#include "tools/session/watch.h"

namespace meshwright::session {

struct Chosen {
  std::string machine;
  int count = 1;
  Cluster cluster;
  Compiled compiled;
  std::optional<FrameworkUse> framework;  // set if training.memory_of names one
  std::optional<SearchResult> search;     // set if the job left a choice
};

bool leaves_a_choice(const Job& job);

// Is thrown if no plan that the job allows fits. The program then ends with exit code 3.
class NoPlanFits : public std::runtime_error {
 public:
  // `answer` is the command's JSON output, which says why nothing fits, or "" if there is none.
  explicit NoPlanFits(const std::string& message, std::string answer = "")
      : std::runtime_error(message), answer_(std::move(answer)) {}
  const std::string& answer() const { return answer_; }

 private:
  std::string answer_;
};

// Is thrown if Watch::stop ended a search or another command before its end. The program then ends
// with exit code 5.
class StoppedSearch : public StopRequested {
 public:
  // `answer` is the command's JSON output on what was found until then, or "" if there is none.
  explicit StoppedSearch(std::string answer = "") : answer_(std::move(answer)) {}
  const std::string& answer() const { return answer_; }

 private:
  std::string answer_;
};

// Throws InputError if the objective names a region in which no machine of the job has a price,
// while some have prices elsewhere.
void check_region(const Job& job, const MachineLoader& load);

// Checks the region. Warns if the objective counts money or has a budget, and machines of the job
// have no price.
void warn_of_prices(const Job& job, const MachineLoader& load, const Watch& watch);

// Returns the plan of the job: the given one, or the planner's best if the job leaves a choice.
// Throws NoPlanFits if nothing fits and the job leaves more choices than the micro-batch, and
// StoppedSearch if the watch stops the search. A plan without choices need not fit. With
// LeftOut::is_open, keys that the job leaves out are opened as long as nothing fits
// (search_left_out()).
Chosen choose_plan(const Job& job, const MachineLoader& load, const Watch& watch = {},
                   LeftOut left_out = LeftOut::has_default);

// Notes the defaults that the plan has because the job leaves keys out. Callers predict or train
// this plan.
void tell_defaults(const Job& job, const Chosen& chosen, const Watch& watch);

// Returns the plan of a job that leaves no choice, with the Programs of its stages, which were
// compiled before or elsewhere. Throws InputError, which begins with `where`, if they have other
// degrees, another placement or other micro-batches than the plan.
Chosen plan_with_programs(const Job& job, const MachineLoader& load, std::vector<Program> programs,
                          const std::string& where);
// Replaces the Programs of the chosen plan. Throws like plan_with_programs().
void take_programs(Chosen& chosen, std::vector<Program> programs, const std::string& where);

// Returns the prediction of the chosen plan, including its goodput. Throws InputError that begins
// with the job's file.
Prediction predict_chosen(const Job& job, const Chosen& chosen, Timeline* timeline = nullptr);

// Returns a message such as "no plan fits: the closest needs 11.2 GiB too much for 40.0 GiB on 1 x
// p4d.24xlarge (p4 t2 d1 mb1 ...)", and a line for each reason for which plans were rejected.
// `memory_margin` is the share of memory that plans had to leave free.
std::string miss_text(const SearchResult& search, double memory_margin = 0);

}  // namespace meshwright::session
