// The CUDA text of fused operations, compiled as C++ (cuda_shim.h) and run on rows, beside the CPU
// backend's fused kernel.
#include "exec/backends/cuda/fused_source.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/backends/cpu/half.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/exec/fusion_cases.h"
#include "tests/exec/op_cases.h"
#include "tests/message_of.h"
#include "tests/models/plans.h"
#include "tests/test_folder.h"

using namespace meshwright;

namespace {

// A rank somewhere in the middle.
OpContext some_place() {
  OpContext context;
  context.tensor_rank = context.context_rank = 1;
  context.tensor_size = 2;
  context.first_sequence = (std::int64_t{1} << 33) + 5;
  return context;
}

double value_of(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11U) * 0x1p-52 - 1;
}

std::vector<OpTensor> random_operands(const Fusion& fusion, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<OpTensor> operands;
  for (int id = 0; id < fusion.first_internal(); ++id) {
    OpTensor& tensor = operands.emplace_back(fusion.operands[static_cast<std::size_t>(id)]);
    const bool given = id < fusion.inputs || fusion.is_sum(id);
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set(i, given ? value_of(random) : std::numeric_limits<double>::quiet_NaN());
  }
  return operands;
}

void run_on_cpu(const OpCall& call, const std::vector<const void*>& in,
                const std::vector<void*>& out) {
  const auto backend = make_cpu_backend(1);
  std::vector<double> scratch(static_cast<std::size_t>(backend->workspace_bytes(call) / 8 + 8));
  OpContext context = some_place();
  context.workspace = scratch.data();
  backend->run(call, {in, out}, context);
}

void run_fusion(const Fusion& fusion, std::vector<OpTensor>& operands) {
  Attributes attributes;
  attributes.fusion = std::make_shared<const Fusion>(fusion);
  const auto inputs = static_cast<std::size_t>(fusion.inputs);
  std::vector<TensorType> types;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types.push_back(operands[i].type);
    if (i < inputs)
      in.push_back(operands[i].storage.data());
    else
      out.push_back(operands[i].storage.data());
  }
  const std::span<const TensorType> all(types);
  run_on_cpu({Op::fused, attributes, all.first(inputs), all.subspan(inputs)}, in, out);
}

// The first step of Loop::product_first, which the kernel follows.
void run_product(const Fusion& fusion, std::vector<OpTensor>& operands) {
  const FusedStep& step = fusion.steps[0];
  OpTensor& output = operands[static_cast<std::size_t>(step.outputs[0])];
  if (fusion.start >= 0) output = operands[static_cast<std::size_t>(fusion.start)];
  std::vector<TensorType> in_types;
  std::vector<const void*> in;
  for (int id : step.inputs) {
    in_types.push_back(operands[static_cast<std::size_t>(id)].type);
    in.push_back(operands[static_cast<std::size_t>(id)].storage.data());
  }
  const std::vector<TensorType> out_types = {output.type};
  run_on_cpu({step.op, step.attributes, in_types, out_types}, in, {output.storage.data()});
}

