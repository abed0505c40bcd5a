#include "exec/backends/cuda/fused/epilogue.h"

#include <algorithm>
#include <optional>

#include "exec/backends/cuda/products/linear.h"
#include "models/program/graph/op_call.h"
#include "models/program/graph/widen.h"

namespace meshwright::exec::cuda {

namespace {

Lead product_alone(const Fusion& fusion) {
  const FusedStep& step = fusion.steps.front();
  std::vector<TensorType> inputs;
  for (int id : step.inputs) inputs.push_back(fusion.operands[id]);
  const OpCall call{step.op, step.attributes, inputs, {&fusion.operands[step.outputs[0]], 1}};
  const LinearProduct product = product_of(call);
  Lead lead;
  lead.form = form_of(call);
  lead.a = step.inputs[static_cast<int>(product.a)];
  lead.b = step.inputs[static_cast<int>(product.b)];
  lead.c = step.outputs[0];
  lead.start = fusion.start;
  if (step.inputs.size() > 2) lead.bias = step.inputs[2];
  return lead;
}

// Returns whether the result of step i is needed after the next step: a step after that one reads
// it, or it is an output of the fusion. Once a step has overwritten the operand, the result is
// gone, and nothing that follows counts.
bool is_needed(const Fusion& fusion, std::size_t i) {
  const int made = fusion.steps[i].outputs[0];
  for (std::size_t j = i + 1; j < fusion.steps.size(); ++j) {
    const FusedStep& step = fusion.steps[j];
    if (j > i + 1 && std::ranges::find(step.inputs, made) != step.inputs.end()) return true;
    if (std::ranges::find(step.outputs, made) != step.outputs.end()) return false;
  }
  return !fusion.is_internal(made);
}

// Returns whether the operand is an input of the fusion and has the type of the matmul's result.
bool is_given(const Fusion& fusion, const Lead& lead, int operand) {
  return operand < fusion.inputs && fusion.operands[operand].dtype == lead.form.result;
}

bool has_bias(const Lead& lead) { return lead.bias >= 0; }

// Returns the lead with one more step of the fusion, or nothing if that step cannot be in its
// epilogue. It can be if it adds a bias, or is GELU in the form with tanh or the gradient of this,
// and if its operands suit.
std::optional<Lead> longer(const Fusion& fusion, Lead lead) {
  const std::size_t last = lead.steps - 1;
  const FusedStep& step = fusion.steps[lead.steps];
  const int made = fusion.steps[last].outputs[0];
  const bool needed = is_needed(fusion, last), plain = lead.form.epilogue == Epilogue::none;
  const bool of_sum = plain || lead.form.epilogue == Epilogue::bias;
  const bool of_made = step.inputs[0] == made;
  const bool both = step.inputs.size() > 1 && step.inputs[0] == step.inputs[1];
  lead.c = step.outputs[0];
  ++lead.steps;
  if (fusion.operands[lead.c] != fusion.operands[made] || both) return std::nullopt;
  if (step.op == Op::add_bias && of_made && plain && !needed &&
      is_given(fusion, lead, step.inputs[1])) {
    lead.form.epilogue = Epilogue::bias;
    lead.bias = step.inputs[1];
    return lead;
  }
  if (step.op == Op::gelu && step.attributes.gelu_tanh && of_sum && !needed) {
    lead.form.epilogue = has_bias(lead) ? Epilogue::gelu_bias : Epilogue::gelu;
    return lead;
  }
  if (step.op == Op::gelu && step.attributes.gelu_tanh && of_sum && !fusion.is_internal(made) &&
      lead.c != made) {
    lead.form.epilogue = has_bias(lead) ? Epilogue::gelu_bias_saved : Epilogue::gelu_saved;
    lead.saved = made;
    return lead;
  }
  if (step.op == Op::gelu_grad && step.attributes.gelu_tanh && plain && !needed &&
      step.inputs[1] == made && is_given(fusion, lead, step.inputs[0])) {
    lead.form.epilogue = Epilogue::gelu_grad;
    lead.saved = step.inputs[0];
    return lead;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Lead> leads_of(const Fusion& fusion) {
  std::vector<Lead> leads = {product_alone(fusion)};
  while (leads.back().steps < fusion.steps.size()) {
    std::optional<Lead> next = longer(fusion, leads.back());
    if (!next) break;
    leads.push_back(*std::move(next));
  }
  std::ranges::reverse(leads);
  // Removes leads whose result is internal: the result would not be in memory, and only steps of
  // the same lead can read it.
  std::erase_if(leads, [&](const Lead& lead) { return fusion.is_internal(lead.c); });
  return leads;
}

Fusion without_led(const Fusion& fusion, const Lead& lead) {
  Fusion rest = fusion;
  rest.steps.front().outputs[0] = lead.c;
  rest.steps.erase(rest.steps.begin() + 1,
                   rest.steps.begin() + static_cast<std::ptrdiff_t>(lead.steps));
  return rest;
}

}  // namespace meshwright::exec::cuda
