// Finds the largest model that a cluster can train in a given time or for given money.
#pragma once

#include <string>

#include "sim/planner/search.h"
#include "tools/session/requests.h"
#include "tools/session/watch.h"

namespace meshwright::session {

// Returns whether the request asks for the largest model of a family: its model ends with
// ":largest", as in "llama:largest".
bool asks_for_largest(const JobRequest& request);

// Has a model and the tokens that it is trained on, as words of a request.
struct LargestModel {
  std::string model;   // "llama:6.1B"
  std::string tokens;  // "122B"
};

// Returns the largest model that a short search finds whose training on 20 tokens for each
// parameter keeps --by and --budget. Its size has two significant digits. With tokens in the
// request, every model is trained on these. Throws InputError if the request has neither a deadline
// nor a budget, and NoPlanFits if no model is found, of 10 M parameters or more.
LargestModel largest_model(const JobRequest& request, const SearchOptions& options,
                           const Watch& watch);

}  // namespace meshwright::session
