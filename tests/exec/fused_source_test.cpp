// Tests the CUDA text of fused operations.
#include "exec/backends/cuda/fused/fused_source.h"

#include <set>

#include "models/core/error.h"
#include "models/program/graph/op_table.h"
#include "tests/catch.h"
#include "tests/exec/fusion_cases.h"
#include "tests/message_of.h"
#include "tests/models/plans.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

TEST_CASE("every row operation but products has a CUDA kernel", "[exec][cuda]") {
  std::set<Op> shown;
  for (const FusionCase& c : single_operations({})) shown.insert(c.fusion.steps[0].op);
  for (const OpInfo& each : op_table()) {
    INFO(each.name);
    CHECK(shown.count(each.op) == (each.rows && !each.rows.product ? 1 : 0));
  }
}

TEST_CASE("every fusion by rows of the zoo's models has a CUDA kernel, layers the same one",
          "[exec][cuda]") {
  Training training;
  training.precision = Precision::bf16;
  training.micro_batch = 3;
  training.sequence_length = 512;
  training.predicted_positions = 2;
  training.dropout = 0.1;
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
  // Four warps have a row each, or a block has one. A block that sums columns has a shorter row
  // too.
  CHECK(shared_bytes(1000, 23) == 0);
  CHECK(shared_bytes(1000, 1437) > 0);
  CHECK(shared_bytes(1000, 1437) % (4 * 1000 * 4) == 0);
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

TEST_CASE("the kernel in exec/backends/cuda/README.md is the one that is made", "[exec][cuda]") {
  const FusionCase c = residual_and_norm({4, 1024, 768, Dtype::bf16});
  const std::string source = cuda::fused_kernel(c.fusion, "fused").source;
  INFO(source);
  CHECK(content_of(MESHWRIGHT_SOURCE_DIR "/exec/backends/cuda/README.md")
            .find("```cuda\n" + source + "```\n") != std::string::npos);
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
