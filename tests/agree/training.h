// Runs short trainings of a small model on the ranks of a test program, and compares two of them.
// All parity tests use this (design: what must hold, 1).
#pragma once

#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "tests/exec/small_run.h"

namespace meshwright::tests {

constexpr int parity_steps = 20;

// Trains the plan's steps in its degrees on the ranks of `world`. Every rank calls it.
Trained train(const Model& model, const Plan& plan, World& world);
// Trains in this process. Results are cached, so a plan is not trained again.
const Trained& train_alone(const Model& model, const Plan& plan);

Model eight_blocks(const std::string& family);  // two chunks on each of four stages
// Returns models with grouped queries, rotary variants, parallel residuals and ALiBi, and with
// layers that no number of stages divides.
std::vector<Model> other_models();
Plan base_plan(const Model& model, SmallDegrees degrees);  // 8 sequences a step, AdamW
Plan on_one_process(Plan plan);  // the same training, uncut and without recomputation

// Checks on every rank that losses are within 1e-5 relative.
void compare_losses(const Trained& got, const Trained& expected);
// Checks on rank 0 that all parameters together are within 1e-4 relative. AdamW divides by the
// gradient's own size, so if the true gradient is zero (key biases), the update is rounding error.
void compare_all(const Trained& got, const Trained& expected);
// Checks on rank 0 that every tensor is within 1e-5 relative (for SGD).
void compare_each(const Trained& got, const Trained& expected);

// Trains `plan` on `world` and on one process, and compares losses and every tensor.
void check_plan(const Model& model, const Plan& plan, World& world);

}  // namespace meshwright::tests
