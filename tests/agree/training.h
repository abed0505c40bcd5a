// A short training run of a small model on the ranks of a test program, and how two of them are
// compared: what every parity test is made of (design: what must hold, 1).
#pragma once

#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "tests/exec/small_run.h"

namespace meshwright {

constexpr int parity_steps = 20;

// The plan's steps in its degrees on the ranks of `world`; every rank calls it.
Trained train(const Model& model, const Plan& plan, World& world);
// In this process; what is asked for again is not trained again.
const Trained& train_alone(const Model& model, const Plan& plan);

Model eight_blocks(const std::string& family);  // two chunks on each of four stages
// Grouped queries, rotary variants, parallel residuals, ALiBi; layers that no number of stages
// divides.
std::vector<Model> other_models();
Plan base_plan(const Model& model, SmallDegrees degrees);  // 8 sequences a step, AdamW
Plan on_one_process(Plan plan);  // the same training, uncut and without recomputation

// Losses within 1e-5 relative, on every rank.
void compare_losses(const Trained& got, const Trained& expected);
// On rank 0: all parameters together within 1e-4. AdamW divides by the gradient's own size: where
// the true gradient is zero (key biases) rounding decides.
void compare_all(const Trained& got, const Trained& expected);
// On rank 0: every tensor within 1e-5 (SGD).
void compare_each(const Trained& got, const Trained& expected);

// Trains `plan` on `world` and on one process, and compares losses and every tensor.
void check_plan(const Model& model, const Plan& plan, World& world);

}  // namespace meshwright
