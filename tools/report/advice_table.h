// Writes one line for each machine of an advice: where its ladder stops, and the next best rung.
#pragma once

#include <string>

#include "tools/report/advice.h"

namespace meshwright::tools {

// Returns the table, best machine first, machines without a plan last with the reason.
std::string machines_text(const Job& job, const Advice& advice);

// Returns how a rung's cluster is named: "2 x p5.48xlarge (4 of 8 GPUs)".
std::string cluster_text(const Rung& rung);

// Returns the kind, region and date of the price of a rung, as a line, or "" without a price.
std::string price_text(const Rung& rung);

}  // namespace meshwright::tools
