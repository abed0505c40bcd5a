#include "hwprofiles/rewrite.h"

#include <algorithm>

#include "hwprofiles/load.h"
#include "models/core/fields.h"
#include "tests/catch.h"

using namespace meshwright::tests;

TEST_CASE("fitted constants go into a profile's text, and nothing else changes", "[hwprofiles]") {
  for (const auto& [path, name, gpus] : fitted_files()) {
    INFO(path);
    Machine machine = load_machine(name);
    CHECK(std::ranges::count(gpus, machine.gpu.name) > 0);
    const auto efficiency =
        std::find_if(machine.sources.begin(), machine.sources.end(),
                     [](const auto& each) { return each.first == "efficiency"; });
    // Rewriting a file with the constants that it has already does not change it.
    const std::string own = read_file(path);
    CHECK(with_fitted_constants(own, machine, efficiency->second) == own);
    const std::string text = text_of(machine);
    machine.gpu.gemm.points = {{1, 0.5}};
    machine.gpu.kernels.traffic = {3, 2, 1};
    machine.host_latency.latency_s = 1.25e-5;
    const Machine changed =
        machine_of_text(with_fitted_constants(text, machine, "somewhere"), name);
    CHECK(changed.gpu.gemm.at(1) == 0.5);
    CHECK(changed.gpu.kernels == machine.gpu.kernels);
    CHECK(changed.host_latency.latency_s == 1.25e-5);
    CHECK(changed.prices.size() == machine.prices.size());
  }
}

TEST_CASE("how far steps are from predictions is written beside a GPU", "[hwprofiles]") {
  for (const char* name : {"p4d.24xlarge", "g5.48xlarge"}) {  // one has an interval, one has none
    INFO(name);
    const std::string text = text_of(load_machine(name));
    const Machine changed = machine_of_text(
        with_residuals(text, Residuals{Residuals::Interval{0.9, 1.2, 17}, std::nullopt}), name);
    REQUIRE(changed.residuals);
    CHECK(changed.residuals->one_host->rows == 17);
    CHECK_FALSE(changed.residuals->many_hosts);
    const std::string without = with_residuals(text_of(changed), std::nullopt);
    CHECK_FALSE(machine_of_text(without, name).residuals);
    CHECK(with_residuals(without, std::nullopt) == without);
  }
}
