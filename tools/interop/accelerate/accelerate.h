// Declares the rules of the target accelerate. Names and defaults: accelerate 1.15,
// commands/config/config_args.py, commands/launch.py, utils/dataclasses.py, parallelism_config.py.
#pragma once

#include "models/compiler/frameworks/accelerate.h"
#include "models/compiler/frameworks/pytorch.h"
#include "tools/interop/huggingface/trainer.h"
#include "tools/interop/rules.h"

namespace meshwright::interop {

const Rules& accelerate_rules();

}  // namespace meshwright::interop