// A loaded library of kernels that stand for those of a device.
class Library {
 public:
  Library(const TestFolder& folder, const std::vector<cuda::FusedKernel>& kernels) {
    std::string text = content_of(MESHWRIGHT_SOURCE_DIR "/tests/exec/cuda_shim.h");
    text += cuda::fused_prelude();
    for (const cuda::FusedKernel& kernel : kernels) {
      text += kernel.source + launcher(kernel.name);
      if (!kernel.sums.empty()) text += launcher(kernel.name + "_sums");
    }
    const std::string source = folder.file("kernels.cpp", text), file = folder.file("kernels.so");
    const std::string command = MESHWRIGHT_CXX
                                " -std=c++17 -O1 -w -fno-strict-aliasing -fPIC -shared -o " +
                                file + " " + source;
    REQUIRE(std::system(command.c_str()) == 0);
    library_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    INFO((library_ == nullptr ? dlerror() : ""));
    REQUIRE(library_ != nullptr);
    const auto set_halves =
        symbol<void (*)(float (*)(std::uint16_t), std::uint16_t (*)(float))>("set_halves");
    set_halves([](std::uint16_t bits) { return reference_value(Half{bits}); },
               [](float x) { return reference_half(x).bits; });
  }
  ~Library() { dlclose(library_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool launch(const std::string& name, std::int64_t blocks, int threads,
              std::vector<void*> arguments, bool reversed) const {
    return symbol<bool (*)(void**, long long, int, bool)>("launch_" + name)(
        arguments.data(), blocks, threads, reversed);
  }

 private:
  static std::string launcher(const std::string& kernel) {
    return "extern \"C\" bool launch_" + kernel +
           "(void** arguments, long long blocks, int threads, bool reversed) {\n"
           "  return shim::launch(" +
           kernel + ", arguments, blocks, threads, reversed);\n}\n";
  }
  template <typename Function>
  Function symbol(const std::string& name) const {
    return reinterpret_cast<Function>(dlsym(library_, name.c_str()));
  }
  void* library_ = nullptr;
};

bool run_kernel(const Library& library, const cuda::FusedKernel& kernel,
                std::vector<OpTensor>& operands, bool reversed) {
  std::vector<void*> addresses;
  for (OpTensor& tensor : operands) addresses.push_back(tensor.storage.data());
  const auto address = [&](int id) -> void* { return &addresses[static_cast<std::size_t>(id)]; };
  std::vector<double> partial_sums(static_cast<std::size_t>(kernel.partial_bytes / 8 + 8),
                                   std::numeric_limits<double>::quiet_NaN());
  void* partial = partial_sums.data();
  OpContext place = some_place();
  long long of_step = place.first_sequence - 3, offset = 3;
  const long long* address_of_step = &of_step;
  std::vector<unsigned long long> keys(kernel.keys.begin(), kernel.keys.end());
  std::vector<void*> arguments;
  for (int id : kernel.operands) arguments.push_back(address(id));
  if (kernel.partial_bytes > 0) arguments.push_back(&partial);
  if (kernel.counts_positions)
    arguments.insert(arguments.end(),
                     {&address_of_step, &offset, &place.tensor_rank, &place.context_rank});
  for (unsigned long long& key : keys) arguments.push_back(&key);
  if (!library.launch(kernel.name, kernel.blocks, kernel.threads, arguments, reversed))
    return false;
  if (kernel.sums.empty()) return true;
  arguments = {&partial};
  for (int id : kernel.sums) arguments.push_back(address(id));
  return library.launch(kernel.name + "_sums", kernel.sum_blocks, kernel.sum_threads, arguments,
                        reversed);
}

double tolerance_of(const Fusion& fusion) {
  for (const TensorType& type : fusion.operands)
    if (type.dtype != Dtype::f32) return 1e-2;
  return 1e-5;
}

void compare(const Library& library, const cuda::FusedKernel& kernel, const FusionCase& c,
             std::uint64_t seed) {
  const Fusion& fusion = c.fusion;
  std::vector<OpTensor> expected = random_operands(fusion, seed), found = expected;
  run_fusion(fusion, expected);
  if (fusion.loop == Fusion::Loop::product_first) run_product(fusion, found);
  std::vector<OpTensor> again = found;
  REQUIRE(run_kernel(library, kernel, found, false));
  REQUIRE(run_kernel(library, kernel, again, true));
  for (std::size_t id = 0; id < found.size(); ++id) {
    INFO("operand " << id);
    CHECK(std::memcmp(found[id].storage.data(), again[id].storage.data(),
                      static_cast<std::size_t>(found[id].type.bytes())) == 0);
    CHECK(distance(found[id], expected[id]) < tolerance_of(fusion));
  }
}

Training with_dropout(Precision precision) {
  Training training;
  training.precision = precision;
  training.micro_batch = 3;
  training.sequence_length = 8;
  training.predicted_positions = 2;
  training.dropout = 0.1;
  return training;
}

std::vector<FusionCase> all_cases() {
  std::vector<FusionCase> cases;
  const auto append = [&](std::vector<FusionCase> more, const char* what) {
    for (FusionCase& c : more) cases.push_back({c.name + ", " + what, std::move(c.fusion)});
  };
  // 37: one at a time, with columns left over; 1540: a row is a block's, of 4 (16 bits: 4) columns.
  append(single_operations({3, 7, 37, Dtype::f32}), "fp32, 37 wide");
  append(single_operations({2, 6, 1540, Dtype::f32}), "fp32, 1540 wide");
  append(single_operations({3, 8, 96, Dtype::f16}), "fp16, 96 wide");
  append(single_operations({2, 6, 1096, Dtype::bf16}), "bf16, 1096 wide");
  append(epilogues({3, 7, 37, Dtype::f32}), "fp32, 37 wide");
  append(epilogues({3, 7, 96, Dtype::bf16}), "bf16, 96 wide");
  const RowSizes sizes[] = {{3, 8, 96, Dtype::f32},
                            {3, 7, 50, Dtype::f32},
                            {2, 6, 1030, Dtype::f32},
                            {3, 7, 96, Dtype::f16},
                            {3, 7, 39, Dtype::bf16}};
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    cases.push_back(random_body(sizes[seed % std::size(sizes)], seed));
  // Rows too long for registers alone, of a warp and of a block.
  for (const std::uint64_t seed : {23, 24, 36})
    cases.push_back(random_body({1, 5, 1000, Dtype::f32}, seed));
  for (const std::uint64_t seed : {11, 17, 23})
    cases.push_back(random_body({1, 5, 12288, Dtype::f32}, seed));
  // Fusions that passes make; those of later layers have the same text.
  std::set<std::string> seen;
  for (const char* family : {"gpt", "llama", "bert", "mpt", "mixtral"})
    for (FusionCase& c : fusions_of(small_model(family), with_dropout(Precision::fp32)))
      if (seen.insert(cuda::fused_kernel(c.fusion, "k").source).second)
        cases.push_back(std::move(c));
  return cases;
}

}  // namespace

TEST_CASE("CUDA kernels of fused operations compute what the CPU's do", "[exec][cuda]") {
  const std::vector<FusionCase> cases = all_cases();
  std::vector<cuda::FusedKernel> kernels;
  for (std::size_t i = 0; i < cases.size(); ++i)
    kernels.push_back(cuda::fused_kernel(cases[i].fusion, "kernel_" + std::to_string(i)));
  const TestFolder folder;
  const Library library(folder, kernels);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO(cases[i].name << '\n' << kernels[i].source);
    compare(library, kernels[i], cases[i], i + 1);
  }
}

