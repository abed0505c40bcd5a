// The tables of `list machines` and `list models`, which say what a name stands for.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/session/text.h"

namespace meshwright::tools {

// A row for each machine: its GPUs, the memory of one, and what an hour costs on demand.
session::Table machines_table(const std::vector<std::string>& names);

// The same for programs: {"name", "gpus", "gpu", "memory_bytes", "usd_per_hour" or null} of each.
nlohmann::json machine_facts_json(const std::vector<std::string>& names);

// A row for each model of the zoo: its parameters, its family and the length it is made for.
session::Table models_table(const std::vector<std::string>& names);

}  // namespace meshwright::tools
