// Tests which tensors make up the peak of a stage's memory.
#include "models/program/peak_tensors.h"

#include <algorithm>
#include <numeric>

#include "models/program/slots_in_use.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

std::int64_t bytes_of_all(const std::vector<PeakTensor>& tensors) {
  return std::accumulate(
      tensors.begin(), tensors.end(), std::int64_t{0},
      [](std::int64_t sum, const PeakTensor& tensor) { return sum + tensor.bytes; });
}

// Returns the bytes in slots that are unused when all slots together hold most. Some are unused
// because chunks may reach their peaks at different times, because a slot is as large as the
// largest chunk that shares it needs, and because one slot is spare.
std::int64_t left_in_slots(const Program& program) {
  const MemoryPlan& memory = program.memory;
  std::vector<std::int64_t> kept(memory.slots.size(), 0);
  for (const Buffer& buffer : memory.buffers)
    if (buffer.region == Region::slot) kept[static_cast<std::size_t>(buffer.chunk)] += buffer.bytes;
  std::int64_t all = 0, most = 0;
  for (int chunk = 0; chunk < static_cast<int>(kept.size()); ++chunk) {
    const int pool = memory.pool_of(chunk);
    const SlotRegion& region = memory.slots[static_cast<std::size_t>(pool)];
    if (pool == chunk) all += region.stride * region.slots;
    // Some buffers share memory inside a slot.
    std::int64_t& own = kept[static_cast<std::size_t>(chunk)];
    own = std::min(own, region.stride);
  }
  for (const std::vector<int>& time : slots_in_use(program)) {
    std::int64_t bytes = 0;
    for (std::size_t chunk = 0; chunk < kept.size(); ++chunk) bytes += time[chunk] * kept[chunk];
    most = std::max(most, bytes);
  }
  return all - most;
}

PeakTensor named(const std::vector<PeakTensor>& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &PeakTensor::name);
  REQUIRE(found != tensors.end());
  return *found;
}

}  // namespace

TEST_CASE("the tensors at the peak fill the arena up to gaps and alignment", "[models][memory]") {
  for (const char* family : {"gpt", "llama", "bert"}) {
    const Model model = small_model(family);
    for (const Plan& plan : small_plans(model)) {
      INFO(describe(plan) << " " << family);
      for (const Program& program : lower_small(model, plan)) {
        const MemoryPlan& memory = program.memory;
        const std::vector<PeakTensor> tensors = peak_tensors(program);
        CHECK(std::ranges::is_sorted(tensors, std::greater{}, &PeakTensor::bytes));
        const std::int64_t bytes = bytes_of_all(tensors);
        CHECK(bytes <= memory.arena_bytes);
        std::int64_t copies = 0;
        for (const PeakTensor& tensor : tensors) copies += tensor.count;
        // Apart from alignment, there are gaps only in the task region, by packing, and in slots.
        CHECK(bytes + copies * arena_alignment >=
              memory.arena_bytes - memory.task_bytes / 8 - left_in_slots(program));
      }
    }
  }
}

TEST_CASE("a pipeline stage holds a copy of a saved tensor for each micro-batch in flight",
          "[models][memory]") {
  const Model model = small_model("gpt");
  const Plan plan = small_plan(model, {.pipeline = 4, .micro_batches = 8});
  const std::vector<Program> stages = lower_small(model, plan);
  for (int stage = 1; stage < 4; ++stage) {
    const auto tensors = peak_tensors(stages[static_cast<std::size_t>(stage)]);
    const PeakTensor received = named(tensors, "recv_activation");
    CHECK(received.count == 4 - stage);  // micro-batches in flight in 1F1B
    CHECK(received.bytes == received.count * std::int64_t{2} * 8 * 32 * 4);
    CHECK(received.cls == MemoryClass::activations);
  }
}

TEST_CASE("tensors of equal blocks count as one, states by what they are", "[models][memory]") {
  const Model model = small_model("gpt");
  const Program program = lower_small(model, small_plan(model, {})).front();
  const auto tensors = peak_tensors(program);
  const auto attention = std::ranges::find_if(tensors, [](const PeakTensor& tensor) {
    return tensor.name.starts_with("transformer.h.*.attn ");
  });
  REQUIRE(attention != tensors.end());
  CHECK(attention->count % model.layers == 0);
  std::int64_t gradients = 0;
  for (const Bucket& bucket : program.buckets) gradients += bucket.gradients.type.bytes();
  CHECK(named(tensors, "gradients").bytes == gradients);
}