TEST_CASE("every row operation but products has a CUDA kernel", "[exec][cuda]") {
  std::set<Op> shown;
  for (const FusionCase& c : single_operations({})) shown.insert(c.fusion.steps[0].op);
  for (const OpInfo& each : op_table()) {
    INFO(each.name);
    const std::optional<RowRule> rule = row_rule(each.op);
    CHECK(shown.count(each.op) == (rule && !rule->product ? 1 : 0));
  }
}

TEST_CASE("every fusion by rows of the zoo's models has a CUDA kernel, layers the same one",
          "[exec][cuda]") {
  Training training = with_dropout(Precision::bf16);
  training.sequence_length = 512;
  const auto texts_of = [&](const Model& model) {
    std::set<std::string> texts;
    for (const FusionCase& c : fusions_of(model, training)) {
      INFO(c.name);
      REQUIRE_NOTHROW(texts.insert(cuda::fused_kernel(c.fusion, "k").source));
    }
    return texts;
  };
  for (const std::string& name : zoo_names()) {
    INFO(name);
    Model model = load_model(name, ".");
    const std::set<std::string> texts = texts_of(model);
    CHECK(!texts.empty());
    model.layers *= 2;
    CHECK((texts_of(model) == texts));
  }
}

TEST_CASE("values are in registers, and in shared memory where they are too many", "[exec][cuda]") {
  const auto shared_bytes = [](int width, std::uint64_t seed) {
    return cuda::fused_kernel(random_body({1, 5, width, Dtype::f32}, seed).fusion, "k")
        .shared_bytes;
  };
  CHECK(shared_bytes(96, 23) == 0);
  // Four warps have a row each; or a block has one.
  CHECK(shared_bytes(1000, 23) > 0);
  CHECK(shared_bytes(1000, 23) % (4 * 1000 * 4) == 0);
  CHECK(shared_bytes(12288, 23) > 0);
  CHECK(shared_bytes(12288, 23) % (12288 * 4) == 0);
}

TEST_CASE("the text depends on neither the dropout's key nor the position in the run",
          "[exec][cuda]") {
  Fusion fusion;
  for (FusionCase& c : single_operations({}))
    if (c.name == "dropout") fusion = c.fusion;
  const cuda::FusedKernel one = cuda::fused_kernel(fusion, "k");
  fusion.steps[0].attributes.dropout_key = 7;
  const cuda::FusedKernel other = cuda::fused_kernel(fusion, "k");
  CHECK(one.source == other.source);
  CHECK(one.keys != other.keys);
  CHECK(other.keys == std::vector<std::uint64_t>{7});
}

TEST_CASE("the kernel in exec/README.md is the one that is made", "[exec][cuda]") {
  const FusionCase c = residual_and_norm({4, 1024, 768, Dtype::bf16});
  const std::string source = cuda::fused_kernel(c.fusion, "fused").source;
  INFO(source);
  CHECK(content_of(MESHWRIGHT_SOURCE_DIR "/exec/README.md").find("```cuda\n" + source + "```\n") !=
        std::string::npos);
}

TEST_CASE("a body without a CUDA kernel says why", "[exec][cuda]") {
  const auto why = [](const Fusion& fusion) {
    return message_of([&] { cuda::fused_kernel(fusion, "k"); });
  };
  Fusion add;
  for (FusionCase& c : single_operations({}))
    if (c.name == "add") add = c.fusion;
  const std::string of_add = "no CUDA kernel of the fusion add: ";

  Fusion products = add;
  products.loop = Fusion::Loop::products;
  CHECK(why(products) == of_add + "its steps are products");
  products.loop = Fusion::Loop::product_first;
  CHECK(why(products) == of_add + "nothing follows the product");
  Fusion loss = add;
  loss.steps[0].op = Op::cross_entropy;
  CHECK(why(loss) == "no CUDA kernel of the fusion cross_entropy: cross_entropy has no CUDA form");
  Fusion wide_numbers = add;
  wide_numbers.operands[0].dtype = Dtype::f64;
  CHECK(why(wide_numbers) == of_add + "elements are fp32, fp16 or bf16");
  Fusion uneven = add;
  uneven.operands[0].shape[1] = 95;
  CHECK(why(uneven) == of_add + "rows have different widths");
  CHECK(why(random_body({1, 5, 12288, Dtype::f32}, 24).fusion)
            .ends_with("what it keeps of a row of 12288 fits into no registers and shared memory"));
}
