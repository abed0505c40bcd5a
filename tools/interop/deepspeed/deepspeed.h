// Declares the rules of the target deepspeed. Names and defaults: DeepSpeed 0.19.6,
// deepspeed/runtime/{config,constants,precision_config}.py and runtime/zero/config.py.
#pragma once

#include "models/compiler/frameworks/deepspeed.h"
#include "models/compiler/frameworks/pytorch.h"
#include "models/core/dtype.h"
#include "tools/interop/huggingface/trainer.h"
#include "tools/interop/rules.h"

namespace meshwright::interop {

const Rules& deepspeed_rules();

}  // namespace meshwright::interop
