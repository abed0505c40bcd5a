// Finds out whether and how candidates break a rule: a rule of plans, or a limit of the framework
// that runs them.
#pragma once

#include <initializer_list>

#include "sim/planner/open_keys.h"

namespace meshwright::sim {

// The enumeration of plans calls these functions with candidates in which one group of choices
// after the other is decided. Each function returns how a candidate breaks a rule about the choices
// in its name, or nothing. Limits of the framework on other keys are checked when a plan is built
// (trial.cpp). A candidate that is legal but not supported yet is rejected if the planner chose it.
// If the job asks for it, InputError is thrown. An object serves one thread at a time.
class CandidateRules {
 public:
  explicit CandidateRules(const OpenKeys& open) : open_(open), asked_(open.base) {}

  // This function is called when only the degrees and the exchange of context groups are decided.
  Ruling against_degrees(const Candidate& candidate) const;
  Ruling against_shape(const Candidate& candidate) const;
  Ruling against_placement(const Candidate& candidate) const;
  Ruling against_kernels(const Candidate& candidate) const;
  Ruling against_cut(const Candidate& candidate, int micro_batches) const;
  Ruling against_sharding(const Candidate& candidate) const;
  Ruling against_saving(const Candidate& candidate) const;

 private:
  Ruling rule_against(const Candidate& candidate, bool chosen = false) const;
  Ruling limit_against(const Candidate& candidate,
                       std::initializer_list<std::string_view> keys) const;

  const OpenKeys& open_;
  mutable Plan asked_;  // the base with the choices of the candidate that was asked last
};

}  // namespace meshwright::sim
