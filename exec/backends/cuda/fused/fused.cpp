#include "exec/backends/cuda/fused/fused.h"

#include <algorithm>

#include "exec/backends/cuda/fused/fused_steps.h"
#include "exec/backends/cuda/fused/nvrtc.h"
#include "exec/backends/cuda/tables.h"
#include "models/core/error.h"
#include "models/program/graph/op_call.h"

namespace meshwright::exec::cuda {

namespace {

constexpr const char* name_of_kernel = "fused";

void* address_of(const KernelCall& k, const Fusion& fusion, int operand) {
  if (operand < 0) return nullptr;
  const std::size_t i = operand, inputs = fusion.inputs;
  const void* data = i < inputs ? k.operands.inputs[i] : k.operands.outputs[i - inputs];
  return const_cast<void*>(data);
}

// Returns the generated kernel of the fusion's steps, or nothing if there can be none for them or
// if it needs more shared memory than a block of the device can have.
std::optional<FusedKernel> kernel_of(const Fusion& fusion, const Device& device) {
  if (fusion.loop != Fusion::Loop::blocks && fusion.loop != Fusion::Loop::product_first)
    return std::nullopt;
  try {
    FusedKernel kernel = fused_kernel(fusion, name_of_kernel);
    constexpr std::int64_t of_its_own = 1 << 10;  // most bytes of static variables
    if (kernel.shared_bytes + of_its_own > device.shared_bytes) return std::nullopt;
    return kernel;
  } catch (const NotSupportedYet&) {
    return std::nullopt;
  }
}

std::int64_t workspace_of_fused(const OpCall& call, const Device& device) {
  return device.fusions->prepare(call, device);
}
void run_fused(const KernelCall& call) { call.device.fusions->run(call); }

constexpr Row rows[] = {{Op::fused, run_fused, workspace_of_fused}};

}  // namespace

std::span<const Row> fused_rows() { return rows; }

const Fusions::Loaded& Fusions::load(const FusedKernel& kernel) {
  if (const auto found = loaded_.find(kernel.source); found != loaded_.end()) return found->second;
  const std::string text = std::string(fused_prelude()) + kernel.source;
  Loaded loaded{std::make_unique<KernelLibrary>(cached_cubin(cache_, text, architecture_)), nullptr,
                nullptr};
  loaded.kernel = loaded.library->kernel(kernel.name);
  allow_shared_bytes(loaded.kernel, kernel.shared_bytes);
  if (!kernel.sums.empty()) loaded.sums = loaded.library->kernel(kernel.name + "_sums");
  return loaded_.emplace(kernel.source, std::move(loaded)).first->second;
}

// Chooses the lead with most steps that cuBLASLt supports, or the one with fewest if it supports
// none. Takes the lead's steps, except its matmul, from prepared.steps.
void Fusions::prepare_lead(Prepared& prepared, const Device& device) const {
  const std::vector<Lead> leads = leads_of(*prepared.fusion);
  const auto found = std::ranges::find_if(
      leads, [&](const Lead& lead) { return device.products->prepare(lead.form); });
  prepared.lead = found != leads.end() ? *found : leads.back();
  prepared.steps = without_led(prepared.steps, *prepared.lead);
}

// Prepares the steps after those of the lead: one generated kernel if possible, otherwise a kernel
// for each step.
void Fusions::prepare_steps(Prepared& prepared, const OpCall& call, const Device& device) {
  if (std::optional<FusedKernel> kernel = kernel_of(prepared.steps, device)) {
    const Loaded& loaded = load(*kernel);
    prepared.workspace = std::max(prepared.workspace, kernel->partial_bytes);
    prepared.generated = Generated{*std::move(kernel), &loaded};
    return;
  }
  if (prepared.lead) prepared.steps.steps.erase(prepared.steps.steps.begin());
  prepared.workspace =
      std::max(prepared.workspace, workspace_of_steps(prepared.steps, call, device));
}

std::int64_t Fusions::prepare(const OpCall& call, const Device& device) {
  const std::shared_ptr<const Fusion>& fusion = call.attributes.fusion;
  const Key key{fusion.get(), call.overwrites};
  if (const auto found = prepared_.find(key); found != prepared_.end())
    return found->second.workspace;
  Prepared prepared{fusion, std::nullopt, std::nullopt, *fusion, 0};
  if (fusion->loop == Fusion::Loop::product_first) prepare_lead(prepared, device);
  prepare_steps(prepared, call, device);
  return prepared_.emplace(key, std::move(prepared)).first->second.workspace;
}

void Fusions::run(const KernelCall& call) {
  const auto found = prepared_.find({call.attributes().fusion.get(), call.call.overwrites});
  MESHWRIGHT_CHECK(found != prepared_.end(), "a fusion is prepared before it runs");
  const Prepared& prepared = found->second;
  if (prepared.lead) run_lead(call, *prepared.fusion, *prepared.lead);
  if (prepared.generated)
    run_generated(call, *prepared.fusion, *prepared.generated);
  else
    run_steps(prepared.steps, call);
}

void Fusions::run_lead(const KernelCall& call, const Fusion& fusion, const Lead& lead) {
  const auto address = [&](int operand) { return address_of(call, fusion, operand); };
  call.device.products->run(lead.form,
                            {.a = address(lead.a),
                             .b = address(lead.b),
                             .c = address(lead.c),
                             .start = address(lead.start),
                             .bias = address(lead.bias),
                             .saved = address(lead.saved)},
                            call.stream);
}

void Fusions::run_generated(const KernelCall& call, const Fusion& fusion,
                            const Generated& generated) {
  const FusedKernel& kernel = generated.source;
  std::vector<void*> addresses;
  for (int id : kernel.operands) addresses.push_back(address_of(call, fusion, id));
  void* partial = call.context.workspace;
  FirstSequence first = call.first_sequence;
  int tensor_rank = call.context.tensor_rank, context_rank = call.context.context_rank;
  std::vector<unsigned long long> keys(kernel.keys.begin(), kernel.keys.end());
  std::vector<void*> arguments;
  for (void*& address : addresses) arguments.push_back(&address);
  if (kernel.partial_bytes > 0) arguments.push_back(&partial);
  if (kernel.counts_positions)
    arguments.insert(arguments.end(), {&first.of_step, &first.offset, &tensor_rank, &context_rank});
  for (unsigned long long& key : keys) arguments.push_back(&key);
  launch(generated.loaded->kernel, kernel.blocks, kernel.threads, kernel.shared_bytes, arguments,
         call.stream);
  if (kernel.sums.empty()) return;
  addresses.clear();
  unsigned int overwrites = 0, bit = 1;
  for (int id : kernel.sums) {
    addresses.push_back(address_of(call, fusion, id));
    if (call.call.overwrites_output(id - fusion.inputs)) overwrites |= bit;
    bit <<= 1U;
  }
  arguments = {&overwrites, &partial};
  for (void*& address : addresses) arguments.push_back(&address);
  launch(generated.loaded->sums, kernel.sum_blocks, kernel.sum_threads, 0, arguments, call.stream);
}

}  // namespace meshwright::exec::cuda
