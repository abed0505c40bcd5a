// Tests that chunks of a stage share slots: how many slots there are, that sharing never takes more
// memory, and that two micro-batches in one slot are noticed.
#include "models/compiler/schedule/slot_pools.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "models/compiler/schedule/schedule.h"
#include "models/program/program_json.h"
#include "models/program/slots_in_use.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

std::vector<InFlight> fullest(PipelineShape shape, int stage,
                              ScheduleKind kind = ScheduleKind::interleaved) {
  return fullest_times(schedule_info(kind).order(shape, stage), shape.chunks);
}

int most_of(const std::vector<InFlight>& times, const std::vector<int>& chunks) {
  int most = 0;
  for (const InFlight& time : times) {
    int sum = 0;
    for (const int chunk : chunks) sum += time[static_cast<std::size_t>(chunk)];
    most = std::max(most, sum);
  }
  return most;
}

std::vector<int> all_of(int chunks) {
  std::vector<int> all(static_cast<std::size_t>(chunks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

double separate_bytes(const std::vector<InFlight>& times, const std::vector<double>& bytes) {
  double sum = 0;
  for (std::size_t chunk = 0; chunk < bytes.size(); ++chunk)
    sum += bytes[chunk] * most_of(times, {static_cast<int>(chunk)});
  return sum;
}

// Returns the bytes of the best way to share slots, by trying all ways: each chunk joins an
// existing pool or begins a new one.
double least_bytes(const std::vector<InFlight>& times, const std::vector<double>& bytes) {
  double least = separate_bytes(times, bytes);
  std::vector<std::vector<int>> pools;
  const std::function<void(int)> place = [&](int chunk) {
    if (chunk == static_cast<int>(bytes.size())) {
      double sum = 0;
      for (const std::vector<int>& pool : pools) {
        double largest = 0;
        for (const int each : pool)
          largest = std::max(largest, bytes[static_cast<std::size_t>(each)]);
        sum += largest * (most_of(times, pool) + (pool.size() > 1 ? spare_slots : 0));
      }
      least = std::min(least, sum);
      return;
    }
    for (std::size_t i = 0; i < pools.size(); ++i) {
      pools[i].push_back(chunk);
      place(chunk + 1);
      pools[i].pop_back();
    }
    pools.push_back({chunk});
    place(chunk + 1);
    pools.pop_back();
  };
  place(0);
  return least;
}

std::int64_t end_of(const SlotRegion& region) {
  return region.offset + region.stride * region.slots;
}

std::int64_t kept_by(const MemoryPlan& memory, int chunk) {
  std::int64_t end = 0;
  for (const Buffer& buffer : memory.buffers)
    if (buffer.region == Region::slot && buffer.chunk == chunk)
      end = std::max(end, buffer.offset + buffer.bytes);
  return (end + arena_alignment - 1) / arena_alignment * arena_alignment;
}

Model deep_model(int layers) {
  Model model = small_model("gpt");
  model.layers = layers;
  return model;
}

// Returns Programs of four stages with three chunks of two units each. The chunks of the second
// stage are equal.
std::vector<Program> alike_chunks() {
  const Model model = deep_model(22);
  return lower_small(model,
                     small_plan(model, {.pipeline = 4, .micro_batches = 16, .virtual_stages = 3}));
}

}  // namespace

TEST_CASE("equal chunks share as many slots as the stage has forwards in flight, and a spare one",
          "[models][schedule][slots]") {
  // There are 2(p-1-s) + (v-1)p forwards in the warm-up, then one before each backward.
  for (const auto& [p, v, m] : {std::array{8, 5, 64}, {4, 2, 16}, {2, 3, 8}, {16, 8, 64}})
    for (int stage = 0; stage < p; ++stage) {
      const std::vector<InFlight> times = fullest({p, v, m, 0}, stage);
      const std::vector<double> equal(static_cast<std::size_t>(v), 1);
      const int together = 2 * (p - 1 - stage) + (v - 1) * p + 1;
      CHECK(most_of(times, all_of(v)) == together);
      CHECK(bytes_of_slots(times, equal) ==
            std::min<double>(together + spare_slots, separate_bytes(times, equal)));
    }
  const std::vector<InFlight> first = fullest({8, 5, 64, 0}, 0);
  CHECK(most_of(first, all_of(5)) == 47);
  CHECK(bytes_of_slots(first, std::vector<double>(5, 1)) == 48);
  CHECK(separate_bytes(first, std::vector<double>(5, 1)) == 63);
  // With p = 2 and v = 2 the order is F0 F1 F0'1 F1'1 F2 B0'1 F3 B1'1. The two chunks have three
  // and two micro-batches in flight, then four and one.
  CHECK(fullest({2, 2, 4, 0}, 0) == std::vector<InFlight>{{3, 2}, {4, 1}});
}

TEST_CASE("a chunk whose slots would make all others larger keeps its own",
          "[models][schedule][slots]") {
  const std::vector<InFlight> times = fullest({8, 5, 64, 0}, 0);
  const std::vector<double> bytes{1, 1, 1, 1, 10};
  const SlotPools pools = choose_slot_pools(times, bytes);
  CHECK(pools.pool_of[4] == 4);
  CHECK(std::ranges::count(pools.pool_of, 4) == 1);
  CHECK(bytes_of_slots(times, bytes) ==
        most_of(times, {0, 1, 2, 3}) + spare_slots + 10 * most_of(times, {4}));
}

TEST_CASE("sharing never takes more memory, and seldom more than the best of all ways",
          "[models][schedule][slots]") {
  std::mt19937 random(7);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  int best = 0, tried = 0;
  for (; tried < 300; ++tried) {
    const int p = 2 + below(6), v = 1 + below(5);
    const PipelineShape shape{p, v, p * (1 + below(5)), below(3) == 0 ? p * (1 + below(3)) : 0};
    const std::vector<InFlight> times = fullest(shape, below(p));
    std::vector<double> bytes;
    for (int chunk = 0; chunk < v; ++chunk) bytes.push_back(1 + below(1 + below(8)));
    const double least = least_bytes(times, bytes), found = bytes_of_slots(times, bytes);
    CHECK(found <= separate_bytes(times, bytes));
    CHECK(found >= least);
    CHECK(found <= 1.1 * least);
    best += found == least;
  }
  CHECK(best > tried * 9 / 10);
}

TEST_CASE("one chunk has a slot for each micro-batch in flight", "[models][schedule][slots]") {
  for (const ScheduleInfo& schedule : schedule_kinds())
    for (int stage = 0; stage < 4 && schedule.least_chunks == 1; ++stage) {
      const std::vector<InFlight> times = fullest({4, 1, 8, 0}, stage, schedule.kind);
      REQUIRE(times.size() == 1);
      CHECK(bytes_of_slots(times, std::vector<double>{3}) == 3 * times[0][0]);
    }
}

TEST_CASE("chunks that share slots name one region; a stage's slots are no larger than apart",
          "[models][lower][slots]") {
  const Model model = deep_model(80);
  const Plan plan = small_plan(model, {.pipeline = 8, .micro_batches = 64, .virtual_stages = 5});
  for (const Program& program : lower_small(model, plan)) {
    const MemoryPlan& memory = program.memory;
    const std::vector<InFlight> times = fullest({8, 5, 64, 0}, program.stage);
    std::vector<double> bytes;
    std::int64_t shared = 0;
    for (int chunk = 0; chunk < 5; ++chunk) {
      bytes.push_back(static_cast<double>(kept_by(memory, chunk)));
      const SlotRegion& region = memory.slots[static_cast<std::size_t>(chunk)];
      CHECK(region.stride >= kept_by(memory, chunk));
      if (memory.pool_of(chunk) == chunk) shared += end_of(region) - region.offset;
    }
    CHECK(static_cast<double>(shared) == bytes_of_slots(times, bytes));
    CHECK(static_cast<double>(shared) < 0.85 * separate_bytes(times, bytes));
  }
}

TEST_CASE("two micro-batches in one slot are found", "[models][lower][slots]") {
  const std::vector<Program> stages = alike_chunks();
  const Program& sound = stages[1];
  REQUIRE(wrong_slots(sound).empty());
  REQUIRE(sound.memory.pool_of(2) == sound.memory.pool_of(1));
  int changed = 0;
  for (std::size_t t = 0; t < sound.tasks.size(); ++t) {
    const int chunk = sound.tasks[t].chunk;
    if (chunk < 0) continue;
    for (int slot = 0; slot < sound.memory.slots[static_cast<std::size_t>(chunk)].slots; ++slot) {
      if (slot == sound.tasks[t].slot) continue;
      Program wrong = sound;
      wrong.tasks[t].slot = slot;
      CHECK(!wrong_slots(wrong).empty());
      ++changed;
    }
  }
  CHECK(changed > 500);
}

TEST_CASE("a micro-batch in the slot of another chunk is refused at its task",
          "[models][lower][slots]") {
  const std::vector<Program> stages = alike_chunks();
  const std::vector<Task>& tasks = stages[1].tasks;
  const auto of_chunk = [&](int chunk) {
    return std::ranges::find_if(tasks, [&](const Task& task) { return task.chunk == chunk; });
  };
  const Task held = *of_chunk(1);
  const auto second = of_chunk(2);
  nlohmann::json value = to_json(stages);
  for (std::size_t t = 0; t < tasks.size(); ++t)
    if (tasks[t].chunk == 2 && tasks[t].micro_batch_index == second->micro_batch_index)
      value["stages"][1]["tasks"][t]["slot"] = held.slot;
  CHECK(message_of([&] { read_programs(Fields(value, "job.json")); }) ==
        "job.json: /stages: stage 1 task " + std::to_string(second - tasks.begin()) +
            " takes slot " + std::to_string(held.slot) + ", in which micro-batch " +
            std::to_string(held.micro_batch_index) + " of chunk 1 still is");
}

TEST_CASE("Programs whose chunks share slots are the same after a way through JSON",
          "[models][program][slots]") {
  const nlohmann::json written = to_json(alike_chunks());
  CHECK(to_json(read_programs(Fields(written, "job.json"))) == written);
}

TEST_CASE("slots that overlap and are not shared are refused", "[models][lower][slots]") {
  MemoryPlan memory = alike_chunks()[1].memory;
  REQUIRE(broken_rule(memory).empty());
  REQUIRE(memory.pool_of(2) != 2);
  --memory.slots[2].slots;
  CHECK(broken_rule(memory) == "the copies of two chunks overlap and are not the same");
}
