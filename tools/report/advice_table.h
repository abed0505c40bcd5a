// Writes one line for each machine of an advice: the rung at which its ladder stops, and the next
// best rung.
#pragma once

#include <string>

#include "tools/report/advice.h"

namespace meshwright::tools {

// Returns the table, with the best machine first, and a line that names the machines without a
// plan.
std::string machines_text(const Job& job, const Advice& advice);

// Returns how a rung's cluster is named: "2 x p5.48xlarge (4 of 8 GPUs)".
std::string cluster_text(const Rung& rung);

// Returns a line on the kind, region and date of the price of a rung, or "" without a price.
std::string price_text(const Rung& rung);

}  // namespace meshwright::tools
