// Prints the time of a training step of GPT-2 124M, and that of its matrix multiplications only,
// which run through OpenBLAS on the same memory between the steps. It is not a test.
//   [mpirun -n RANKS] bench_step [MICRO_BATCH] [SEQUENCE] [THREADS] [STEPS]
// Every rank is a data-parallel replica with its own micro-batch. CPU-seconds are those of rank 0.
#include <cblas.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/runtime/runtime.h"
#include "models/architectures/model.h"
#include "models/program/graph/widen.h"
#include "tests/models/plans.h"

namespace {
std::atomic<long> allocations{0};
}
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
// These are not inlined, because g++ would then warn that they free memory of another allocator.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace meshwright::tests;

namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }  // all threads
double wall_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Plan plan_of(const Model& model, int micro_batch, int sequence, int ranks) {
  Plan plan = small_plan(model, {.data = ranks, .micro_batches = 1});
  plan.training.micro_batch = micro_batch;
  plan.training.global_batch = std::int64_t{micro_batch} * ranks;
  plan.training.sequence_length = sequence;
  plan.parallelism.reduce_bucket_bytes = 0;
  return plan;
}

// Runs the step's matrix multiplications. They write activations and gradients only, which the next
// step computes anew.
void run_products(const Program& program, const Arena& memory) {
  for (const Task& task : program.tasks)
    for (const Instruction& instruction :
         program.bodies[static_cast<std::size_t>(task.body)].instructions) {
      if (instruction.kind != InstructionKind::compute || !is_product(instruction.op)) continue;
      std::vector<TensorType> inputs, outputs{instruction.outputs[0].type};
      for (const Operand& operand : instruction.inputs) inputs.push_back(operand.type);
      const LinearProduct p = product_of({instruction.op, instruction.attributes, inputs, outputs});
      const auto at = [&](const Operand& operand) {
        return static_cast<float*>(memory.address(operand, task.slot, task.window));
      };
      const auto size = [](std::int64_t n) { return static_cast<blasint>(n); };
      cblas_sgemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans,
                  p.transpose_b ? CblasTrans : CblasNoTrans, size(p.m), size(p.n), size(p.k), 1,
                  at(instruction.inputs[p.a]), size(inputs[p.a].shape[1]),
                  at(instruction.inputs[p.b]), size(inputs[p.b].shape[1]), p.adds ? 1.F : 0.F,
                  at(instruction.outputs[0]), size(outputs[0].shape[1]));
    }
}

int argument(int argc, char* argv[], int index, int otherwise) {
  return argc > index ? std::max(1, std::atoi(argv[index])) : otherwise;
}

}  // namespace

int main(int argc, char* argv[]) {
  const int micro_batch = argument(argc, argv, 1, 4), sequence = argument(argc, argv, 2, 64);
  const int threads = argument(argc, argv, 3, 1), steps = argument(argc, argv, 4, 5);
  const bool alone = std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr;
  const auto world = make_world(alone ? "self" : "mpi");
  const Model model = load_model("gpt2", "/");
  const Plan plan = plan_of(model, micro_batch, sequence, world->size());
  const std::vector<Program> stages = lower_small(model, plan);
  const auto backend = make_cpu_backend(threads);
  Runtime runtime(stages, *world, *backend, {threads, model.layers, false});
  LoaderOptions data;
  data.sequence_length = sequence;
  data.vocabulary = model.vocabulary;
  Loader loader(data);

  runtime.step(1, 0, loader);  // touches all memory
  double step_cpu = 0, step_wall = 0, product_cpu = 0, product_wall = 0;
  long allocated = 0;
  for (int step = 2; step <= steps + 1; ++step) {
    const long before = allocations;
    double cpu = cpu_seconds(), wall = wall_seconds();
    runtime.step(step, (step - 1) * plan.training.global_batch, loader);
    step_cpu += cpu_seconds() - cpu;
    step_wall += wall_seconds() - wall;
    allocated += allocations - before;
    openblas_set_num_threads(threads);
    cpu = cpu_seconds(), wall = wall_seconds();
    run_products(runtime.program(), runtime.memory());
    product_cpu += cpu_seconds() - cpu;
    product_wall += wall_seconds() - wall;
    openblas_set_num_threads(1);
  }
  if (world->rank() != 0) return 0;
  std::printf(
      "%d x %-4d %d rank(s), %d thread(s): step %.3f CPU-s %.3f s; products %.3f CPU-s %.3f s; "
      "CPU ratio %.3f; %.1f allocations a step\n",
      micro_batch, sequence, world->size(), threads, step_cpu / steps, step_wall / steps,
      product_cpu / steps, product_wall / steps, step_cpu / product_cpu,
      static_cast<double>(allocated) / steps);
  return 0;
}
