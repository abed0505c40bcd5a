#include "hwprofiles/stacks.h"

#include <algorithm>

#include "hwprofiles/load.h"
#include "tests/catch.h"
#include "tests/message_of.h"

using namespace meshwright::tests;

TEST_CASE("stacks follow each other, and the newest has no end", "[stacks]") {
  const auto& stacks = software_stacks();
  REQUIRE(stacks.size() >= 4);
  for (std::size_t i = 1; i < stacks.size(); ++i) {
    INFO(stacks[i].name);
    CHECK(stacks[i - 1].until < stacks[i].since);
    CHECK(stacks[i - 1].until.substr(0, 4) >= stacks[i - 1].name);
  }
  CHECK(stacks.back().until.empty());
  for (const SoftwareStack& stack : stacks) {
    INFO(stack.name);
    CHECK_FALSE(stack.software.empty());
    CHECK_FALSE(stack.source.empty());
    for (const auto& [gpu, share] : stack.kernels) {
      INFO(gpu);
      const auto names = list_machines();
      CHECK(std::ranges::any_of(names, [&](const std::string& name) {
        return load_machine(name).gpu.name.starts_with(gpu);
      }));
    }
  }
}

TEST_CASE("a machine with an older stack has slower kernels and the same links", "[stacks]") {
  const Machine newest = load_machine("dgx-h100");
  const Machine older = with_stack(newest, "2023");
  const double share = software_stack("2023").kernels.at("H100");
  CHECK(share < 1);
  CHECK(older.gpu.gemm.at(1e12) == Approx(share * newest.gpu.gemm.at(1e12)));
  CHECK(older.gpu.kernels.flash3_backward == Approx(share * newest.gpu.kernels.flash3_backward));
  CHECK(older.gpu.kernels.launches == newest.gpu.kernels.launches);
  CHECK(older.nvlink.efficiency == newest.nvlink.efficiency);
  CHECK(with_stack(newest, "").gpu.gemm.at(1e12) == newest.gpu.gemm.at(1e12));
  const Machine v100 = load_machine("p3.16xlarge");
  CHECK(with_stack(v100, "2023").gpu.gemm.at(1e12) == v100.gpu.gemm.at(1e12));
  CHECK(message_of([&] { with_stack(newest, "1999"); }) ==
        "/cluster/stack: unknown stack '1999'; known: 2021, 2023, 2025 and 2026");
}
