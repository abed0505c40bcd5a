// Checks that training steps after the first allocate no memory.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/agree/variants.h"
#include "tests/exec/worlds.h"

namespace {
std::atomic<long> allocations{0};

void* counted(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
}  // namespace
void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

using namespace meshwright::tests;

namespace {

void half(Plan& plan) { plan.training.precision = Precision::fp16; }
void drop(Plan& plan) { plan.training.dropout = 0.1; }
void lamb(Plan& plan) { plan.training.optimizer = OptimizerKind::lamb; }

constexpr Variant variants[] = {
    {{}, nothing},
    {{}, all_of<half, full, lamb>},
    {{}, all_of<unfused, drop>},
    {{}, all_of<eager, unfused, drop>},
    {{2, 1, 1}, nothing},
    {{2, 1, 1, 4, 0, 2}, full},
    {{2, 1, 1}, zero_bubble},
    {{2, 1, 1, 4, 0, 2}, zero_bubble_v},
    {{2, 1, 1, 4, 0, 2}, interleaved_zero_bubble},
    {{2, 1, 1, 4, 0, 2}, dualpipe_v},
    {{1, 2, 1}, rows},
    {{1, 2, 1}, all_of<own_batches, layout_of<TensorLayout::memory>>},
    {{1, 1, 2}, half},
    {{1, 1, 2, 4, 1}, lamb},
    {{1, 1, 2, 4, 3}, full},
    {{1, 1, 1, 4, 0, 1, 2}, nothing},
    {{2, 2, 1}, tensor_overlaps},
    {{4, 1, 1}, gpipe},
    {{1, 2, 2, 4, 2}, rows},
    {{1, 1, 2, 4, 3, 1, 2}, gathers},
};

void check_later_steps(const Model& model, const Plan& plan) {
  SmallRun run(model, plan, test_world());
  run.step(1);
  const long before = allocations;
  for (int step = 2; step <= 4; ++step) run.step(step);
  const long after = allocations;  // CHECK allocates itself
  CHECK(after == before);
}

}  // namespace

TEST_CASE("no step but the first allocates", "[agree][mpi]") {
  for_each_variant(variants, test_world(), check_later_steps);
}

TEST_CASE("later steps of models with experts allocate no memory", "[agree][mpi]") {
  const Model model = small_model("mixtral");
  const int ranks = test_world().size();
  for (const Change change : {nothing, half}) {
    Plan plan = base_plan(model, {1, 1, ranks});
    plan.training.micro_batch = 1;
    plan.parallelism.expert = ranks;
    change(plan);
    check_later_steps(model, plan);
  }
}
