// What the parts of the target torchtitan share. Names and defaults: torchtitan 0.2.2,
// torchtitan/config/job_config.py.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "models/frameworks/pytorch.h"
#include "models/frameworks/torchtitan.h"
#include "models/interop/rules.h"

namespace meshwright {

const Rules& torchtitan_rules();

}  // namespace meshwright
